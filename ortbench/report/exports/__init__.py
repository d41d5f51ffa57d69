"""Other programs' own formats."""
