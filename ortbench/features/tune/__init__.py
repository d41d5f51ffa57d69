"""`ortbench tune`: a search for the session settings that are best for a model."""
