"""Chains: models one behind the other in one process, so that what one gives the next can take where it is."""
