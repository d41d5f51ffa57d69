"""When the callers of a load did what, for a timeline. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ortbench.analysis.loads.levels import At
from ortbench.analysis.loads.load_levels import Burst, Taken
from ortbench.analysis.loads.load_requests import Requests
from ortbench.model.timeline import CallerRuns, LoadBlock

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Moments = NDArray[np.int64]


def load_blocks(taken: Sequence[Taken]) -> list[LoadBlock]:
    """What was taken of levels, in the order of time; times are on the clock of `time.perf_counter_ns`."""
    found = [block for it in taken for block in _blocks(it)]
    return sorted(found, key=lambda it: it.start_ns)


def _blocks(taken: Taken) -> Iterator[LoadBlock]:
    name = f"{taken.mode} {At(*taken.key).phrase}"
    for burst in taken.bursts:
        yield _of_burst(taken.mode, name, burst)
    for stretch in taken.stretches:
        yield _of_stretch(taken.mode, name, stretch)


def _of_burst(mode: str, name: str, burst: Burst) -> LoadBlock:
    import numpy as np

    runs = [
        CallerRuns(starts, ends, np.arange(starts.size)) for starts, ends in zip(burst.starts, burst.ends, strict=True)
    ]
    return LoadBlock(mode, name, burst.round, burst.begin_ns, burst.end_ns - burst.begin_ns, runs)


def _of_stretch(mode: str, name: str, requests: Requests) -> LoadBlock:
    import numpy as np

    begin, served = requests.begin_ns, requests.start.size
    numbers = np.arange(served)
    caller = np.zeros(served, np.int64) if requests.caller is None else requests.caller
    runs = []
    for number in range(requests.callers):
        own = numbers[caller == number]
        runs.append(CallerRuns(requests.start[own] + begin, requests.end[own] + begin, own))
    start = begin + requests.from_ns
    last = max(int(requests.end.max(initial=0)), int(requests.due.max(initial=0)))
    return LoadBlock(mode, name, requests.round, start, begin + last - start, runs, requests.due + begin)
