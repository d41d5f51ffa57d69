"""`ortbench devices`: execution providers and their devices, and whether a library keeps the contract of EPs."""
