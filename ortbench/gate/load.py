"""What gates check of loads that are over: levels against those of a stored baseline, against an SLO, and modes against `cpu` level by
level. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from ortbench import units
from ortbench.analysis.compare import Spread
from ortbench.analysis.compare_levels import level_spread
from ortbench.analysis.levels import (
    CONCURRENCY,
    FEWEST_BLOCKS,
    RATE,
    RUNS_PER_S,
    at,
    by_statistic,
    interval,
    is_full,
    is_measured,
    latency_of,
    measured,
    quotient,
    rate_of,
)
from ortbench.analysis.load import level_at, places
from ortbench.analysis.load_advice import slo_text
from ortbench.errors import BadInput
from ortbench.gate.limits import FAILED, PASSED, UNCLEAR, Check, Limits
from ortbench.gate.load_metrics import held_levels
from ortbench.modes import CPU
from ortbench.result import Result
from ortbench.schema import Level, SloRate

_FULL = "requests come as fast as they are served or faster"


def check_load(result: Result, limits: Limits) -> list[Check]:
    """What a load must keep to by itself.

    Raises:
        BadInput: a limit that a load has not, or that nothing was measured for.
    """
    refuse_copy_share(limits)
    return [
        *_check_slo(result, limits),
        *(it for mode, x in limits.min_speedup.items() for it in _speedups(result, mode, x)),
    ]


def refuse_copy_share(limits: Limits) -> None:
    """Refuse a limit of the copies in a run, of which a load knows nothing.

    Raises:
        BadInput: there is one.
    """
    if limits.max_copy_share is not None:
        reason = "is of single inferences; of a load say --min-speedup device-resident=X"
        raise BadInput(f"--max-copy-share {reason}", "--max-copy-share")


def _check_slo(result: Result, limits: Limits) -> list[Check]:
    if not limits.slo:
        return []
    if result.slo is not None and result.slo["found"] and result.slo["asked"] == limits.slo:
        return [_found(mode, found, limits.slo) for mode, found in result.slo["found"].items() if limits.held(mode)]
    levels = [
        level for level in result.levels if at(level).kind == RATE and is_measured(level) and limits.held(level["mode"])
    ]
    if not levels:
        raise BadInput("--slo: the result has no level at a rate; measure it with 'ortbench load --rate'", "--slo")
    return [_keeps(level, stat, most) for level in levels for stat, most in limits.slo.items()]


def _found(mode: str, found: SloRate | None, asked: Mapping[str, int]) -> Check:
    """Whether any rate keeps an SLO that one was looked for: others that were tried on the way need not."""
    name = f"SLO of {mode}"
    if found is None:
        return Check(name, FAILED, f"{name}: no rate that was tried keeps {slo_text(asked)}")
    low, high = map(units.rate, found["ci95"])
    return Check(
        name, PASSED, f"{name}: {slo_text(asked)} up to {units.rate(found['rate'])} a second (95 %: {low} to {high})"
    )


def _keeps(level: Level, stat: str, most: int) -> Check:
    """Whether a level keeps an SLO for certain: of the largest latency by itself, of others by their intervals."""
    name = f"SLO of {level['mode']} {stat} {at(level).phrase}"
    limit = f"must be at most {slo_text({stat: most}).partition(' ≤ ')[2]}"
    value = by_statistic(latency_of(level))[stat]
    if is_full(level):
        return Check(name, FAILED, f"{name}: {_FULL}, so the queue grows as long as they come; {limit}")
    if stat == "max":
        return Check(name, PASSED if value <= most else FAILED, f"{name}: {units.duration(value)}, {limit}")
    inside = interval(level, stat)
    if inside is None:
        return Check(name, UNCLEAR, f"{name}: {units.duration(value)} ({_few()}), {limit}")
    low, high = inside
    verdict = PASSED if high <= most else FAILED if low > most else UNCLEAR
    return Check(
        name, verdict, f"{name}: {units.duration(value)} ({units.duration(low)} to {units.duration(high)}), {limit}"
    )


def _few() -> str:
    return f"fewer than {FEWEST_BLOCKS} blocks, so no interval; a longer --duration gives more"


def _speedups(result: Result, mode: str, least: float) -> list[Check]:
    """How many times `cpu`'s runs/s a mode has, at every number of callers that both were measured with."""
    cpu = {at(level): level for level in measured(result, CONCURRENCY, CPU)}
    pairs = [(level, cpu[at(level)]) for level in measured(result, CONCURRENCY, mode) if at(level) in cpu]
    if not pairs:
        reason = f"needs {mode} and {CPU} with the same numbers of callers, which were not measured"
        raise BadInput(f"--min-speedup {mode}: {reason}", "--min-speedup")
    return [_speedup(level, base, least) for level, base in pairs]


def _speedup(level: Level, base: Level, least: float) -> Check:
    name = f"{level['mode']} speedup {at(level).phrase}"
    found = quotient(rate_of(level), rate_of(base), interval(level, RUNS_PER_S), interval(base, RUNS_PER_S))
    low, high = found.ci95 or (None, None)
    verdict, where = UNCLEAR, _few()
    if low is not None and high is not None:
        verdict = PASSED if low > least else FAILED if high < least else UNCLEAR
        where = f"{units.ratio(low, 3)} to {units.ratio(high, 3)}"
    text = (
        f"{level['mode']} brings as many runs/s as cpu {at(level).phrase}: ×{units.ratio(found.ratio, 3)} ({where}), must be at least "
        f"×{least:.4g}"
    )
    return Check(name, verdict, text, found.ratio, low, high, least)


# Against a baseline


def check_load_regressions(result: Result, baseline: Result, limits: Limits) -> list[Check]:
    """The candidate's levels against those of an earlier run, with the noise that both recorded.

    Raises:
        BadInput: a metric of levels that both do not have.
    """
    if limits.max_regression is None:
        return []
    most = 1 + limits.max_regression
    common = [place for place in places(baseline) if place in places(result)]
    checks = []
    for held in held_levels(common, limits):
        level, base = (level_at(it, held.mode, held.at) for it in (result, baseline))
        if level is not None and base is not None:
            over = over_full(held.name, level, base, held.stat, most)
            checks.append(_ratio(held.name, level, base, held.stat, most) if over is None else over)
    return checks


def over_full(name: str, level: Level, base: Level, stat: str, most: float) -> Check | None:
    """What there is to say of a latency where a queue grows; None where none does."""
    if stat == RUNS_PER_S or not (is_full(level) or is_full(base)):
        return None
    who = "both sides" if is_full(level) and is_full(base) else "the candidate" if is_full(level) else "the baseline"
    verdict = UNCLEAR if is_full(level) and is_full(base) else FAILED if is_full(level) else PASSED
    return Check(
        name, verdict, f"{name}: with {who} {_FULL}, so its latency only says how long the level lasted", limit=most
    )


def _ratio(name: str, level: Level, base: Level, stat: str, most: float) -> Check:
    found = level_spread(base, level, stat)
    verdict, where = UNCLEAR, _few()
    if found.low is not None and found.high is not None:
        verdict = FAILED if found.low > most else PASSED if found.high < most else UNCLEAR
        where = f"{units.ratio(found.low, 3)} to {units.ratio(found.high, 3)} with the noise of both runs"
    text = f"{name}: {_figures(found, stat)}, ×{units.ratio(found.ratio, 3)} as slow ({where}), must be at most ×{most:.4g}"
    return Check(name, verdict, text, found.ratio, found.low, found.high, most)


def _figures(found: Spread, stat: str) -> str:
    show = units.rate if stat == RUNS_PER_S else units.duration
    return f"{show(found.value_ns)} against {show(found.base_ns)}"
