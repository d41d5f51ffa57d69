"""The version of ortbench."""

__version__ = "0.1.0"
