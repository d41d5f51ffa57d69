"""Load points: from the blocks that were taken of one to the figures of its case, and of each shape that it mixes; and the file of them."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean, median_high
from typing import TYPE_CHECKING

from ortbench.analysis.load_points import by_name, interval_of, is_full, latency_bounds, latency_of, paired_reach
from ortbench.core import files
from ortbench.core.stats import FEW, Stats, by_processes, of_processes, quantile, student, summarise, summarise_blocks
from ortbench.features.load.analysis import RATE, LoadPoint, meets
from ortbench.features.load.analysis.blocks import (
    LATE_NS,
    Block,
    ClosedLoopBlock,
    CpuPart,
    OpenLoopBlock,
    cpu_of,
    figures_of_block,
    join_cpu,
    part_bounds,
)
from ortbench.features.load.analysis.queueing import Found, bounds_across, cycle_interval, fairness, rate_interval
from ortbench.features.load.model import KIND, SloRate
from ortbench.model import protocol
from ortbench.model.metric_names import SAMPLES_NEEDED
from ortbench.model.modes import (
    ALL_SHAPES,
    APART,
    CPU_CORES,
    CPU_TIME,
    FAIRNESS,
    GENERATOR_LAG,
    GIL_WAIT,
    LATE_SHARE,
    LATENCY,
    MIXED,
    MIXING,
    QUEUE_DELAY,
    SERVICE_TIME,
    SM_CLOCK,
    SWITCHING_COST,
    THROUGHPUT,
    UTILISATION,
)
from ortbench.model.result import FAILED, NOT_MEASURED, Case
from ortbench.model.schema import LatencyBounds

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Moments = NDArray[np.int64]
    Latencies = Mapping[int, Moments]  # of blocks, ns, by round
    Arrays = dict[str, NDArray[np.int64]]


GROUPED = "grouped"


@dataclass
class LoadSamples:
    """What was taken of a load point so far; `processes`: the first round of each process of a load that is measured in several, so that
    an SLO is met only where `FEW` of them or more say so."""

    mode: str
    point: LoadPoint
    blocks: list[Block] = field(default_factory=list)
    failed: str | None = None  # why it failed, or None
    outputs_match: bool | None = None  # None where they were not compared
    clock_mhz: list[int] = field(default_factory=list)  # readings while it ran
    slo: Mapping[str, int] | None = None  # what was asked for, ns by statistic
    shapes: Sequence[str] = ()  # that are mixed, where there are several
    # of each shape alone, by its name; or by `GROUPED` of the same requests one shape after the other
    apart: Mapping[str, LoadSamples] = field(default_factory=dict)
    processes: Sequence[int] = ()
    every: int = 1  # of how many blocks of a closed loop one is kept

    def samples_of(self, shape: int | None) -> LoadSamples:
        """What is taken of one shape alone; without one of all together."""
        return self if shape is None else [*self.apart.values()][shape]

    @property
    def is_open(self) -> bool:
        return self.point.kind == RATE

    @property
    def closed_blocks(self) -> list[ClosedLoopBlock]:
        return [it for it in self.blocks if isinstance(it, ClosedLoopBlock)]

    @property
    def open_blocks(self) -> list[OpenLoopBlock]:
        return [it for it in self.blocks if isinstance(it, OpenLoopBlock)]

    @property
    def is_in_parts(self) -> bool:
        """Whether it is one block of an open loop, of which parts are taken for blocks."""
        return self.is_open and len(self.blocks) == 1

    @property
    def is_across(self) -> bool:
        """Whether it was measured in as many processes as an interval takes, where there are several."""
        return not self.processes or len(of_processes([it.round for it in self.blocks], self.processes)) >= FEW


def case_of(taken: LoadSamples) -> Case:
    """The case of a load point, with its figures as far as there are any."""
    blocks = [figures for it in taken.blocks if (figures := figures_of_block(it)) is not None]
    if taken.is_in_parts:
        blocks = taken.open_blocks[0].figures_of_parts()
    case = Case(taken.mode, point=dict([taken.point]), load_blocks=blocks)
    if len(taken.processes) > 1 and not taken.is_in_parts:  # whose parts are no rounds
        case.processes = [*taken.processes]
    if taken.failed is not None:
        case.status, case.reason = FAILED, taken.failed
    if taken.outputs_match is not None:
        case.checks["outputs"] = {"verdict": "passed" if taken.outputs_match else "failed"}
    put_clock(case, taken.clock_mhz)
    if not taken.blocks and taken.failed is None:
        case.status, case.reason = NOT_MEASURED, "the load was ended before its turn came"
    _put_closed(case, taken.closed_blocks)
    _put_open(case, [it for it in taken.open_blocks if it.start.size])
    if case.value(THROUGHPUT) is not None:
        looks = [it.lock for it in taken.blocks if it.lock is not None]
        looked = sum(count for _, count in looks)
        case.set_metric(GIL_WAIT, sum(waiting for waiting, _ in looks) / looked if looked else None)
        _put_cpu(case, taken)
    if taken.slo is not None and case.latency_bounds is not None:
        is_met = meets(case, taken.slo)
        is_open = is_met is None or (is_met and not taken.is_across)
        case.checks["slo"] = {"verdict": "unclear" if is_open else "passed" if is_met else "failed"}
    return case


def slo_rate(found: Found | None, taken: Mapping[float, LoadSamples]) -> SloRate | None:
    """What a search found, with the latencies of all requests at that rate."""
    if found is None:
        return None
    latency = latency_of(case_of(taken[found.rate]))
    pooled = {stat: by_name(latency, stat) for stat in taken[found.rate].slo or ()}
    return {"rate": found.rate, "violated_from": found.violated_from, "requests": latency.n, "latency": pooled}


def put_clock(case: Case, readings: Sequence[int]) -> None:
    """Put the median of readings of the SM clock, MHz, into a case."""
    case.set_metric(SM_CLOCK, median_high(readings) if readings else None)


def _put_closed(case: Case, blocks: Sequence[ClosedLoopBlock]) -> None:
    """The throughput is all runs by all time, as blocks of mixed shapes last differently; its interval is over blocks (linearized, for the
    ratio of two sums: Cochran, Sampling Techniques, 6.3), or over processes where there are several."""

    if not blocks:
        return
    rates = {it.round: it.throughput for it in blocks if it.throughput is not None}
    latencies = {it.round: it.latencies for it in blocks if it.throughput is not None}
    if not rates:
        if case.reason is None:
            case.status = FAILED
            case.reason = "some clients completed no inference while others did: the EP does not serve them equally"
        return
    took = {it.round: it.window.took_ns for it in blocks if it.round in rates}
    whole, several = sum(took.values()), case.first_rounds
    mean = sum(rate * took[it] for it, rate in rates.items()) / whole
    parts = [mean + (rate - mean) * took[it] * len(took) / whole for it, rate in rates.items()]
    case.set_metric(THROUGHPUT, mean, interval_of(rates, mean, several) if several else rate_interval(parts))
    case.metrics[LATENCY] = summarise_blocks(latencies, several)
    case.latency_bounds = _bounds(latencies, several)
    each = zip(*(it.window.each for it in blocks), strict=True)
    case.set_metric(FAIRNESS, fairness([sum(counts) for counts in each]))


def _bounds(
    blocks: Latencies, processes: Sequence[int], unserved: NDArray[np.bool_] | None = None
) -> dict[str, LatencyBounds]:
    import numpy as np

    found = latency_bounds(np.concatenate([*blocks.values()]), unserved)
    return bounds_across(found, _of_each(blocks, processes))


def _of_each(blocks: Latencies, processes: Sequence[int]) -> list[Moments]:
    import numpy as np

    return [np.concatenate([blocks[number] for number in it]) for it in of_processes(blocks, processes)]


def _put_open(case: Case, blocks: Sequence[OpenLoopBlock]) -> None:
    import numpy as np

    if not blocks:
        return
    lasted = sum(max(it.lasted_ns, 1) for it in blocks)
    service = np.concatenate([it.end - it.start for it in blocks])
    case.set_metric(THROUGHPUT, service.size * 1e9 / lasted)
    due = [block["n"] for block in case.load_blocks or ()]
    served = [it.start.size for it in blocks]
    if len(served) == 1:  # of which parts at the end may not have been
        served = [int(n) for n in np.diff(np.minimum(np.cumsum(due), service.size), prepend=0) if n]
    own: dict[str, Callable[[OpenLoopBlock], Moments]] = {
        LATENCY: lambda it: it.latencies,
        QUEUE_DELAY: lambda it: it.delays,
        SERVICE_TIME: lambda it: it.end - it.start,
        GENERATOR_LAG: lambda it: it.late,
    }
    taken = {metric: {it.round: of(it) for it in blocks} for metric, of in own.items()}
    for metric, times in taken.items():
        sizes = due if metric in (LATENCY, QUEUE_DELAY) else served
        found = summarise(np.concatenate([*times.values()]), sizes)
        case.metrics[metric] = by_processes(found, times, case.first_rounds)
    unserved = np.concatenate([np.arange(it.due.size) >= it.start.size for it in blocks])
    case.latency_bounds = _bounds(taken[LATENCY], case.first_rounds, unserved)
    delays = np.concatenate([*taken[QUEUE_DELAY].values()])
    inside = cycle_interval(delays, np.concatenate([it.anew for it in blocks]))
    means = [float(it.mean()) for it in _of_each(taken[QUEUE_DELAY], case.first_rounds)]
    if inside is not None and len(means) >= FEW:
        apart = student(np.array(means), float(delays.mean()))
        inside = min(inside[0], apart[0]), max(inside[1], apart[1])
    case.queue_delay_ci95 = None if inside is None else [max(0, round(inside[0])), round(inside[1])]
    case.set_metric(LATE_SHARE, float((np.concatenate([*taken[GENERATOR_LAG].values()]) > LATE_NS).mean()))
    case.set_metric(UTILISATION, float(service.sum()) / (blocks[0].clients * lasted))


def _put_cpu(case: Case, taken: LoadSamples) -> None:
    """By inference and by time, with the spread between processes, else between blocks or their parts."""
    import numpy as np

    blocks = {it.round: cpu_of(it) for it in taken.blocks if not isinstance(it, OpenLoopBlock) or it.start.size}
    whole = join_cpu(blocks.values())
    if not whole.wall_ns or not whole.inferences:
        return
    parts = [part for it in taken.open_blocks for part in it.cpu_parts] if taken.is_open else [*blocks.values()]
    several = [join_cpu(blocks[number] for number in it) for it in of_processes(blocks, case.first_rounds)]
    of_each: Sequence[CpuPart] = several if len(several) >= FEW else parts
    counted = [it for it in of_each if it.inferences and it.wall_ns > 0] or [whole]
    each = np.array([round(it.cpu_ns / it.inferences) for it in counted])
    case.metrics[CPU_TIME] = replace(summarise(each), mean=round(whole.cpu_ns / whole.inferences))
    cores = whole.cpu_ns / whole.wall_ns
    case.set_metric(CPU_CORES, cores, interval_of({at: it.cpu_ns / it.wall_ns for at, it in enumerate(counted)}, cores))


# What a mix of shapes does to the latency, compared with each shape in blocks of its own


def put_shapes(case: Case, taken: LoadSamples) -> None:
    """Put into the case of a load point the latency of each shape in the mix, and apart; and of each and of all how many times as long
    the p99 of the mix is. Apart, a shape counts as often as in the mix."""
    import numpy as np

    mix = [_latencies(taken, shape) for shape in range(len(taken.shapes))]
    alone = [_latencies(it) for name, it in taken.apart.items() if name != GROUPED]
    if len(alone) < len(mix):
        grouped = taken.apart.get(GROUPED)
        alone = [{} if grouped is None else _latencies(grouped, shape, again=True) for shape in range(len(mix))]
    # Queues that grow say how long they grew.
    steady = not any(map(is_full, (case, *map(case_of, taken.apart.values()))))
    for name, mixed, apart in zip(taken.shapes, mix, alone, strict=True):
        _put_latency(case, f"{MIXED}.{name}", mixed)
        _put_latency(case, f"{APART}.{name}", apart)
        if steady:
            _put_ratio(case, name, case.stats(f"{MIXED}.{name}"), mixed, apart)
    shares = {
        number: np.concatenate(
            [_as_many(apart[number], mixed[number].size) for mixed, apart in zip(mix, alone, strict=True)]
        )
        for number in (mix[0] if mix else ())
        if all(number in apart and apart[number].size for apart in alone)
    }
    _put_latency(case, f"{APART}.{ALL_SHAPES}", shares)
    if steady:
        _put_ratio(case, ALL_SHAPES, case.stats(LATENCY), _latencies(taken), shares)
    if not taken.is_open:
        _put_switching_cost(case, mix, alone)


def _put_switching_cost(case: Case, mix: Sequence[Latencies], alone: Sequence[Latencies]) -> None:
    """By the rounds in which each shape of the mix was measured apart too: their sum in the mix less so many apart, by request."""
    costs, counts = {}, {}
    for number in set(mix[0]).intersection(*alone):
        pairs = [(it[number], apart[number]) for it, apart in zip(mix, alone, strict=True) if it[number].size]
        if pairs and all(apart.size for _, apart in pairs):
            counts[number] = sum(it.size for it, _ in pairs)
            more = sum(float(it.sum()) - it.size * float(apart.mean()) for it, apart in pairs)
            costs[number] = more / counts[number]
    if costs:
        cost = sum(it * counts[number] for number, it in costs.items()) / sum(counts.values())
        several = [fmean(costs[it] for it in rounds) for rounds in of_processes(costs, case.first_rounds)]
        means = several if len(several) >= FEW else [*costs.values()]
        inside = student(means, cost) if len(means) >= FEW else None
        case.set_metric(SWITCHING_COST, cost, inside, derived=True)


def _put_latency(case: Case, key: str, blocks: Latencies) -> None:
    if parts := {number: times for number, times in blocks.items() if times.size}:
        case.metrics[key] = summarise_blocks(parts, case.first_rounds)


def _put_ratio(case: Case, name: str, mix: Stats | None, mixed: Latencies, apart: Latencies) -> None:
    alone = case.stats(f"{APART}.{name}")
    if mix is None or alone is None or min(mix.n, alone.n) < SAMPLES_NEEDED["p99"]:
        return
    ratio = mix.p99 / max(alone.p99, 1)
    both = [it for it in mixed.keys() & apart.keys() if mixed[it].size and apart[it].size]
    reach = paired_reach({it: _p99(mixed[it]) / _p99(apart[it]) for it in both}, case.first_rounds)
    case.set_metric(f"{MIXING}.{name}", ratio, None if reach is None else (ratio / reach, ratio * reach), derived=True)


def _p99(times: Moments) -> float:
    import numpy as np

    return max(quantile(np.sort(times), 0.99), 1.0)


def _as_many(times: Moments, count: int) -> Moments:
    """So many latencies that are spread as some are."""
    import numpy as np

    found: Moments = np.sort(times)[((np.arange(count) + 0.5) / max(count, 1) * times.size).astype(np.int64)]
    return found


def _latencies(taken: LoadSamples, shape: int | None = None, again: bool = False) -> Latencies:
    """Of each block or part of a load point; of one shape in the mix where one is given, maybe only behind another one of it."""
    found = {}
    for block in taken.blocks:
        times = block.latencies
        bounds = part_bounds(times.size) if taken.is_in_parts else [(0, times.size)]
        for number, (begin, end) in enumerate(bounds):
            part = times[begin:end]
            if shape is not None:
                counts = block.shapes_of_latencies[begin:end] == shape
                if again:
                    counts[1:] &= counts[:-1].copy()
                    counts[:1] = False
                part = part[counts]
            found[number if taken.is_in_parts else block.round] = part
    return found


def load_blocks(taken: Sequence[LoadSamples]) -> list[protocol.LoadBlock]:
    """What was taken of load points, in the order of time; times are on the clock of `time.perf_counter_ns`."""
    found = [block.on_timeline(it.mode, f"{it.mode} {it.point.phrase}") for it in taken for block in it.blocks]
    return sorted(found, key=lambda it: it.start_ns)


def arrays(taken: Sequence[LoadSamples]) -> Arrays:
    """The samples of load points by name, which begins with the number of the load point in the result: ``3/latency_ns``.

    Closed loop: ``latency_ns`` of every run that counts, block after block and in each client after client, with ``block`` and
    ``caller``, all of shape (n,); ``span_ns``, shape (blocks, 2): from when to when runs of a block count, on the clock of
    `time.perf_counter_ns`. Open loop: ``due_ns`` of every request, and ``start_ns`` and ``end_ns`` of those that were served,
    ns from the beginning of their block on, block after block; of each block ``begin_ns``, shape (blocks,), when it
    began on that clock, and ``requests``, shape (blocks, 2): how many were due, and how many of these, the first ones, were
    served. All are int64.
    """
    import numpy as np

    found: Arrays = {}
    for number, samples in enumerate(taken):
        if blocks := samples.open_blocks:
            for name in ("due", "start", "end"):
                found[f"{number}/{name}_ns"] = np.concatenate([getattr(block, name) for block in blocks])
            found[f"{number}/begin_ns"] = np.array([block.begin_ns for block in blocks], np.int64)
            counts = [(block.due.size, block.start.size) for block in blocks]
            found[f"{number}/requests"] = np.array(counts, np.int64)
        elif samples.blocks:
            closed = samples.closed_blocks
            parts = [(block.round, client, times) for block in closed for client, times in enumerate(block.of_clients)]
            found[f"{number}/span_ns"] = np.array([block.window.span for block in closed], np.int64)
            found[f"{number}/latency_ns"] = np.concatenate([times for _, _, times in parts])
            for column, name in enumerate(("block", "caller")):
                found[f"{number}/{name}"] = np.repeat(
                    [part[column] for part in parts], [part[2].size for part in parts]
                )
    return found


def write_samples(taken: Sequence[LoadSamples], folder: Path) -> None:
    """Write the samples beside the result, or note that they could not be written; nothing where there are none."""
    import numpy as np

    found = arrays(taken)
    if not found:
        return
    content = io.BytesIO()
    np.savez_compressed(content, **found)  # type: ignore[arg-type]
    files.write_or_note(folder / KIND.samples, content.getvalue())
