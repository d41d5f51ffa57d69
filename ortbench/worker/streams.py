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

And inputs in memory of another library (numpy, torch, cupy), handed over by DLPack and bound without a copy.
"""

from __future__ import annotations

import importlib
import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import onnxruntime as ort
from onnxruntime.capi import _pybind_state as ort_native

from ortbench.core.eps import NVIDIA_EPS
from ortbench.core.errors import BadInput, BenchmarkFailed, Unsupported, one_line, ort_text
from ortbench.worker import providers
from ortbench.worker.memory import DEVICE, EpDeviceMemory, count_value, device_memory, is_only_host_accessible
from ortbench.worker.providers import Provider
from ortbench.worker.tensors import Array, TensorSpec, host_value, host_view

if TYPE_CHECKING:
    from ortbench.model.schema import LibraryMemory


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
    return providers.try_once(provider.ep_device, "copies on a stream", lambda: _try_copies(provider)).problem


def _try_copies(provider: Provider) -> providers.TrialResult:
    try:
        memory = device_memory(provider)
        provider.ep_device.create_sync_stream()
        if not isinstance(memory, EpDeviceMemory):
            return providers.TrialResult(problem="there is no device memory to copy to")
        arrival = Stream(provider, memory, None).arrival()
        arrival.follow()
        arrival.wait_for(_TRIAL_S)
    except Exception as error:
        return providers.TrialResult(problem=one_line(error))
    return providers.TrialResult()


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


class Numpy:
    """Ordinary host memory. As of every library whose tensors can be bound: its name, where its tensors are in its own words, and what
    makes one, writes to it and tells its address."""

    name, location = "numpy", "host memory"

    def __init__(self, provider: Provider) -> None:
        _refuse_to_be_copied(self.name, provider)
        if not provider.computes_on_host:
            raise Unsupported(f"numpy's arrays are in host memory, and {provider.name} computes on a device")

    def tensor(self, array: Array) -> Any:
        """A contiguous tensor with a copy of an array, which must be of a dtype that the library has."""
        return np.array(array, order="C")

    def write(self, tensor: Any, array: Array) -> None:
        """Overwrite a tensor in place; it is there when this returns."""
        np.copyto(tensor, array.view(tensor.dtype))

    def pointer(self, tensor: Any) -> int:
        return int(tensor.ctypes.data)


class Torch:
    """PyTorch: host memory for an EP that computes there, else CUDA's."""

    name = "torch"

    def __init__(self, provider: Provider) -> None:
        _refuse_to_be_copied(self.name, provider)
        self._torch = importlib.import_module("torch")
        self.location = "cpu" if provider.computes_on_host else f"cuda:{_cuda_index(self.name, provider)}"

    def tensor(self, array: Array) -> Any:
        return self._torch.from_numpy(np.array(array, order="C")).to(self.location)

    def write(self, tensor: Any, array: Array) -> None:
        tensor.copy_(self._torch.from_numpy(np.array(array, order="C")))
        if self.location != "cpu":
            self._torch.cuda.synchronize(self.location)

    def pointer(self, tensor: Any) -> int:
        return int(tensor.data_ptr())


class Cupy:
    name = "cupy"

    def __init__(self, provider: Provider) -> None:
        self._cupy = importlib.import_module("cupy")
        self._index = _cuda_index(self.name, provider)
        self.location = f"cuda:{self._index}"

    def tensor(self, array: Array) -> Any:
        with self._cupy.cuda.Device(self._index):
            return self._cupy.asarray(array, order="C")

    def write(self, tensor: Any, array: Array) -> None:
        with self._cupy.cuda.Device(self._index):
            tensor.set(np.asarray(array, order="C"))
            self._cupy.cuda.Device(self._index).synchronize()

    def pointer(self, tensor: Any) -> int:
        return int(tensor.data.ptr)


Library = Numpy | Torch | Cupy
_LIBRARIES: dict[str, Callable[[Provider], Library]] = {"numpy": Numpy, "torch": Torch, "cupy": Cupy}


def check(name: str) -> None:
    """Load a library, so that a missing one is said before anything is measured."""
    try:
        importlib.import_module(name)
    except ImportError as error:
        raise BadInput(f"--input-memory {name}: it cannot be imported here: {ort_text(error)}") from None


def _refuse_to_be_copied(name: str, provider: Provider) -> None:
    """Raise `Unsupported` where ordinary host memory would be copied once, when it is bound, and never read again."""
    memory = device_memory(provider)
    if memory is not None and is_only_host_accessible(provider):
        raise Unsupported(
            f"{provider.name} wants its inputs in {memory.label}: ONNX Runtime copies what is in {name}'s host memory there "
            "when it is bound, and what is written to it later is never read"
        )


def _cuda_index(name: str, provider: Provider) -> int:
    if provider.computes_on_host or provider.name not in NVIDIA_EPS:
        raise Unsupported(f"{name} has no memory of the device that {provider.name} computes on")
    return cuda_index(provider)


class ExternalInputs:
    """The inputs of one mode that lie in a library's memory. Raises `Unsupported`: the library has none that the EP computes in."""

    def __init__(self, name: str, provider: Provider) -> None:
        self._library = _LIBRARIES[name](provider)
        self._on_device = not provider.computes_on_host
        self._held: dict[str, tuple[Any, Any]] = {}  # the tensor and the value over it, by input

    def wrap(self, spec: TensorSpec, array: Array) -> Any:
        """An OrtValue over a new tensor with a copy of an array."""
        if not spec.is_native:
            raise Unsupported(f"{spec.name!r} is {spec.type}, which numpy cannot hand over by DLPack")
        is_bool = array.dtype == np.bool_
        tensor = self._library.tensor(array.view(np.uint8) if is_bool else array)
        try:  # ORT 1.31 does not know DLPack's own bool, only bytes that are said to be bools
            value = ort.OrtValue(ort_native.OrtValue.from_dlpack(tensor.__dlpack__(), is_bool))
        except Exception as error:
            raise BenchmarkFailed(f"{spec.name!r} could not be handed over by DLPack: {ort_text(error)}") from None
        self._held[spec.name] = tensor, value
        if self._on_device:
            count_value(DEVICE, value, array.nbytes)
        return value

    def write(self, arrays: dict[str, Array]) -> None:
        for name, (tensor, _) in self._held.items():
            array = np.asarray(arrays[name], order="C")
            self._library.write(tensor, array.view(np.uint8) if array.dtype == np.bool_ else array)

    def same_addresses(self) -> bool:
        return all(value.data_ptr() == self._library.pointer(tensor) for tensor, value in self._held.values())

    def describe(self) -> LibraryMemory:
        return {"library": self._library.name, "place": self._library.location}
