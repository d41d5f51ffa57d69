"""Models one after the other: what their links cost."""
