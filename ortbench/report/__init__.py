"""How results read: one model of each report, and its forms."""
