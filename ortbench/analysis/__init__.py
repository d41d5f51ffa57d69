"""Pure conclusions from results: comparisons, shares, advice."""
