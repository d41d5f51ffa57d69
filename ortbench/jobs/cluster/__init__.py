"""Spreads the cases of a suite over the machines of a Ray cluster."""
