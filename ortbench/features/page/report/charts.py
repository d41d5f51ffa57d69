"""What the pictures of a page show, shaped from results, each with a caption and its numbers as a table: times and phases, samples, copies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import ceil, floor, log10
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ortbench.core import units
from ortbench.core.stats import SAMPLES_FOR, Stats
from ortbench.features.page.report.chart_model import (
    Axis,
    Bar,
    Chart,
    Fill,
    Histograms,
    Limit,
    Line,
    LineChart,
    Look,
    Panel,
    Part,
    Samples,
    StackedBars,
    measured_cases,
    timed_cases,
    what_is_timed,
)
from ortbench.model.metrics import METRICS
from ortbench.model.modes import COPY_RATE, COPY_TIME, D2H, H2D, LATENCY, is_rate, mode_of
from ortbench.model.result import Case, Result
from ortbench.report.case_table import COPIES, INFERENCE, PER_RUN, WHOLE, Segment, segments_of
from ortbench.report.model import DERIVED, NOTHING, Column, Kind, Table, columns, maybe

_FILLS = {
    (H2D, False): Fill("H2D", "h2d", "////"),
    (INFERENCE, False): Fill(INFERENCE, "inference"),
    (D2H, False): Fill("D2H", "d2h", "\\\\\\\\"),
    (PER_RUN, False): Fill(PER_RUN, "inference", "||||", hollow=True),
    (WHOLE, False): Fill(WHOLE, "inference", hollow=True),
    (COPIES, True): Fill(f"{DERIVED} copies, both directions (derived)", "copies", "xxxx", hollow=True),
    (INFERENCE, True): Fill(f"{DERIVED} inference (derived)", "inference", "--", hollow=True),
}


def phases(result: Result) -> Chart | None:
    """Where the time of an inference goes, mode by mode; None where nothing was measured."""
    found = [(case, segments_of(case), total.median) for case, total in measured_cases(result)]
    if not found:
        return None
    unit, scale = units.time_unit(max(ns for *_, ns in found))
    times = columns(Kind.TIME, METRICS[H2D].title, INFERENCE, METRICS[D2H].title, COPIES, "sum", LATENCY)
    rows = tuple((case.mode, *_phase_cells(parts, scale), units.digits(ns / scale)) for case, parts, ns in found)
    used = {(part.kind, part.derived) for _, parts, _ in found for part in parts if part.ns}
    return Chart(
        "Breakdown of latency",
        "Stacked bars, one for each mode: H2D, inference and D2H, and a mark for the whole inference.",
        Table((Column("mode", Kind.NAME), *times), rows, unit),
        StackedBars(
            tuple(_phase_bar(*it) for it in found),
            tuple(fill for key, fill in _FILLS.items() if key in used),
            "whole inference, median",
        ),
    )


def _phase_bar(case: Case, segments: Sequence[Segment], ns: float) -> Bar:
    parts = []
    for segment in filter(lambda segment: segment.ns, segments):
        fill = _FILLS[segment.kind, segment.derived]
        value = f"{DERIVED if segment.derived else ''}{units.duration(segment.ns)}"
        said = "" if segment.kind == WHOLE else value
        name = fill.name if segment.kind in (H2D, D2H) else segment.kind
        parts.append(Part(fill, segment.ns, f"{case.mode}: {fill.name}, {value}", name, said))
    what = "time per inference" if is_rate(case.mode, LATENCY) else "whole inference"
    return Bar(case.mode, tuple(parts), units.duration(ns), ns, f"{case.mode}: {what}, median {units.duration(ns)}")


def _phase_cells(segments: Sequence[Segment], scale: float) -> list[str]:
    found = {it.kind: it for it in segments}

    def cell(segment: Segment) -> str:
        return f"{DERIVED if segment.derived else ''}{units.digits(segment.ns / scale) if segment.ns else 0}"

    cells = [maybe(found.get(kind), cell) for kind in (H2D, INFERENCE, D2H, COPIES)]
    return [*cells, units.digits(sum(it.ns for it in segments) / scale)]


# Each has a colour and a hatching of its own, as far as there are some: labels and tips say which it is.
_COLOURS = ("h2d", "d2h", "accent", "copies", "inference")
_HATCHES = ("", "////", "\\\\\\\\", "xxxx", "||||")


def parts_in_order(found: Sequence[tuple[str, dict[str, float], float]], whole_is: str, parts_are: str) -> Chart | None:
    """Of each mode the parts of a whole, one after the other, and the whole, ns."""
    if not found:
        return None
    names = list(dict.fromkeys(name for _, times, _ in found for name in times))
    fills = {
        name: Fill(name, _COLOURS[at % len(_COLOURS)], _HATCHES[at // len(_COLOURS) % len(_HATCHES)])
        for at, name in enumerate(names)
    }
    unit, scale = units.time_unit(max(ns for *_, ns in found))
    rows, bars = [], []
    for mode, times, ns in found:
        cells = (units.digits(times[name] / scale) if name in times else NOTHING for name in names)
        rows.append((mode, *cells, units.digits(sum(times.values()) / scale), units.digits(ns / scale)))
        parts = tuple(
            Part(fills[name], its_ns, f"{mode}: {name}, {units.duration(its_ns)}", name, units.duration(its_ns))
            for name, its_ns in times.items()
        )
        whole = units.duration(ns)
        bars.append(Bar(mode, parts, whole, ns, f"{mode}: whole {whole_is}, median {whole}"))
    headed = columns(Kind.TIME, *names, "sum", whole_is)
    return Chart(
        f"Breakdown of the {whole_is}",
        f"Stacked bars, one for each mode: the {parts_are} in their order, and a mark for the whole {whole_is}.",
        Table((Column("mode", Kind.NAME), *headed), tuple(rows), unit),
        StackedBars(tuple(bars), tuple(fills.values()), f"whole {whole_is}, median"),
    )


_MOST = 40  # bars


def latencies(results: Sequence[Result], names: Sequence[str]) -> Chart | None:
    """The median inference of every mode of every result; None where nothing was measured."""
    found = [
        (name, {case.mode: stats.median for case, stats in timed_cases(result)})
        for name, result in zip(names, results, strict=True)
    ]
    modes = tuple(dict.fromkeys(mode for _, times in found for mode in times))
    if not modes:
        return None
    one, fill = what_is_timed(results), Fill("median", "accent")
    rows = tuple(
        (name, *(units.duration(times[mode]) if mode in times else NOTHING for mode in modes))
        for name, times in found
        if times
    )
    bars = []
    for name, times in found:
        for mode, ns in times.items():
            time = units.duration(ns)
            bars.append(Bar(f"{name}: {mode}", (Part(fill, ns, f"{name}: {mode}, {time}"),), time))
    return Chart(
        f"Time per {one} by result",
        f"Bars for the median of one {one}, one for each mode of each result.",
        Table((Column("result", Kind.NAME), *columns(Kind.NUMBER, *modes)), rows),
        StackedBars(
            tuple(bars[:_MOST]), (), rest=f"and {len(bars) - _MOST} more, in the table" if bars[_MOST:] else ""
        ),
    )


_QUARTERS = 4
_SLOW = 1.5  # how many times its mode's median a run takes that is called slow
_MANY = 500  # samples of a mode above which a band stands for them, with the slowest as dots
_PARTS = 150  # of that band
_SLOWEST = 100


def distribution(result: Result) -> Chart | None:
    """How the samples of each mode that times inferences are distributed; None where there are none."""
    modes, one = tuple(samples_of(result)), what_is_timed([result])
    if not modes:
        return None
    unit, scale = units.time_unit(max(it.stats.median for it in modes))
    names = ("min", "median", "95% CI", "p90", "p95", "p99", "max", "std dev")
    headed = (Column("mode", Kind.NAME), Column("samples"), *columns(Kind.TIME, *names))
    return Chart(
        f"Distribution of the time per {one}",
        f"Histograms of the time of one {one}, one for each mode, with lines at the median and at the p95.",
        Table(headed, tuple(_stats_cells(it, scale) for it in modes), unit),
        Histograms(modes),
    )


def _stats_cells(samples: Samples, scale: float) -> tuple[str, ...]:
    stats = samples.stats
    low, high = (units.digits(ns / scale) for ns in stats.ci95)
    tails = [
        units.digits(getattr(stats, name) / scale) if stats.n >= least else NOTHING
        for name, least in SAMPLES_FOR.items()
    ]
    shown = [units.digits(ns / scale) for ns in (stats.min, stats.median, stats.p90, stats.max, stats.stdev)]
    return (samples.mode, str(stats.n), shown[0], shown[1], f"{low}–{high}", shown[2], *tails, *shown[3:])


def samples_of(result: Result) -> Iterator[Samples]:
    starts = (start for case, _ in measured_cases(result) for _, _, start in case.blocks.get(LATENCY, []))
    begun = min(starts, default=0)  # on the worker's clock
    for case, stats in timed_cases(result):
        ns = np.asarray(case.samples.get(LATENCY, []), dtype=np.int64)
        if ns.size:
            yield Samples(case.mode, ns, _times_since(case, ns, begun), stats)


def _times_since(case: Case, ns: NDArray[np.int64], start: int) -> NDArray[np.float64]:
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


def drift(result: Result) -> Chart | None:
    """The samples of each mode by time; None where it is not known when they were taken, or there is but one."""
    modes, one = tuple(it for it in samples_of(result) if it.seconds.size), what_is_timed([result])
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
    return Chart(
        f"Time per {one} during the measurement",
        f"The time of every {one} by when it was measured, one panel for each mode, all on one time axis.",
        Table(headed, tuple(_drift_cells(it, scale) for it in modes), unit),
        LineChart(
            _panels(modes),
            height=84,
            band="middle 90 % over time",
            dots=f"the {_SLOWEST} slowest" if many else f"one {one}",
            beyond="above the panel",
        ),
    )


def _panels(modes: tuple[Samples, ...]) -> tuple[Panel, ...]:
    """All panels reach equally far above and below their medians, so that what hits all modes looks alike in all."""
    medians = [max(it.stats.median, 1) for it in modes]
    lowest = min(it.stats.min / median for it, median in zip(modes, medians, strict=True))
    highest = max(edge_of(it.stats) / median for it, median in zip(modes, medians, strict=True))
    room = max(highest - lowest, 0.02) / 16
    end = max(float(it.seconds.max()) for it in modes)
    span = (lowest - room, highest + room)
    return tuple(_panel(it, median, span, end) for it, median in zip(modes, medians, strict=True))


def _panel(samples: Samples, median: float, span: tuple[float, float], end: float) -> Panel:
    seconds, ns, lines = samples.seconds, samples.ns, []
    low, top = (each * median for each in span)
    if ns.size > _MANY:
        bounds = [round(ns.size * number / _PARTS) for number in range(_PARTS + 1)]
        parts = [slice(a, b) for a, b in pairwise(bounds)]
        ends = [tuple(map(float, np.quantile(ns[part], (0.05, 0.5, 0.95)))) for part in parts]
        middle = tuple((float(seconds[part].mean()) * 1e9, ends[at][1]) for at, part in enumerate(parts))
        band = tuple((low, high) for low, _, high in ends)
        lines = [Line("median over time", Look("accent"), middle, band=band)]
        shown = np.sort(np.argsort(ns, kind="stable")[-_SLOWEST:])
        seconds, ns = seconds[shown], ns[shown]
    inside = ns <= top
    said = f"p50 {units.duration(median)}, max {units.duration(samples.stats.max)}"
    return Panel(
        tuple(lines),
        Axis("times", ticks=((0, "0"), (end * 1e9, ""))),
        name=samples.mode,
        said=said,
        span=(low, top),
        limits=(Limit(samples.stats.median, "median of all", dashed=False),),
        dots=np.column_stack([seconds * 1e9, ns])[inside],
        beyond=tuple((seconds[~inside] * 1e9).tolist()),
    )


def _percent(ratio: float) -> str:
    change = round((ratio - 1) * 100, 1)
    return f"{'+' if change > 0 else '−' if change < 0 else '±'}{abs(change):g} %"


def _drift_cells(samples: Samples, scale: float) -> tuple[str, ...]:
    moved, quarter = (NOTHING,) * 3, samples.ns.size // _QUARTERS
    first, last = (float(np.median(ns)) if quarter > 1 else 0 for ns in (samples.ns[:quarter], samples.ns[-quarter:]))
    if first > 0:
        moved = (units.digits(first / scale), units.digits(last / scale), _percent(last / first))
    slowest = int(np.argmax(samples.ns))
    after, longest = float(samples.seconds[slowest]), float(samples.ns[slowest]) / scale
    slow = np.count_nonzero(samples.ns > _SLOW * samples.stats.median)
    return (samples.mode, *moved, units.digits(longest), units.digits(after), str(slow))


LOOKS = {H2D: Look("h2d", "^"), D2H: Look("d2h", "v", dash=1), COPIES: Look("copies", "D", hollow=True)}
_NAMES = {H2D: "H2D", D2H: "D2H", COPIES: f"{DERIVED} copies, both directions (derived)"}


class Copy(NamedTuple):
    """A copy of known size and time: `kind` is h2d, d2h, or copies (both directions inside mode cpu-tensors, derived)."""

    name: str
    kind: str
    size: int
    ns: float


def bandwidth(result: Result) -> Chart | None:
    """The copies of a result by size and rate; None where no bandwidth curve is beside them."""
    curves = dict(_curves(result))
    if not curves:
        return None
    copies = [copy for case, _ in measured_cases(result) for copy in copies_of(case)]
    rows = [(copy.name, copy.size, copy.ns) for copy in copies]
    rows += [(f"curve, {kind.upper()}", count, ns) for kind, points in curves.items() for count, ns in points]
    cells = ((name, units.size(count), units.duration(ns), units.digits(count / ns)) for name, count, ns in rows)
    lines = [
        Line(f"{_NAMES[kind]}, bandwidth curve", LOOKS[kind]._replace(marker=""), tuple(map(_point, points)))
        for kind, points in curves.items()
    ]
    lines += [
        Line(_NAMES[copy.kind], LOOKS[copy.kind], (_point((copy.size, copy.ns)),), copy.name, joined=False)
        for copy in copies
    ]
    return Chart(
        "Copy bandwidth by size",
        "Bytes per second of copies over bytes per copy.",
        Table((Column("copy", Kind.NAME), *columns(Kind.NUMBER, "bytes", "time", "GB/s")), tuple(cells)),
        by_size(lines),
    )


def _point(copy: tuple[int, float]) -> tuple[float, float]:
    count, ns = copy
    return count, 1e9 * count / ns


def by_size(lines: Sequence[Line], name: str = "") -> LineChart:
    """Lines of bytes per second over bytes."""
    sizes = [size for line in lines for size, _ in line.points]
    decades = range(floor(log10(min(sizes))), ceil(log10(max(sizes))) + 1)
    axis = Axis("sizes", "bytes per copy", tuple((10.0**it, units.size(10**it)) for it in decades))
    return LineChart((Panel(tuple(lines), axis, lambda rate: f"{units.size(rate)}/s", name),))


def copies_of(case: Case) -> Iterator[Copy]:
    for kind, count in ((H2D, case.bytes_h2d), (D2H, case.bytes_d2h)):
        ns = case.median(kind)
        if count and ns:
            yield Copy(f"{case.mode} {kind.upper()}", kind, count, ns)
    took = round(case.value(COPY_TIME) or 0)
    if took and mode_of(case.mode).of_cpu_tensors and COPY_RATE in case.metrics:  # else more than the link can do
        yield Copy(f"inside {case.mode}", COPIES, (case.bytes_h2d or 0) + (case.bytes_d2h or 0), took)


def _curves(result: Result) -> Iterator[tuple[str, Sequence[tuple[int, int]]]]:
    """The curve of the link that `ortbench bandwidth` left in the result, by direction."""
    link = result.link
    for kind, curve in () if link is None else ((H2D, link.get("h2d", [])), (D2H, link.get("d2h", []))):
        points = [(int(size), int(ns)) for size, ns in curve if size and ns]
        if points:
            yield kind, points
