"""Tables of cases, a row each: their columns are those that the record of the kind names, as the catalogue of metrics has them; and bars."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from ortbench.analysis.derive import adds_up
from ortbench.analysis.intervals import timed_phase
from ortbench.analysis.speedups import is_on_host, keeps_on_host
from ortbench.core import units
from ortbench.core.features import part_of
from ortbench.core.stats import Stats, Value, percentile
from ortbench.model.kinds import SPEEDUP, kind_of
from ortbench.model.metrics import RATIO, STATISTICS, TIME, Figure, Group, figure, known_or_plain
from ortbench.model.modes import (
    COPIES_HIDDEN,
    COPY_TIME,
    CPU,
    D2H,
    H2D,
    LATENCY,
    SPIN_SHARE,
    WHOLES,
    is_rate,
    mode_of,
)
from ortbench.model.result import Case, Result
from ortbench.report.model import DERIVED, DOUBTED, KEY, NOTHING, Column, Kind, Table, drop_empty_columns
from ortbench.report.phrases import mode_name

_WHOLE = {LATENCY, *WHOLES}  # what all of a unit of work takes
# What stands above the modes that keep tensors on the device.
ON_DEVICE = "tensors stay on the device"


class Own(NamedTuple):
    """A column that is no figure of the catalogue, or that shows one in its own way: what shows a case."""

    cell: Callable[[Case], str]
    kind: Kind = Kind.NUMBER
    header: str = ""  # where that is not its name in the record of the kind, or its metric's


KeyColumn = tuple[Column, Callable[[Case], str]]  # one of those that name a row, and what shows a case in it
MODE: KeyColumn = (Column("mode", Kind.NAME, KEY), mode_name)


def case_table(
    result: Result,
    cases: Sequence[Case],
    keys: Sequence[KeyColumn] = (MODE,),
    own: Mapping[str, Own] | None = None,
    axis: str = "",
    title: str = "By mode",
) -> Table:
    """The table of a kind, of one axis where it has a table for each: a row for each case, in groups; only columns that hold something.
    `keys` name a row; `own` columns are not, or not only, what the catalogue says, by their names in the record of the kind."""
    ordered, columns = in_groups(cases), kind_of(result.kind).view((axis,)).columns
    if all(case.mode == CPU for case in cases):  # what others are compared with is alone
        own = {**(own or {}), **dict.fromkeys(SPEEDUP, Own(lambda _: NOTHING))}
    table = figure_table(columns, ordered, keys, own, title)
    return replace(_without_zeros(table) if is_on_host(result) else table, groups=_groups(result, ordered))


def _without_zeros(table: Table) -> Table:
    """A table without the columns of copies in which nothing is copied."""
    empty = {
        at
        for at, column in enumerate(table.columns)
        if column.name in _COPIED and {row[at] for row in table.rows} <= {"0", NOTHING}
    }
    rows = tuple(tuple(NOTHING if at in empty else cell for at, cell in enumerate(row)) for row in table.rows)
    return drop_empty_columns(replace(table, rows=rows))


def figure_table(
    columns: Sequence[Sequence[str]],
    cases: Sequence[Case],
    keys: Sequence[KeyColumn] = (MODE,),
    own: Mapping[str, Own] | None = None,
    title: str = "By mode",
) -> Table:
    """A row for each case, with figures by groups of columns; only columns that hold something. Times of a metric that are not
    small fractions of the unit of latency are in that unit, others have their own."""
    own = own or {}
    groups = {text: group for group, texts in enumerate(columns, 1) for text in texts}
    figures = {text: figure(text) for text in groups if text not in own}
    times = {
        text: [ns for case in cases for ns in _values(case, found)]
        for text, found in figures.items()
        if _is_time(found)
    }
    whole = [ns for text, found in times.items() if figures[text].metric in _WHOLE for ns in found]
    unit, size = (units.table_unit(whole) if whole else None) or ("", 0.0)
    apart = {
        figures[text].metric for text, found in times.items() if any(not units.fits_unit(ns, size) for ns in found)
    }
    joined = {text for text in times if size and figures[text].metric not in apart}
    headed = [column for column, _ in keys]
    for text, group in groups.items():
        kind = Kind.TIME if text in joined else own[text].kind if text in own else Kind.NUMBER
        headed.append(Column(header(text, own), kind, group))

    def cell(case: Case, text: str) -> str:
        return own[text].cell(case) if text in own else _cell(case, figures[text], size * (text in joined))

    rows = tuple((*(show(case) for _, show in keys), *(cell(case, text) for text in groups)) for case in cases)
    return drop_empty_columns(Table(tuple(headed), rows, unit, title=title))


def in_groups(cases: Sequence[Case]) -> list[Case]:
    """Modes that can replace each other before those that keep tensors on the device, each in their order."""
    return sorted(cases, key=lambda case: mode_of(case.mode).on_device)


def _groups(result: Result, ordered: Sequence[Case]) -> tuple[tuple[int, str], ...]:
    first = next((at for at, case in enumerate(ordered) if mode_of(case.mode).on_device), 0)
    title = part_of(result.kind, "report", "ON_DEVICE", ON_DEVICE)
    return ((first, title.replace("on the device", "in place") if keeps_on_host(result) else title),) if first else ()


# What a table has of copies, which on an EP that computes in host memory are none over a link.
_COPIED = (
    "H2D",
    "D2H",
    "copy share",
    "copied/inf",
    "state/step",
    "state/token",
    "copied/step",
    "copied/token",
    "copied/chain",
)


def _is_time(found: Figure) -> bool:
    return found.statistic != "n" and known_or_plain(found.metric).unit is TIME


def header(text: str, own: Mapping[str, Own]) -> str:
    """What heads a column: the metric, and the statistic where it is not the usual one; of what a table is about the statistic alone."""
    if text in own and own[text].header:
        return own[text].header
    try:
        metric, statistic = figure(text)
    except KeyError:  # a column of the report's own
        return text
    of = known_or_plain(metric)
    if statistic in ("", of.usual):
        return of.header
    if statistic == "mean":
        return f"mean {of.title}"
    said = STATISTICS[statistic]
    return said if metric in _WHOLE or statistic == "ci95" else f"{of.title} {said}"


def _values(case: Case, found: Figure) -> tuple[float, ...]:
    """A figure of a case, or both ends of an interval; none where there is none, or too few samples for a percentile."""
    metric, statistic = found
    there: Stats | Value | None = case.speedup if metric == "speedup" else case.metrics.get(metric)
    if there is None:
        return ()
    if statistic == "ci95":
        is_baseline = metric == "speedup" and case.mode == CPU
        return () if there.ci95 is None or is_baseline else there.ci95
    if metric == COPY_TIME:  # a difference that noise puts below 0 is none
        return (max(case.value(metric) or 0, 0),) if adds_up(case) else ()
    if isinstance(there, Value):
        return (there.value,)
    if statistic == "n":
        return (there.n * (case.inferences(LATENCY) if metric in _WHOLE else 1),)
    value = percentile(there, statistic or known_or_plain(metric).usual)
    # How often an inference is done is its throughput: everyone takes a time for how long one takes.
    return () if value is None or is_rate(case.mode, metric) else (value,)


def _cell(case: Case, found: Figure, size: float) -> str:
    """A figure of a case, in the table's unit of so many ns where it has one."""
    of, values = known_or_plain(found.metric), _values(case, found)
    if not values:
        return NOTHING
    if found.statistic == "n":
        return f"{values[0]:.0f}"
    if size:
        texts = [units.time(value, size) for value in values]
    elif of.unit is RATIO and len(values) > 1:
        texts = units.ends(values, units.digits)
    else:
        show = of.unit.cell if of.unit.heading in of.header or len(values) > 1 else of.unit.text
        texts = [show(value) for value in values]
    if len(values) > 1:
        return "–".join(texts)
    if found.metric == "speedup" and case.speedup is not None:
        return f"{units.times(values[0], case.speedup.ci95)}{DOUBTED * case.noisy}"
    value = case.metrics.get(found.metric)
    is_estimated = of.group is Group.COPIES or found.metric in (INFERENCE, SPIN_SHARE)  # by more than a division
    return f"{DERIVED if isinstance(value, Value) and value.derived and is_estimated else ''}{texts[0]}"


# What a mode's latency is made of, and bars of text: one row of cells, filled part by part


SPLIT = "breakdown"  # what the column of bars is called
INFERENCE = "inference"
COPIES = "copies"  # derived, and known only in sum: H2D and D2H
WHOLE = "no breakdown"  # its parts are not known
PER_RUN = "time per inference"  # there are no parts: many runs and one wait, copied outside of them
# A fill for each, told apart without colour. They are block elements, which fonts for terminals have.
FILLS = {H2D: "░", INFERENCE: "█", D2H: "▒", COPIES: "≈", PER_RUN: "┅", WHOLE: "━"}


class Segment(NamedTuple):
    """A part of a mode's latency: a phase, `COPIES`, `WHOLE` or `PER_RUN`, how long it takes (ns), and whether that was derived."""

    kind: str
    ns: float
    derived: bool = False


def segments_of(case: Case) -> tuple[Segment, ...]:
    """What the latency of a case that was measured is made of.

    Phases are timed in blocks of their own, and say nothing where they do not add up to the latency; what was derived does. Copies of
    CPU tensors are never below 0. In a pipeline phases of several items overlap: of its copies there is what is not hidden, the rest is inference.
    """
    total = case.median(LATENCY)
    assert total is not None
    if mode_of(case.mode).in_bursts:
        return (Segment(PER_RUN, total),)
    every, hidden, inference = case.value(COPY_TIME), case.value(COPIES_HIDDEN), case.value(INFERENCE)
    if is_rate(case.mode, LATENCY):
        if every is None or hidden is None:
            return (Segment(WHOLE, total),)
        copies = every - hidden
        return Segment(COPIES, copies, True), Segment(INFERENCE, max(total - copies, 0), True)
    phases = (H2D, INFERENCE, D2H) if timed_phase(case.mode, INFERENCE) != LATENCY else (INFERENCE,)
    medians = {phase: median for phase in phases if (median := case.median(phase)) is not None}
    if len(medians) > 1 and not adds_up(case):
        return (Segment(WHOLE, total),)
    if medians and all(phase in medians or case.copies_nothing(phase) for phase in phases):
        return tuple(Segment(phase, median) for phase, median in medians.items())
    if every is not None and inference is not None:
        return Segment(COPIES, max(every, 0), True), Segment(INFERENCE, min(inference, total), True)
    return (Segment(WHOLE, total),)


def bar(parts: Sequence[tuple[str, float]], scale: float, width: int) -> str:
    """A bar of at most `width` cells, as long as its parts are together, of fills one character wide and sizes; `scale` fills it all.

    Every part above zero has a cell of its own as long as there are cells for all of them, so that small ones are seen;
    the rest is shared out by size (largest remainder), and the bar's length is right to half a cell.
    """
    sizes = [max(size, 0.0) for _, size in parts]
    whole = sum(sizes)
    if whole <= 0 or scale <= 0 or width <= 0:
        return ""
    shown = sum(size > 0 for size in sizes)
    length = min(width, max(shown, round(whole / scale * width)))
    return "".join(fill * count for (fill, _), count in zip(parts, _share_out(sizes, length), strict=True))


def _share_out(sizes: Sequence[float], cells: int) -> list[int]:
    """Cells for each size: by size, and at least one for each above zero where there are enough."""
    exact = [size / sum(sizes) * cells for size in sizes]
    counts = [max(1, int(share)) if share > 0 else 0 for share in exact]
    indexes = range(len(sizes))
    while sum(counts) < cells:
        counts[max(indexes, key=lambda at: exact[at] - counts[at])] += 1
    while sum(counts) > cells:
        several = [at for at in indexes if counts[at] > 1] or [at for at in indexes if counts[at]]
        counts[max(several, key=lambda at: counts[at] - exact[at])] -= 1
    return counts


_HEIGHTS = "▁▂▃▄▅▆▇█"
_WIDTH = 16  # characters of a curve


def sparkline(values: Sequence[float], span: tuple[float, float]) -> str:
    """A curve of block elements, `_WIDTH` at most, each for the mean of some values; `span`: the ends of all curves that are compared."""
    if not values:
        return NOTHING
    width = min(_WIDTH, len(values))
    low, high = span
    parts = [values[len(values) * at // width : len(values) * (at + 1) // width] for at in range(width)]
    means = [sum(part) / len(part) for part in parts]
    steps = len(_HEIGHTS) - 1
    return "".join(_HEIGHTS[round((mean - low) / (high - low) * steps) if high > low else 0] for mean in means)
