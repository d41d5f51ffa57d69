"""Results beside each other: whether they may be compared, by how much they differ."""
