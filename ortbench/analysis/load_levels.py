"""Levels of a load: from when runs started and ended to the figures of a level. Pure.

**Closed loop.** A block counts from the moment at which every caller has done its first run. Of each caller it counts up to
the first run that ends after the measured time; all the others are busy until then (`ortbench.worker.load.closed` sees to that).
Both ends are ends of runs of its own, so no part of a run is counted: a caller's rate is its runs by the time from the one
end to the other, and the level's is the sum over callers. The interval is over blocks.

**Open loop.** Latency and wait count from when a request was due. What was not begun when a level was cut off has waited at
least until then, and counts as that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ortbench.analysis.load_requests import Requests
from ortbench.analysis.queueing import cycle_interval, fairness, rate_interval
from ortbench.result import FAILED, NOT_MEASURED, OK
from ortbench.schema import BackToBack, ClockReading, Late, Latency, Level, Service, Wait

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Moments = NDArray[np.int64]

LATE_NS = 100_000  # a request is late if it was issued so long after it was due, or after a caller was free, if that was later
LOCK_MATTERS = 0.03  # share of the callers' time above which it is said that they waited for Python's lock


@dataclass(frozen=True)
class Burst:
    """A block of a closed loop.

    Attributes:
        starts, ends: of the runs of each caller, ns.
        until_ns: the end of the measured time.
        cpu_ns, wall_ns: CPU time of all worker processes, and time by the clock.
        begin_ns: when the callers began.
        lock: how many callers were seen waiting for Python's lock, and how many were looked at; None where nobody looked.
        round: in which it was taken, from 0.
    """

    starts: Sequence[Moments]
    ends: Sequence[Moments]
    until_ns: int
    cpu_ns: int
    wall_ns: int
    begin_ns: int = 0
    lock: tuple[int, int] | None = None
    round: int = 0

    @property
    def end_ns(self) -> int:
        """When the last run ended."""
        return max((int(it[-1]) for it in self.ends if it.size), default=self.begin_ns)


@dataclass(frozen=True)
class Counted:
    """What of a block counts: latencies in ns of each caller, runs per second, runs of each caller, and from when to when, ns."""

    latencies: list[Moments]
    runs_per_s: float | None
    each: list[int]
    span: tuple[int, int] = (0, 0)


def counted(burst: Burst) -> Counted:
    """What of a block counts; nothing where a caller had no run."""
    import numpy as np

    nothing: Counted = Counted([np.empty(0, np.int64) for _ in burst.ends], None, [0 for _ in burst.ends])
    if any(ends.size < 2 for ends in burst.ends):
        return nothing
    begin = max(int(ends[0]) for ends in burst.ends)
    until = max(burst.until_ns, begin + 1)
    latencies, each, rate, until_last = [], [], 0.0, begin
    for starts, ends in zip(burst.starts, burst.ends, strict=True):
        first = int(np.searchsorted(ends, begin))
        last = min(int(np.searchsorted(ends, until)), ends.size - 1)
        latencies.append((ends - starts)[first + 1 : last + 1])
        each.append(int(np.searchsorted(ends, until, side="right")) - first)
        until_last = max(until_last, int(ends[last]))
        if last > first:
            rate += (last - first) * 1e9 / float(ends[last] - ends[first])
    return Counted(latencies, rate, each, (begin, until_last)) if rate else nothing


@dataclass
class Taken:
    """What was taken of a level so far.

    Attributes:
        key: ``concurrency`` or ``rate``, and its value.
        bursts: blocks of a closed loop.
        stretches: of an open loop.
        failed: why the level failed, or None.
        outputs_match: None where they were not compared.
        clock_mhz: readings while it ran.
        slo: what was asked for, ns by statistic.
        kept: whether most tries of a search kept the `slo`; None where the figures say whether it is kept.
    """

    mode: str
    sessions: str
    key: tuple[str, float]
    bursts: list[Burst] = field(default_factory=list)
    stretches: list[Requests] = field(default_factory=list)
    failed: str | None = None
    outputs_match: bool | None = None
    clock_mhz: list[int] = field(default_factory=list)
    slo: Mapping[str, int] | None = None
    kept: bool | None = None

    @property
    def is_open(self) -> bool:
        """Whether it is of an open loop."""
        return self.key[0] == "rate"


def level(taken: Taken) -> Level:
    """The figures of a level."""
    found = _nothing(taken)
    if taken.clock_mhz:
        readings = sorted(taken.clock_mhz)
        found["clock_mhz"] = {"sm": readings[len(readings) // 2]}
    if taken.stretches:
        _open(found, taken)
    elif taken.bursts:
        _closed(found, taken.bursts)
    elif taken.failed is None:
        found["status"], found["reason"] = NOT_MEASURED, "the load was ended before its turn came"
    return found


def _nothing(taken: Taken) -> Level:
    name, value = taken.key
    figures: dict[str, Any] = {"fairness": None}
    if taken.is_open:
        figures = dict.fromkeys(("wait_ns", "late", "late_ns", "utilisation", "service_ns", "slo_held"))
    found: Any = {
        "mode": taken.mode, "sessions": taken.sessions, name: value, "status": OK if taken.failed is None else FAILED,
        "reason": taken.failed, "runs_per_s": None, "ci95": None, "latency_ns": None, "n": 0,
        "outputs_match": taken.outputs_match, "cpu_cores": None, "lock_wait": None, **figures, "clock_mhz": None,
    }  # fmt: skip
    made: Level = found
    return made


def _closed(found: Level, bursts: Sequence[Burst]) -> None:
    import numpy as np

    parts = [counted(burst) for burst in bursts]
    rates = [it.runs_per_s for it in parts if it.runs_per_s is not None]
    every = np.concatenate([times for it in parts for times in it.latencies])
    if not rates or not every.size:
        if found["status"] == OK:
            found["status"], found["reason"] = (
                FAILED,
                "some callers got no run beside the others: they are served unfairly",
            )
        return
    interval = rate_interval(rates)
    found["runs_per_s"] = sum(rates) / len(rates)
    found["ci95"] = None if interval is None else list(interval)
    found["latency_ns"], found["n"] = latency(every), int(every.size)
    found["fairness"] = fairness([sum(it.each[number] for it in parts) for number in range(len(bursts[0].ends))])
    found["cpu_cores"] = _cores(bursts)
    found["lock_wait"] = _waiting([burst.lock for burst in bursts])


def _open(found: Level, taken: Taken) -> None:
    import numpy as np

    stretches = [it for it in taken.stretches if it.start.size]
    if not stretches:
        return

    def joined(of: Callable[[Requests], Moments]) -> Moments:
        return np.concatenate([of(it) for it in stretches])

    lasted = sum(max(it.lasted_ns, 1) for it in stretches)
    took, late = joined(lambda it: it.end - it.start), joined(lambda it: it.late)
    latencies = joined(lambda it: it.latencies)
    found["runs_per_s"] = took.size * 1e9 / lasted
    times = found["latency_ns"] = latency(latencies)
    found["n"] = int(latencies.size)
    found["wait_ns"] = wait(joined(lambda it: it.waits), np.concatenate([it.anew for it in stretches]))
    found["late"] = float((late > LATE_NS).mean())
    made: Late = {"max": int(late.max()), "p99": _whole(late, 0.99)}
    found["late_ns"] = made
    service: Service = {"mean": round(float(took.mean())), "p50": _whole(took, 0.5)}
    found["service_ns"] = service
    found["utilisation"] = float(took.sum()) / (stretches[0].callers * lasted)
    found["cpu_cores"] = _cores(stretches)
    found["lock_wait"] = _waiting([it.lock for it in stretches])
    if taken.slo is not None:
        all_served = all(it.cutoff_ns is None for it in stretches)
        found["slo_held"] = (holds(times, taken.slo) and all_served) if taken.kept is None else taken.kept


def back_to_back(samples: Sequence[int], clock_mhz: Sequence[int]) -> BackToBack:
    """The same runs one behind the other, ns, and the clock meanwhile."""
    import numpy as np

    readings = sorted(clock_mhz)
    clock: ClockReading | None = {"sm": readings[len(readings) // 2]} if readings else None
    return {"n": len(samples), "latency_ns": latency(np.asarray(samples, np.int64)), "clock_mhz": clock}


def holds(measured: Latency, slo: Mapping[str, int]) -> bool:
    """Whether a latency keeps an SLO, ns by statistic."""
    values: Mapping[str, Any] = measured
    return all(values[name] <= most for name, most in slo.items())


def latency(times: Moments) -> Latency:
    """Statistics of latencies, ns, shape (n,), n >= 1."""
    p50, p95, p99 = (_whole(times, q) for q in (0.5, 0.95, 0.99))
    return {"mean": round(float(times.mean())), "p50": p50, "p95": p95, "p99": p99, "max": int(times.max())}


def wait(times: Moments, anew: NDArray[np.bool_]) -> Wait:
    """Statistics of waits in the order in which requests were due, ns, shape (n,), n >= 1; see `cycle_interval`."""
    interval = cycle_interval(times, anew)
    bounds = None if interval is None else [max(0, round(interval[0])), round(interval[1])]
    return {"mean": round(float(times.mean())), "ci95": bounds, "p99": _whole(times, 0.99)}


def _whole(times: Moments, q: float) -> int:
    import numpy as np

    return round(float(np.quantile(times, q)))


def _cores(parts: Sequence[Burst | Requests]) -> float | None:
    wall = sum(it.wall_ns for it in parts)
    return sum(it.cpu_ns for it in parts) / wall if wall else None


def _waiting(looks: Sequence[tuple[int, int] | None]) -> float | None:
    seen = [it for it in looks if it is not None]
    of = sum(count for _, count in seen)
    return sum(waiting for waiting, _ in seen) / of if of else None
