"""The parts of a level, from which follows how well its figures are known: its blocks, or stretches of an open loop. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from ortbench.analysis.load_levels import Burst, Requests, Taken, counted, latency
from ortbench.schema import LevelBlock

_PARTS = 8  # of an open loop, at most
_REQUESTS = 20  # of each of them, at least


def blocks_of(taken: Taken) -> list[LevelBlock]:
    """The parts of what was taken of a level.

    Those of a closed loop are its blocks. An open loop goes on at one stretch, in which neighbours queue together: it is cut
    into as many parts of consecutive requests, `_PARTS` at most, as leave `_REQUESTS` in each.
    """
    return _closed(taken.bursts) if taken.requests is None else _open(taken.requests)


def _closed(bursts: Sequence[Burst]) -> list[LevelBlock]:
    import numpy as np

    found: list[LevelBlock] = []
    for burst in bursts:
        part = counted(burst)
        times = np.concatenate(part.latencies) if part.latencies else np.empty(0, np.int64)
        if part.runs_per_s is not None and times.size:
            found.append(
                {
                    "round": burst.round,
                    "n": int(times.size),
                    "runs_per_s": part.runs_per_s,
                    "latency_ns": latency(times),
                }
            )
    return found


def _open(requests: Requests) -> list[LevelBlock]:
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
