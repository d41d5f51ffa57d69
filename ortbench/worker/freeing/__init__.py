"""A copy of a model in which a dimension that the model fixes is symbolic."""
