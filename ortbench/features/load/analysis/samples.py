"""Load points: from when runs started and ended to the figures of a case. Pure.

**Closed loop.** A block counts from the moment at which every client has done its first run to the end of the measured time, up to which
all clients are busy (`ortbench.features.load.worker.requests` sees to that). A run that lies partly in that time counts as that part of one, which
on average is what is done in it, however unequally clients are served; a client's runs divided by its own time would be more. A
block that is over before that moment counts as a whole. The interval is over blocks, or over processes where there are several.

**Open loop.** Latency and queue delay count from when a request was due; a delay ends when a client is free, so that it does not count
how late the request was issued then. What was not begun when one was cut off has waited at
least until then, and counts as that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median_high
from typing import TYPE_CHECKING, NamedTuple

from ortbench.analysis.latency_bounds import latency_bounds
from ortbench.analysis.point_blocks import by_name, interval_of, latency_of
from ortbench.core.resampling import FEW, by_processes, of_processes, student
from ortbench.core.stats import summarise
from ortbench.features.load.analysis.cpu_parts import CpuPart, put_cpu
from ortbench.features.load.analysis.points import RATE, LoadPoint, meets, part_bounds
from ortbench.features.load.analysis.queueing import bounds_across, cycle_interval, fairness, rate_interval
from ortbench.features.load.analysis.rate_search import Found
from ortbench.features.load.model import SloRate
from ortbench.model import timeline
from ortbench.model.modes import (
    FAIRNESS,
    GENERATOR_LAG,
    GIL_WAIT,
    LATE_SHARE,
    LATENCY,
    QUEUE_DELAY,
    SERVICE_TIME,
    SM_CLOCK,
    THROUGHPUT,
    UTILISATION,
)
from ortbench.model.result import FAILED, NOT_MEASURED, Case
from ortbench.model.schema import LatencyBounds, LoadBlock

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Moments = NDArray[np.int64]

LATE_NS = 100_000  # a request is late if it was issued so long after it was due, or after a client was free, if that was later
LOCK_MATTERS = 0.03  # share of the clients' time above which it is said that they waited for the GIL


class ClosedLoopBlock(NamedTuple):
    """A block of a closed loop."""

    # starts, ends: of the runs of each client, ns
    starts: Sequence[Moments]
    ends: Sequence[Moments]
    until_ns: int  # the end of the measured time
    # cpu_ns, wall_ns: CPU time of all worker processes, and time by the clock
    cpu_ns: int
    wall_ns: int
    begin_ns: int = 0  # when the clients began
    # how many clients were seen waiting for the GIL, and how many were looked at; None where nobody looked
    lock: tuple[int, int] | None = None
    round: int = 0  # in which it was taken, from 0
    shapes: Sequence[Moments] = ()  # of the runs of each client, by number

    @property
    def end_ns(self) -> int:
        """When the last run ended."""
        return max((int(it[-1]) for it in self.ends if it.size), default=self.begin_ns)

    @property
    def cpu(self) -> CpuPart:
        return CpuPart(self.cpu_ns, self.wall_ns, sum(it.size for it in self.ends))

    @property
    def cpu_parts(self) -> Sequence[CpuPart]:
        return [self.cpu]


class Counted(NamedTuple):
    """What of a block counts: latencies in ns of each client, runs per second, runs of each client, from when to when, ns, and of each
    client from which run to which."""

    latencies: list[Moments]
    throughput: float | None
    each: list[int]
    span: tuple[int, int] = (0, 0)
    runs: Sequence[slice] = ()


def counted_part(burst: ClosedLoopBlock) -> Counted:
    """What of a block counts: the time in which all clients have inferences behind them and have not ended; nothing where a client
    had no inference. Of an inference that lies partly in it that part counts, so that few and long ones count for what they are.
    """
    import numpy as np

    nothing: Counted = Counted([np.empty(0, np.int64) for _ in burst.ends], None, [0 for _ in burst.ends])
    if any(ends.size < 2 for ends in burst.ends):
        return nothing
    begin = max(int(ends[0]) for ends in burst.ends)
    until = min(burst.until_ns, *(int(ends[-1]) for ends in burst.ends))
    if begin >= until:
        return _whole(burst)
    each, runs, done, until_last = [], [], 0.0, begin
    for ends in burst.ends:
        first = int(np.searchsorted(ends, begin))
        last = min(int(np.searchsorted(ends, until)), ends.size - 1)
        runs.append(slice(first + 1, last + 1))
        each.append(int(np.searchsorted(ends, until, side="right")) - first)
        until_last = max(until_last, int(ends[last]))
        was, now = np.interp([begin, until], ends, np.arange(ends.size))
        done += float(now - was)
    latencies = [(ends - starts)[run] for starts, ends, run in zip(burst.starts, burst.ends, runs, strict=True)]
    return Counted(latencies, done * 1e9 / (until - begin), each, (begin, until_last), runs)


def _whole(burst: ClosedLoopBlock) -> Counted:
    """A block that ended before every client had an inference: all that they did, from the first start to the last end."""
    begin, end = min(int(it[0]) for it in burst.starts), max(int(it[-1]) for it in burst.ends)
    each = [ends.size for ends in burst.ends]
    latencies = [ends - starts for starts, ends in zip(burst.starts, burst.ends, strict=True)]
    return Counted(latencies, sum(each) * 1e9 / max(end - begin, 1), each, (begin, end), [slice(0, it) for it in each])


@dataclass
class LoadSamples:
    """What was taken of a load point so far; `processes`: the first round of each process of a load that is measured in several, so that
    an SLO is met only where `FEW` of them or more say so."""

    mode: str
    key: tuple[str, float]  # ``concurrency`` or ``rate``, and its value
    bursts: list[ClosedLoopBlock] = field(default_factory=list)  # blocks of a closed loop
    stretches: list[Requests] = field(default_factory=list)  # of an open loop
    failed: str | None = None  # why it failed, or None
    outputs_match: bool | None = None  # None where they were not compared
    clock_mhz: list[int] = field(default_factory=list)  # readings while it ran
    slo: Mapping[str, int] | None = None  # what was asked for, ns by statistic
    apart: Mapping[str, LoadSamples] = field(default_factory=dict)  # of each of several shapes alone, by its name
    processes: Sequence[int] = ()

    def of(self, shape: int | None) -> LoadSamples:
        """What is taken of one shape alone; without one of all together."""
        return self if shape is None else [*self.apart.values()][shape]

    @property
    def is_open(self) -> bool:
        return self.key[0] == RATE

    @property
    def is_across(self) -> bool:
        """Whether it was measured in as many processes as an interval takes, where there are several."""
        rounds = [*(it.round for it in self.bursts), *(it.round for it in self.stretches)]
        return not self.processes or len(of_processes(rounds, self.processes)) >= FEW


def case_of(taken: LoadSamples) -> Case:
    """The case of a load point, with its figures as far as there are any."""
    case = Case(taken.mode, point=dict([taken.key]), load_blocks=blocks_of(taken))
    if len(taken.processes) > 1 and len(taken.stretches) != 1:  # whose parts are no rounds
        case.processes = [*taken.processes]
    if taken.failed is not None:
        case.status, case.reason = FAILED, taken.failed
    if taken.outputs_match is not None:
        case.checks["outputs"] = {"verdict": "passed" if taken.outputs_match else "failed"}
    put_clock(case, taken.clock_mhz)
    if taken.stretches:
        _open(case, taken)
    elif taken.bursts:
        _closed(case, taken.bursts)
    elif taken.failed is None:
        case.status, case.reason = NOT_MEASURED, "the load was ended before its turn came"
    if taken.slo is not None and case.latency_bounds is not None:
        verdict = meets(case, taken.slo)
        if verdict and not taken.is_across:
            verdict = None
        case.checks["slo"] = {"verdict": "unclear" if verdict is None else "passed" if verdict else "failed"}
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
    case.put(SM_CLOCK, median_high(readings) if readings else None)


def _closed(case: Case, bursts: Sequence[ClosedLoopBlock]) -> None:
    import numpy as np

    parts = [counted_part(burst) for burst in bursts]
    rates = {burst.round: it.throughput for burst, it in zip(bursts, parts, strict=True) if it.throughput is not None}
    every = np.concatenate([times for it in parts for times in it.latencies])
    if not rates or not every.size:
        if case.reason is None:
            case.status = FAILED
            case.reason = "some clients completed no inference while others did: the EP does not serve them equally"
        return
    mean, several = sum(rates.values()) / len(rates), case.first_rounds
    case.put(THROUGHPUT, mean, interval_of(rates, mean, several) if several else rate_interval([*rates.values()]))
    ended = zip(bursts, map(_as_they_ended, bursts, parts), strict=True)
    of_blocks = {burst.round: times for burst, times in ended if times.size}
    latency = summarise(every, [block["n"] for block in case.load_blocks or ()])
    case.metrics[LATENCY] = by_processes(latency, of_blocks, several)
    case.latency_bounds = _bounds([*of_blocks.items()], several)
    case.put(FAIRNESS, fairness([sum(it.each[number] for it in parts) for number in range(len(bursts[0].ends))]))
    _put_host(case, bursts)


def _bounds(
    blocks: Sequence[tuple[int, Moments]], processes: Sequence[int], unserved: NDArray[np.bool_] | None = None
) -> dict[str, LatencyBounds]:
    """Of the rounds of blocks and their latencies, in the order of time."""
    import numpy as np

    found = latency_bounds(np.concatenate([times for _, times in blocks]), unserved)
    return bounds_across(found, _of_each(dict(blocks), processes))


def _of_each(blocks: Mapping[int, Moments], processes: Sequence[int]) -> list[Moments]:
    """What was taken in each process, of blocks by their rounds."""
    import numpy as np

    return [np.concatenate([blocks[number] for number in it]) for it in of_processes(blocks, processes)]


def _as_they_ended(burst: ClosedLoopBlock, part: Counted) -> Moments:
    """The latencies of a block that count, in the order of time."""
    import numpy as np

    if not part.runs:
        return np.empty(0, np.int64)
    ends = np.concatenate([it[runs] for it, runs in zip(burst.ends, part.runs, strict=True)])
    found: Moments = np.concatenate(part.latencies)[np.argsort(ends, kind="stable")]
    return found


def _open(case: Case, taken: LoadSamples) -> None:
    import numpy as np

    stretches = [it for it in taken.stretches if it.start.size]
    if not stretches:
        return

    def joined(of: Callable[[Requests], Moments]) -> Moments:
        return np.concatenate([of(it) for it in stretches])

    lasted = sum(max(it.lasted_ns, 1) for it in stretches)
    took, late, delays = joined(lambda it: it.end - it.start), joined(lambda it: it.late), joined(lambda it: it.delays)
    case.put(THROUGHPUT, took.size * 1e9 / lasted)
    due = [block["n"] for block in case.load_blocks or ()]
    served = [it.start.size for it in stretches]
    if len(served) == 1:  # of which parts at the end may not have been
        served = [int(n) for n in np.diff(np.minimum(np.cumsum(due), took.size), prepend=0) if n]
    own: dict[str, Callable[[Requests], Moments]] = {
        LATENCY: lambda it: it.latencies,
        QUEUE_DELAY: lambda it: it.delays,
        SERVICE_TIME: lambda it: it.end - it.start,
        GENERATOR_LAG: lambda it: it.late,
    }
    for metric, of in own.items():
        found = summarise(joined(of), due if metric in (LATENCY, QUEUE_DELAY) else served)
        case.metrics[metric] = by_processes(found, {it.round: of(it) for it in stretches}, case.first_rounds)
    unserved = np.concatenate([np.arange(it.due.size) >= it.start.size for it in stretches])
    case.latency_bounds = _bounds([(it.round, it.latencies) for it in stretches], case.first_rounds, unserved)
    inside = cycle_interval(delays, np.concatenate([it.anew for it in stretches]))
    means = [float(it.mean()) for it in _of_each({it.round: it.delays for it in stretches}, case.first_rounds)]
    if inside is not None and len(means) >= FEW:
        apart = student(np.array(means), float(delays.mean()))
        inside = min(inside[0], apart[0]), max(inside[1], apart[1])
    case.queue_delay_ci95 = None if inside is None else [max(0, round(inside[0])), round(inside[1])]
    case.put(LATE_SHARE, float((late > LATE_NS).mean()))
    case.put(UTILISATION, float(took.sum()) / (stretches[0].clients * lasted))
    _put_host(case, stretches)


def _put_host(case: Case, parts: Sequence[ClosedLoopBlock | Requests]) -> None:
    looks = [it.lock for it in parts if it.lock is not None]
    looked = sum(count for _, count in looks)
    case.put(GIL_WAIT, sum(waiting for waiting, _ in looks) / looked if looked else None)
    put_cpu(case, {it.round: it.cpu for it in parts}, [part for it in parts for part in it.cpu_parts])


# Blocks, from which follows how well figures are known


def blocks_of(taken: LoadSamples) -> list[LoadBlock]:
    """The figures of the blocks of a load point.

    Those of a closed loop are its blocks, and so are the stretches of an open loop where there are several. One that goes on at
    one stretch, in which neighbours queue together, is cut into as many parts of consecutive requests, `_PARTS` at most, as
    leave `_PART` in each.
    """
    if len(taken.stretches) == 1:
        return _parts(taken.stretches[0])
    found = [stretch_block(it) for it in taken.stretches] or [burst_block(it) for it in taken.bursts]
    return [it for it in found if it is not None]


def burst_block(burst: ClosedLoopBlock) -> LoadBlock | None:
    import numpy as np

    part = counted_part(burst)
    times = np.concatenate(part.latencies) if part.latencies else np.empty(0, np.int64)
    if part.throughput is None or not times.size:
        return None
    return _with_cpu(_block(burst.round, times, part.throughput), burst.cpu)


def stretch_block(requests: Requests) -> LoadBlock | None:
    """The figures of a whole stretch of an open loop; None where nothing was served of it."""
    served = requests.start.size
    per_s = served * 1e9 / max(requests.lasted_ns, 1)
    return _with_cpu(_block(requests.round, requests.latencies, per_s), requests.cpu) if served else None


def _with_cpu(block: LoadBlock, cpu: CpuPart) -> LoadBlock:
    block["cpu_time"], block["cpu_cores"] = round(cpu.cpu_ns / cpu.inferences), cpu.cpu_ns / max(cpu.wall_ns, 1)
    return block


def _parts(requests: Requests) -> list[LoadBlock]:
    times, due = requests.latencies, requests.due
    found = []
    for number, (begin, end) in enumerate(part_bounds(int(times.size))):
        lasted = float(due[end - 1] - (due[begin - 1] if begin else 0))
        found.append(_block(number, times[begin:end], (end - begin) * 1e9 / max(lasted, 1.0)))
    return found


def _block(number: int, times: Moments, per_s: float) -> LoadBlock:
    import numpy as np

    median, p95, p99 = (round(float(it)) for it in np.quantile(times, (0.5, 0.95, 0.99)))
    found = {"mean": round(float(times.mean())), "median": median, "p95": p95, "p99": p99, "max": int(times.max())}
    return {"round": number, "n": int(times.size), "throughput": per_s, "latency": found}


class Requests(NamedTuple):
    """A stretch of an open loop: each request that was due, in order, ns from the beginning on, shape (n,)."""

    due: Moments  # when it was
    free: Moments  # from when on the client that served it was
    # start, end: of its run. All three are shorter than `due` where the stretch was cut off.
    start: Moments
    end: Moments
    cutoff_ns: int | None  # when it was cut off; None where all were served
    clients: int  # that served it
    # cpu_ns, wall_ns: CPU time of all worker processes, and time by the clock
    cpu_ns: int
    wall_ns: int
    # how many clients were seen waiting for the GIL, and how many were looked at; None where nobody looked
    lock: tuple[int, int] | None = None
    begin_ns: int = 0  # when it began
    round: int = 0  # in which it was taken, from 0
    from_ns: int = 0  # from when on it counts
    client: Moments | None = None  # which one served it, from 0
    shapes: Moments | tuple[()] = ()  # of all that were due, by number
    cpu_parts: Sequence[CpuPart] = ()  # of all that were due
    skipped: int = 0  # how many of those that were served at the beginning do not count

    @property
    def cpu(self) -> CpuPart:
        return CpuPart(self.cpu_ns, self.wall_ns, self.start.size + self.skipped)

    @property
    def waits(self) -> Moments:
        """From due to start; of those that were not begun, until it was cut off."""
        return self._from_due(self.start)

    @property
    def delays(self) -> Moments:
        """From due until a client was free; of those that were not begun, until it was cut off."""
        found = self.waits
        found[: self.start.size] -= self.late
        return found

    @property
    def latencies(self) -> Moments:
        """From due to end; of those that were not begun, until it was cut off."""
        return self._from_due(self.end)

    @property
    def late(self) -> Moments:
        """How late each was issued although a client was free, ns."""
        import numpy as np

        served = self.start.size
        return np.maximum(0, self.start - np.maximum(self.due[:served], self.free))

    @property
    def lasted_ns(self) -> int:
        """From when it counts to the last request that was due or done."""
        return max(int(self.end.max(initial=0)), int(self.due[-1])) - self.from_ns if self.due.size else 0

    @property
    def anew(self) -> NDArray[np.bool_]:
        """Which requests were due when all before them had been served: from there on nothing knows of what was before."""
        import numpy as np

        done = np.full(self.due.size, np.iinfo(np.int64).max)
        done[: self.end.size] = np.maximum.accumulate(self.end)
        return np.concatenate([[True], self.due[1:] >= done[:-1]]) if self.due.size else np.empty(0, bool)

    def without_first(self, count: int) -> Requests:
        """The same without the first requests; all of it where there are no more."""
        if self.due.size <= count:
            return self
        left = {key: getattr(self, key)[count:] for key in ("due", "free", "start", "end")}
        left |= {"client": None if self.client is None else self.client[count:], "shapes": self.shapes[count:]}
        skipped = min(count, self.start.size)
        return self._replace(**left, skipped=skipped, from_ns=int(self.due[count - 1]) if count else self.from_ns)

    def _from_due(self, moments: Moments) -> Moments:
        import numpy as np

        left = self.due[moments.size :]
        rest = np.maximum(0, (self.cutoff_ns or 0) - left)
        return np.concatenate([moments - self.due[: moments.size], rest])


def load_blocks(taken: Sequence[LoadSamples]) -> list[timeline.LoadBlock]:
    """What was taken of load points, in the order of time; times are on the clock of `time.perf_counter_ns`."""
    found = [block for it in taken for block in _on_timeline(it)]
    return sorted(found, key=lambda it: it.start_ns)


def _on_timeline(taken: LoadSamples) -> Iterator[timeline.LoadBlock]:
    name = f"{taken.mode} {LoadPoint(*taken.key).phrase}"
    for burst in taken.bursts:
        yield _of_burst(taken.mode, name, burst)
    for stretch in taken.stretches:
        yield _of_stretch(taken.mode, name, stretch)


def _of_burst(mode: str, name: str, burst: ClosedLoopBlock) -> timeline.LoadBlock:
    import numpy as np

    runs = [
        timeline.ClientRuns(starts, ends, np.arange(starts.size))
        for starts, ends in zip(burst.starts, burst.ends, strict=True)
    ]
    return timeline.LoadBlock(mode, name, burst.round, burst.begin_ns, burst.end_ns - burst.begin_ns, runs)


def _of_stretch(mode: str, name: str, requests: Requests) -> timeline.LoadBlock:
    import numpy as np

    begin, served = requests.begin_ns, requests.start.size
    numbers = np.arange(served)
    client = np.zeros(served, np.int64) if requests.client is None else requests.client
    runs = []
    for number in range(requests.clients):
        own = numbers[client == number]
        runs.append(timeline.ClientRuns(requests.start[own] + begin, requests.end[own] + begin, own))
    start = begin + requests.from_ns
    last = max(int(requests.end.max(initial=0)), int(requests.due.max(initial=0)))
    return timeline.LoadBlock(mode, name, requests.round, start, begin + last - start, runs, requests.due + begin)
