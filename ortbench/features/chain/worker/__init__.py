"""The part of the worker that opens chains and runs them."""
