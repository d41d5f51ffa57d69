"""What a sweep of shapes comes to: the best shape, and what it costs that shapes change. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean, median

from ortbench.analysis.pairs import block_medians, shared
from ortbench.modes import ALL_MODES, TOTAL, is_rate
from ortbench.result import FAILED, Case, Point
from ortbench.schema import Best, BestPoint, SwitchedPoint, Switching
from ortbench.slo import Slo
from ortbench.stats import difference_interval, paired_ratio

ITEMS, BYTES = "items_per_s", "bytes_in"  # by what a shape is the best


def keeps(case: Case, slo: Slo) -> bool | None:
    """Whether a mode keeps an SLO; None where that cannot be told, as of modes whose times are no latency."""
    stats = case.phases[TOTAL]
    return None if stats is None or is_rate(case.mode, TOTAL) else slo.keeps(stats)


def best_of(points: Sequence[Point], slo: Slo | None) -> Best | None:
    """The best shape of each mode; None where there is nothing to choose by: shapes that have as many items each, without an
    SLO, or items that nobody knows of."""
    counts = {None if point.items is None else point.items["count"] for point in points if point.inputs}
    by = ITEMS if len(counts) > 1 and None not in counts else BYTES
    if by == BYTES and slo is None:
        return None
    modes = [mode for mode in ALL_MODES if any(point.case(mode) for point in points)]
    found = {mode: _best(points, mode, slo, by) for mode in modes}
    rates = {mode: it["items_per_s"] for mode, it in found.items() if it is not None and it["items_per_s"] is not None}
    return {"mode": max(rates, key=lambda mode: rates[mode]) if rates and by == ITEMS else None, "modes": found}


def _best(points: Sequence[Point], mode: str, slo: Slo | None, by: str) -> BestPoint | None:
    cases = {
        number: case
        for number, point in enumerate(points)
        if (case := point.case(mode)) is not None
        and case.phases[TOTAL] is not None
        and (slo is None or keeps(case, slo))
    }
    if not cases:
        return None
    if by == BYTES:
        largest = max(cases, key=lambda number: (_bytes(points[number]), -number))
        return {
            "point": largest,
            "by": by,
            "items_per_s": _rate(cases[largest]),
            "ci95": _interval(points[largest], cases[largest]),
            "ties": [],
        }
    number = max(cases, key=lambda it: _rate(cases[it]) or 0)
    ties = [it for it in cases if it != number and _is_tie((points[number], cases[number]), (points[it], cases[it]))]
    return {
        "point": number, "by": by, "items_per_s": _rate(cases[number]), "ci95": _interval(points[number], cases[number]),
        "ties": ties,
    }  # fmt: skip


def _bytes(point: Point) -> int:
    return sum(tensor["bytes"] or 0 for tensor in point.inputs)


def _rate(case: Case) -> float | None:
    return None if case.throughput is None else case.throughput["items_per_s"]


def _interval(point: Point, case: Case) -> list[float] | None:
    """That of the items a second: what the interval of the median says."""
    stats = case.phases[TOTAL]
    if point.items is None or stats is None:
        return None
    low, high = stats.ci95_ns
    return [round(point.items["count"] * 1e9 / max(ns, 1), 3) for ns in (high, low)]


def _is_tie(best: tuple[Point, Case], other: tuple[Point, Case]) -> bool:
    """Whether two shapes cannot be told apart by their time for an item: pair by pair of blocks, else by their intervals."""
    (point, case), (point_b, case_b) = best, other
    pairs = shared(block_medians(case_b, TOTAL), block_medians(case, TOTAL))
    count, count_b = (1 if it.items is None else it.items["count"] for it in (point, point_b))
    if pairs[0]:
        found = paired_ratio([ns / count_b * 1e3 for ns in pairs[0]], [ns / count * 1e3 for ns in pairs[1]])
        if found.ci95 is not None:
            return found.ci95[0] <= 1 <= found.ci95[1]
    mine, theirs = _interval(point, case), _interval(point_b, case_b)
    return mine is not None and theirs is not None and theirs[1] >= mine[0]


def failures(points: Sequence[Point], status: str = FAILED) -> list[str]:
    """Which modes of which shapes failed, and why: shapes that did so for one reason, and modes of one shape, in one sentence."""
    of_reason: dict[str, dict[str, list[str]]] = {}
    for point in points:
        for case in point.cases:
            if case.status == status:
                of_reason.setdefault(str(case.reason), {}).setdefault(point.name, []).append(case.mode)
    found = []
    for reason, shapes in of_reason.items():
        of_modes: dict[tuple[str, ...], list[str]] = {}
        for name, modes in shapes.items():
            of_modes.setdefault(tuple(modes), []).append(name)
        for modes_, names in of_modes.items():
            whole = all(len(point.cases) == len(modes_) for point in points if point.name in names)
            of = "" if whole else f" {', '.join(modes_)}"
            found.append(f"{', '.join(names)}:{of} {status}: {reason}")
    return found


# Switching


def switched(mode: str, points: Sequence[int], calls: int) -> Switching:
    """What is known before the first round.

    Args:
        mode: which.
        points: the shapes.
        calls: of each, either way, in a round.
    """
    empty: list[SwitchedPoint] = [
        {
            "point": number,
            "alone_ns": 0,
            "turns_ns": 0,
            "ratio": 1.0,
            "ci95": None,
            "samples_ns": {"alone": [], "turns": []},
        }
        for number in points
    ]
    return {
        "mode": mode, "rounds": 0, "calls": calls, "ratio": 1.0, "ci95": None, "cost_ns": 0, "cost_ci95_ns": None,
        "points": empty,
    }  # fmt: skip


def summarise_switching(found: Switching) -> Switching:
    """The figures that follow from its samples; at least one round of them."""
    calls = found["calls"]
    ways: dict[str, list[list[float]]] = {
        way: [_by_round(point["samples_ns"][way], calls) for point in found["points"]] for way in ("alone", "turns")
    }
    points: list[SwitchedPoint] = []
    for point, alone, turns in zip(found["points"], ways["alone"], ways["turns"], strict=True):
        ratio = paired_ratio(turns, alone)
        alone_ns, turns_ns = (round(median(point["samples_ns"][way])) for way in ("alone", "turns"))
        of_ratio, ci95 = round(ratio.ratio, 4), _rounded(ratio.ci95)
        points.append({**point, "alone_ns": alone_ns, "turns_ns": turns_ns, "ratio": of_ratio, "ci95": ci95})
    # A turn of all shapes, either way.
    whole = {way: [sum(times) for times in zip(*of_points, strict=True)] for way, of_points in ways.items()}
    ratio = paired_ratio(whole["turns"], whole["alone"])
    each = [(turn - alone) / len(points) for turn, alone in zip(whole["turns"], whole["alone"], strict=True)]
    # Of the medians of all calls, which bear more of a busy machine than those of the few calls of a round do.
    cost = round(mean(point["turns_ns"] - point["alone_ns"] for point in points))
    within = difference_interval(each)
    return {
        **found,
        "rounds": len(each),
        "ratio": round(ratio.ratio, 4),
        "ci95": _rounded(ratio.ci95),
        "cost_ns": cost,
        "cost_ci95_ns": None if within is None else [min(round(within[0]), cost), max(round(within[1]), cost)],
        "points": points,
    }


def _by_round(samples: Sequence[int], calls: int) -> list[float]:
    return [median(samples[at : at + calls]) for at in range(0, len(samples), calls)]


def _rounded(interval: tuple[float, float] | None) -> list[float] | None:
    return None if interval is None else [round(end, 4) for end in interval]


def has_a_cost(found: Switching) -> bool | None:
    """Whether switching shapes costs something for certain; None where that cannot be told."""
    return None if found["ci95"] is None else found["ci95"][0] > 1
