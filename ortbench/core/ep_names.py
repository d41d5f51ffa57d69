"""What EPs are called, by users and by ONNX Runtime; which packages bring them, and where a shared library that one lacks comes from: in
words, and as a command where there is one."""

from __future__ import annotations

import re
from typing import NamedTuple

CUDA_PACKAGE = "onnxruntime-gpu[cuda,cudnn]"
NO_DEVICE = "finds no device it can use on this machine: check which hardware it takes, and the driver"


class Origin(NamedTuple):
    """What a library is part of, and the command that installs it, or ""."""

    what: str
    command: str = ""

    @property
    def sentence(self) -> str:
        return f"{self.what}: {self.command}" if self.command else self.what


# By the beginning of the file's name; the first that fits.
_ORIGINS = (
    (r"libcuda\.so|nvcuda\.dll|libnvidia-", Origin("it is part of NVIDIA's driver")),
    (r"libtensorrt_rtx|tensorrt_rtx", Origin("it comes with TensorRT RTX", "pip install onnxruntime-ep-nv-tensorrt-rtx")),
    (r"libnvinfer|libnvonnxparser|nvinfer|nvonnxparser", Origin("it is part of TensorRT", "pip install tensorrt")),
    (
        r"libcu|libnvrtc|libnvJitLink|libnv|cu(dart|blas|fft|rand|dnn)",
        Origin("CUDA and cuDNN come with", f"pip install '{CUDA_PACKAGE}'"),
    ),
    (r"libmigraphx", Origin("it is part of AMD's MIGraphX, which comes with ROCm", "apt install migraphx")),
    (r"libamdhip64|librocblas|libMIOpen|libhip|librocm|libhsa", Origin("it is part of AMD's ROCm", "apt install rocm")),
    (r"DirectML\.dll", Origin("it comes with DirectML", "pip install --force-reinstall onnxruntime-directml")),
    (r"libopenvino|openvino", Origin("it comes with OpenVINO", "pip install --force-reinstall onnxruntime-ep-openvino")),
    (r"libQnn|Qnn", Origin("it comes with Qualcomm's QNN", "pip install --force-reinstall onnxruntime-qnn")),
    (r"libvulkan", Origin("the Vulkan loader, on Debian and Ubuntu", "apt install libvulkan1")),
    (r"libgomp|libstdc\+\+|libgcc_s", Origin("it is part of GCC's runtime, on Debian and Ubuntu", "apt install libgomp1 libstdc++6")),
)  # fmt: skip


def origin(library: str) -> Origin | None:
    """Where a shared library comes from, by its file name; None where that is not known."""
    return next((it for pattern, it in _ORIGINS if re.match(pattern, library)), None)


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
