"""`ortbench load`: a model at load points, by clients or by requests at a rate."""
