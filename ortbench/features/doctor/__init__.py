"""`ortbench doctor`: what does not work on this machine, and how noisy it is."""
