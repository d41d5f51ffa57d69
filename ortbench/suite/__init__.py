"""A suite file: what it says, and the record of what came of it."""
