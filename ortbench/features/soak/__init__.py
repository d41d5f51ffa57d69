"""`ortbench soak`: a model for a long time, and whether its memory grows."""
