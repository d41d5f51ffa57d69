"""What EPs are called: by users, by ONNX Runtime, by the packages that bring them."""

from __future__ import annotations

from ortbench.core.library_sources import CUDA_PACKAGE

CPU_EP = "CPUExecutionProvider"
CUDA_EP = "CUDAExecutionProvider"
OPENVINO_EP = "OpenVINOExecutionProvider"

SHORT_NAMES = {
    "cpu": CPU_EP,
    "cuda": CUDA_EP,
    "tensorrt": "TensorrtExecutionProvider",
    "nv-tensorrt-rtx": "NvTensorRTRTXExecutionProvider",
    "webgpu": "WebGpuExecutionProvider",
    "openvino": OPENVINO_EP,
    "qnn": "QNNExecutionProvider",
    "migraphx": "MIGraphXExecutionProvider",
    "dml": "DmlExecutionProvider",
}

# The package that brings an EP, or several with spaces between, for the message that it is not installed.
PACKAGES = {
    CUDA_EP: CUDA_PACKAGE,
    "TensorrtExecutionProvider": f"{CUDA_PACKAGE} tensorrt",
    "NvTensorRTRTXExecutionProvider": "onnxruntime-ep-nv-tensorrt-rtx",
    "WebGpuExecutionProvider": "onnxruntime-ep-webgpu",
    OPENVINO_EP: "onnxruntime-ep-openvino",
    "QNNExecutionProvider": "onnxruntime-qnn",
    "MIGraphXExecutionProvider": "onnxruntime-migraphx",
    "DmlExecutionProvider": "onnxruntime-directml",
}

NVIDIA_EPS = {CUDA_EP, "TensorrtExecutionProvider", "NvTensorRTRTXExecutionProvider"}

# Those that capture runs as graphs; by which options stands in the worker.
CAPTURING_EPS = {*NVIDIA_EPS, "WebGpuExecutionProvider"}

# The device names `OrtValue` knows for EPs that offer no EP device.
NAMED_DEVICES = {CUDA_EP: "cuda", "TensorrtExecutionProvider": "cuda", "DmlExecutionProvider": "dml"}


def is_nvidia(ep_name: str) -> bool:
    """Whether an EP is one of NVIDIA's, by its full name: CUDA, TensorRT or TensorRT RTX, built in or a plugin."""
    return any(word in ep_name.lower() for word in ("cuda", "tensorrt"))
