"""`ortbench gate`: what a result must keep to, and whether it does."""
