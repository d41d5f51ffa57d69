"""A stream of the user's for a session's kernels: the EP option ``user_compute_stream``.

https://onnxruntime.ai/docs/execution-providers/CUDA-ExecutionProvider.html#user_compute_stream
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ortbench.core.ep_names import NVIDIA_EPS
from ortbench.core.errors import BadInput, BenchmarkFailed, ort_text
from ortbench.worker.session.providers import Provider

OPTIONS = ("has_user_compute_stream", "user_compute_stream")


@dataclass(frozen=True)
class ComputeStream:
    """A stream that lives as long as this object, which must outlive the sessions that use it.

    Attributes:
        handle: the stream's own, a cudaStream_t.
        owner: what keeps it alive.
    """

    handle: int
    owner: Any

    def options(self) -> dict[str, str]:
        """The EP options by which a session uses it."""
        return dict(zip(OPTIONS, ("1", str(self.handle)), strict=True))


def make(kind: str, provider: Provider) -> ComputeStream:
    """A new stream on the EP's device.

    Args:
        kind: ``ort`` or ``cuda-python``.
        provider: the EP.

    Raises:
        BadInput: the EP takes no stream, or there is no such library.
        BenchmarkFailed: the stream cannot be made.
    """
    if provider.name not in NVIDIA_EPS:
        raise BadInput(f"--stream: {provider.name} takes no compute stream; {', '.join(sorted(NVIDIA_EPS))} do")
    return _KINDS[kind](provider)


def of_ort(provider: Provider) -> ComputeStream:
    """A stream that ONNX Runtime makes, for EPs with an EP device."""
    if provider.ep_device is None:
        raise BadInput(
            f"--stream ort: {provider.name} has no EP device here, which makes the stream; --stream cuda-python does without"
        )
    try:
        stream = provider.ep_device.create_sync_stream()
    except Exception as error:
        raise BenchmarkFailed(f"--stream ort: {provider.name} made no stream: {ort_text(error)}") from None
    return ComputeStream(int(stream.get_handle()), stream)


def of_cuda_python(provider: Provider) -> ComputeStream:
    """A stream of NVIDIA's cuda-python, which does not wait for the default stream."""
    try:
        runtime = importlib.import_module("cuda.bindings.runtime")
    except ImportError as error:
        raise BadInput(f"--stream cuda-python: the package cuda-python does not load: {ort_text(error)}") from None
    _checked(runtime, runtime.cudaSetDevice(cuda_index(provider)))
    stream = _checked(runtime, runtime.cudaStreamCreateWithFlags(runtime.cudaStreamNonBlocking))
    return ComputeStream(int(stream), stream)


def cuda_index(provider: Provider) -> int:
    """CUDA's number of the EP's device."""
    if provider.ep_device is None:
        return provider.device_index
    # https://onnxruntime.ai/docs/execution-providers/CUDA-ExecutionProvider.html: device_id is CUDA's own number.
    return int(provider.ep_device.ep_options.get("device_id", 0))


def _checked(runtime: Any, answer: tuple[Any, ...]) -> Any:
    """What a call of cuda-python gave besides its error code."""
    error, *rest = answer
    if error != runtime.cudaError_t.cudaSuccess:
        raise BenchmarkFailed(f"--stream cuda-python: {error}")
    return rest[0] if rest else None


_KINDS: dict[str, Callable[[Provider], ComputeStream]] = {"ort": of_ort, "cuda-python": of_cuda_python}
