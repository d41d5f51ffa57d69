"""What every other package may use and what knows nothing of models: errors, units, statistics, safe text, files, signals."""

__version__ = "0.1.0"
