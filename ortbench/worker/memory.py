"""Where a mode's tensors live and how they are copied, one class a kind of memory; what ortbench itself allocates there; and where a
session wants each of its inputs and outputs: a fact about each tensor, which the session itself knows.

A session may have several EPs, and each of them its own memory; one EP may want one input in its memory and another (a
shape, say) in the host's. An EP without DEFAULT memory may want them in its HOST_ACCESSIBLE memory, as OpenVINO's does on
Intel CPUs.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import onnxruntime as ort
from onnxruntime.capi import _pybind_state as ort_native

from ortbench.core.eps import NAMED_DEVICES
from ortbench.core.errors import BenchmarkFailed
from ortbench.worker import providers
from ortbench.worker.libraries import all_ep_devices
from ortbench.worker.providers import Provider
from ortbench.worker.tensors import Array, TensorSpec, host_value, host_view

if TYPE_CHECKING:
    from ortbench.model import schema


DEVICE, PINNED = "device", "pinned"


class Ledger:
    """Counts values from when they are allocated until they are gone: bytes by kind (`DEVICE` or `PINNED`), and the most."""

    def __init__(self) -> None:
        self.now = dict.fromkeys((DEVICE, PINNED), 0)
        self.most = dict(self.now)

    def add(self, kind: str, value: Any, size: int) -> None:
        """Count a value of so many bytes, which is held by an object that can be referred to weakly."""
        self.now[kind] += size
        self.most[kind] = max(self.most[kind], self.now[kind])
        weakref.finalize(value, self._drop, kind, size).atexit = False

    def _drop(self, kind: str, size: int) -> None:
        self.now[kind] -= size


_ledger: Ledger | None = None


def count_allocations() -> Ledger:
    """Count from here on, until the process ends."""
    global _ledger
    _ledger = Ledger()
    return _ledger


def count_value(kind: str, value: Any, size: int) -> None:
    """A value was allocated. Timed calls may allocate, so where nobody counts this does nothing."""
    if _ledger is not None:
        _ledger.add(kind, value, size)


Copy = Callable[[], object]


class EpDeviceMemory:
    """Memory of an EP device, through its memory info: CopyTensors moves data. As of every kind of memory: its kind, its label for the
    report, and what allocates there and copies arrays to and from values."""

    kind = "ep-device"

    def __init__(self, memory_info: Any, device_type: str = "GPU") -> None:
        self.info = memory_info
        self._device_type = device_type
        self.label = providers.memory_label(memory_info)
        self._counted_as = DEVICE if memory_info.device_mem_type.name == "DEFAULT" else PINNED

    def allocate(self, spec: TensorSpec, shape: Sequence[int]) -> Any:
        """An uninitialised OrtValue."""
        value = providers.make_value(self.info, self._device_type, shape, spec)
        count_value(self._counted_as, value, spec.nbytes(shape))
        return value

    def ort_device(self) -> Any:
        """The native OrtDevice, for outputs that are bound without a shape."""
        kind = getattr(ort_native.OrtDevice, self._device_type.lower())()
        return ort_native.OrtDevice(
            kind, int(self.info.device_mem_type), self.info.device_vendor_id, self.info.device_id
        )

    def is_same(self, info: Any) -> bool:
        return providers.is_same_memory(info, self.info)

    def upload(self, specs: Sequence[TensorSpec], sources: Sequence[Array], targets: Sequence[Any]) -> Copy:
        values = [host_value(spec, array) for spec, array in zip(specs, sources, strict=True)]
        return copy_tensors(values, list(targets))

    def download(self, specs: Sequence[TensorSpec], sources: Sequence[Any], targets: Sequence[Array]) -> Copy:
        values = [host_value(spec, array) for spec, array in zip(specs, targets, strict=True)]
        return copy_tensors(list(sources), values)


def copy_tensors(sources: list[Any], targets: list[Any]) -> Copy:
    """One CopyTensors call for all pairs, without a stream; the call itself is ORT's, without its Python checks."""
    if not sources:
        return _copy_nothing
    natives = [value._get_c_value() for value in sources], [value._get_c_value() for value in targets]
    # The natives do not keep the arrays under them alive; the Python values do.
    call = partial(ort_native.copy_tensors, *natives, None)
    call.owners = sources, targets  # type: ignore[attr-defined]
    return call


def _copy_nothing() -> None:
    """The copy of a mode that has nothing to copy."""


class NamedDeviceMemory:
    """Memory of a device that ORT knows by name alone (DirectML, older builds): values copy themselves."""

    kind = "named-device"

    def __init__(self, device: str, index: int) -> None:
        self._device, self._index = device, index
        self.label = f"{device}:{index}"

    def allocate(self, spec: TensorSpec, shape: Sequence[int]) -> Any:
        value = ort.OrtValue.ortvalue_from_shape_and_type(list(shape), spec.element_type, self._device, self._index)
        count_value(DEVICE, value, spec.nbytes(shape))
        return value

    def ort_device(self) -> Any:
        return ort.OrtDevice.make(self._device, self._index)._get_c_device()

    def upload(self, specs: Sequence[TensorSpec], sources: Sequence[Array], targets: Sequence[Any]) -> Copy:
        pairs = list(zip(targets, sources, strict=True))

        def copy() -> None:
            for value, array in pairs:
                value.update_inplace(array)

        return copy

    def download(self, specs: Sequence[TensorSpec], sources: Sequence[Any], targets: Sequence[Array]) -> Copy:
        pairs = list(zip(targets, sources, strict=True))

        def copy() -> None:
            for array, value in pairs:
                array[...] = value.numpy()  # the only readback by name: ORT makes an array, which costs a copy more

        return copy


class HostMemory:
    """Ordinary host memory, for EPs that compute there: a copy is numpy's, since CopyTensors refuses CPU to CPU."""

    kind = "host"
    label = "host memory"

    def allocate(self, spec: TensorSpec, shape: Sequence[int]) -> Any:
        # zeros, then a write: the first touch of a page must not fall into a timed copy.
        array: Array = np.zeros(shape, dtype=spec.dtype)
        array.fill(array.dtype.type(0))
        return host_value(spec, array)

    def ort_device(self) -> Any:
        return ort.OrtDevice.make("cpu", 0)._get_c_device()

    def upload(self, specs: Sequence[TensorSpec], sources: Sequence[Array], targets: Sequence[Any]) -> Copy:
        views = [host_view(spec, value) for spec, value in zip(specs, targets, strict=True)]
        return copy_arrays(list(sources), views)

    def download(self, specs: Sequence[TensorSpec], sources: Sequence[Any], targets: Sequence[Array]) -> Copy:
        views = [host_view(spec, value) for spec, value in zip(specs, sources, strict=True)]
        return copy_arrays(views, list(targets))


Memory = EpDeviceMemory | NamedDeviceMemory | HostMemory


def copy_arrays(sources: list[Array], targets: list[Array]) -> Copy:
    pairs = list(zip(targets, sources, strict=True))

    def copy() -> None:
        for target, source in pairs:
            np.copyto(target, source)

    return copy


def ep_device_memories(ep_device: Any) -> tuple[EpDeviceMemory | None, EpDeviceMemory | None]:
    """The DEFAULT and the HOST_ACCESSIBLE memory that an EP device offers, whether they can be used or not; none without one."""
    if ep_device is None:
        return None, None
    default, shared = providers.memory_infos(ep_device)
    kind = ep_device.device.type.name
    return default and EpDeviceMemory(default, kind), shared and EpDeviceMemory(shared, kind)


def usable_memory(ep_device: Any, memory: EpDeviceMemory | None, copies: bool = True) -> EpDeviceMemory | None:
    """A memory of an EP device if a trial shows that values can be made in it, and copied if `copies`; else None."""
    if memory is None:
        return None
    result = providers.try_memory(ep_device, memory.info)
    problem = result.copy_problem if copies else result.problem
    return memory if problem is None and not result.is_on_host else None


def device_memory(provider: Provider) -> Memory | None:
    """The memory an EP computes in, HOST_ACCESSIBLE memory where it has no other; None where it computes on a device and ONNX Runtime
    offers no memory of it that values can be copied to and from."""
    if provider.computes_on_host:
        return HostMemory()
    if provider.ep_device is not None:
        default, shared = ep_device_memories(provider.ep_device)
        return usable_memory(provider.ep_device, default or shared)
    if provider.name in NAMED_DEVICES:
        return NamedDeviceMemory(NAMED_DEVICES[provider.name], provider.device_index)
    return None


def host_accessible_memory(provider: Provider) -> EpDeviceMemory | None:
    """The EP's HOST_ACCESSIBLE memory, or None where it offers none that values can be made in."""
    return usable_memory(provider.ep_device, ep_device_memories(provider.ep_device)[1], copies=False)


def missing_device_memory(provider: Provider) -> str | None:
    """What an EP lacks for values in the memory that it computes in, else None. Raises `BenchmarkFailed`: a trial of it failed."""
    if device_memory(provider) is not None:
        return None
    default, shared = ep_device_memories(provider.ep_device)
    return _missing_memory(provider, "device memory", default or shared, copies=True)


def missing_shared_memory(provider: Provider, memory_name: str = "HOST_ACCESSIBLE memory") -> str | None:
    """What an EP lacks for values in HOST_ACCESSIBLE memory; None if it lacks nothing; raises as `missing_device_memory`."""
    if host_accessible_memory(provider) is not None:
        return None
    return _missing_memory(provider, memory_name, ep_device_memories(provider.ep_device)[1], copies=False)


def missing_pinned_memory(provider: Provider) -> str | None:
    """The same for what the host's side of copies is to be in, which an EP on the host does without."""
    if provider.computes_on_host:
        return "no pinned memory (it needs none)"
    return missing_shared_memory(provider, "HOST_ACCESSIBLE (pinned) memory")


def runs_problem(provider: Provider) -> str | None:
    """Why ONNX Runtime can run nothing on an EP, not even with arrays, which it would have to copy; None if nothing hinders it."""
    default, _ = ep_device_memories(provider.ep_device)
    if default is None:
        return None
    result = providers.try_memory(provider.ep_device, default.info)
    if result.is_on_host or result.has_failed or result.problem is not None or result.copy_problem is None:
        return None  # or what a trial failed of may still work inside a run
    return _missing_memory(provider, "device memory", default, copies=True)


def _missing_memory(provider: Provider, memory_name: str, memory: EpDeviceMemory | None, copies: bool) -> str:
    if memory is None:
        return f"no {memory_name}"
    result = providers.try_memory(provider.ep_device, memory.info)
    reason = (result.copy_problem if copies else None) or result.problem
    if result.has_failed:
        raise BenchmarkFailed(f"{memory.label} of {provider.name} cannot be used: {reason}")
    explained = reason if result.problem is not None else f" that can be used ({reason})"
    return f"no {memory_name}{explained}"


def token_readback(memories: Sequence[Memory]) -> Copy | None:
    """A readback of one small value of each memory; None where all are host memory, where there is nothing to wait for."""
    readbacks = [readback for memory in memories if (readback := _memory_readback(memory)) is not None]
    return join_calls(readbacks) if readbacks else None


def join_calls(calls: Sequence[Copy]) -> Copy:
    if len(calls) < 2:
        return calls[0] if calls else _copy_nothing

    def call_all() -> None:
        for call in calls:
            call()

    return call_all


def _memory_readback(memory: Memory) -> Copy | None:
    """A readback of one small value of a memory; None in host memory, where there is nothing to wait for."""
    if memory.kind == "host":
        return None
    spec = TensorSpec("token", "tensor(float)", (1,))
    value = memory.allocate(spec, (1,))
    memory.upload([spec], [np.zeros(1, np.float32)], [value])()
    return memory.download([spec], [value], [np.zeros(1, np.float32)])


def describe_memory(provider: Provider) -> schema.Memory:
    """An EP's memory for the result: ``kind`` (``none`` where there is none to bind), ``default``, ``host_accessible``."""
    memory = device_memory(provider)
    default, shared = ep_device_memories(provider.ep_device)
    is_own = memory is not None and (memory.kind != "ep-device" or default is not None)
    own = memory if is_own else default  # which is there and may be out of reach
    return {
        "kind": "none" if memory is None else memory.kind,
        "default": None if own is None else own.label,
        "host_accessible": None if shared is None else shared.label,
    }


def is_only_host_accessible(provider: Provider) -> bool:
    """Whether HOST_ACCESSIBLE memory is all that the EP's device has."""
    default, shared = ep_device_memories(provider.ep_device)
    return default is None and shared is not None


@dataclass(frozen=True)
class Location:
    own: Memory | None  # where the session wants it; None in memory of a device that ONNX Runtime offers no access to
    # HOST_ACCESSIBLE memory of the EP whose `own` is, which is `own` itself where that EP has no other; None where it
    # offers none
    shared: EpDeviceMemory | None
    is_host_only: bool  # the session wants it in ordinary host memory, though its EP computes elsewhere

    @property
    def is_on_host(self) -> bool:
        return self.own is not None and self.own.kind == "host"

    @property
    def is_shared(self) -> bool:
        """Whether the session wants it in memory that the host reaches too: ORT may then pass arrays through."""
        return self.own is not None and self.own is self.shared


class BoundTensor(NamedTuple):
    name: str
    memory: str  # that it is in, in words
    reason: str | None  # in words; None where the session wants it in ordinary host memory, which its graph explains
    is_usual: bool  # it is the memory that the mode is about


class Locations(NamedTuple):
    """The places of a session's inputs and outputs, in the model's order. What is in the same memory has the same object."""

    inputs: list[Location]
    outputs: list[Location]
    main: Location  # of the EP that the run is about

    @property
    def memories(self) -> list[Memory]:
        """Every memory that takes part, the main one first."""
        own = [location.own for location in (self.main, *self.inputs, *self.outputs) if not location.is_host_only]
        return list({id(memory): memory for memory in own if memory is not None}.values())


def find_locations(session: Any, provider: Provider) -> Locations:
    devices = []
    if provider.ep_device is not None:
        names = session.get_providers()
        devices = [provider.ep_device, *(device for device in all_ep_devices() if device.ep_name in names)]
    offered = [(device, *ep_device_memories(device)) for device in devices]

    @cache
    def device_location(number: int, is_default: bool) -> Location:
        """What is in a memory of a device, which is tried only then: a session may have devices that it does not use."""
        device, default, shared = offered[number]
        own = usable_memory(device, default if is_default else shared)
        return Location(own, usable_memory(device, shared, copies=False), is_host_only=False)

    if provider.ep_device is None or provider.computes_on_host:
        main = Location(device_memory(provider), None, is_host_only=False)
    else:
        main = device_location(0, offered[0][1] is not None)
    host = main if provider.computes_on_host else Location(HostMemory(), None, is_host_only=True)

    def location_of(info: Any) -> Location:
        if info is None or info.name == "Cpu":
            return host
        for number, (_, *memories) in enumerate(offered):
            for memory, is_default in zip(memories, (True, False), strict=True):
                if memory is not None and memory.is_same(info):
                    return device_location(number, is_default)
        return main

    inputs, outputs = session.get_input_memory_infos(), session.get_output_memory_infos()
    return Locations([*map(location_of, inputs)], [*map(location_of, outputs)], main)
