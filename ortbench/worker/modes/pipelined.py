"""Mode `pipelined`: several inferences in flight, their copies behind the inference of another one.

There are as many pairs of device buffers, one for the inputs and one for the outputs of an item, as the pipeline is
deep, and two streams of their own, one for uploads and one for downloads. The host hands out the work, item by item:

1. wait until the item's inputs have arrived, and until the outputs that its buffer held before have left;
2. run, and apply the proved fence: meanwhile the inputs of the next items arrive and the outputs of the last ones leave;
3. hand out the download of its outputs and the upload of the inputs that will be needed next in this buffer.

A buffer is handed on only when the host has seen that the step before is done, so nothing rests on an order between
streams and runs, which ONNX Runtime's Python API cannot express. At depth 1 an item is uploaded only when the outputs of
the one before have left: nothing overlaps, which is the control.

A timed call is one round: an item through each pair of buffers. It begins and ends with the pipeline full: before the
first round of a block, all inputs are on their way in and all outputs of the last round on their way out, as they are in
a long stream of items where copies are the slower part, and the schedule never records the first call of a block.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np

from ortbench.errors import Unsupported
from ortbench.modes import PIPELINED, TOTAL
from ortbench.worker.modes.bound import BoundMode, Slot, Step, TimedCall, copied_bytes, unsupported_reason
from ortbench.worker.proofs import outputs as output_arrays
from ortbench.worker.proofs.fence import RUN, STREAM, SYNCHRONIZE, Fence
from ortbench.worker.session import copy_streams
from ortbench.worker.session.first_run import Data, run_once
from ortbench.worker.session.memory import EpDeviceMemory, device_memory, host_accessible_memory
from ortbench.worker.session.session import Model
from ortbench.worker.session.tensors import Array, TensorSpec, host_value, host_view

_COST_REPEATS = 7
_PATIENCE_S = 5.0  # for what is in flight when something has failed


def make(model: Model, data: Data, depth: int) -> PipelinedMode:
    """Set the mode up: allocate, bind, make the items, prove the fence.

    Args:
        model: open.
        data: its inputs and reference outputs; the first item's.
        depth: how many pairs of buffers.

    Raises:
        Unsupported: the EP or the model cannot do it.
        Exception: whatever ORT raises on the way.
    """
    provider = model.provider
    if provider.computes_on_host:
        raise Unsupported(f"{provider.name} computes in host memory: there are no copies to hide behind inference")
    reason = unsupported_reason(PIPELINED, provider)
    if reason is not None:
        raise Unsupported(f"{provider.name} offers {reason} on this device ({copy_streams.problem(provider)})")
    memory = device_memory(provider)
    assert isinstance(memory, EpDeviceMemory)
    return PipelinedMode(model, data, memory, host_accessible_memory(provider), depth)


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


class Buffers(BoundMode):
    """A pair of device buffers, inputs and outputs, bound once.

    Attributes:
        copied_in, copied_out: the native values that are copied.
        left: the numbers of the outputs that the session leaves in host memory.
        loaded: the number of the item whose inputs it has, or which are on their way.
        holds: the number of the item whose outputs it has; None after they were poisoned.
        uploaded, downloaded: when the last of each has arrived.
        wait: ends its run; None where the run itself waits.
    """

    name = PIPELINED
    uploaded: copy_streams.Arrival
    downloaded: copy_streams.Arrival

    def _prepare(self) -> None:
        self.loaded = 0
        self.holds: int | None = 0
        self.wait: Callable[[], object] | None = None
        self.copied_in, self.copied_out = _natives(self._ins), _natives(self._outs)
        self.left = [number for number, slot in enumerate(self._outs) if slot.stays]
        self._upload()
        self._launch()
        self._download()

    def prove(self) -> Fence:
        """What ends a run on this EP."""
        return self._prove_run()

    def adopt(self, fence: Fence) -> None:
        """Use a fence that was proved with other buffers of the same session."""
        own = {RUN: None, SYNCHRONIZE: self._binding.synchronize_outputs}
        self.wait = own.get(fence.kind, fence.wait)

    def launch(self) -> None:
        """Start one inference; it may be done when this returns, or not."""
        self._launch()
        self.holds = self.loaded

    def run(self) -> None:
        """One inference, fenced."""
        self.launch()
        if self.wait is not None:
            self.wait()

    def poison(self) -> None:
        """Overwrite the outputs; what they held is not to be downloaded."""
        super().poison()
        self.holds = None

    @property
    def slots(self) -> tuple[list[Slot], list[Slot]]:
        """Its inputs and outputs."""
        return self._ins, self._outs

    def keep_left(self, arrays: Sequence[Array]) -> None:
        """Copy the outputs that the session left in host memory; the next run would overwrite them."""
        for number in self.left:
            np.copyto(arrays[number], self._outs[number].array)


class PipelinedMode:
    """Uploads and downloads behind the inference of another item, through as many buffers as the pipeline is deep.

    Args:
        model: open.
        data: inputs and reference outputs of the first item. The inputs of the others are the same values, rolled by
            one place more each, so that all keep to the values that the model can take.
        memory: of the device.
        host: HOST_ACCESSIBLE memory for the host's side of the copies, without which some EPs (CUDA) cannot copy while the
            host goes on; None where there is none.
        depth: pairs of buffers.
    """

    name = PIPELINED
    trials: tuple[int, ...] = (1, 3)  # one round from a standing start, and enough of them for every item to come again

    def __init__(
        self, model: Model, data: Data, memory: EpDeviceMemory, host: EpDeviceMemory | None, depth: int
    ) -> None:
        self.per_call = depth
        self._buffers = [Buffers(model, data, memory, memory) for _ in range(depth)]
        ins, outs = self._buffers[0].slots
        self.bytes_in, self.bytes_out = copied_bytes(ins), copied_bytes(outs)
        if not self.bytes_in + self.bytes_out:
            raise Unsupported("all inputs and outputs of the session are in host memory: there are no copies to hide")
        # One more than there are buffers, so that each of them gets other data in every round.
        variants, self._distinct = _variants(model, data, {slot.spec.name for slot in ins if slot.stays}, depth + 1)
        self._items = [_item(ins, outs, arrays, reference, host) for arrays, reference in variants]
        self._names = model.output_names
        self._host_label = "host memory" if host is None else host.label
        self._done: set[int] = set()  # items whose outputs have been downloaded since they were poisoned
        self._next = 0
        self._full = False
        up, down = (copy_streams.Stream(model.provider, memory, host) for _ in range(2))
        for buffers in self._buffers:
            buffers.uploaded, buffers.downloaded = up.arrival(), down.arrival()
        self.fence = self._buffers[0].prove()
        for buffers in self._buffers:
            buffers.adopt(self.fence)
        self.upload_fence: Fence | None = _stream_fence(self._buffers[0].uploaded)
        self.download_fence: Fence | None = self.upload_fence  # both are copies on a stream

    def describe(self) -> dict[str, Any]:
        """For the result file: ``depth``, ``items``, ``distinct`` and ``host_memory``; see `ortbench.result.Case`."""
        return {
            "depth": len(self._buffers),
            "items": len(self._items),
            "distinct": self._distinct,
            "host_memory": self._host_label,
        }

    # One item after the other

    def _round(self, _a: object, _b: object) -> None:
        try:
            if not self._full:
                self._fill()
            for buffers in self._buffers:
                self._step(buffers)
        except BaseException:
            self._abandon()
            raise

    def _fill(self) -> None:
        """Have all inputs on their way in and all outputs on their way out."""
        for number, buffers in enumerate(self._buffers, self._next):
            self._send_out(buffers)
            self._send_in(buffers, number)
        self._full = True

    def _step(self, buffers: Buffers) -> None:
        buffers.uploaded.wait()
        buffers.downloaded.wait()
        buffers.run()
        self._send_out(buffers)
        if len(self._buffers) == 1:
            buffers.downloaded.wait()
        self._send_in(buffers, self._next + len(self._buffers))
        self._next += 1

    def _send_in(self, buffers: Buffers, number: int) -> None:
        buffers.loaded = number % len(self._items)
        buffers.uploaded.copy(self._items[buffers.loaded].inputs, buffers.copied_in)

    def _send_out(self, buffers: Buffers) -> None:
        if buffers.holds is None:
            return
        item = self._items[buffers.holds]
        buffers.downloaded.copy(buffers.copied_out, item.outputs)
        if buffers.left:
            buffers.keep_left(item.arrays)
        self._done.add(buffers.holds)

    def rest(self) -> None:
        """Wait for all copies that are in flight."""
        for buffers in self._buffers:
            buffers.uploaded.wait()
            buffers.downloaded.wait()
        self._full = False

    def _abandon(self) -> None:
        """After a failure: let the copies in flight end before what they read and write is freed."""
        first = self._buffers[0]
        for arrival in (first.uploaded, first.downloaded):
            with contextlib.suppress(Exception):
                arrival.follow()
                arrival.wait_for(_PATIENCE_S)
        self._full = False

    # As a mode

    def phases(self) -> dict[str, TimedCall]:
        """``total`` is a round of as many items as there are buffers; the parts are those of one item, each fenced."""
        first = self._buffers[0]

        def upload(_a: object, _b: object) -> None:
            self._send_in(first, first.loaded)
            first.uploaded.wait()

        def inference(_a: object, _b: object) -> None:
            first.run()

        def download(_a: object, _b: object) -> None:
            self._send_out(first)
            first.downloaded.wait()

        return {
            TOTAL: (self._round, None, None),
            "upload": (upload, None, None),
            "inference": (inference, None, None),
            "download": (download, None, None),
        }

    def steps(self) -> list[Step]:
        """Those of one item on its own; in the pipeline, those of other items go on meanwhile."""
        first = self._buffers[0]
        there = f"fence ({STREAM})"
        found: list[Step] = [
            ("upload", lambda: self._send_in(first, first.loaded)),
            (there, first.uploaded.wait),
            ("run", first.launch),
        ]
        if first.wait is not None:
            found.append((f"fence ({self.fence.kind})", first.wait))
        return [*found, ("download", lambda: self._send_out(first)), (there, first.downloaded.wait)]

    def poison(self) -> None:
        """Overwrite all outputs, on the device and on the host."""
        self.rest()
        self._done.clear()
        for buffers in self._buffers:
            buffers.poison()
        for item in self._items:
            for array, reference in zip(item.arrays, item.reference, strict=True):
                array[...] = output_arrays.poison(reference)

    def outputs(self) -> list[Array]:
        """The outputs of every item that was downloaded since the last poison."""
        self.rest()
        return [array for number in sorted(self._done) for array in self._items[number].arrays]

    def expected(self) -> list[tuple[str, Array]]:
        """The name of each of `outputs`, and what it must be."""
        return [
            (f"{name} of item {number}", reference)
            for number in sorted(self._done)
            for name, reference in zip(self._names, self._items[number].reference, strict=True)
        ]


def _natives(slots: Sequence[Slot]) -> list[Any]:
    """The values of what is copied, as CopyTensors takes them."""
    return [slot.value._get_c_value() for slot in slots if not slot.stays]


def _variants(
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


def _item(
    ins: Sequence[Slot],
    outs: Sequence[Slot],
    arrays: dict[str, Array],
    reference: list[Array],
    host: EpDeviceMemory | None,
) -> Item:
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


def _stream_fence(arrival: copy_streams.Arrival) -> Fence:
    """How copies on a stream are waited for, with what that costs when nothing else is to be done."""
    times = []
    for _ in range(_COST_REPEATS):
        start = time.perf_counter_ns()
        arrival.follow()
        arrival.wait()
        times.append(time.perf_counter_ns() - start)
    how = "a stream keeps order, and a word copied behind the copies has arrived"
    return Fence(STREAM, arrival.wait, round(median(times)), how)
