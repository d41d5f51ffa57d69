"""Everything that imports onnxruntime. It runs in the worker process, because an EP can abort the process it is in."""
