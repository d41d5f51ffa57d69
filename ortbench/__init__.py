"""ortbench: what ONNX Runtime's copies cost, mode by mode.

The command line is the interface (``ortbench --help``). The result file it writes is documented in
:mod:`ortbench.result`, which reads it without loading onnxruntime.
"""

__version__ = "0.1.0"
