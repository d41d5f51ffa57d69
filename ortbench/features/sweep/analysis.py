"""A sweep of shapes: which is the best, and what it costs that shapes change. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from statistics import median
from typing import Any

from ortbench.analysis.comparable import Traits
from ortbench.analysis.intervals import ABOVE, OPEN, are_apart, by_round, verdict_of
from ortbench.analysis.items import cases_of, differing_dims
from ortbench.analysis.load_points import LEAST, QUANTILES, keeps_to, latency_bounds
from ortbench.analysis.noise import is_busy, supports_better
from ortbench.core.stats import MEAN, Blocks, Rounds, Value, by_few_rounds
from ortbench.features.sweep.model import Best, BestShape, SwitchedShape, Switching
from ortbench.model.metric_names import Slo
from ortbench.model.modes import ALL_MODES, ITEM_THROUGHPUT, LATENCY, is_rate, mode_of
from ortbench.model.result import Case, Point, Result

ITEMS, BYTES = "items_per_s", "bytes_in"  # by what a shape is the best
WAYS = ("alone", "turns")  # in which switching is timed: one shape after the other, and a call of each in turns

_MUCH = 1.1  # times as long: what may be less is not said to be a cost
_FAR = 2  # times that inferences of two shapes are apart that need no rounds
_QUANTILES = {**QUANTILES, "p90": 0.9}


def meets_slo(case: Case, slo: Slo) -> bool | None:
    """Whether a mode meets an SLO with 95 % confidence, False where it violates it with as much, else None, as of modes whose times are
    no latency: by the rule of a load's SLO (`latency_bounds`)."""
    samples, stat = case.samples.get(LATENCY), _statistic(slo)
    if not samples or case.stats(LATENCY) is None or is_rate(case.mode, LATENCY):
        return None
    within = latency_bounds(samples, quantiles={stat: _QUANTILES[stat]} if stat in _QUANTILES else {})[stat]
    return keeps_to(within, slo.limit_ns)


def why_not_told(slo: Slo) -> str:
    """Why it may not be told whether a shape meets an SLO."""
    stat = _statistic(slo)
    return f"a {stat} takes {LEAST[stat]} samples, more where neighbours are alike or it is close to the limit"


def _statistic(slo: Slo) -> str:
    return "p50" if slo.is_median else slo.statistic


def best_of(result: Result, slo: Slo | None) -> Best | None:
    """The best shape of each mode; None where items are not known or as many in each, and there is no SLO."""
    counts = {None if it.items is None else it.items["count"] for it in result.shapes if it.inputs}
    by = ITEMS if len(counts) > 1 and None not in counts else BYTES
    if by == BYTES and slo is None:
        return None
    modes = [mode for mode in ALL_MODES if cases_of(result, mode)]
    found = {mode: _best(result, mode, slo, by) for mode in modes}
    rates = {mode: it["items_per_s"] for mode, it in found.items() if it is not None and it["items_per_s"] is not None}
    return {"mode": max(rates, key=lambda mode: rates[mode]) if rates and by == ITEMS else None, "modes": found}


def shapes_by_other_sizes(result: Result) -> dict[str, list[str]]:
    """In a grid, for each size of the dimensions that do not count items, the shapes that differ in that one alone; else nothing."""
    dims, counting = differing_dims(result.shapes), {it.items["dim"] for it in result.shapes if it.items is not None}
    others = [it for it in dims if it not in counting]
    found: dict[str, list[str]] = {}
    for shape in result.shapes if others and len(others) == len(dims) - 1 else ():
        found.setdefault(" ".join(f"{it}={shape.shape[it]}" for it in others), []).append(shape.name)
    return found


def best_by_other_sizes(result: Result, mode: str) -> dict[str, BestShape]:
    """The best shape of each of these."""
    every = shapes_by_other_sizes(result).items()
    found = {sizes: _best(result, mode, slo_of(result), ITEMS, names) for sizes, names in every}
    return {sizes: best for sizes, best in found.items() if best is not None}


def _best(
    result: Result, mode: str, slo: Slo | None, by: str, names: Collection[str] | None = None
) -> BestShape | None:
    """The best shape of a mode, of all or of those with some names."""
    measured = [it for it in cases_of(result, mode) if it[1].stats(LATENCY) and (names is None or it[0].name in names)]
    there = [it for it in measured if slo is None or meets_slo(it[1], slo)]
    if not there:
        return None
    best = max(there, key=lambda it: _bytes(it[0]) if by == BYTES else it[1].value(ITEM_THROUGHPUT) or 0)
    others = [] if by == BYTES else [it for it in there if it is not best]
    ties = [it[0].name for it in others if verdict_of(_item_ratio(best, it, MEAN)) != ABOVE]
    shape, case = best
    return {
        "shape": shape.name,
        "by": by,
        "items_per_s": case.value(ITEM_THROUGHPUT),
        "ci95": None if (ends := _interval(case)) is None else list(ends),
        "ties": ties,
    }


def best_by_mode(result: Result) -> dict[str, BestShape | None]:
    """The best shape of each mode, as the result has them."""
    best: Best | None = result.own.get("best")
    return {} if best is None else best["modes"]


def is_noisy(result: Result, mode: str) -> bool:
    """Whether the machine was too busy to say which shape of a mode gets most items done."""
    best = best_by_mode(result).get(mode)
    if best is None or best["by"] != ITEMS or not is_busy(result):
        return False
    cases = {shape.name: (shape, case) for shape, case in cases_of(result, mode)}
    if best["shape"] not in cases:  # of a file that was changed
        return False
    first, others = cases.pop(best["shape"]), [it for name, it in cases.items() if name not in best["ties"]]
    return any(not _noise_allows(result, first, it) for it in others)


def how_known(result: Result, mode: str) -> str:
    """Whether a mode's best shape by items is ``known``; there are others that are as good (``tied``); too little was measured to tell
    (``open``); or ``noise`` leaves it open."""
    alike, unknown = ties(result, mode)
    return "noise" if is_noisy(result, mode) else "open" if unknown else "tied" if alike else "known"


def _noise_allows(result: Result, best: tuple[Point, Case], other: tuple[Point, Case]) -> bool:
    """Whether noise leaves the claim that a shape takes less time for an item than another. By the medians, which the waits of few
    inferences do not move."""
    (point, case), (point_b, case_b) = best, other
    found = _item_ratio(best, other, 0.5)
    return found is None or supports_better(result, case, case_b, found[0], (_count(point), _count(point_b)))


def _item_ratio(best: tuple[Point, Case], other: tuple[Point, Case], q: float | None) -> tuple[float, float] | None:
    """How many times as long an item takes in another shape, by a quantile or the `MEAN` of both: between which two; by rounds that
    both have, else by all inferences where each takes `_FAR` times as long as any of the other, else by their intervals; None where these
    are not known."""
    (point, case), (point_b, case_b) = best, other
    these, those = by_round(case_b, LATENCY), by_round(case, LATENCY)
    by = _count(point) / _count(point_b)
    if (
        not these.keys().isdisjoint(those)
        and (found := by_few_rounds(these, those, q, case.first_rounds)).ci95 is not None
    ):
        return found.ci95[0] * by, found.ci95[1] * by
    long, short = ([ns for block in it.values() for ns in block] for it in (these, those))
    if are_apart(short, long, _FAR / by):
        return min(long) / max(short) * by, max(long) / max(min(short), 1) * by
    mine, theirs = _interval(case), _interval(case_b)
    return None if mine is None or theirs is None else (mine[0] / max(theirs[1], 1e-9), mine[1] / max(theirs[0], 1e-9))


def _count(point: Point) -> int:
    return 1 if point.items is None else point.items["count"]


def _bytes(point: Point) -> int:
    return sum(tensor["bytes"] or 0 for tensor in point.inputs)


def ties(result: Result, mode: str, best: BestShape | None = None) -> tuple[list[str], list[str]]:
    """Of the shapes that cannot be told from a mode's best, or from another one: those that are as good, and those of which it cannot be
    told."""
    found: tuple[list[str], list[str]] = [], []
    if (best := best or best_by_mode(result).get(mode)) is None:
        return found
    cases = {shape.name: (shape, case) for shape, case in cases_of(result, mode)}
    for name in best["ties"]:
        are_there = {name, best["shape"]} <= cases.keys()
        within = _item_ratio(cases[best["shape"]], cases[name], MEAN) if are_there else None
        if (said := verdict_of(within)) != ABOVE:
            found[said == OPEN].append(name)
    return found


def _interval(case: Case) -> tuple[float, float] | None:
    """That of the items a second."""
    found = case.metrics.get(ITEM_THROUGHPUT)
    return found.ci95 if isinstance(found, Value) else None


# Switching


def summarise_switching(mode: str, calls: int, taken: Mapping[str, dict[str, list[int]]]) -> Switching:
    """What at least one round of so many `calls` of each shape, either way, says; `taken`: their samples by the shape's name."""
    count = len(next(iter(taken.values()))["alone"]) // calls
    rounds = Rounds(range(count))
    shapes: list[SwitchedShape] = []
    # A turn of all shapes, either way: what it takes, and in each resample of the rounds.
    took = dict.fromkeys(WAYS, 0)
    drawn: dict[str, Any] = dict.fromkeys(WAYS, 0.0)
    for name, samples in taken.items():
        ns = {way: round(median(samples[way])) for way in WAYS}
        figures = {way: rounds.figures(_by_round(samples[way], calls)) for way in WAYS if rounds.are_enough}
        for way in WAYS:
            took[way] += ns[way]
            drawn[way] = drawn[way] + figures.get(way, 0.0)
        ratio, ci95 = _times(rounds, figures, ns)
        shapes.append(
            {
                "shape": name,
                "alone_ns": ns["alone"],
                "turns_ns": ns["turns"],
                "ratio": ratio,
                "ci95": ci95,
                "samples": samples,
            }
        )
    cost, within = (took["turns"] - took["alone"]) / len(shapes), None
    if rounds.are_enough:
        within = [round(end) for end in rounds.interval((drawn["turns"] - drawn["alone"]) / len(shapes), cost)]
    ratio, ci95 = _times(rounds, drawn, took)
    return {
        "mode": mode, "rounds": count, "calls": calls, "ratio": ratio, "ci95": ci95, "cost_ns": round(cost), "cost_ci95_ns": within,
        "shapes": shapes,
    }  # fmt: skip


def _times(rounds: Rounds, drawn: Mapping[str, Any], took: Mapping[str, int]) -> tuple[float, list[float] | None]:
    """How many times as long calls take in turns, by what they take, and its interval, by what each resample has instead."""
    ratio = max(took["turns"], 1) / max(took["alone"], 1)
    inside = rounds.interval(drawn["turns"] / drawn["alone"], ratio) if rounds.are_enough else None
    return round(ratio, 4), None if inside is None else [round(end, 4) for end in inside]


def _by_round(samples: Sequence[int], calls: int) -> Blocks:
    return {number: samples[number * calls :][:calls] for number in range(len(samples) // calls)}


def has_a_cost(found: Switching) -> bool:
    """Whether switching shapes costs something for certain, more than by how much ratios of one process differ from those of another."""
    low, high = found["ci95"] or (None, None)
    return verdict_of((low, high), _MUCH) == ABOVE


def slo_of(result: Result) -> Slo | None:
    """What the best shape had to keep, if anything."""
    limits = result.part["slo"]
    return Slo(*next(iter(limits.items()))) if limits else None


def most_items(result: Result) -> str | None:
    """The shape that gets most items done, of modes that take new inputs first."""
    best = [
        (not mode_of(mode).on_device, best_shape["items_per_s"] or 0, best_shape["shape"])
        for mode, best_shape in best_by_mode(result).items()
        if best_shape is not None and best_shape["by"] == ITEMS and not is_rate(mode, LATENCY)
    ]
    return max(best)[2] if best else None


def count_text(result: Result) -> str:
    return f" of {len(result.shapes)} shapes"


def identity(result: Result, own: Traits) -> Traits:
    """Of two sweeps the shapes are compared that both have."""
    return {**own, "shapes": {tensor["name"]: tensor["model_shape"] for tensor in result.model["inputs"]}}
