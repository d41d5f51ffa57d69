"""CPU time of a load point: of its blocks, and of parts of one that goes on at one stretch. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from ortbench.analysis.point_blocks import interval_of
from ortbench.core.resampling import FEW, of_processes
from ortbench.core.stats import summarise
from ortbench.features.load.analysis.points import part_bounds
from ortbench.model.modes import CPU_CORES, CPU_TIME
from ortbench.model.result import Case

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_PART = 3  # requests in a part at least: neighbours that wait together take no more of it


class CpuPart(NamedTuple):
    """CPU time of all worker processes in a part of a load point, time by the clock, both ns, and how many inferences were in it."""

    cpu_ns: int
    wall_ns: int
    inferences: int


def cpu_marks(size: int) -> list[int]:
    """The first requests of the parts that CPU time is read at, of so many, and the end of the last one."""
    parts = part_bounds(size, _PART)
    return [*(begin for begin, _ in parts), *(end for _, end in parts[-1:])]


def cpu_parts(
    marks: Sequence[int], numbers: NDArray[np.int64], readings: Sequence[Sequence[Sequence[int]]]
) -> list[CpuPart]:
    """The parts of a stretch between `marks`, by the numbers of the requests that were served and the readings of each process: when
    it got to a mark, and its CPU time by then."""
    import numpy as np

    served = np.diff(np.searchsorted(numbers, marks)) if marks else ()
    whole = [(min(at for at, _ in of_all), sum(ns for _, ns in of_all)) for of_all in zip(*readings, strict=True)]
    return [
        CpuPart(cpu - before, at - began, int(n))
        for n, ((began, before), (at, cpu)) in zip(served, pairwise(whole), strict=True)
    ]


def put_cpu(case: Case, blocks: Mapping[int, CpuPart], parts: Sequence[CpuPart]) -> None:
    """Put the CPU time of a load point into its case, by inference and by time, from its blocks by round, with the spread between
    processes, else between the `parts` of its blocks."""
    import numpy as np

    whole = _together(blocks.values())
    if not whole.wall_ns or not whole.inferences:
        return
    several = [_together(blocks[number] for number in it) for it in of_processes(blocks, case.first_rounds)]
    of_each = several if len(several) >= FEW else parts
    counted = [it for it in of_each if it.inferences and it.wall_ns > 0] or [whole]
    each = np.array([round(it.cpu_ns / it.inferences) for it in counted])
    case.metrics[CPU_TIME] = replace(summarise(each), mean=round(whole.cpu_ns / whole.inferences))
    cores = whole.cpu_ns / whole.wall_ns
    case.put(CPU_CORES, cores, interval_of({at: it.cpu_ns / it.wall_ns for at, it in enumerate(counted)}, cores))


def _together(parts: Iterable[CpuPart]) -> CpuPart:
    return CpuPart(*map(sum, zip(CpuPart(0, 0, 0), *parts, strict=True)))
