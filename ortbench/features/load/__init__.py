"""`ortbench sweep`: a model over shapes in one session: which has the most items/s, and what it costs that shapes change."""
