"""The figures of blocks that cases at points have, and where a figure lies by their spread. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean, stdev

from ortbench.analysis.comparing.verdict import Interval
from ortbench.core.stats import FEW, Stats, Value, of_processes, t_quantile
from ortbench.model.modes import CPU_CORES, CPU_TIME, LATENCY, THROUGHPUT, UTILISATION
from ortbench.model.result import Case
from ortbench.model.schema import LoadBlock

P50 = "p50"  # what the median is called too
# That may be compared; the largest of all says nothing that comes again.
STATISTICS = (THROUGHPUT, "median", "p95", "p99", "mean")
CPU = (CPU_TIME, CPU_CORES)  # of whose metrics blocks have a figure each
FEWEST_BLOCKS = 3  # of which an interval is made
_FEWEST_REQUESTS = 10  # of which it is said that a queue grows
FULL = 0.98  # from which busy share of the clients on a queue grows as long as requests come


def is_full(case: Case) -> bool:
    """Whether the clients of an open loop were busy all the time: its waits grow with how long it lasts. Of a few requests nobody knows."""
    latency = case.stats(LATENCY)
    return latency is not None and latency.n >= _FEWEST_REQUESTS and (case.value(UTILISATION) or 0.0) >= FULL


def rate_of(case: Case) -> float:
    found = case.value(THROUGHPUT)
    assert found is not None
    return found


def latency_of(case: Case) -> Stats:
    found = case.stats(LATENCY)
    assert found is not None
    return found


def figure(case: Case, stat: str) -> float:
    """One of `STATISTICS`, or ``max``, of a case that was measured: inferences/s, or ns."""
    return rate_of(case) if stat == THROUGHPUT else by_name(latency_of(case), stat)


def by_name(latency: Stats, stat: str) -> int:
    """A statistic of a latency by its name or `P50`, ns."""
    found: int = getattr(latency, "median" if stat == P50 else stat)
    return found


def figures_of(block: LoadBlock) -> dict[str, float]:
    """The figures of a block: those of `CPU` and throughput by their metric, those of latency by their statistic."""
    cpu = {CPU_TIME: block.get("cpu_time"), CPU_CORES: block.get("cpu_cores")}
    return {
        THROUGHPUT: block["throughput"],
        **block["latency"],
        **{key: it for key, it in cpu.items() if it is not None},
    }


def block_figures(case: Case, stat: str) -> dict[int, float]:
    """One of `STATISTICS`, or of `CPU`, of each block of a load point, by its round; none of others, of which blocks know nothing that
    comes again."""
    wanted = "median" if stat == P50 else stat
    known = [(it["round"], figures_of(it)) for it in case.load_blocks or () if wanted in (*STATISTICS, *CPU)]
    return {number: figures[wanted] for number, figures in known if wanted in figures}


INFERENCES = "inferences/s"  # what the throughput of a load point counts


def interval(case: Case, stat: str) -> Interval | None:
    """Where a figure of a load point lies with 95 %: inferences/s and CPU cores as recorded, CPU time by the spread that was recorded,
    latencies by the spread of the blocks."""
    known = case.metrics.get(stat)
    if stat in CPU:
        return known.ci95 if isinstance(known, Value) else None if known is None else _of_mean(known)
    if stat == THROUGHPUT and isinstance(known, Value) and known.ci95 is not None:
        return known.ci95
    return interval_of(block_figures(case, stat), figure(case, stat), case.first_rounds)


def interval_of(blocks: Mapping[int, float], middle: float, processes: Sequence[int] = ()) -> Interval | None:
    """Where a figure lies with 95 % by the spread of those of its blocks, by round, or of several processes, of which this has the first
    rounds.

    Of these the logarithms are averaged (Student's t), so that no end of an interval lies below zero. None with fewer than
    `FEWEST_BLOCKS` of them.
    """
    logs = _logarithms(blocks, processes)
    if len(logs) < FEWEST_BLOCKS:
        return None
    half = _half(logs)
    return middle * math.exp(-half), middle * math.exp(half)


def _of_mean(of: Stats) -> Interval | None:
    """Where a mean above 0 lies with 95 %, as of `interval_of`; None of too few samples."""
    if of.n < FEWEST_BLOCKS or of.mean <= 0:
        return None
    half = t_quantile(of.n - 1) * of.stdev / of.mean / math.sqrt(of.n)
    return of.mean * math.exp(-half), of.mean * math.exp(half)


def _logarithms(blocks: Mapping[int, float], processes: Sequence[int]) -> list[float]:
    """Those of the figures of blocks; of several processes each is one observation, the mean of its blocks'."""
    logs = {number: math.log(max(value, 1e-9)) for number, value in blocks.items()}
    own = of_processes(logs, processes)
    return [fmean(logs[number] for number in it) for it in own] if len(own) >= FEW else [*logs.values()]


def _half(logs: Sequence[float]) -> float:
    """Half of the 95 % interval of a mean, by Student's t."""
    return t_quantile(len(logs) - 1) * stdev(logs) / math.sqrt(len(logs))


def paired_reach(ratios: Mapping[int, float], processes: Sequence[int] = ()) -> float | None:
    """How many times as great or small the ratio of two load points may be, by the ratios of their blocks of the same rounds, as
    `interval_of`."""
    logs = _logarithms(ratios, processes)
    return None if len(logs) < FEWEST_BLOCKS else math.exp(_half(logs))
