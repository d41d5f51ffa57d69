"""What gates check of loads: levels against those of a baseline, stored or measured in turns with it, against an SLO, and modes
against `cpu` level by level. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ortbench import units
from ortbench.analysis.compare import Spread
from ortbench.analysis.compare_levels import COMPARED, level_spread
from ortbench.analysis.levels import (
    CONCURRENCY,
    FEWEST_BLOCKS,
    RATE,
    RUNS_PER_S,
    At,
    at,
    block_figures,
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
from ortbench.gate.contests import BASELINE, CANDIDATE, Contest, Jury, Stream
from ortbench.gate.limits import DEFAULT_METRIC, FAILED, PASSED, UNCLEAR, Check, Limits, Metric
from ortbench.modes import CPU, LOAD
from ortbench.result import Result
from ortbench.schema import Level, SloRate

EVERY_LEVEL = Metric(None, LOAD, "")  # what matters most of each
_FULL = "requests come as fast as they are served or faster"


def check_load(result: Result, limits: Limits) -> list[Check]:
    """What a load must keep to by itself.

    Raises:
        BadInput: a limit that a load has not, or that nothing was measured for.
    """
    if limits.max_copy_share is not None:
        raise BadInput(
            "--max-copy-share is of single inferences; of a load say --min-speedup device-resident=X",
            "--max-copy-share",
        )
    return [
        *_check_slo(result, limits),
        *(it for mode, x in limits.min_speedup.items() for it in _speedups(result, mode, x)),
    ]


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
    return [
        check
        if (check := _over_full(name, level, base, stat, most)) is not None
        else _ratio(name, level, base, stat, most)
        for name, level, base, stat in _held(result, baseline, limits)
    ]


def check_live(candidate: Result, baseline: Result, limits: Limits) -> list[Check]:
    """The same of two sides that were measured in turns: by blocks of the same rounds, with the error rate of a live gate.

    Raises:
        BadInput: a metric of levels that both do not have.
    """
    if limits.max_regression is None:
        return []
    most = 1 + limits.max_regression
    found = list(_held(candidate, baseline, limits))
    contests = [_contest(name, level, stat, most) for name, level, _, stat in found]
    jury = Jury(contests)
    for contest, (_, level, base, stat) in zip(contests, found, strict=True):
        for side, it in ((CANDIDATE, level), (BASELINE, base)):
            for number, value in block_figures(it, stat).items():
                taken = round(1e9 / max(value, 1e-9)) if stat == RUNS_PER_S else round(value)
                jury.add(side, level["mode"], contest.over.phase, number, [taken])
    checks = []
    for contest, (name, level, base, stat) in zip(contests, found, strict=True):
        over = _over_full(name, level, base, stat, most)
        checks.append(_with_remedy(jury.check(contest), jury.takes) if over is None else over)
    return checks


def _contest(name: str, level: Level, stat: str, most: float) -> Contest:
    kind, value = at(level)
    over, under = (Stream(side, level["mode"], f"{stat}@{kind}={value:g}", "median") for side in (CANDIDATE, BASELINE))
    slower = ", as time a run" if stat == RUNS_PER_S else ""
    return Contest(name, over, under, most, at_most=True, what=f"{name}{slower}, candidate to baseline")


def _with_remedy(check: Check, takes: int) -> Check:
    if check.low is not None or check.rounds is None:
        return check
    text = f"{check.text}; a verdict takes {takes} rounds: give a longer --duration"
    return Check(check.name, check.verdict, text, check.ratio, limit=check.limit, rounds=check.rounds)


def _held(result: Result, baseline: Result, limits: Limits) -> Iterator[tuple[str, Level, Level, str]]:
    """The name of each thing that is held against the baseline, the level of both sides, and the figure.

    Raises:
        BadInput: a metric of levels that both do not have.
    """
    seen: set[str] = set()
    for metric in load_metrics(limits):
        found = list(_of_metric(metric, result, baseline, limits))
        if not found:
            raise BadInput(f"--metric {metric.text}: {_why_none(metric, result, baseline)}", "--metric")
        for it in found:
            if it[0] not in seen:  # two metrics can mean one thing
                seen.add(it[0])
                yield it


def load_metrics(limits: Limits) -> Sequence[Metric]:
    """The metrics of levels; where none of any kind was asked for, what matters most of each level."""
    if limits.metrics == (DEFAULT_METRIC,):
        return (EVERY_LEVEL,)
    return [metric for metric in limits.metrics if metric.phase == LOAD]


def _of_metric(
    metric: Metric, result: Result, baseline: Result, limits: Limits
) -> Iterator[tuple[str, Level, Level, str]]:
    for mode, place in places(baseline):
        level, base = level_at(result, mode, place), level_at(baseline, mode, place)
        if level is None or base is None or not _is_for(metric, mode, place, limits):
            continue
        stat = metric.stat or COMPARED[place.kind][0]
        if stat == RUNS_PER_S and place.kind == RATE and metric.at is None:
            continue  # it is what was asked for
        yield f"{mode} {'runs/s' if stat == RUNS_PER_S else stat} {place.phrase}", level, base, stat


def _is_for(metric: Metric, mode: str, place: At, limits: Limits) -> bool:
    named = metric.mode == mode or (metric.mode is None and limits.held(mode))
    return named and metric.at in (None, place)


def _why_none(metric: Metric, result: Result, baseline: Result) -> str:
    common = [it for it in places(baseline) if it in places(result) and metric.mode in (None, it[0])]
    if not common:
        return "no level of it was measured in both"
    listed = dict.fromkeys(f"{place.kind}={place.value:g}" for _, place in common)
    return f"no such level was measured in both; there are {', '.join(listed)}"


def _over_full(name: str, level: Level, base: Level, stat: str, most: float) -> Check | None:
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
