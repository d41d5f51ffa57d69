"""Charts of medians: the phases of a mode, the stages and links of a chain, the steps of a loop, several results, and many days."""

from __future__ import annotations

from collections.abc import Sequence

from ortbench.core import units
from ortbench.features.page.report.chart_data import model
from ortbench.model.metrics import METRICS
from ortbench.model.modes import D2H, H2D, LATENCY, is_rate
from ortbench.model.result import Case, Result
from ortbench.report.bars import COPIES, INFERENCE, PER_RUN, WHOLE, Segment, segments_of
from ortbench.report.model import DERIVED, NOTHING, Column, Kind, Table, columns

# Phases

_FILLS = {
    (H2D, False): model.Fill("H2D", "h2d", "////"),
    (INFERENCE, False): model.Fill(INFERENCE, "inference"),
    (D2H, False): model.Fill("D2H", "d2h", "\\\\\\\\"),
    (PER_RUN, False): model.Fill(PER_RUN, "inference", "||||", hollow=True),
    (WHOLE, False): model.Fill(WHOLE, "inference", hollow=True),
    (COPIES, True): model.Fill(f"{DERIVED} copies, both directions (derived)", "copies", "xxxx", hollow=True),
    (INFERENCE, True): model.Fill(f"{DERIVED} inference (derived)", "inference", "--", hollow=True),
}


def phases(result: Result) -> model.Chart | None:
    """Where the time of an inference goes, mode by mode; None where nothing was measured."""
    found = [(case, segments_of(case), total.median) for case, total in model.measured_cases(result)]
    if not found:
        return None
    unit, scale = units.time_unit(max(ns for *_, ns in found))
    times = columns(Kind.TIME, METRICS[H2D].title, INFERENCE, METRICS[D2H].title, COPIES, "sum", LATENCY)
    rows = tuple((case.mode, *_phase_cells(parts, scale), units.digits(ns / scale)) for case, parts, ns in found)
    used = {(part.kind, part.derived) for _, parts, _ in found for part in parts if part.ns}
    return model.Chart(
        "Breakdown of latency",
        "Stacked bars, one for each mode: H2D, inference and D2H, and a mark for the whole inference.",
        Table((Column("mode", Kind.NAME), *times), rows, unit),
        model.StackedBars(
            tuple(_phase_bar(*it) for it in found),
            tuple(fill for key, fill in _FILLS.items() if key in used),
            "whole inference, median",
        ),
    )


def _phase_bar(case: Case, segments: Sequence[Segment], ns: float) -> model.Bar:
    parts = []
    for it in filter(lambda segment: segment.ns, segments):
        fill, value = _FILLS[it.kind, it.derived], f"{DERIVED if it.derived else ''}{units.duration(it.ns)}"
        said = "" if it.kind == WHOLE else value
        name = fill.name if it.kind in (H2D, D2H) else it.kind
        parts.append(model.Part(fill, it.ns, f"{case.mode}: {fill.name}, {value}", name, said))
    what = "time per inference" if is_rate(case.mode, LATENCY) else "whole inference"
    return model.Bar(
        case.mode, tuple(parts), units.duration(ns), ns, f"{case.mode}: {what}, median {units.duration(ns)}"
    )


def _phase_cells(segments: Sequence[Segment], scale: float) -> list[str]:
    found = {it.kind: it for it in segments}
    cells = [_phase_cell(found.get(kind), scale) for kind in (H2D, INFERENCE, D2H, COPIES)]
    return [*cells, units.digits(sum(it.ns for it in segments) / scale)]


def _phase_cell(it: Segment | None, scale: float) -> str:
    if it is None:
        return NOTHING
    return f"{DERIVED if it.derived else ''}{units.digits(it.ns / scale) if it.ns else 0}"


# Parts one after the other

# Each has a colour and a hatching of its own, as far as there are some: labels and tips say which it is.
_COLOURS = ("h2d", "d2h", "accent", "copies", "inference")
_HATCHES = ("", "////", "\\\\\\\\", "xxxx", "||||")


def parts_in_order(
    found: Sequence[tuple[str, dict[str, float], float]], whole_is: str, parts_are: str
) -> model.Chart | None:
    """Of each mode the parts of a whole, one after the other, and the whole, ns."""
    if not found:
        return None
    names = list(dict.fromkeys(name for _, times, _ in found for name in times))
    fills = {
        name: model.Fill(name, _COLOURS[at % len(_COLOURS)], _HATCHES[at // len(_COLOURS) % len(_HATCHES)])
        for at, name in enumerate(names)
    }
    unit, scale = units.time_unit(max(ns for *_, ns in found))
    rows, bars = [], []
    for mode, times, ns in found:
        cells = (units.digits(times[name] / scale) if name in times else NOTHING for name in names)
        rows.append((mode, *cells, units.digits(sum(times.values()) / scale), units.digits(ns / scale)))
        parts = tuple(
            model.Part(fills[name], its_ns, f"{mode}: {name}, {units.duration(its_ns)}", name, units.duration(its_ns))
            for name, its_ns in times.items()
        )
        whole = units.duration(ns)
        bars.append(model.Bar(mode, parts, whole, ns, f"{mode}: whole {whole_is}, median {whole}"))
    headed = columns(Kind.TIME, *names, "sum", whole_is)
    return model.Chart(
        f"Breakdown of the {whole_is}",
        f"Stacked bars, one for each mode: the {parts_are} in their order, and a mark for the whole {whole_is}.",
        Table((Column("mode", Kind.NAME), *headed), tuple(rows), unit),
        model.StackedBars(tuple(bars), tuple(fills.values()), f"whole {whole_is}, median"),
    )


# Several results


_MOST = 40  # bars


def latencies(results: Sequence[Result], names: Sequence[str]) -> model.Chart | None:
    """The median inference of every mode of every result; None where nothing was measured."""
    found = [
        (name, {case.mode: stats.median for case, stats in model.timed_cases(result)})
        for name, result in zip(names, results, strict=True)
    ]
    modes = tuple(dict.fromkeys(mode for _, times in found for mode in times))
    if not modes:
        return None
    one, fill = model.what_is_timed(results), model.Fill("median", "accent")
    rows = tuple(
        (name, *(units.duration(times[mode]) if mode in times else NOTHING for mode in modes))
        for name, times in found
        if times
    )
    bars = []
    for name, times in found:
        for mode, ns in times.items():
            time = units.duration(ns)
            bars.append(model.Bar(f"{name}: {mode}", (model.Part(fill, ns, f"{name}: {mode}, {time}"),), time))
    return model.Chart(
        f"Time per {one} by result",
        f"Bars for the median of one {one}, one for each mode of each result.",
        Table((Column("result", Kind.NAME), *columns(Kind.NUMBER, *modes)), rows),
        model.StackedBars(
            tuple(bars[:_MOST]), (), rest=f"and {len(bars) - _MOST} more, in the table" if bars[_MOST:] else ""
        ),
    )
