"""Streams: one of the user's for a session's kernels, by the EP option ``user_compute_stream``, and those of an EP's device for
copies that return at once, with how the host learns that they have arrived.

https://onnxruntime.ai/docs/execution-providers/CUDA-ExecutionProvider.html#user_compute_stream

What ONNX Runtime's Python API offers was tried with 1.31.1:

- ``OrtEpDevice.create_sync_stream()`` makes a stream; ``copy_tensors`` with it returns at once where the EP can do that.
  Nothing in the API waits for a stream, and a run cannot be ordered behind one. A copy without a stream and
  ``synchronize_inputs`` wait for the whole device, the inference that the copy is to run beside included (and on CUDA a
  copy without a stream waits for no stream at all). So the host waits for an `Arrival`.
- ``run_with_iobinding`` lets other Python threads run; ``copy_tensors``, ``synchronize_inputs`` and
  ``synchronize_outputs`` keep the interpreter locked until they return. Threads with blocking copies would stop each
  other, so one thread hands out all the work.
"""

from __future__ import annotations

import importlib
import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from onnxruntime.capi import _pybind_state as ort_native

from ortbench.core.eps import NVIDIA_EPS
from ortbench.core.errors import BadInput, BenchmarkFailed, one_line, ort_text
from ortbench.worker.session import memory_trial
from ortbench.worker.session.memory import EpDeviceMemory, device_memory
from ortbench.worker.session.providers import Provider
from ortbench.worker.session.tensors import TensorSpec, host_value, host_view

OPTIONS = ("has_user_compute_stream", "user_compute_stream")


class ComputeStream(NamedTuple):
    """A stream that lives as long as this object, which must outlive the sessions that use it."""

    handle: int  # the stream's own, a cudaStream_t
    owner: Any  # what keeps it alive

    def options(self) -> dict[str, str]:
        return dict(zip(OPTIONS, ("1", str(self.handle)), strict=True))


def make_compute_stream(kind: str, provider: Provider) -> ComputeStream:
    """A new stream on the EP's device. Raises `BadInput`: the EP takes no stream, or no such library; `BenchmarkFailed`: it cannot be made."""
    if provider.name not in NVIDIA_EPS:
        raise BadInput(f"--stream: {provider.name} takes no compute stream; {', '.join(sorted(NVIDIA_EPS))} do")
    return make_ort_stream(provider) if kind == "ort" else make_cuda_python_stream(provider)


def make_ort_stream(provider: Provider) -> ComputeStream:
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


def make_cuda_python_stream(provider: Provider) -> ComputeStream:
    """A stream of NVIDIA's cuda-python, which does not wait for the default stream."""
    try:
        runtime = importlib.import_module("cuda.bindings.runtime")
    except ImportError as error:
        raise BadInput(f"--stream cuda-python: the package cuda-python does not load: {ort_text(error)}") from None
    _check_answer(runtime, runtime.cudaSetDevice(cuda_index(provider)))
    stream = _check_answer(runtime, runtime.cudaStreamCreateWithFlags(runtime.cudaStreamNonBlocking))
    return ComputeStream(int(stream), stream)


def cuda_index(provider: Provider) -> int:
    """CUDA's number of the EP's device."""
    if provider.ep_device is None:
        return provider.device_index
    # https://onnxruntime.ai/docs/execution-providers/CUDA-ExecutionProvider.html: device_id is CUDA's own number.
    return int(provider.ep_device.ep_options.get("device_id", 0))


def _check_answer(runtime: Any, answer: tuple[Any, ...]) -> Any:
    """What a call of cuda-python gave besides its error code."""
    error, *rest = answer
    if error != runtime.cudaError_t.cudaSuccess:
        raise BenchmarkFailed(f"--stream cuda-python: {error}")
    return rest[0] if rest else None


# Lets others have the core; asleep the host would come back some 70 µs late. Windows yields in sleep(0).
_let_others_run: Callable[[], object] = getattr(os, "sched_yield", None) or partial(time.sleep, 0)

_TRIAL_S = 10.0
_WORD = TensorSpec("word", "tensor(float)", (1,))


def stream_problem(provider: Provider) -> str | None:
    """Why an EP offers no streams for copies on its device, by a trial; None if it does."""
    if provider.ep_device is None:
        return "this EP computes in host memory" if provider.computes_on_host else "it has no EP device here"
    return memory_trial.try_once(provider.ep_device, "copies on a stream", lambda: _try_copies(provider)).problem


def _try_copies(provider: Provider) -> memory_trial.TrialResult:
    try:
        memory = device_memory(provider)
        provider.ep_device.create_sync_stream()
        if not isinstance(memory, EpDeviceMemory):
            return memory_trial.TrialResult(problem="there is no device memory to copy to")
        arrival = Stream(provider, memory, None).arrival()
        arrival.follow()
        arrival.wait_for(_TRIAL_S)
    except Exception as error:
        return memory_trial.TrialResult(problem=one_line(error))
    return memory_trial.TrialResult()


class Stream:
    """A stream of an EP's device, whose copies reach `host` (HOST_ACCESSIBLE) memory while the host goes on."""

    def __init__(self, provider: Provider, memory: EpDeviceMemory, host: EpDeviceMemory | None) -> None:
        self._stream = provider.ep_device.create_sync_stream()
        self._host = host
        self._one_value = memory.allocate(_WORD, (1,))
        memory.upload([_WORD], [np.ones(1, np.float32)], [self._one_value])()

    def copy(self, sources: Sequence[Any], targets: Sequence[Any]) -> None:
        """Copy native OrtValues, at least one pair. They must live until the copies have arrived."""
        ort_native.copy_tensors(sources, targets, self._stream)

    def arrival(self) -> Arrival:
        host = self._host
        word = host_value(_WORD, np.ones(1, np.float32)) if host is None else host.allocate(_WORD, (1,))
        return Arrival(self, self._one_value, word)


class Arrival:
    """Tells when copies have arrived: a word in host memory that the stream writes behind them.

    A stream keeps order, so whoever sees the word knows that everything before it on the stream is done. It costs a copy
    of 4 bytes, which is part of whatever is timed with it.
    """

    def __init__(self, stream: Stream, one: Any, word: Any) -> None:
        self._stream = stream
        self._values = one, word  # the natives do not keep them alive
        self._one_value, self._target = [one._get_c_value()], [word._get_c_value()]
        self._seen = host_view(_WORD, word)
        self._seen[0] = 1  # nothing to wait for yet

    def copy(self, sources: Sequence[Any], targets: Sequence[Any]) -> None:
        """Copy native OrtValues, if there are any, and have the word follow them."""
        if sources:
            self._stream.copy(sources, targets)
            self.follow()

    def follow(self) -> None:
        """Have the word follow what is on the stream now."""
        self._seen[0] = 0
        self._stream.copy(self._one_value, self._target)

    def wait(self) -> None:
        seen = self._seen
        while not seen[0]:
            _let_others_run()

    def wait_for(self, seconds: float) -> None:
        """Return when the word is there. Raises `BenchmarkFailed`: it is not there after so long."""
        end = time.monotonic() + seconds
        while not self._seen[0]:
            if time.monotonic() > end:
                raise BenchmarkFailed(f"a copy on a stream did not arrive within {seconds:g} s")
            _let_others_run()
