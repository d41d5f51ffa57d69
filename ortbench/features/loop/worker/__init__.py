"""Loops: sessions whose outputs are inputs of the next step."""
