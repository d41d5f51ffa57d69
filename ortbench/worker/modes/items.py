"""The items of a pipeline: inputs and outputs of their own on the host, so that a mix-up shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ortbench.worker.modes.slots import Slot
from ortbench.worker.session.first_run import Data, run_once
from ortbench.worker.session.memory import EpDeviceMemory
from ortbench.worker.session.session import Model
from ortbench.worker.session.tensors import Array, TensorSpec, host_value, host_view


@dataclass(frozen=True)
class Item:
    """One tile or batch on the host.

    Attributes:
        inputs, outputs: native OrtValues in host memory, of those inputs and outputs that are copied.
        arrays: all outputs as arrays, in the model's order.
        reference: what they must be.
        owners: what keeps the values alive.
    """

    inputs: list[Any]
    outputs: list[Any]
    arrays: list[Array]
    reference: list[Array]
    owners: list[Any]


def make_variants(
    model: Model, data: Data, kept: set[str], count: int
) -> tuple[list[tuple[dict[str, Array], list[Array]]], int]:
    """Inputs and reference outputs of `count` items, and how many of them have inputs of their own.

    Args:
        model, data: of the mode.
        kept: inputs that are the same for all items, because they never leave the host.
        count: at least 1.
    """
    first = data.arrays, data.reference
    found = [first]
    for number in range(1, count):
        arrays = {name: array if name in kept else _rolled(array, number) for name, array in data.arrays.items()}
        reference = _reference(model, arrays)
        if reference is None or not _same_form(reference, data.reference) or _equal(arrays, data.arrays):
            found.append(first)
        else:
            found.append((arrays, reference))
    return found, 1 + sum(item is not first for item in found)


def _rolled(array: Array, places: int) -> Array:
    return np.roll(array.reshape(-1), places).reshape(array.shape)


def _reference(model: Model, arrays: dict[str, Array]) -> list[Array] | None:
    """The outputs of a plain run; None where the model takes no such inputs (lengths that must fit others, say)."""
    try:
        return run_once(model, arrays)
    except Exception:
        return None


def _same_form(some: Sequence[Array], others: Sequence[Array]) -> bool:
    """Outputs whose shape depends on the data do not fit buffers that were bound before."""
    return all(a.shape == b.shape and a.dtype == b.dtype for a, b in zip(some, others, strict=True))


def _equal(some: dict[str, Array], others: dict[str, Array]) -> bool:
    return all(np.array_equal(array, others[name]) for name, array in some.items())


def make_item(
    ins: Sequence[Slot],
    outs: Sequence[Slot],
    arrays: dict[str, Array],
    reference: list[Array],
    host: EpDeviceMemory | None,
) -> Item:
    """An item with inputs in host memory, and room for its outputs beside them."""
    inputs = [_on_host(slot.spec, arrays[slot.spec.name], host) for slot in ins if not slot.stays]
    outputs = [_on_host(slot.spec, wanted, host) for slot, wanted in zip(outs, reference, strict=True)]
    moved = [value for slot, (value, _) in zip(outs, outputs, strict=True) if not slot.stays]
    return Item(
        [value._get_c_value() for value, _ in inputs],
        [value._get_c_value() for value in moved],
        [array for _, array in outputs],
        reference,
        [inputs, outputs],
    )


def _on_host(spec: TensorSpec, array: Array, host: EpDeviceMemory | None) -> tuple[Any, Array]:
    """A value in host memory with a copy of an array, and the array over that memory."""
    if host is None:
        own = np.ascontiguousarray(array).copy()
        return host_value(spec, own), own
    value = host.allocate(spec, array.shape)
    view = host_view(spec, value)
    np.copyto(view, array)
    return value, view
