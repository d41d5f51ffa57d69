"""Charts of all samples: how long inferences take, how samples are distributed, and how they went over the run."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ortbench.core import units
from ortbench.core.stats import SAMPLES_FOR, Stats
from ortbench.features.page.report.chart_data import model
from ortbench.model.modes import LATENCY
from ortbench.model.result import Case, Result
from ortbench.report.model import NOTHING, Column, Kind, Table, columns

_QUARTERS = 4
_SLOW = 1.5  # how many times its mode's median a run takes that is called slow
_MANY = 500  # samples of a mode above which a band stands for them, with the slowest as dots
_PARTS = 150  # of that band
_SLOWEST = 100


def distribution(result: Result) -> model.Chart | None:
    """How the samples of each mode that times inferences are distributed; None where there are none."""
    modes, one = tuple(samples_of(result)), model.what_is_timed([result])
    if not modes:
        return None
    unit, scale = units.time_unit(max(it.stats.median for it in modes))
    names = ("min", "median", "95% CI", "p90", "p95", "p99", "max", "std dev")
    headed = (Column("mode", Kind.NAME), Column("samples"), *columns(Kind.TIME, *names))
    return model.Chart(
        f"Distribution of the time per {one}",
        f"Histograms of the time of one {one}, one for each mode, with lines at the median and at the p95.",
        Table(headed, tuple(_stats_cells(it, scale) for it in modes), unit),
        model.Histograms(modes),
    )


def _stats_cells(samples: model.Samples, scale: float) -> tuple[str, ...]:
    stats = samples.stats
    low, high = (units.digits(ns / scale) for ns in stats.ci95)
    tails = [
        units.digits(getattr(stats, name) / scale) if stats.n >= least else NOTHING
        for name, least in SAMPLES_FOR.items()
    ]
    shown = [units.digits(ns / scale) for ns in (stats.min, stats.median, stats.p90, stats.max, stats.stdev)]
    return (samples.mode, str(stats.n), shown[0], shown[1], f"{low}–{high}", shown[2], *tails, *shown[3:])


def samples_of(result: Result) -> Iterator[model.Samples]:
    starts = (start for case, _ in model.measured_cases(result) for _, _, start in case.blocks.get(LATENCY, []))
    begun = min(starts, default=0)  # on the worker's clock
    for case, stats in model.timed_cases(result):
        ns = np.asarray(case.samples.get(LATENCY, []), dtype=np.int64)
        if ns.size:
            yield model.Samples(case.mode, ns, _since(case, ns, begun), stats)


def _since(case: Case, ns: NDArray[np.int64], start: int) -> NDArray[np.float64]:
    """When each sample began, in seconds since `start`: its block's start and the samples before it in the block."""
    found = []
    at = 0
    for _, size, began in case.blocks.get(LATENCY, []):
        inside = ns[at : at + size]
        found.append(began - start + np.cumsum(inside) - inside)
        at += size
    return np.concatenate(found) / 1e9 if at == ns.size else np.empty(0)


def edge_of(stats: Stats) -> float:
    """Up to which duration (ns) samples are drawn to scale: few of a long tail must not squeeze all others."""
    if stats.n < SAMPLES_FOR["p95"]:
        return float(stats.max)
    return float(min(stats.max, stats.p95 + 2 * (stats.p95 - stats.median)))


# By time


def drift(result: Result) -> model.Chart | None:
    """The samples of each mode by time; None where it is not known when they were taken, or there is but one."""
    modes, one = tuple(it for it in samples_of(result) if it.seconds.size), model.what_is_timed([result])
    if not any(it.seconds.any() for it in modes):
        return None
    unit, scale = units.time_unit(max(it.stats.median for it in modes))
    headed = (
        Column("mode", Kind.NAME),
        *columns(Kind.TIME, "first quarter", "last quarter"),
        Column("change"),
        Column("slowest", Kind.TIME),
        *columns(Kind.NUMBER, "slowest at (s)", "over 1.5× median"),
    )
    many = any(it.ns.size > _MANY for it in modes)
    return model.Chart(
        f"Time per {one} during the measurement",
        f"The time of every {one} by when it was measured, one panel for each mode, all on one time axis.",
        Table(headed, tuple(_drift_cells(it, scale) for it in modes), unit),
        model.LineChart(
            _panels(modes),
            height=84,
            band="middle 90 % over time",
            dots=f"the {_SLOWEST} slowest" if many else f"one {one}",
            beyond="above the panel",
        ),
    )


def _panels(modes: tuple[model.Samples, ...]) -> tuple[model.Panel, ...]:
    """All panels reach equally far above and below their medians, so that what hits all modes looks alike in all."""
    medians = [max(it.stats.median, 1) for it in modes]
    lowest = min(it.stats.min / median for it, median in zip(modes, medians, strict=True))
    highest = max(edge_of(it.stats) / median for it, median in zip(modes, medians, strict=True))
    room = max(highest - lowest, 0.02) / 16
    end = max(float(it.seconds.max()) for it in modes)
    span = (lowest - room, highest + room)
    return tuple(_panel(it, median, span, end) for it, median in zip(modes, medians, strict=True))


def _panel(it: model.Samples, median: float, span: tuple[float, float], end: float) -> model.Panel:
    seconds, ns, lines = it.seconds, it.ns, []
    low, top = (each * median for each in span)
    if ns.size > _MANY:
        bounds = [round(ns.size * number / _PARTS) for number in range(_PARTS + 1)]
        parts = [slice(a, b) for a, b in pairwise(bounds)]
        ends = [tuple(map(float, np.quantile(ns[part], (0.05, 0.5, 0.95)))) for part in parts]
        middle = tuple((float(seconds[part].mean()) * 1e9, ends[at][1]) for at, part in enumerate(parts))
        band = tuple((low, high) for low, _, high in ends)
        lines = [model.Line("median over time", model.Look("accent"), middle, band=band)]
        shown = np.sort(np.argsort(ns, kind="stable")[-_SLOWEST:])
        seconds, ns = seconds[shown], ns[shown]
    inside = ns <= top
    said = f"p50 {units.duration(median)}, max {units.duration(it.stats.max)}"
    return model.Panel(
        tuple(lines),
        model.Axis("times", ticks=((0, "0"), (end * 1e9, ""))),
        name=it.mode,
        said=said,
        span=(low, top),
        limits=(model.Limit(it.stats.median, "median of all", dashed=False),),
        dots=np.column_stack([seconds * 1e9, ns])[inside],
        beyond=tuple((seconds[~inside] * 1e9).tolist()),
    )


def _ends(samples: model.Samples) -> tuple[float, float] | None:
    """The medians of the first and of the last quarter of the samples, ns; None with too few."""
    size = samples.ns.size // _QUARTERS
    if size < 2:
        return None
    first, last = float(np.median(samples.ns[:size])), float(np.median(samples.ns[-size:]))
    return (first, last) if first > 0 else None


def _slow(samples: model.Samples) -> int:
    return int(np.count_nonzero(samples.ns > _SLOW * samples.stats.median))


def _percent(ratio: float) -> str:
    change = round((ratio - 1) * 100, 1)
    return f"{'+' if change > 0 else '−' if change < 0 else '±'}{abs(change):g} %"


def _drift_cells(samples: model.Samples, scale: float) -> tuple[str, ...]:
    ends = _ends(samples)
    moved = (NOTHING,) * 3
    if ends is not None:
        moved = (units.digits(ends[0] / scale), units.digits(ends[1] / scale), _percent(ends[1] / ends[0]))
    slowest = int(np.argmax(samples.ns))
    after, longest = float(samples.seconds[slowest]), float(samples.ns[slowest]) / scale
    return (samples.mode, *moved, units.digits(longest), units.digits(after), str(_slow(samples)))
