"""Where the time of an inference goes, mode by mode."""

from __future__ import annotations

from dataclasses import dataclass

from ortbench.core import units
from ortbench.core.stats import Stats
from ortbench.model.modes import COPY_TIME, LATENCY, is_rate, mode_of
from ortbench.model.result import Case, Result
from ortbench.report.model import DERIVED, NOTHING, Column, Kind, Table, columns
from ortbench.report.page.pictures.parts import (
    COPIES,
    D2H,
    H2D,
    INFERENCE,
    PER_RUN,
    WHOLE,
    measured_cases,
)


@dataclass(frozen=True)
class Segment:
    """A part of a bar: what it is, how long it takes (ns), and whether that was derived."""

    kind: str
    ns: float
    derived: bool = False


@dataclass(frozen=True)
class Bar:
    """One mode's time: its parts, and the median of whole inferences (ns), which they need not add up to."""

    mode: str
    segments: tuple[Segment, ...]
    latency_ns: float


@dataclass(frozen=True)
class Split:
    """Where the time of an inference goes, mode by mode."""

    bars: tuple[Bar, ...]
    title = "Where the time goes"
    label = "Stacked bars, one for each mode: H2D, inference and D2H, and a mark for the whole inference."

    @property
    def caption(self) -> str:
        """What is to be seen, in words."""
        said = [_bar_in_words(bar) for bar in self.bars if len(bar.segments) > 1]
        for kind, about in _ALONE.items():
            alone = [bar for bar in self.bars if [segment.kind for segment in bar.segments] == [kind]]
            if alone:
                said.append(f"{about}: {', '.join(f'{bar.mode} {units.duration(bar.latency_ns)}' for bar in alone)}.")
        return " ".join(said)

    def table(self) -> Table:
        """What it shows, in numbers."""
        unit, scale = units.time_unit(max(bar.latency_ns for bar in self.bars))
        times = columns(Kind.TIME, H2D, INFERENCE, D2H, "together", LATENCY)
        return Table((Column("mode", Kind.NAME), *times), tuple(_bar_cells(bar, scale) for bar in self.bars), unit)


_ALONE = {
    INFERENCE: "Inference only",
    PER_RUN: "Time per run of many with one wait, which is throughput and not latency, copied once outside",
    WHOLE: "Not split into phases",
}


def _bar_in_words(bar: Bar) -> str:
    times = {segment.kind: units.duration(segment.ns) for segment in bar.segments}
    whole = units.duration(bar.latency_ns)
    if COPIES in times:
        return (
            f"{bar.mode}: {DERIVED}{times[COPIES]} of copies, both directions together, and {DERIVED}{times[INFERENCE]} of "
            f"inference make up {whole}."
        )
    parts = ", ".join(f"{time} {kind}" for kind, time in times.items())
    together = units.duration(sum(segment.ns for segment in bar.segments))
    if is_rate(bar.mode, LATENCY):
        return f"{bar.mode}: {parts}: {together} one after the other; {whole} an item with several in flight."
    return f"{bar.mode}: {parts}: {together} together, timed in blocks of their own; {whole} from end to end."


def _bar_cells(bar: Bar, scale: float) -> tuple[str, ...]:
    found = {segment.kind: segment for segment in bar.segments}
    cells = []
    for kind in (H2D, INFERENCE, D2H):
        segment = found.get(COPIES if kind == H2D and COPIES in found else kind)
        mark = DERIVED if segment and segment.derived else ""
        cells.append(NOTHING if segment is None else mark + units.digits(segment.ns / scale))
    if COPIES in found:
        cells[2] = "(both)"
    together = sum(segment.ns for segment in bar.segments)
    return (bar.mode, *cells, units.digits(together / scale), units.digits(bar.latency_ns / scale))


def split(result: Result) -> Split | None:
    """Medians of the phases by mode; None where nothing was measured."""
    bars = tuple(_bar(case, total) for case, total in measured_cases(result))
    return Split(bars) if bars else None


def _bar(case: Case, total: Stats) -> Bar:
    if mode_of(case.mode).in_bursts:
        return Bar(case.mode, (Segment(PER_RUN, total.median),), total.median)
    copied, rest = case.value(COPY_TIME), case.value(INFERENCE)
    if copied is not None and rest is not None and copied > 0:
        copies = Segment(COPIES, round(copied), derived=True)
        return Bar(case.mode, (copies, Segment(INFERENCE, round(rest), derived=True)), total.median)
    timed = [(kind, case.median(kind)) for kind in (H2D, INFERENCE, D2H)]
    parts = tuple(Segment(kind, median) for kind, median in timed if median is not None)
    return Bar(case.mode, parts or (Segment(WHOLE, total.median),), total.median)
