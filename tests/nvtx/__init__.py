"""A listener to NVTX: a library that writes down what is emitted, and what reads it back."""

from .recorder import Range, Record, build, environ

__all__ = ["Range", "Record", "build", "environ"]
