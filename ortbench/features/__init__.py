"""Features: each folder is one, with all that it needs; the core finds them by listing this one (`ortbench.core.features`)."""
