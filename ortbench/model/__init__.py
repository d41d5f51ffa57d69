"""What results, tables and gates have in common: metrics and their names, kinds of measurement, reading and writing results."""
