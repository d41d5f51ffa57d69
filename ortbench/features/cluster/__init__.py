"""A suite on a Ray cluster: a case is a task."""
