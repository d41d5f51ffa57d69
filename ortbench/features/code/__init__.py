"""`ortbench code`: the program that runs a model in a mode, in plain onnxruntime and numpy: the way from a finding to a fix."""
