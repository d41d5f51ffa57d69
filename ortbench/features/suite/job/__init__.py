"""What carries the cases of a suite out, and their folders."""
