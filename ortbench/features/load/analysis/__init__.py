"""The load points of a load: which there are, their figures, where each may lie, and what comparisons and suites ask of them. Pure."""

from __future__ import annotations

import math
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ortbench.analysis.comparable import Traits
from ortbench.analysis.intervals import ABOVE, at_most, quotient, verdict_of
from ortbench.analysis.load_points import (
    LEAST,
    P50,
    block_figures,
    by_name,
    interval,
    is_full,
    keeps_to,
    latency_of,
    paired_reach,
    rate_of,
)
from ortbench.analysis.noise import is_busy
from ortbench.analysis.speedups import FASTER, Claim, claim_between
from ortbench.core import units
from ortbench.core.errors import BadInput, one_line
from ortbench.core.safe_text import visible
from ortbench.core.stats import Value
from ortbench.core.units import rate_asked, request_rate
from ortbench.features.load.model import KIND, Knee, LoadSetup, MetSlo, SloRate
from ortbench.model.metric_names import SAMPLES_NEEDED
from ortbench.model.modes import LATENCY, THROUGHPUT, mode_of
from ortbench.model.result import FAILED, OK, Case, Result
from ortbench.model.schema import LatencyBounds

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Arrays = dict[str, NDArray[np.int64]]

CONCURRENCY, RATE = "concurrency", "rate"  # what a load point is of: so many clients, or so many requests a second
WORTH = 0.05  # by what share a load point must bring more inf/s than those below it to be worth its clients


class LoadPoint(NamedTuple):
    """A load point: a number of clients (`CONCURRENCY`) or requests a second (`RATE`)."""

    kind: str
    value: float

    @property
    def text(self) -> str:
        """In words: ``4 clients``, ``30 requests/s``."""
        if self.kind == RATE:
            return request_rate(self.value)
        return "1 client" if self.value == 1 else f"{self.value:g} clients"

    @property
    def label(self) -> str:
        """In a table: ``4``, ``30/s``."""
        return f"{rate_asked(self.value)}/s" if self.kind == RATE else f"{self.value:g}"

    @property
    def phrase(self) -> str:
        """After what happens there: ``with 4 clients``, ``at 30 requests/s``."""
        return f"{'at' if self.kind == RATE else 'with'} {self.text}"


def load_point_of(case: Case) -> LoadPoint:
    return load_point(case.point)


def load_point(point: Mapping[str, int | float | str]) -> LoadPoint:
    ((kind, value),) = point.items()
    return LoadPoint(kind, float(value))


def load_cases(result: Result) -> list[Case]:
    return [case for case in result.cases if case.load_blocks is not None]


def has_figures(case: Case) -> bool:
    """Whether there are figures of a load point, also if it failed in the end."""
    return case.value(THROUGHPUT) is not None and case.stats(LATENCY) is not None


def is_measured(case: Case) -> bool:
    """Whether a load point is ok and has its figures."""
    return case.status == OK and has_figures(case)


def modes_of(result: Result) -> list[str]:
    return list(dict.fromkeys(case.mode for case in load_cases(result)))


def cases_with_figures(result: Result, kind: str) -> list[Case]:
    """The load points of a kind that have figures, mode by mode, the lowest first."""
    modes = modes_of(result)
    found = [it for it in load_cases(result) if kind in it.point and has_figures(it)]
    return sorted(found, key=lambda it: (modes.index(it.mode), load_point_of(it).value))


def measured_cases(result: Result, kind: str, mode: str | None = None) -> list[Case]:
    """The load points of a kind (`CONCURRENCY` or `RATE`) that are ok, the lowest first; of one mode, or mode by mode."""
    return [it for it in cases_with_figures(result, kind) if it.status == OK and mode in (None, it.mode)]


def slo_cases(result: Result, mode: str | None = None) -> list[Case]:
    """The load points to which an SLO applies: those at a rate, and without any those of clients."""
    return measured_cases(result, RATE if has_rates(result) else CONCURRENCY, mode)


def has_figure(case: Case, stat: str) -> bool:
    """Whether a statistic of a latency is of enough samples to be shown."""
    return latency_of(case).n >= SAMPLES_NEEDED.get(stat, 1)


def tail_of(*cases: Case) -> str:
    """The highest percentile of a latency that all of some load points have."""
    return next((it for it in ("p99", "p95") if all(has_figure(case, it) for case in cases)), P50)


def meets_by_figures(case: Case, slo: Mapping[str, int]) -> bool:
    """Whether a load point meets an SLO as far as its figures go, which chance may have made; not where no request was served."""
    if is_full(case) or not has_figures(case):
        return False
    return all(by_name(latency_of(case), stat) <= most_ns for stat, most_ns in slo.items())


def meets(case: Case, slo: Mapping[str, int]) -> bool | None:
    """Whether a load point meets an SLO with 95 % confidence, False where it violates it with as much, else None: the one rule of tables,
    searches, gates and findings. Where the queue grows it is violated: later requests wait ever longer."""
    told = [_meets(case, stat, most_ns) for stat, most_ns in slo.items()]
    return False if is_full(case) or False in told else None if None in told else True


def meets_slo(case: Case, slo: Mapping[str, int]) -> bool | None:
    """The same as a load has found it, of one that is measured in several processes by enough of them."""
    check = case.checks.get("slo")
    return meets(case, slo) if check is None else {"passed": True, "failed": False}.get(check["verdict"])


def _meets(case: Case, stat: str, most_ns: int) -> bool | None:
    within = bounds_of(case, stat)
    return None if within is None else keeps_to(within, most_ns)


def bounds_of(case: Case, stat: str) -> LatencyBounds | None:
    """Between what a statistic of the latency of a load point lies; None in older files."""
    return (case.latency_bounds or {}).get("p50" if stat == "median" else stat)


def undecided_statistics(case: Case, slo: Mapping[str, int]) -> list[str]:
    """The statistics of which a load point has too few requests, or too few that count, to say that they are below their limits."""
    if is_full(case):
        return []
    return [it for it, most in slo.items() if _meets(case, it, most) is None and _lacks_requests(case, it, most)]


def _lacks_requests(case: Case, stat: str, most_ns: int) -> bool:
    within = bounds_of(case, stat)
    if within is None or (within["high"] is not None and by_name(latency_of(case), stat) > most_ns):
        return False
    return within["high"] is None or within["requests"] < _least_that_count(stat)


def _least_that_count(stat: str) -> int:
    return LEAST[stat] // 4 if stat == P50 else LEAST[stat]  # of so few four count for one


def lack_of_requests(case: Case, stat: str) -> str:
    """Why a load point cannot tell that a statistic is below a limit (`undecided_statistics`)."""
    count, within = latency_of(case).n, bounds_of(case, stat)
    if count < LEAST[stat] or within is None:
        return f"too few requests, a {stat} takes {LEAST[stat]}"
    least = _least_that_count(stat)
    if within["requests"] >= least:
        return "the last requests were not served"
    return f"{count:,} requests count as {within['requests']:,}, as neighbours are alike; a {stat} takes {least}"


def times_longer(case: Case, slo: Mapping[str, int]) -> float:
    """How many times as many requests would tell whether a load point meets an SLO, if they go on like that."""
    return max((_longer(case, stat, most) for stat, most in slo.items() if _meets(case, stat, most) is None), default=1)


def _longer(case: Case, stat: str, most_ns: int) -> float:
    within = bounds_of(case, stat)
    if within is None:
        return math.inf
    figure = by_name(latency_of(case), stat)
    end = within["high"] if figure <= most_ns else within["low"]
    if end is None or _lacks_requests(case, stat, most_ns):
        return max(1.0, LEAST[stat] / within["requests"])
    return max(1.0, ((end - figure) / (most_ns - figure)) ** 2) if figure != most_ns else math.inf


def put_scaling(result: Result) -> None:
    """Put into the closed load points of a load how many times the throughput of one client they bring, where that was measured."""
    cases = measured_cases(result, CONCURRENCY)
    of_one = {it.mode: it for it in cases if load_point_of(it).value == 1}
    for case in cases:
        if (one := of_one.get(case.mode)) is not None:
            found = Value(1.0) if case is one else throughput_ratio(case, one)
            case.set_metric("scaling", found.value, found.ci95, derived=True)


def throughput_ratio(case: Case, one: Case) -> Value:
    """How many times the throughput of another load point of a load one has.

    Its interval is over the rounds in which both had a block, or the processes: what the machine's clock does in a round both have.
    With too few of them it is from the intervals of both.
    """
    apart = times_over(one, case)
    these, those = block_figures(case, THROUGHPUT), block_figures(one, THROUGHPUT)
    ratios = {it: max(these[it], 1e-9) / max(those[it], 1e-9) for it in these.keys() & those.keys()}
    reach = paired_reach(ratios, case.first_rounds)
    return apart if reach is None else Value(apart.value, (apart.value / reach, apart.value * reach))


def best_of(cases: Sequence[Case]) -> Case | None:
    """The load point with most runs/s; None without any."""
    return max(cases, key=rate_of, default=None)


def best_case(result: Result) -> Case | None:
    """The load point of closed loops with most inferences/s: of modes that take new inputs in each inference, else of any."""
    points = measured_cases(result, CONCURRENCY)
    found = best_of([it for it in points if not mode_of(it.mode).on_device])
    return found or best_of(points)


# The knee of a mode: how many clients are worth it, where intervals and the machine leave no doubt


def bend_of(cases: Sequence[Case]) -> Case | None:
    """The last closed load point of a mode, fewest clients first, that is `WORTH` it, as measured; None for one."""
    if len(cases) < 2:
        return None
    bend, most = cases[0], rate_of(cases[0])
    for case in cases[1:]:
        if rate_of(case) >= most * (1 + WORTH):
            bend = case
        most = max(most, rate_of(case))
    return bend


def share_of_peak(cases: Sequence[Case], bend: Case) -> float:
    most = max(map(rate_of, cases))
    return rate_of(bend) / most if most else 1.0


def is_open(result: Result, cases: Sequence[Case], bend: Case) -> bool:
    """Whether noise of the machine may have made a bend, or by the intervals one with fewer clients may bring as much, or one with
    more `WORTH` them."""
    before = cases.index(bend) - 1
    fewer = [throughput_ratio(bend, it).ci95 for it in cases[: before + 1]]
    more = [throughput_ratio(it, bend).ci95 for it in cases[before + 2 :]]
    if any(verdict_of(it, 1.0) != ABOVE for it in fewer) or any(at_most(it, 1 + WORTH) is None for it in more):
        return True
    if before < 0 or not is_busy(result):
        return False
    return claim_over(result, cases[before], bend) != FASTER


def times_over(base: Case, case: Case) -> Value:
    """How many times as many inferences a load point completes as another."""
    found = quotient(rate_of(case), rate_of(base), interval(case, THROUGHPUT), interval(base, THROUGHPUT))
    return Value(found.ratio, found.ci95)


def claim_over(result: Result, base: Case, case: Case) -> Claim:
    """Whether a load point completes more than another."""
    return claim_between(result, base, case, times_over(base, case))


def knee_of(result: Result, mode: str) -> Knee | None:
    """The knee of a mode; None where there is none, or none can be told."""
    cases = measured_cases(result, CONCURRENCY, mode)
    bend = bend_of(cases)
    if bend is None or is_open(result, cases, bend):
        return None
    return {"concurrency": int(load_point_of(bend).value), "share_of_peak": share_of_peak(cases, bend)}


def knees(result: Result) -> dict[str, Knee | None]:
    """The knee of each mode that has load points of closed loops, as a result has it."""
    modes = dict.fromkeys(case.mode for case in load_cases(result) if CONCURRENCY in case.point)
    return {mode: knee_of(result, mode) for mode in modes}


def slo_limits(result: Result) -> dict[str, int] | None:
    """The SLO of a load: the most that each statistic of the latency may be, ns; None without one."""
    setup: LoadSetup = result.part
    return setup["slo"]


def searched_rates(result: Result) -> dict[str, SloRate | None]:
    """The highest rate that keeps the SLO, by mode, of those for which one was looked for; None where none was found."""
    met: MetSlo | None = result.own.get("slo")
    return {} if met is None else met["found"]


def slo_rates(result: Result) -> dict[str, SloRate]:
    """Of these those that were found."""
    return {mode: rate for mode, rate in searched_rates(result).items() if rate is not None}


def has_rates(result: Result) -> bool:
    return any(RATE in case.point for case in load_cases(result))


def slo_text(asked: Mapping[str, int]) -> str:
    """An SLO in words: ``p99 ≤ 20 ms``."""
    return " and ".join(f"{stat} ≤ {limit_text(ns_)}" for stat, ns_ in asked.items())


def limit_text(limit_ns: int) -> str:
    """A duration without noughts that say nothing."""
    number, unit = units.duration(limit_ns).split(" ")
    return f"{float(number):g} {unit}"


def identity(result: Result, own: Traits) -> Traits:
    """How clients share sessions and, where there are rates, how requests come and who serves them; their sizes, whatever they run at."""
    keys = ("sessions", *(("arrivals", "file", "workers") if has_rates(result) else ()))
    sizes = ("requests",) if "requests" in result.part else ("order", "shapes")
    mixed = {key: result.part.get(key) for key in sizes if "shapes" in result.part}
    return {**own, **{key: result.part[key] for key in keys}, **mixed}


def essence(part: LoadSetup) -> LoadSetup:
    """What loads are compared by whose results are to differ in nothing that was recorded."""
    return part


def changes(one: Result, other: Result) -> list[tuple[str, Any, Any]]:
    """How loads were put on that may be compared all the same."""
    return [
        ("SLO", slo_text(slo_limits(one) or {}) or None, slo_text(slo_limits(other) or {}) or None),
        ("time per load point", f"{one.part['duration_s']:g} s", f"{other.part['duration_s']:g} s"),
    ]


def suite_figures(result: Result) -> dict[str, Any]:
    """The figures of a suite's case, by the attributes of its record."""
    rates = [it["rate"] for it in slo_rates(result).values()]
    found: dict[str, Any] = {"slo_rate": max(rates)} if rates else {}
    best = best_case(result)
    if best is None:
        return found
    knee = knee_of(result, best.mode)
    return {
        **found,
        "fastest": best.mode,
        "throughput_per_s": rate_of(best),
        "clients": int(load_point_of(best).value),
        "knee": knee and knee["concurrency"],
    }


def failed_points(result: Result) -> list[tuple[str, Case]]:
    """The load points that failed, each after what happens there: ``with 4 clients``."""
    return [(load_point_of(case).phrase, case) for case in load_cases(result) if case.status == FAILED]


_MOST_MIB = 1024  # MiB of samples, 24 bytes a request


def read_samples(folder: Path) -> Arrays | None:
    """The samples beside a result, as `arrays` of `samples.py` gives them; None where there are none. `BadInput` where they cannot be read."""
    import numpy as np

    file = folder / KIND.samples
    if not file.is_file():
        return None
    try:
        with file.open("rb") as opened, np.load(opened) as archive:
            if sum(it.file_size for it in archive.zip.infolist()) > _MOST_MIB << 20:
                raise BadInput(f"{file} unpacks to more than {_MOST_MIB} MiB, the most that is read")
            found = dict(archive)
    except (
        OSError,
        ValueError,
        TypeError,
        MemoryError,
        EOFError,
        NotImplementedError,
        zipfile.BadZipFile,
        zlib.error,
    ) as error:
        raise BadInput(f"{file} cannot be read: {one_line(error)}") from None
    for number in sorted({name.partition("/")[0] for name in found}):
        own = {name.partition("/")[2]: it for name, it in found.items() if name.startswith(f"{number}/")}
        if not _fit(own):
            raise BadInput(f"{file}: the arrays of load point {visible(number)} do not fit together")
    return found


def _fit(own: Arrays) -> bool:
    """Whether the arrays of a load point are those that `arrays` of `samples.py` describes."""
    for name, array in own.items():
        pairs = name in ("span_ns", "requests")
        if (
            array.dtype != "int64"
            or array.shape[1:] != ((2,) if pairs else ())
            or array.ndim < 1
            or array.min(initial=0) < 0
        ):
            return False
    if own.keys() == {"latency_ns", "block", "caller", "span_ns"}:
        return own["latency_ns"].size == own["block"].size == own["caller"].size
    if own.keys() != {"due_ns", "start_ns", "end_ns", "begin_ns", "requests"} or not own["requests"].size:
        return False
    due, served = own["requests"].T
    sizes = (own["due_ns"].size, own["start_ns"].size, own["end_ns"].size, own["begin_ns"].size)
    return bool((served <= due).all()) and sizes == (due.sum(), served.sum(), served.sum(), due.size)
