"""Mode `pipelined`: several inferences in flight, their copies behind the inference of another one.

There are as many pairs of device buffers, one for the inputs and one for the outputs of an item, as the pipeline is
deep, and two streams of their own, one for uploads and one for downloads. The host hands out the work, item by item:

1. wait until the item's inputs have arrived, and until the outputs that its buffer held before have left;
2. run, and apply the proved sync: meanwhile the inputs of the next items arrive and the outputs of the last ones leave;
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
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy import median

from ortbench.core.errors import Unsupported
from ortbench.model.modes import DEPTH, LATENCY, PHASE_NAMES, PIPELINED, RUN, SYNCHRONIZE
from ortbench.worker import proofs, streams
from ortbench.worker.bound import BoundMode, arrays_equal, have_same_form
from ortbench.worker.first_run import Data, try_run
from ortbench.worker.memory import (
    BoundTensor,
    EpDeviceMemory,
    device_memory,
    host_accessible_memory,
    missing_device_memory,
    missing_shared_memory,
)
from ortbench.worker.mode_base import SingleMode, Slot, Step, call_and_wait, copied_bytes, group_by_memory
from ortbench.worker.providers import Provider
from ortbench.worker.session import Model
from ortbench.worker.sync import STREAM, Sync
from ortbench.worker.tensors import Array, TensorSpec, host_value, host_view, roll
from ortbench.worker.timing import SplitCall, TimedCall, time_call

if TYPE_CHECKING:
    from typing import Self

    from ortbench.model.schema import Depth


class Item(NamedTuple):
    """One tile or batch on the host."""

    # native OrtValues in host memory, of those inputs and outputs that are copied
    inputs: list[Any]
    outputs: list[Any]
    arrays: list[Array]  # all outputs as arrays, in the model's order
    reference: list[Array]  # what they must be
    owners: list[Any]  # what keeps the values alive


def make_variants(
    model: Model, data: Data, kept: set[str], count: int
) -> tuple[list[tuple[dict[str, Array], list[Array]]], int]:
    """Inputs and reference outputs of `count` items, and how many of them have inputs of their own."""
    first = data.arrays, data.reference
    found = [first]
    for number in range(1, count):
        arrays = {name: array if name in kept else roll(array, number) for name, array in data.arrays.items()}
        reference = try_run(model, arrays)
        is_same = all(arrays_equal(array, data.arrays[name]) for name, array in arrays.items())
        if reference is None or not have_same_form(reference, data.reference) or is_same:
            found.append(first)
        else:
            found.append((arrays, reference))
    return found, 1 + sum(item is not first for item in found)


def make_item(
    ins: Sequence[Slot],
    outs: Sequence[Slot],
    arrays: dict[str, Array],
    reference: list[Array],
    host: EpDeviceMemory | None,
) -> Item:
    """An item with inputs in host memory, and room for its outputs beside them."""
    inputs = [_make_host_value(slot.spec, arrays[slot.spec.name], host) for slot in ins if not slot.is_zero_copy]
    outputs = [_make_host_value(slot.spec, wanted, host) for slot, wanted in zip(outs, reference, strict=True)]
    moved = [value for slot, (value, _) in zip(outs, outputs, strict=True) if not slot.is_zero_copy]
    return Item(
        [value._get_c_value() for value, _ in inputs],
        [value._get_c_value() for value in moved],
        [array for _, array in outputs],
        reference,
        [inputs, outputs],
    )


def _make_host_value(spec: TensorSpec, array: Array, host: EpDeviceMemory | None) -> tuple[Any, Array]:
    """A value in host memory with a copy of an array, and the array over that memory."""
    if host is None:
        own = np.array(array, order="C")
        return host_value(spec, own), own
    value = host.allocate(spec, array.shape)
    view = host_view(spec, value)
    np.copyto(view, array)
    return value, view


class Buffers(BoundMode):
    """A pair of device buffers, inputs and outputs, bound once."""

    name = PIPELINED
    # when the last of each has arrived
    uploaded: streams.Arrival
    downloaded: streams.Arrival

    def _prepare(self) -> None:
        self.input_item = 0  # the number of the item whose inputs it has, or which are on their way
        self.output_item: int | None = 0  # that of the item whose outputs it has; None after they were poisoned
        self.wait: Callable[[], object] | None = None  # ends its run; None where the run itself waits
        self.copied_in, self.copied_out = _natives(self._ins), _natives(self._outs)
        self.host_outputs = [number for number, slot in enumerate(self._outs) if slot.is_zero_copy]
        self._upload()
        self._launch()
        self._download()

    def prove(self) -> Sync:
        return self._prove_run()

    def adopt_sync(self, sync: Sync) -> None:
        """Use a sync that was proved with other buffers of the same session."""
        own = {RUN: None, SYNCHRONIZE: self._binding.synchronize_outputs}
        self.wait = own.get(sync.kind, sync.wait)

    def launch(self) -> None:
        self._launch()
        self.output_item = self.input_item

    def run(self) -> None:
        self.launch()
        if self.wait is not None:
            self.wait()

    def poison(self) -> None:
        super().poison()
        self.output_item = None

    @property
    def slots(self) -> tuple[list[Slot], list[Slot]]:
        return self._ins, self._outs

    def copy_host_outputs(self, arrays: Sequence[Array]) -> None:
        """Copy the outputs that the session left in host memory; the next run would overwrite them."""
        for number in self.host_outputs:
            np.copyto(arrays[number], self._outs[number].array)


def _natives(slots: Sequence[Slot]) -> list[Any]:
    """The values of what is copied, as CopyTensors takes them."""
    return [slot.value._get_c_value() for slot in slots if not slot.is_zero_copy]


_COST_REPEATS = 7
_PATIENCE_S = 5.0  # for what is in flight when something has failed


class PipelinedMode(SingleMode):
    """Uploads and downloads behind the inference of another item, through as many buffers as the pipeline is deep."""

    name = PIPELINED
    trials: tuple[int, ...] = (1, 3)  # one round from a standing start, and enough of them for every item to come again

    def __init__(
        self, model: Model, data: Data, memory: EpDeviceMemory, host: EpDeviceMemory | None, depth: int
    ) -> None:
        self.per_call = depth
        self._buffers = [Buffers(model, data) for _ in range(depth)]
        ins, outs = self._buffers[0].slots
        if len(group_by_memory((*ins, *outs))) > 1:
            raise Unsupported("inputs and outputs are in memories of several EPs, which no stream copies between")
        self.bytes_in, self.bytes_out = copied_bytes(ins), copied_bytes(outs)
        if not self.bytes_in + self.bytes_out:
            raise Unsupported("all inputs and outputs of the session are in host memory: there are no copies to hide")
        # One more than there are buffers, so that each of them gets other data in every round.
        uncopied = {slot.spec.name for slot in ins if slot.is_zero_copy}
        variants, self._distinct = make_variants(model, data, uncopied, depth + 1)
        self._items = [make_item(ins, outs, arrays, reference, host) for arrays, reference in variants]
        self._names = model.output_names
        self._host_label = "host memory" if host is None else host.label
        self._done: set[int] = set()  # items whose outputs have been downloaded since they were poisoned
        self._next = 0
        self._full = False
        up, down = (streams.Stream(model.provider, memory, host) for _ in range(2))
        for buffers in self._buffers:
            buffers.uploaded, buffers.downloaded = up.arrival(), down.arrival()
        self.sync = self._buffers[0].prove()
        for buffers in self._buffers:
            buffers.adopt_sync(self.sync)
        stream_sync = _stream_sync(self._buffers[0].uploaded)  # both are copies on a stream
        self.h2d_sync = stream_sync if self.bytes_in else None
        self.d2h_sync = stream_sync if self.bytes_out else None

    def details(self) -> dict[str, Any]:
        depth: Depth = {
            "depth": len(self._buffers),
            "items": len(self._items),
            "distinct": self._distinct,
            "host_memory": self._host_label,
        }
        return {"pipeline": depth}

    @classmethod
    def missing_feature(cls, provider: Provider) -> str | None:
        if provider.computes_on_host:
            return "no copies to a device that inference could overlap"
        if not isinstance(device_memory(provider), EpDeviceMemory):
            return missing_device_memory(provider) or "no device memory"
        missing_shared_memory(provider)  # that there is none is fine; that it does not work is an error
        return None if streams.stream_problem(provider) is None else "no streams"

    @classmethod
    def refusal(cls, provider: Provider) -> str | None:
        if provider.computes_on_host:
            return f"{provider.name} computes in host memory, so there are no copies to hide behind inference"
        plain = super().refusal(provider)
        return None if plain is None else f"{plain} ({streams.stream_problem(provider)})"

    @classmethod
    def make(cls, model: Model, data: Data, depth: int = DEPTH) -> Self:
        memory = device_memory(model.provider)
        assert isinstance(memory, EpDeviceMemory)
        return cls(model, data, memory, host_accessible_memory(model.provider), depth)

    def _run_round(self, _a: object, _b: object) -> None:
        try:
            if not self._full:
                self._fill()
            for buffers in self._buffers:
                self._run_item(buffers)
        except BaseException:
            # The copies in flight end before what they read and write is freed.
            for arrival in (self._buffers[0].uploaded, self._buffers[0].downloaded):
                with contextlib.suppress(Exception):
                    arrival.follow()
                    arrival.wait_for(_PATIENCE_S)
            self._full = False
            raise

    def _fill(self) -> None:
        """Have all inputs on their way in and all outputs on their way out."""
        for number, buffers in enumerate(self._buffers, self._next):
            self._send_out(buffers)
            self._send_in(buffers, number)
        self._full = True

    def _run_item(self, buffers: Buffers) -> None:
        buffers.uploaded.wait()
        buffers.downloaded.wait()
        buffers.run()
        self._send_out(buffers)
        if len(self._buffers) == 1:
            buffers.downloaded.wait()
        self._send_in(buffers, self._next + len(self._buffers))
        self._next += 1

    def _send_in(self, buffers: Buffers, number: int) -> None:
        buffers.input_item = number % len(self._items)
        buffers.uploaded.copy(self._items[buffers.input_item].inputs, buffers.copied_in)

    def _send_out(self, buffers: Buffers) -> None:
        if buffers.output_item is None:
            return
        item = self._items[buffers.output_item]
        buffers.downloaded.copy(buffers.copied_out, item.outputs)
        if buffers.host_outputs:
            buffers.copy_host_outputs(item.arrays)
        self._done.add(buffers.output_item)

    def wait_idle(self) -> None:
        for buffers in self._buffers:
            buffers.uploaded.wait()
            buffers.downloaded.wait()
        self._full = False

    def phases(self) -> dict[str, TimedCall]:
        """``latency`` is a round of as many items as there are buffers; the parts are those of one item, each synced."""
        first = self._buffers[0]

        def upload(_a: object, _b: object) -> None:
            self._send_in(first, first.input_item)
            first.uploaded.wait()

        def inference(_a: object, _b: object) -> None:
            first.run()

        def download(_a: object, _b: object) -> None:
            self._send_out(first)
            first.downloaded.wait()

        found: dict[str, TimedCall] = {LATENCY: (self._run_round, None, None), "inference": (inference, None, None)}
        if self.bytes_in:
            found["h2d"] = (upload, None, None)
        if self.bytes_out:
            found["d2h"] = (download, None, None)
        return {phase: found[phase] for phase in PHASE_NAMES if phase in found}

    def enqueues(self) -> dict[str, SplitCall]:
        first = self._buffers[0]
        return {} if first.wait is None else {"inference": ((lambda _a, _b: first.launch(), None, None), first.wait)}

    def steps(self) -> list[Step]:
        """Those of one item on its own; in the pipeline, those of other items go on meanwhile."""
        first = self._buffers[0]
        found: list[Step] = [("run", first.launch)]
        if first.wait is not None:
            found.append((f"sync ({self.sync.kind})", first.wait))
        if self.h2d_sync is not None:
            upload: Step = ("h2d", lambda: self._send_in(first, first.input_item))
            found = [upload, (f"sync ({STREAM})", first.uploaded.wait), *found]
        if self.d2h_sync is not None:
            found += [("d2h", lambda: self._send_out(first)), (f"sync ({STREAM})", first.downloaded.wait)]
        return found

    def bound_tensors(self) -> tuple[list[BoundTensor], list[BoundTensor]]:
        return self._buffers[0].bound_tensors()

    def poison(self) -> None:
        self.wait_idle()
        self._done.clear()
        for buffers in self._buffers:
            buffers.poison()
        for item in self._items:
            for array, reference in zip(item.arrays, item.reference, strict=True):
                array[...] = proofs.poison(reference)

    def outputs(self) -> list[Array]:
        self.wait_idle()
        return [array for number in sorted(self._done) for array in self._items[number].arrays]

    def expected_outputs(self) -> list[tuple[str, Array]]:
        return [
            (f"{name} of item {number}", reference)
            for number in sorted(self._done)
            for name, reference in zip(self._names, self._items[number].reference, strict=True)
        ]

    @property
    def source(self) -> str:
        return proofs.PLAIN


def _stream_sync(arrival: streams.Arrival) -> Sync:
    """How copies on a stream are waited for, with what that costs when nothing else is to be done."""
    times = [time_call(call_and_wait(arrival.follow, arrival.wait)) for _ in range(_COST_REPEATS)]
    how = "a stream keeps order, and a word copied behind the copies has arrived"
    return Sync(STREAM, arrival.wait, round(median(times)), how)
