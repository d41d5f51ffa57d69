"""The package that is stood in for."""
