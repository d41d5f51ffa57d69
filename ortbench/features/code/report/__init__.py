"""Programs in plain onnxruntime and numpy that do what a mode does: the way from a finding to a fix."""
