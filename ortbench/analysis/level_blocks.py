"""The parts of a level, from which follows how well its figures are known: its blocks, or stretches of an open loop. Pure."""

from __future__ import annotations

from itertools import pairwise

from ortbench.analysis.load_levels import Burst, Taken, counted, latency
from ortbench.analysis.load_requests import Requests
from ortbench.schema import LevelBlock

_PARTS = 8  # of an open loop, at most
_REQUESTS = 20  # of each of them, at least


def blocks_of(taken: Taken) -> list[LevelBlock]:
    """The parts of what was taken of a level.

    Those of a closed loop are its blocks, and so are the stretches of an open loop where there are several. One that goes on at
    one stretch, in which neighbours queue together, is cut into as many parts of consecutive requests, `_PARTS` at most, as
    leave `_REQUESTS` in each.
    """
    if len(taken.stretches) == 1:
        return _parts(taken.stretches[0])
    found = [stretch_block(it) for it in taken.stretches] or [burst_block(it) for it in taken.bursts]
    return [it for it in found if it is not None]


def burst_block(burst: Burst) -> LevelBlock | None:
    """The figures of a block of a closed loop; None where nothing counts of it."""
    import numpy as np

    part = counted(burst)
    times = np.concatenate(part.latencies) if part.latencies else np.empty(0, np.int64)
    if part.runs_per_s is None or not times.size:
        return None
    return {
        "round": burst.round,
        "n": int(times.size),
        "runs_per_s": part.runs_per_s,
        "latency_ns": latency(times),
    }


def stretch_block(requests: Requests) -> LevelBlock | None:
    """The figures of a whole stretch of an open loop; None where nothing was served of it."""
    served, times = requests.start.size, requests.latencies
    if not served:
        return None
    return {
        "round": requests.round,
        "n": int(times.size),
        "runs_per_s": served * 1e9 / max(requests.lasted_ns, 1),
        "latency_ns": latency(times),
    }


def _parts(requests: Requests) -> list[LevelBlock]:
    times = requests.latencies
    count = min(_PARTS, int(times.size) // _REQUESTS)
    if count < 1:
        return []
    ends = [round(times.size * number / count) for number in range(count + 1)]
    found: list[LevelBlock] = []
    for number, (begin, end) in enumerate(pairwise(ends)):
        lasted = float(requests.due[end - 1] - (requests.due[begin - 1] if begin else 0))
        per_s = (end - begin) * 1e9 / max(lasted, 1.0)
        found.append({"round": number, "n": end - begin, "runs_per_s": per_s, "latency_ns": latency(times[begin:end])})
    return found
