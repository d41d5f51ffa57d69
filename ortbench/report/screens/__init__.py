"""Default screens, 80 × 24: of a result, and of any other report."""
