"""`ortbench inspect`: what a model takes, gives and consists of."""
