"""Bound inputs and outputs: both sides of each, and the copies between them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ortbench.errors import Unsupported
from ortbench.worker.session.memory import Copy, Memory, copy_tensors
from ortbench.worker.session.tensors import Array, TensorSpec, nbytes


@dataclass(frozen=True)
class Slot:
    """One bound input or output.

    Attributes:
        spec: its name, dtype and shape.
        array: its host side.
        value: the OrtValue that is bound; None for an output that ORT allocates.
        stays: the session wants it in ordinary host memory (a shape, say): `value` is then over `array` itself and
            nothing is copied; on the device it would cost a copy back inside every run.
        pinned: the value in pinned memory that `array` looks into; None where `array` is in ordinary host memory.
    """

    spec: TensorSpec
    array: Array
    value: Any
    stays: bool
    pinned: Any = None


def upload(memory: Memory, slots: list[Slot]) -> Copy:
    """The copies from the host's sides to what is bound."""
    moved = [slot for slot in slots if not slot.stays]
    if all(slot.pinned is not None for slot in moved):
        return copy_tensors([slot.pinned for slot in moved], [slot.value for slot in moved])
    return memory.upload([s.spec for s in moved], [s.array for s in moved], [s.value for s in moved])


def download(memory: Memory, slots: list[Slot]) -> Copy:
    """The copies from what is bound to the host's sides."""
    moved = [slot for slot in slots if not slot.stays]
    if all(slot.pinned is not None for slot in moved):
        return copy_tensors([slot.value for slot in moved], [slot.pinned for slot in moved])
    return memory.download([s.spec for s in moved], [s.value for s in moved], [s.array for s in moved])


def copied_bytes(slots: list[Slot]) -> int:
    """The bytes of one copy of all of them."""
    return sum(nbytes(slot.array) for slot in slots if not slot.stays)


def refuse_strings(specs: Iterable[TensorSpec]) -> None:
    """Raise `Unsupported` where a tensor cannot be bound because it holds strings."""
    for spec in specs:
        if spec.is_string:
            raise Unsupported(f"{spec.name!r} is a tensor of strings, which only mode cpu can hold")
