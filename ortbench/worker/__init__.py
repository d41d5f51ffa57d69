"""The process that owns a session: the only code that imports onnxruntime."""
