"""What a figure rests on: finished runs, right outputs, memory that is used in place."""
