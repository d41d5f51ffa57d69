"""The I/O modes, as they bind tensors and run."""
