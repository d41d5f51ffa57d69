"""Copies between host and device of many sizes, timed alone: no model and no session, only the EP's memories."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from ortbench.model.modes import DIRECTIONS
from ortbench.plan.target import target_from
from ortbench.worker.copies import Copies
from ortbench.worker.session import memory as session_memory
from ortbench.worker.session import placement, providers
from ortbench.worker.session.runtime import begin, versions
from ortbench.worker.state import State
from ortbench.worker.timing import Ranges, time_block, warm_up

if TYPE_CHECKING:
    from ortbench.model.protocol import CopiesProved, CopyEp, CopyEstimate, Held, Samples

COPY_WARMUP_NS = 20_000_000  # of one size and direction; there are dozens, and copies have no kernels to choose


def bandwidth_open(state: State, target: dict[str, Any], seed: int) -> CopyEp:
    begin()
    wanted = target_from(target)
    state.copies = Copies(wanted, seed)
    provider = state.copies.provider
    return {
        **providers.describe(wanted, provider),
        "device": placement.device_of(provider),
        "memory": session_memory.describe(provider),
        "kinds": state.copies.kinds,
        "runtime": versions(),
    }


def bandwidth_add(state: State, memory: str, size: int, free: int) -> Held:
    """Allocate copies of a size, as far as so many free bytes let it, and make the first ones: what is wrong with their data,
    or null."""
    return {"differs": state.copies.add(memory, size, free)}


def bandwidth_prove(state: State, memory: str) -> CopiesProved:
    """Prove what ends an upload from a kind of memory; warm the copies of all its sizes up."""
    sync = state.copies.prove(memory)
    estimates: list[CopyEstimate] = [
        {"direction": direction, "bytes": size, "ns": warm_up(pair.phases()[direction], None, COPY_WARMUP_NS)}
        for size, pair in state.copies.pairs(memory).items()
        for direction in DIRECTIONS
    ]
    return {"h2d": sync.to_dict(), "d2h": state.copies.d2h_sync.to_dict(), "estimates": estimates}


def bandwidth_block(state: State, direction: str, memory: str, size: int, n: int, drop: int) -> Samples:
    pair = state.copies.pairs(memory)[size]
    ranges = Ranges(pair)
    start = time.perf_counter_ns()
    samples = time_block(pair, ranges, direction, n, drop)
    return {"samples": samples, "start_ns": start, "spent_ns": time.perf_counter_ns() - start}


def bandwidth_finish(state: State, memory: str, size: int) -> Held:
    """After the last block: what is wrong with what the timed copies left, or null."""
    return {"differs": state.copies.pairs(memory)[size].leftovers()}
