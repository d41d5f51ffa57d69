"""The sentences under the tables of a load: what a person can act on. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter

from ortbench.analysis.findings.phrases import NOTHING, within
from ortbench.analysis.loads.levels import (
    CONCURRENCY,
    RATE,
    asked_of,
    at,
    best_level,
    by_name,
    has_rates,
    holds,
    interval,
    is_full,
    kept,
    knee_of,
    latency_of,
    measured,
    modes_of,
    most,
    quotient,
    rate_of,
    rate_text,
)
from ortbench.analysis.loads.load_levels import LOCK_MATTERS
from ortbench.core.units import duration, rate, ratio, share
from ortbench.model.modes import (
    CPU,
    FAIRNESS,
    GENERATOR_LAG,
    GIL_WAIT,
    LATE_SHARE,
    LATENCY,
    SERVICE_TIME,
    SM_CLOCK,
    THROUGHPUT,
)
from ortbench.model.result import Case, Result
from ortbench.model.schema import PROCESS, Knee, SloRate

_UNFAIR = 0.95  # of Jain's index: below it some callers are clearly done with fewer runs
_STRETCHED = 1.1  # how many times as long as back to back an inference must take to be told
_FALLEN = 0.95  # below which part of the clock back to back one has fallen
_LATE = 0.001  # from which share of late requests on they are told
_GROWN = 1.05  # by which factor latency must grow beyond the knee to be told
_DROPPED = 0.9  # below which part of the peak runs/s have dropped


def load_sentences(result: Result) -> list[str]:
    """What the load points mean, most important first; nothing where none was measured."""
    modes = modes_of(result)
    of_modes = [find(result, mode) for find in (_knee, _lock, _unfair, _stretched, _full) for mode in modes]
    return [*_best(result), *(said for said in of_modes if said is not None), *_slo(result), *_late(result)]


def load_headline(result: Result) -> str:
    rates = kept(result)
    if rates:
        mode = max(rates, key=lambda name: rates[name]["rate"])
        return f"{mode} keeps {slo_text(asked_of(result) or {})} up to {rate(rates[mode]['rate'])} a second"
    best = best_level(result)
    if best is not None:
        own = measured(result, CONCURRENCY, best.mode)
        knee = knee_of(own)
        if knee is None:
            return f"{rate(rate_of(best))} runs/s {at(best).phrase} ({best.mode})"
        return f"{_reach(knee)} of the peak: {rate(rate_of(best))} runs/s with {best.mode}"
    opened = [level for level in measured(result, RATE) if not is_full(level)]
    if opened:
        last = max(opened, key=lambda level: at(level).value)
        return f"{at(last).phrase.capitalize()} p99 is {duration(latency_of(last).p99)} with {last.mode}"
    full = has_rates(result) and measured(result, RATE)
    return "Requests come faster than they are served" if full else NOTHING


def slo_text(asked: Mapping[str, int]) -> str:
    """An SLO in words: ``p99 ≤ 20 ms``."""
    return " and ".join(f"{stat} ≤ {limit_text(ns)}" for stat, ns in asked.items())


def limit_text(ns: int) -> str:
    """A duration without noughts that say nothing."""
    number, unit = duration(ns).split(" ")
    return f"{float(number):g} {unit}"


def _reach(knee: Knee) -> str:
    count = knee["concurrency"]
    return f"{'one caller reaches' if count == 1 else f'{count} callers reach'} {share(knee['share_of_peak'])}"


def _with(levels: Sequence[Case], metric: str) -> list[tuple[float, Case]]:
    """The load points that have a metric, each with its figure."""
    return [(found, level) for level in levels if (found := level.value(metric)) is not None]


# Closed loops


def _best(result: Result) -> list[str]:
    """Which mode brings most, held against `cpu-tensors`'s most; `cpu-tensors` itself against the next."""
    found = {mode: most(measured(result, CONCURRENCY, mode)) for mode in modes_of(result)}
    peaks = {mode: level for mode, level in found.items() if level is not None}
    if len(peaks) < 2:
        return []
    best = max(peaks.values(), key=rate_of)
    said = f"{best.mode} brings most: {rate(rate_of(best))} runs/s {at(best).phrase}"
    others = [level for level in peaks.values() if level is not best]
    other = peaks[CPU] if CPU in peaks and best.mode != CPU else max(others, key=rate_of)
    times = quotient(rate_of(best), rate_of(other), interval(best, THROUGHPUT), interval(other, THROUGHPUT))
    if times.ci95 is not None and times.ci95[0] <= 1:
        none = "No mode brings measurably more runs/s than cpu-tensors."
        return [none if CPU in peaks else f"{said}, not measurably so."]
    if other.mode != CPU:
        return [f"{said}."]
    more = f"{ratio(times.ratio)} times cpu-tensors' most{within(times.ci95)}"
    return [f"{said}, {more}, which is {rate(rate_of(other))} {at(other).phrase}."]


def _knee(result: Result, mode: str) -> str | None:
    """How many callers are worth it, and what becomes of latency beyond."""
    levels = measured(result, CONCURRENCY, mode)
    knee = knee_of(levels)
    if knee is None:
        return None
    last, before = levels[-1], levels[-2]
    if knee["concurrency"] == at(last).value:
        more = rate_of(last) / max(map(rate_of, levels[:-1])) - 1
        return (
            f"{mode}: {at(last).text} still bring {share(more)} more runs/s than {at(before).value:g}: the peak may lie "
            "beyond them."
        )
    bend = next(level for level in levels if at(level).value == knee["concurrency"])
    there, then = latency_of(bend).p99, latency_of(last).p99
    said = f"{mode}: {_reach(knee)} of the peak; beyond that "
    if then > there * _GROWN:
        said += f"only latency grows (p99 {duration(there)} there, {duration(then)} {at(last).phrase})"
    else:
        said += "more bring no more"
    peak = max(map(rate_of, levels))
    fallen = f"; {at(last).phrase} runs/s fall to {share(rate_of(last) / peak)} of it"
    return f"{said}{fallen if rate_of(last) < _DROPPED * peak else ''}."


def _lock(result: Result, mode: str) -> str | None:
    """How much of the callers' time went into waiting for Python's lock, at the level where it is most."""
    levels = [*measured(result, CONCURRENCY, mode), *measured(result, RATE, mode)]
    waited, level = max(_with(levels, GIL_WAIT), key=itemgetter(0), default=(0.0, None))
    if level is None or waited <= LOCK_MATTERS:
        return None
    said = f"{mode}: callers waited for Python's lock {share(waited)} of the time {at(level).phrase}"
    is_apart = result.part["sessions"] == PROCESS
    return f"{said}." if is_apart else f"{said}: --sessions process shows what the EP can do."


def _unfair(result: Result, mode: str) -> str | None:
    """Callers that are not served alike, at the level where it is worst."""
    fair, level = min(_with(measured(result, CONCURRENCY, mode), FAIRNESS), key=itemgetter(0), default=(1.0, None))
    if level is None or fair >= _UNFAIR:
        return None
    count = at(level).value
    return (
        f"{mode}: callers are not served alike {at(level).phrase} (Jain's index {ratio(fair)}): as if {ratio(fair * count, 1)} of "
        f"{count:g} had shared the runs."
    )


# Open loops


def _stretched(result: Result, mode: str) -> str | None:
    """How much longer an inference takes at the lowest rate than back to back, and what the clock does.

    At the lowest rate requests meet each other least, so what is left is a device and a CPU that went to sleep.
    """
    levels, alone = measured(result, RATE, mode), result.case(mode)
    base = None if alone is None else alone.median(LATENCY)
    if not levels or alone is None or base is None:
        return None
    level = levels[0]
    service = level.median(SERVICE_TIME)
    if service is None or service < _STRETCHED * base:
        return None
    said = (
        f"{mode}: {at(level).phrase} an inference takes {ratio(service / max(base, 1), 1)} times as long as back to back "
        f"({duration(service)}, not {duration(base)})"
    )
    return f"{said}{_clocks(alone.value(SM_CLOCK), level.value(SM_CLOCK))}."


def _clocks(before: float | None, after: float | None) -> str:
    if before is None or after is None or after >= _FALLEN * before:
        return ""
    return f"; the SM clock falls from {before:g} to {after:g} MHz"


def _full(result: Result, mode: str) -> str | None:
    """The rates at which the queue grows without end."""
    levels = [level for level in measured(result, RATE, mode) if is_full(level)]
    if not levels:
        return None
    return (
        f"{mode}: at {_rates(levels)} a second requests come as fast as they are served or faster: the queue grows as long as they "
        "come, so no mean wait is shown."
    )


def _slo(result: Result) -> list[str]:
    asked = asked_of(result)
    if not asked:
        return []
    text = slo_text(asked)
    if result.slo is not None and result.slo["found"]:
        return [f"{mode} keeps {text} {_found(found)}." for mode, found in result.slo["found"].items()]
    return [said for mode in modes_of(result) if (said := _held(result, mode, text, asked))]


def _found(found: SloRate | None) -> str:
    if found is None:
        return "at none of the rates that were tried"
    return f"up to {rate(found['rate'])} a second{within(found['ci95'], rate)}"


def _held(result: Result, mode: str, text: str, asked: Mapping[str, int]) -> str | None:
    """Which of the rates that were asked for keep the SLO."""
    levels = measured(result, RATE, mode)
    if not levels:
        return None
    good = [level for level in levels if _keeps(level, asked)]
    broken = [level for level in levels if not _keeps(level, asked)]
    first = ", ".join(f"{stat} {duration(by_name(latency_of(it), stat))}" for it in broken[:1] for stat in asked)
    if not good:
        return f"{mode} does not keep {text} at {_rates(broken)} a second ({first})."
    said = f"{mode} keeps {text} at {_rates(good)} a second"
    return f"{said}, not at {_rates(broken)} ({first})." if broken else f"{said}."


def _keeps(level: Case, asked: Mapping[str, int]) -> bool:
    check = level.checks.get("slo")
    return holds(level, asked) if check is None else check["verdict"] == "passed"


def _late(result: Result) -> list[str]:
    """Requests that the generator itself issued late, at the level where most were."""
    late, level = max(_with(measured(result, RATE), LATE_SHARE), key=itemgetter(0), default=(0.0, None))
    if level is None or late < _LATE:
        return []
    lag = level.stats(GENERATOR_LAG)
    by = "" if lag is None else f" by up to {duration(lag.max)}"
    return [
        f"{level.mode}: {share(late)} of the requests were issued late{by} {at(level).phrase}: the machine, not the model."
    ]


def _rates(levels: Sequence[Case]) -> str:
    """Rates in words: ``10, 20 and 30``."""
    words = [rate_text(at(level).value) for level in levels]
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))
