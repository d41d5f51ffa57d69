"""Bound inputs and outputs: both sides of each, and the copies between them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ortbench.core.errors import Unsupported
from ortbench.worker.session.memory import Copy, EpDeviceMemory, Memory, copy_tensors, one_call
from ortbench.worker.session.places import Place
from ortbench.worker.session.tensors import Array, TensorSpec, nbytes


@dataclass(frozen=True)
class Slot:
    """One bound input or output.

    Attributes:
        spec: its name, dtype and shape.
        array: its host side.
        value: the OrtValue that is bound; None for an output that ORT allocates.
        memory: that it is in.
        stays: the session wants it in ordinary host memory (a shape, say): `value` is then over `array` itself and
            nothing is copied; on the device it would cost a copy back inside every run.
        pinned: the value in pinned memory that `array` looks into; None where `array` is in ordinary host memory.
    """

    spec: TensorSpec
    array: Array
    value: Any
    memory: Memory
    stays: bool
    pinned: Any = None


def upload(slots: Sequence[Slot]) -> Copy:
    """The copies from the host's sides to what is bound."""
    return one_call([_upload(memory, moved) for memory, moved in by_memory(slots)])


def _upload(memory: Memory, moved: list[Slot]) -> Copy:
    if all(slot.pinned is not None for slot in moved):
        return copy_tensors([slot.pinned for slot in moved], [slot.value for slot in moved])
    return memory.upload([s.spec for s in moved], [s.array for s in moved], [s.value for s in moved])


def download(slots: Sequence[Slot]) -> Copy:
    """The copies from what is bound to the host's sides."""
    return one_call([_download(memory, moved) for memory, moved in by_memory(slots)])


def _download(memory: Memory, moved: list[Slot]) -> Copy:
    if all(slot.pinned is not None for slot in moved):
        return copy_tensors([slot.value for slot in moved], [slot.pinned for slot in moved])
    return memory.download([s.spec for s in moved], [s.value for s in moved], [s.array for s in moved])


def by_memory(slots: Sequence[Slot]) -> list[tuple[Memory, list[Slot]]]:
    """What is copied, by the memory that it is in: one call of CopyTensors is for one device."""
    found: dict[int, tuple[Memory, list[Slot]]] = {}
    for slot in slots:
        if not slot.stays:
            found.setdefault(id(slot.memory), (slot.memory, []))[1].append(slot)
    return list(found.values())


def copied_bytes(slots: list[Slot]) -> int:
    """The bytes of one copy of all of them."""
    return sum(nbytes(slot.array) for slot in slots if not slot.stays)


def shared_memory(spec: TensorSpec, place: Place) -> EpDeviceMemory:
    """HOST_ACCESSIBLE memory for what is not in ordinary host memory.

    Raises:
        Unsupported: the EP that it is for has none.
    """
    if place.shared is None:
        where = "" if place.own is None else f", and is wanted in {place.own.label}"
        raise Unsupported(f"{spec.name!r} is for an EP that offers no HOST_ACCESSIBLE memory{where}")
    return place.shared


def refuse_strings(specs: Iterable[TensorSpec]) -> None:
    """Raise `Unsupported` where a tensor cannot be bound because it holds strings."""
    for spec in specs:
        if spec.is_string:
            raise Unsupported(f"{spec.name!r} is a tensor of strings, which only mode cpu-tensors can hold")
