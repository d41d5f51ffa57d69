"""Copies between host and device of many sizes, timed alone: no model and no session, only the EP's memories."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ortbench.core import units
from ortbench.core.errors import BenchmarkFailed, Unsupported
from ortbench.model.modes import D2H, DIRECTIONS, H2D, HOST_ACCESSIBLE, LATENCY, ORDINARY, RUN
from ortbench.plan.target import Target, target_from
from ortbench.worker import State, providers
from ortbench.worker.libraries import set_up_onnxruntime, versions
from ortbench.worker.memory import (
    Copy,
    EpDeviceMemory,
    Memory,
    _memory_readback,
    copy_tensors,
    describe_memory,
    device_memory,
    host_accessible_memory,
    is_only_host_accessible,
    missing_device_memory,
)
from ortbench.worker.session import provider_device
from ortbench.worker.sync import Sync, Work, prove
from ortbench.worker.tensors import TensorSpec, host_view
from ortbench.worker.timing import Ranges, TimedCall, time_block, warm_up

if TYPE_CHECKING:
    from ortbench.features.bandwidth.model import CopiesProved, CopyEp
    from ortbench.model.protocol import Held, Samples

# The larger of the two sizes that a sync is proved with, at most: in larger ones page faults of the host drown the rest.
_PROOF_BYTES = 256_000
COPY_WARMUP_NS = 20_000_000  # of one size and direction; there are dozens, and copies have no kernels to choose
_ATTEMPTS = 3  # at a proof: noise can only make it doubt
_PART = 1_000_000  # bytes that are compared at a time, so that a comparison takes no memory to speak of
_D2H_SYNC = Sync(RUN, None, 0, "the data are in host memory when the copy returns, which is checked")


class CopyPair:
    """Copies of one size between one kind of host memory and the device: a `Mode` whose phases are its two directions.

    Copies are from and to the EP's HOST_ACCESSIBLE memory, or without it (`shared`) ordinary memory, touched beforehand.
    Raises whatever ORT raises where there is no memory left.
    """

    name = "bandwidth"
    per_call = 1
    call_name = LATENCY
    part_names: tuple[str, ...] = ()

    def __init__(self, size: int, memory: Memory, shared: EpDeviceMemory | None, seed: int) -> None:
        self.bytes_in = self.bytes_out = size
        self.h2d_sync: Sync | None = None
        spec = TensorSpec("copy", "tensor(uint8)", (size,))
        data = np.random.default_rng(seed).integers(0, 256, size, dtype=np.uint8)
        value = memory.allocate(spec, (size,))
        if shared is None:
            self._source, self._target = data, np.invert(data)
            self.upload = memory.upload([spec], [self._source], [value])
            self.download = memory.download([spec], [value], [self._target])
            self._poison = memory.upload([spec], [self._target], [value])
        else:
            source, target = shared.allocate(spec, (size,)), shared.allocate(spec, (size,))
            self._source, self._target = host_view(spec, source), host_view(spec, target)
            self._source[...] = data
            np.invert(data, out=self._target)
            self.upload, self.download = copy_tensors([source], [value]), copy_tensors([value], [target])
            self._poison = copy_tensors([target], [value])

    def phases(self) -> dict[str, TimedCall]:
        assert self.h2d_sync is not None
        upload, wait, download = self.upload, self.h2d_sync.wait, self.download

        def upload_and_wait(_a: Any, _b: Any) -> None:
            upload()
            if wait is not None:
                wait()

        return {H2D: (upload_and_wait, None, None), D2H: (lambda _a, _b: download(), None, None)}

    def round_trip(self) -> str | None:
        """Copy up and down over memory in which every byte was made wrong; what is wrong the moment the download returns, in words, or
        None."""
        np.invert(self._source, out=self._target)
        self._poison()
        self.upload()
        self.download()
        return self._difference()

    def leftovers(self) -> str | None:
        """What is wrong with what the copies so far left in host memory and on the device, in words, or None."""
        wrong = self._difference()
        if wrong is None:
            np.invert(self._source, out=self._target)
            self.download()
            wrong = self._difference()
        return wrong

    def _difference(self) -> str | None:
        got, data = self._target, self._source
        # A download that is still under way would be done before all of a large array is compared: its ends come first.
        ends = [0, data.size // 2, -1]
        in_time = np.array_equal(got[ends], data[ends])
        parts = [slice(start, start + _PART) for start in range(0, data.size, _PART)]
        wrong = [(part.start, np.flatnonzero(got[part] != data[part])) for part in parts]
        count = sum(wrong_at.size for _, wrong_at in wrong)
        if count:
            first = next(start + int(wrong_at[0]) for start, wrong_at in wrong if wrong_at.size)
            return f"{count} byte(s) differ after a copy to the device and back, first at {first}"
        return None if in_time else "a device to host copy returned before its data were there"


class Copies:
    """The copies of one EP's device, by kind of host memory and size. `Unsupported`: the EP has no device memory to copy to."""

    def __init__(self, target: Target, seed: int) -> None:
        self.provider = providers.find(target)
        refusal = f"bandwidth is unsupported: {self.provider.name}"
        if self.provider.computes_on_host:
            raise Unsupported(
                f"{refusal} computes in host memory, there is nothing to copy over; choose one with a device: --ep NAME ('ortbench devices' lists them)"
            )
        memory = device_memory(self.provider)
        if memory is None:
            raise Unsupported(f"{refusal} offers {missing_device_memory(self.provider)} on this device")
        self._memory = memory
        # Where the device has no other memory, that is the device's side.
        only = is_only_host_accessible(self.provider)
        self._shared = None if only else host_accessible_memory(self.provider)
        self.kinds = [ORDINARY] if self._shared is None else [ORDINARY, HOST_ACCESSIBLE]
        self._seed = seed
        self._pairs: dict[tuple[str, int], CopyPair] = {}

    def pairs(self, kind: str) -> dict[int, CopyPair]:
        """The copies of a kind of memory by size, of those that were added and are right."""
        return {size: pair for (memory, size), pair in self._pairs.items() if memory == kind}

    def add(self, kind: str, size: int, free: int) -> str | None:
        """Allocate a size; what is wrong with its data after a first copy to the device and back, in words, or None.

        The first copies belong to the allocation: some EPs find out only then that there is no memory (WebGPU does). Raises
        `BenchmarkFailed`: it would take too much of the host's memory; and whatever ORT or numpy raises where none is left.
        """
        if 2 * size > free / 2:
            raise BenchmarkFailed(f"two arrays of it would take more than half of the {units.size(free)} that are free")
        pair = CopyPair(size, self._memory, self._shared if kind == HOST_ACCESSIBLE else None, self._seed)
        wrong = pair.round_trip()
        if wrong is None:
            self._pairs[kind, size] = pair
        return wrong

    def prove(self, kind: str) -> Sync:
        """Find out what ends an upload from a kind of memory and have it end all of them: the sync for all its sizes.

        It is proved with the smallest size, where a driver may only take the data along, and with a large one; if one of
        them needs a readback, all get it, so that one curve has one sync.
        """
        own, read = self.pairs(kind), _memory_readback(self._memory)
        large = max([size for size in own if size <= _PROOF_BYTES], default=min(own))
        proofs = [_proof(own[size], read) for size in sorted({min(own), large})]
        sync = next((proof for proof in proofs if proof.wait is not None), proofs[-1])
        for pair in own.values():
            # Where only reading everything back waits, each size has its own readback.
            pair.h2d_sync = sync if sync.wait in (None, read) else replace(sync, wait=pair.download)
        return sync


def _proof(pair: CopyPair, read: Copy | None) -> Sync:
    """The cheapest sync of an upload that one of several attempts proves."""
    proofs = []
    for _ in range(_ATTEMPTS):
        proofs.append(prove(Work(pair.upload, [(RUN, None)], pair.download, read)))
        if proofs[-1].wait is None:
            break
    return min(proofs, key=lambda proof: (proof.wait is not None, proof.wait is not read))


def bandwidth_open(state: State, target: dict[str, Any], seed: int) -> CopyEp:
    set_up_onnxruntime()
    wanted = target_from(target)
    copies = state.others[Copies] = Copies(wanted, seed)
    provider = copies.provider
    return {
        **providers.describe_ep(wanted, provider),
        "device": provider_device(provider),
        "memory": describe_memory(provider),
        "kinds": copies.kinds,
        "runtime": versions(),
    }


def bandwidth_add(state: State, memory: str, size: int, free: int) -> Held:
    """Allocate copies of a size, as far as so many free bytes let it: what is wrong with the data of the first ones, or null."""
    return {"differs": state.others[Copies].add(memory, size, free)}


def bandwidth_prove(state: State, memory: str) -> CopiesProved:
    """Prove what ends an upload from a kind of memory; warm the copies of all its sizes up."""
    copies = state.others[Copies]
    sync = copies.prove(memory)
    estimates = [
        (direction, size, warm_up(pair.phases()[direction], None, COPY_WARMUP_NS))
        for size, pair in copies.pairs(memory).items()
        for direction in DIRECTIONS
    ]
    return {"h2d": sync.to_dict(), "d2h": _D2H_SYNC.to_dict(), "estimates": estimates}


def bandwidth_block(state: State, direction: str, memory: str, size: int, n: int, drop: int) -> Samples:
    pair = state.others[Copies].pairs(memory)[size]
    ranges, start = Ranges(pair), time.perf_counter_ns()
    samples = time_block(pair, ranges, direction, n, drop)
    return {"samples": samples, "start_ns": start, "spent_ns": time.perf_counter_ns() - start}


def bandwidth_finish(state: State, memory: str, size: int) -> Held:
    """After the last block: what is wrong with what the timed copies left, or null."""
    return {"differs": state.others[Copies].pairs(memory)[size].leftovers()}
