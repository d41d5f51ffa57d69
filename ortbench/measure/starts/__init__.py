"""Starts: fresh processes, one after the other, and what each took."""
