"""`ortbench loop`: a decoder that generates, or a model whose outputs are inputs of its next step."""
