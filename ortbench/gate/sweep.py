"""What gates check of sweeps: each shape by itself and against that of a baseline, and whether any keeps an SLO. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from ortbench import units
from ortbench.analysis.compare import stored_ratio
from ortbench.analysis.compare_sweeps import common
from ortbench.analysis.points import alone
from ortbench.analysis.sweep import best_of, failures, keeps
from ortbench.errors import BadInput
from ortbench.gate.checks import (
    check_alone,
    check_facts,
    check_lost_modes,
    check_ratio,
    lacking_blocks,
    stored_checks,
)
from ortbench.gate.limits import FAILED, PASSED, UNCLEAR, Check, Limits, Metric
from ortbench.gate.memory import check_memory_regressions
from ortbench.gate.shapes import ITEMS, Shapes
from ortbench.modes import ALL_MODES, LOAD, MEMORY, TOTAL, is_rate
from ortbench.result import Point, Result
from ortbench.slo import Slo

Pair = tuple[str, Result, Result]  # a shape's name, and what the candidate and the baseline have of it


def check_sweep(result: Result, limits: Limits) -> list[Check]:
    """What a sweep must keep to by itself: each of its shapes what a run of it must, and some shape an SLO.

    Raises:
        BadInput: a mode that a limit needs was not measured.
    """
    whole = replace(limits, require_modes=(), max_device_memory=None, max_host_memory=None)
    each = replace(limits, max_cpu_nodes=None, slo={})
    return [
        *check_facts(result, whole),
        *(_named(check, point.name) for point in _there(result) for check in check_alone(alone(result, point), each)),
        *(check for stat, most in limits.slo.items() for check in _check_slo(result, Slo(stat, most), limits)),
    ]


def _there(result: Result) -> list[Point]:
    """The shapes that ran; that others did not is a failure of the benchmark."""
    return [point for point in result.points or [] if point.inputs]


def _named(check: Check, shape: str) -> Check:
    return replace(check, name=f"{shape}: {check.name}", text=f"{shape}: {check.text}")


def _check_slo(result: Result, slo: Slo, limits: Limits) -> Iterator[Check]:
    """Whether any shape keeps an SLO, mode by mode where times are latency: that larger ones do not is what a sweep finds out."""
    points = result.points or []
    best = best_of(points, slo)
    for mode in ALL_MODES:
        told = [keeps(case, slo) for point in points if (case := point.case(mode)) is not None and case.phases[TOTAL]]
        if not told or not limits.held(mode) or is_rate(mode, TOTAL):
            continue
        name = f"SLO of {mode}"
        found = None if best is None else best["modes"].get(mode)
        if found is not None:
            rate = "" if found["items_per_s"] is None else f", {units.rate(found['items_per_s'])} items/s"
            yield Check(name, PASSED, f"{name}: {slo} is kept; best with {points[found['point']].name}{rate}")
        elif None in told:
            few = f"it takes {slo.needed} runs of a shape; --duration gives more"
            yield Check(name, UNCLEAR, f"{name}: whether a shape keeps {slo} cannot be told: {few}")
        else:
            yield Check(name, FAILED, f"{name}: no shape keeps {slo}")


# Against a baseline


def check_sweep_regressions(result: Result, baseline: Result, limits: Limits) -> list[Check]:
    """The candidate's shapes against those of an earlier run, with the noise that both recorded.

    Raises:
        BadInput: a metric that both have not, or shapes that both have not.
    """
    if limits.max_regression is None:
        return []
    ran = {point.name for point in _there(result)} & {point.name for point in _there(baseline)}
    shapes = [(name, one, base) for name, (base, one) in common([baseline, result]) if name in ran]
    lost = [*_lost_shapes(result, baseline), *_of_shapes(shapes, lambda one, base: check_lost_modes(one, base, limits))]
    if not shapes and not lost:
        raise BadInput("the sweeps have no shape in common: measure the candidate over the baseline's")
    checks: list[Check] = []
    for metric in limits.metrics:
        found = _of_metric(metric, shapes, (result, baseline), limits)
        if not found and not lost:
            raise BadInput(f"--metric {metric.text}: {_why_none(metric, shapes)}", "--metric")
        checks += found
    return list(dict.fromkeys([*lost, *checks]))  # two metrics can mean one thing


def _lost_shapes(result: Result, baseline: Result) -> Iterator[Check]:
    """Shapes that the baseline has and the candidate, which was asked for them too, has not."""
    there = {point.name for point in _there(baseline)}
    for point in result.points or []:
        if point.name in there and not point.inputs:
            (text, *_) = failures([point])
            yield Check(f"shape {point.name}", FAILED, f"{text}; the baseline has it")


def _of_metric(metric: Metric, shapes: Sequence[Pair], sweeps: tuple[Result, Result], limits: Limits) -> list[Check]:
    """What a metric comes to; none where there is nothing that both have.

    Raises:
        BadInput: memory was not measured.
    """
    if isinstance(metric.at, Shapes) and metric.at.are_best:
        return _of_best(metric, sweeps, limits)
    chosen = [it for it in shapes if _fits(metric, it[0], sweeps[0])]
    if metric.phase == MEMORY:
        only = replace(limits, metrics=(metric,))
        both = [it for it in chosen if any(it[1].case(mode) and it[2].case(mode) for mode in _modes(metric, limits))]
        return _of_shapes(both, lambda one, base: check_memory_regressions(one, base, only))
    if metric.phase == LOAD:
        return []
    if metric.stat == ITEMS:
        return _of_shapes(chosen, lambda one, base: _rates(metric, one, base, limits))
    return _of_shapes(chosen, lambda one, base: stored_checks(metric, one, base, limits))


def _of_shapes(shapes: Sequence[Pair], checks_of: Callable[[Result, Result], list[Check]]) -> list[Check]:
    return [_named(check, name) for name, one, base in shapes for check in checks_of(one, base)]


def _fits(metric: Metric, name: str, result: Result) -> bool:
    if not isinstance(metric.at, Shapes):
        return metric.at is None
    return any(point.name == name and metric.at.fit(point) for point in result.points or [])


def _modes(metric: Metric, limits: Limits) -> list[str]:
    return [metric.mode] if metric.mode else [mode for mode in ALL_MODES if limits.held(mode)]


def _why_none(metric: Metric, shapes: Sequence[Pair]) -> str:
    if metric.phase == LOAD:
        return "is of loads, and these are sweeps"
    if isinstance(metric.at, Shapes) and not metric.at.are_best:
        names = ", ".join(name for name, _, _ in shapes)
        return f"not measured in both of a shape @{metric.at.text}; there are {names or 'none'}"
    return "not measured in both results" if metric.stat != ITEMS else "the sweeps do not say how many items a run has"


# Items a second


def _rates(metric: Metric, one: Result, base: Result, limits: Limits) -> list[Check]:
    """Items a second of a shape, as the time for an item; of other shapes too, where those are the best of each side."""
    found = []
    for mode in _modes(metric, limits):
        case, other = one.case(mode), base.case(mode)
        spread = None if case is None or other is None else stored_ratio(other, case, TOTAL)
        if case and other and spread and one.items and base.items and case.throughput and other.throughput:
            by_item = base.items["count"] / one.items["count"]
            low, high = (None if end is None else end * by_item for end in (spread.low, spread.high))
            found.append(
                check_ratio(
                    f"{mode} items/s",
                    f"{units.rate(case.throughput['items_per_s'])} against {units.rate(other.throughput['items_per_s'])} (as time an item)",
                    replace(spread, ratio=spread.ratio * by_item, low=low, high=high),
                    limits,
                    lacking_blocks((one, case), (base, other), TOTAL),
                )
            )
    return found


def _of_best(metric: Metric, sweeps: tuple[Result, Result], limits: Limits) -> list[Check]:
    """The best shapes of both by items a second, whichever they are."""
    found = []
    for mode in _modes(metric, limits):
        sides = [(point.name, alone(sweep, point)) for sweep in sweeps if (point := _best(sweep, mode)) is not None]
        if len(sides) == len(sweeps):
            (name, one), (other, base) = sides
            which = f"best shape ({name})" if name == other else f"best shapes ({name} against {other})"
            checks = _rates(replace(metric, mode=mode), one, base, limits)
            found += [replace(it, name=f"best: {it.name}", text=f"{which}: {it.text}") for it in checks]
    return found


def _best(sweep: Result, mode: str) -> Point | None:
    """The shape that gets most items done with a mode, whatever SLO it was measured for."""
    points = sweep.points or []
    best = best_of(points, None)
    found = None if best is None else best["modes"].get(mode)
    return None if found is None else points[found["point"]]
