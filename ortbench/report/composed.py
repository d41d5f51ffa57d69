"""The tables of what is made of several inferences: of a loop and its steps, of a chain with its stages and links."""

from __future__ import annotations

from collections.abc import Sequence

from ortbench.analysis.steps_and_stages import LINKED, crosses, crossing_ns, growth_ns, is_first_apart, law
from ortbench.core import units
from ortbench.core.stats import Stats
from ortbench.model.modes import LATENCY, STEP
from ortbench.model.result import OK, Case, Result
from ortbench.model.schema import Chain, ChainLink, ChainStage
from ortbench.report.model import KEY, NOTHING, Column, Kind, Table, columns, filled, maybe
from ortbench.report.phrases import mode_name, speedup_cells, stage_place
from ortbench.report.records import csv_text

WHAT_A_LOOP_IS = "loop: the first state is brought to the device, then all steps run; step: any one of them."
_LEVELS = "▁▂▃▄▅▆▇█"
_WIDTH = 16  # characters of a curve

LOOP_COLUMNS = (
    Column("mode", Kind.NAME, KEY),
    Column("loop", Kind.TIME, 1),
    *columns(Kind.NUMBER, "speedup", "95% CI", group=2),
    # Each in its own unit: a loop may have a thousand steps.
    *columns(Kind.NUMBER, "step", "first", "last", "each adds", group=3),
    Column("by step", Kind.WORD, 4),
    Column("steps/s", Kind.NUMBER, 5),
    *columns(Kind.NUMBER, "state/step", "copied/step", group=6),
)


def loop_table(result: Result) -> Table:
    """The table of a loop: a row for each mode that was measured; only columns that hold something."""
    shown = [case for case in result.cases if case.stats(LATENCY) is not None]
    medians = [median for case in shown if (median := case.median(LATENCY))]
    unit, scale = units.time_unit(max(medians, default=1))
    every = [ns for case in shown for ns in _curve(case, result)]
    span = (min(every, default=0), max(every, default=0))
    rows = tuple(_loop_row(case, result, scale, span) for case in shown)
    return filled(Table(LOOP_COLUMNS, rows, unit, title="Table"))


def _curve(case: Case, result: Result) -> Sequence[int]:
    """The steps that a curve is of: without the first one where that has a shape of its own."""
    steps = case.steps_ns or []
    return steps[1:] if is_first_apart(result) else steps


def _loop_row(case: Case, result: Result, scale: float, span: tuple[float, float]) -> tuple[str, ...]:
    total, times, first = case.median(LATENCY), case.steps_ns, is_first_apart(result)
    step, per_s, each = case.median(STEP), case.value("step_throughput"), growth_ns(case)
    return (
        mode_name(case),
        NOTHING if total is None else units.time(total, scale),
        *speedup_cells(case),
        maybe(step, units.duration),
        *(map(units.duration, (times[0], times[-1])) if times else (NOTHING, NOTHING)),
        maybe(each, _signed),
        sparkline(_curve(case, result), span),
        maybe(per_s, units.rate),
        copied(case.step_copies("state_h2d"), case.step_copies("state_d2h"), first),
        copied(case.step_copies("step_h2d"), case.step_copies("step_d2h"), first),
    )


def _signed(ns: float) -> str:
    return f"{'+' if ns >= 0 else '−'}{units.duration(abs(ns))}"


def sparkline(values: Sequence[float], span: tuple[float, float]) -> str:
    """A curve of block elements, `_WIDTH` at most, each for the mean of some values; `span`: the ends of all curves that are compared."""
    if not values:
        return NOTHING
    width = min(_WIDTH, len(values))
    low, high = span
    parts = [values[len(values) * at // width : len(values) * (at + 1) // width] for at in range(width)]
    means = [sum(part) / len(part) for part in parts]
    steps = len(_LEVELS) - 1
    return "".join(_LEVELS[round((mean - low) / (high - low) * steps) if high > low else 0] for mean in means)


def copied(there: int | list[int] | None, back: int | list[int] | None, first: bool) -> str:
    """What a step copies both ways, bytes or a list by step: of what grows, as a sum of the step; without the `first` one where that
    has a shape of its own."""
    if there is None or back is None:
        return NOTHING
    sides = [[value] if isinstance(value, int) else value for value in (there, back)]
    count = max(map(len, sides))
    both = [sum(side[number % len(side)] for side in sides) for number in range(count)]
    line = law(both, first)
    if line is None:
        return f"{units.size(min(both))} to {units.size(max(both))}"
    begins, each = line
    if not each:
        return units.size(begins) if begins else "0"
    grown = f"{units.size(abs(each))} × step"
    sign = "+" if each > 0 else "−"
    return f"{units.size(begins)} {sign} {grown}" if begins > 0 else grown


# For other programs


def steps_csv(result: Result) -> str:
    """The medians of the steps of a loop as CSV: a row a step, numbered from 0, and a column a mode that has them, in ns."""
    timed = {case.mode: case.steps_ns for case in result.cases if case.steps_ns}
    count = max(map(len, timed.values()), default=0)
    rows = [{STEP: number, **{mode: ns[number] for mode, ns in timed.items()}} for number in range(count)]
    return csv_text([STEP, *timed], rows)


# Chains


CHAIN_COLUMNS = (
    Column("mode", Kind.NAME, KEY),
    Column("chain", Kind.TIME, 1),
    *columns(Kind.NUMBER, "speedup", "95% CI", group=2),
    *columns(Kind.NUMBER, "samples", "chains/s", "copied/chain", group=3),
)
_STAGE_COLUMNS = (
    Column("stage", Kind.NAME, KEY),
    Column("steps", Kind.NUMBER, KEY),
    Column("on", Kind.WORD, 1),
)
_LINK_COLUMNS = (
    Column("link", Kind.NAME, KEY),
    Column("bytes", Kind.NUMBER, 1),
    Column("with device-resident", Kind.WORD, 1),
    Column("through the host", Kind.NUMBER, 1),
    Column("why", Kind.WORDS, 2),
)
STAYS, COPIED, ON_HOST = "stays", "copied", "in host memory"


def chain_table(result: Result) -> Table:
    """The table of a chain: a row for each mode that was measured; only columns that hold something."""
    shown = _shown(result)
    unit, scale = units.time_unit(max((case.median(LATENCY) or 1 for case in shown), default=1))
    return filled(Table(CHAIN_COLUMNS, tuple(_chain_row(case, scale) for case in shown), unit, title="Table"))


def _shown(result: Result) -> list[Case]:
    return [case for case in result.cases if case.stats(LATENCY) is not None]


def _chain_row(case: Case, scale: float) -> tuple[str, ...]:
    total = case.stats(LATENCY)
    assert total is not None
    copied = None if case.bytes_h2d is None or case.bytes_d2h is None else case.bytes_h2d + case.bytes_d2h
    return (
        mode_name(case),
        units.time(total.median, scale),
        *speedup_cells(case),
        str(total.n),
        units.rate(1e9 / max(total.median, 1)),
        maybe(copied, units.size) if copied else "0",
    )


def stage_table(result: Result) -> Table:
    """A row for each stage: what it takes in each mode, its fence at its end."""
    chain: Chain = result.part
    shown = [case for case in _shown(result) if case.stages]
    every = [stats.median for case in shown for stats in case.stages.values()]
    unit, scale = units.time_unit(max(every, default=1))
    headed = [
        (Column(mode_name(case), Kind.TIME, at), Column("95% CI", Kind.NUMBER, at)) for at, case in enumerate(shown, 2)
    ]
    rows = tuple(_stage_row(stage, shown, scale, result) for stage in chain["stages"])
    every_column = (*_STAGE_COLUMNS, *(column for pair in headed for column in pair))
    return filled(Table(every_column, rows, unit, title="Stages"))


def _stage_row(stage: ChainStage, cases: Sequence[Case], scale: float, result: Result) -> tuple[str, ...]:
    times = [cell for case in cases for cell in _time_cells(case.stages.get(stage["name"]), scale)]
    steps = str(stage["repeat"]) if stage["repeat"] > 1 else NOTHING
    return stage["name"], steps, stage_place(stage, result), *times


def _time_cells(stats: Stats | None, scale: float) -> tuple[str, str]:
    if stats is None:
        return NOTHING, NOTHING
    return units.time(stats.median, scale), "–".join(units.time(end, scale) for end in stats.ci95)


def link_table(result: Result) -> Table:
    """A row for each link: its bytes, whether it stays, and what it costs through the host."""
    chain: Chain = result.part
    case = next((case for case in result.cases if case.mode == LINKED), None)
    is_there = case is not None and case.status == OK
    rows = tuple(_link_row(link, is_there) for link in chain["links"])
    return filled(Table(_LINK_COLUMNS, rows, title="Links"))


def _link_row(link: ChainLink, is_measured: bool) -> tuple[str, ...]:
    cost = crossing_ns(link) if crosses(link) else None
    state = ON_HOST if not crosses(link) else STAYS if link["stays"] else COPIED
    return (
        f"{link['from']} → {link['to']}",
        units.size(link["bytes"]),
        state if is_measured else NOTHING,
        maybe(cost, units.duration),
        link["why"] or NOTHING,
    )
