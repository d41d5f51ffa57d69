"""The facts of loads by clients and by rate: the peak, the knee, mixes, the GIL, idle machines, saturation. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import permutations, takewhile
from operator import itemgetter

from ortbench.analysis.comparing.claims import FASTER, NOISY, UNKNOWN, may_be_faster
from ortbench.analysis.comparing.verdict import ABOVE, at_most, verdict_of
from ortbench.analysis.findings.program import again, how_to_write
from ortbench.analysis.host import STILL
from ortbench.analysis.noise import is_busy, supports_within
from ortbench.analysis.point_blocks import by_name, interval, is_full, latency_of, rate_of
from ortbench.core.ep_names import CPU_EP
from ortbench.core.stats import Value
from ortbench.facts.fact import Fact, Quantity, Values, ns, per_s, share, times
from ortbench.facts.shared import condition
from ortbench.facts.speedups import MORE_PROCESSES
from ortbench.features.load.analysis.points import (
    CONCURRENCY,
    RATE,
    bend_of,
    best_of,
    claim_over,
    is_open,
    load_point_of,
    measured_cases,
    modes_of,
    share_of_peak,
    tail_of,
    times_over,
)
from ortbench.features.load.facts.slo import points_text, slo_facts
from ortbench.features.load.model import PROCESS
from ortbench.model.modes import (
    ALL_SHAPES,
    CPU,
    CPU_CORES,
    FAIRNESS,
    GENERATOR_LAG,
    GIL_WAIT,
    LATE_SHARE,
    LATENCY,
    MIXING,
    SERVICE_TIME,
    SM_CLOCK,
    THROUGHPUT,
    UTILISATION,
    mode_of,
)
from ortbench.model.result import Case, Result

_GIL_MATTERS = 0.03  # share of the clients' time, above which it is told that they wait for it
_UNFAIR = 0.95  # of Jain's index: below it some clients are clearly done with fewer inferences
_STRETCHED = 1.1  # how many times as long as back to back an inference must take to be told
_UNEVEN = 1.25  # how many times as long as at another rate it must take to be told
_LOADED = 0.8  # the utilisation of a worker that is not idle
_FALLEN = 0.95  # below which part of the clock back to back one has fallen
_LATE = 0.001  # from which share of late requests on they are told
_GROWN = 1.05  # by which factor latency must grow beyond the knee to be told


def kind_facts(result: Result) -> Iterator[Fact]:
    yield from slo_facts(result)
    yield from _peak(result)
    for mode in modes_of(result):
        yield from _knee(result, mode)
    for mode in modes_of(result):
        yield from _mixing(result, mode)
        yield from _gil(result, mode)
        yield from _unfair(result, mode)
        yield from _saturated(result, mode)
    yield from [*_uneven(result)] or _stretched(result)
    yield from _late(result)
    yield from _spinning(result)


def _with(cases: Sequence[Case], metric: str) -> list[tuple[float, Case]]:
    """The load points that have a metric, each with its figure."""
    return [(found, case) for case in cases if (found := case.value(metric)) is not None]


# Closed loops


def peaks(result: Result) -> dict[str, Case]:
    """The load point of closed loops with most inferences/s, by mode."""
    found = {mode: best_of(measured_cases(result, CONCURRENCY, mode)) for mode in modes_of(result)}
    return {mode: case for mode, case in found.items() if case is not None}


def base_of(found: Mapping[str, Case]) -> str | None:
    """The mode that others are compared with: `cpu-tensors`, else the first one."""
    return CPU if CPU in found else next(iter(found), None)


def _rate(case: Case) -> Quantity:
    return per_s(rate_of(case), interval(case, THROUGHPUT))


def _peak(result: Result) -> Iterator[Fact]:
    """Which mode completes most compared with `cpu-tensors`, of both groups; that itself where none completes more."""
    found = peaks(result)
    base = base_of(found)
    if base is None:
        return
    values: Values = {
        "base": base,
        "base_rate": _rate(found[base]),
        "base_where": load_point_of(found[base]).phrase,
    }
    if len(found) == 1:
        yield Fact("peak", "alone", base, values, "", found[base].point)
        return
    claims = {mode: claim_over(result, found[base], it) for mode, it in found.items() if mode != base}
    best: float = 0
    for on_device in (False, True):
        group = [mode for mode, it in claims.items() if it == FASTER and mode_of(mode).on_device is on_device]
        mode = max(group, key=lambda it: rate_of(found[it]), default=None)
        if mode is not None and rate_of(found[mode]) > best:
            best = rate_of(found[mode])
            more: Values = {
                "rate": _rate(found[mode]),
                "where": load_point_of(found[mode]).phrase,
                "speedup": times(times_over(found[base], found[mode])),
                **condition(result, mode),
            }
            program = how_to_write(result, mode)
            yield Fact("peak", "more", mode, {**values, **more}, program, found[mode].point)
    if not best:
        told = {*claims.values()}
        may_be_more = UNKNOWN in told or any(
            may_be_faster(times_over(found[base], it)) for mode, it in found.items() if mode != base
        )
        verdict = "noise" if NOISY in told else "open" if may_be_more else "none-more"
        yield Fact("peak", verdict, base, values, "", found[base].point)


def _knee(result: Result, mode: str) -> Iterator[Fact]:
    """How many clients are worth it, and what becomes of latency beyond."""
    cases = measured_cases(result, CONCURRENCY, mode)
    bend = bend_of(cases)
    if bend is None:
        return
    last = cases[-1]
    values: Values = {
        "clients": int(load_point_of(bend).value), "share": share(share_of_peak(cases, bend)), "rate": _rate(bend),
    }  # fmt: skip
    if is_open(result, cases, bend):
        verdict, after = (
            ("noise", "") if is_busy(result) else ("open", again(result, "--processes", str(MORE_PROCESSES)))
        )
        yield Fact("knee", verdict, mode, values, after, bend.point)
        return
    if bend is last:
        tried = ",".join(f"{load_point_of(last).value * scale:g}" for scale in (1, 2, 4))
        more: Values = {
            "more": share(rate_of(last) / max(map(rate_of, cases[:-1])) - 1),
            "fewer": int(load_point_of(cases[-2]).value),
        }
        yield Fact("knee", "beyond", mode, {**values, **more}, again(result, "--concurrency", tried), last.point)
        return
    stat = tail_of(bend, last)
    there, then = by_name(latency_of(bend), stat), by_name(latency_of(last), stat)
    values |= {"stat": stat, "latency": ns(there), "last_latency": ns(then), "last": int(load_point_of(last).value)}
    yield Fact("knee", "latency" if then > there * _GROWN else "flat", mode, values, "", bend.point)


def _mixing(result: Result, mode: str) -> Iterator[Fact]:
    """What a mix of shapes does to the p99, of all shapes or of one, where it surely does most; that it does nothing only where no interval
    leaves more open."""
    cases = [*measured_cases(result, CONCURRENCY, mode), *measured_cases(result, RATE, mode)]
    names = (ALL_SHAPES, *result.part.get("shapes", ()))
    known = [
        (it, name, case)
        for case in cases
        for name in names
        if isinstance(it := case.metrics.get(f"{MIXING}.{name}"), Value)
    ]
    if not known:
        return
    told = [at_most(it.ci95, _GROWN) for it, *_ in known]
    longer = [one for one, said in zip(known, told, strict=True) if said is False]
    overall = [it for it in longer if it[1] == ALL_SHAPES]
    found, name, case = max(
        overall or longer or known, key=lambda it: it[0].value if longer else (it[0].ci95 or (0, it[0].value))[1]
    )
    values: Values = {"ratio": times(found), "where": load_point_of(case).phrase, "shape": name}
    without = "open" if None in told else "none"
    verdict = "longer" if overall else "longer-for-shape" if longer else without
    yield Fact("mixing", verdict, mode, values, "", case.point)


def _gil(result: Result, mode: str) -> Iterator[Fact]:
    """How much of the clients' time went into waiting for the GIL, at the load point where it is most."""
    cases = [*measured_cases(result, CONCURRENCY, mode), *measured_cases(result, RATE, mode)]
    waited, case = max(_with(cases, GIL_WAIT), key=itemgetter(0), default=(0.0, None))
    if case is not None and waited > _GIL_MATTERS:
        is_apart = result.part["sessions"] == PROCESS
        after = "" if is_apart else again(result, "--sessions", PROCESS)
        yield Fact(
            "gil", "waits", mode, {"share": share(waited), "where": load_point_of(case).phrase}, after, case.point
        )


def _unfair(result: Result, mode: str) -> Iterator[Fact]:
    """Clients that are not served alike, at the load point where it is worst."""
    fair, case = min(_with(measured_cases(result, CONCURRENCY, mode), FAIRNESS), key=itemgetter(0), default=(1.0, None))
    if case is not None and fair < _UNFAIR:
        values: Values = {"index": Quantity(fair, "1"), "where": load_point_of(case).phrase}
        yield Fact("fairness", "unequal", mode, values, "", case.point)


# Open loops


def _stretched(result: Result) -> Iterator[Fact]:
    """How much longer an inference takes at the lowest rate than back to back; not where chance or noise of the machine may have made it.

    At the lowest rate requests meet each other least, so what is left is a device and a CPU that went to sleep.
    """
    for mode in modes_of(result):
        cases, alone = measured_cases(result, RATE, mode), result.case(mode)
        before = None if alone is None else alone.stats(LATENCY)
        after = cases[0].stats(SERVICE_TIME) if cases else None
        if alone is None or before is None or after is None or after.median < _STRETCHED * before.median:
            continue
        clocks = alone.value(SM_CLOCK), cases[0].value(SM_CLOCK)
        has_fallen = clocks[0] is not None and clocks[1] is not None and clocks[1] < _FALLEN * clocks[0]
        ends = after.ci95[0] / max(before.ci95[1], 1), after.ci95[1] / max(before.ci95[0], 1)
        if verdict_of(ends) == ABOVE and (has_fallen or supports_within(result, cases[0], ends[0], {})):
            values: Values = {
                "where": load_point_of(cases[0]).phrase, "time": ns(after.median), "back_to_back": ns(before.median),
                "ratio": times(Value(after.median / max(before.median, 1), ends)),
            }  # fmt: skip
            if has_fallen:
                values |= {"clock": Quantity(clocks[1] or 0, "MHz"), "clock_before": Quantity(clocks[0] or 0, "MHz")}
            yield Fact("paced", "clock-falls" if has_fallen else "slower", mode, values, "", cases[0].point)


def _uneven(result: Result) -> Iterator[Fact]:
    """How much longer an inference takes at one rate than at another, where one worker serves all and that is not idle, as at a lower
    rate: the rate does not make it."""
    if result.part["workers"] != 1:
        return
    found: list[tuple[float, Case, Values]] = []
    for mode in modes_of(result):
        taken = [(took, it) for it in measured_cases(result, RATE, mode) if (took := it.stats(SERVICE_TIME))]
        for (short, quick), (long, slow) in permutations(taken, 2):
            is_idle = (
                load_point_of(slow).value < load_point_of(quick).value and (slow.value(UTILISATION) or 0.0) < _LOADED
            )
            ends = long.ci95[0] / max(short.ci95[1], 1), long.ci95[1] / max(short.ci95[0], 1)
            if verdict_of(ends) == ABOVE and not is_idle:
                ratio = long.median / max(short.median, 1)
                values: Values = {
                    "ratio": times(Value(ratio, ends)), "slow": ns(long.median), "slow_where": load_point_of(slow).phrase, "quick": ns(short.median),
                    "quick_where": load_point_of(quick).phrase,
                }  # fmt: skip
                found.append((ratio, slow, values))
    ratio, case, values = max(found, key=itemgetter(0), default=(0.0, None, {}))
    if case is not None and ratio >= _UNEVEN:
        yield Fact("machine-speed", "changed", case.mode, values, "", case.point)


def _saturated(result: Result, mode: str) -> Iterator[Fact]:
    """The rates that saturate the workers, from the highest down: at a rate below one that is served it is the machine's doing."""
    cases = [*takewhile(is_full, reversed(measured_cases(result, RATE, mode)))][::-1]
    if cases:
        verdict = "busy" if is_busy(result) else "saturated"
        yield Fact("saturated", verdict, mode, {"where": points_text(cases)}, "", cases[0].point)


def _spinning(result: Result) -> Iterator[Fact]:
    """That threads spin between requests: at the rate where they keep cores busy most beyond what requests can take themselves."""
    target, nodes = result.target, result.placement["nodes"] or {}
    config = target.get("session_config") or {}
    if config.get(STILL[1].partition("=")[0]) == "0" or target.get("intra_op_threads") == 1 or CPU_EP not in nodes:
        return
    found: list[tuple[float, float, Value, Case]] = []
    for case in measured_cases(result, RATE):
        cores, most = case.metrics.get(CPU_CORES), _most_cores(result, case)
        if isinstance(cores, Value) and cores.ci95 is not None and verdict_of(cores.ci95, most, most) == ABOVE:
            found.append((cores.ci95[0] / most, most, cores, case))
    if found:
        _, most, cores, case = max(found, key=itemgetter(0))
        values: Values = {
            "cores": Quantity(cores.value, "1", cores.ci95), "utilisation": share(case.value(UTILISATION) or 0.0), "where": load_point_of(case).phrase,
            "most": Quantity(most, "1"),
        }  # fmt: skip
        after = "" if any(STILL[1] in word for word in result.command) else again(result, *STILL)
        yield Fact("idle-spinning", "burns", case.mode, values, after, case.point)


_WAKING_S = 200e-6  # of CPU time that a request takes at most besides: ortbench wakes up and looks at the clock


def _most_cores(result: Result, case: Case) -> float:
    """How many CPU cores a load can keep busy whose threads sleep between requests: all of them while a worker is busy, and what waking
    up takes."""
    cpu, service, rate = result.environment["cpu"], case.stats(SERVICE_TIME), load_point_of(case).value
    cores = cpu.get("usable_cores") or cpu.get("cores")
    if service is None or cores is None:
        return math.inf
    return min(1.0, rate * service.mean / 1e9) * cores + rate * _WAKING_S


def _late(result: Result) -> Iterator[Fact]:
    """Requests that the generator itself issued late, at the load point where most were."""
    late, case = max(_with(measured_cases(result, RATE), LATE_SHARE), key=itemgetter(0), default=(0.0, None))
    if case is not None and late >= _LATE:
        lag = case.stats(GENERATOR_LAG)
        values: Values = {
            "share": share(late),
            "lag": ns(0 if lag is None else lag.max),
            "where": load_point_of(case).phrase,
        }
        yield Fact("generator", "late", case.mode, values, "", case.point)
