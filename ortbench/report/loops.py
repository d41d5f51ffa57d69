"""The table of a loop: by mode the whole loop, its first and its last step, how steps grow, and what is copied in one."""

from __future__ import annotations

from collections.abc import Sequence

from ortbench.analysis.steps_and_stages import growth_ns, is_first_apart, law
from ortbench.core import units
from ortbench.model.modes import LATENCY, STEP
from ortbench.model.result import Case, Result
from ortbench.report.model import KEY, NOTHING, Column, Kind, Table, columns, filled
from ortbench.report.records import csv_text
from ortbench.report.words import mode_name, ratio_cells

WHAT_A_LOOP_IS = "loop: the first state is brought to the device, then all steps run; step: any one of them."
_LEVELS = "▁▂▃▄▅▆▇█"
_WIDTH = 16  # characters of a curve

COLUMNS = (
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
    rows = tuple(_row(case, result, scale, span) for case in shown)
    return filled(Table(COLUMNS, rows, unit, title="Table"))


def _curve(case: Case, result: Result) -> Sequence[int]:
    """The steps that a curve is of: without the first one where that has a shape of its own."""
    steps = case.steps_ns or []
    return steps[1:] if is_first_apart(result) else steps


def _row(case: Case, result: Result, scale: float, span: tuple[float, float]) -> tuple[str, ...]:
    total, times, first = case.median(LATENCY), case.steps_ns, is_first_apart(result)
    step, per_s, each = case.median(STEP), case.value("step_throughput"), growth_ns(case)
    return (
        mode_name(case),
        NOTHING if total is None else units.time(total, scale),
        *ratio_cells(case),
        NOTHING if step is None else units.duration(step),
        *(map(units.duration, (times[0], times[-1])) if times else (NOTHING, NOTHING)),
        NOTHING if each is None else _signed(each),
        sparkline(_curve(case, result), span),
        NOTHING if per_s is None else units.rate(per_s),
        copied(case.step_copies("state_h2d"), case.step_copies("state_d2h"), first),
        copied(case.step_copies("step_h2d"), case.step_copies("step_d2h"), first),
    )


def _signed(ns: float) -> str:
    return f"{'+' if ns >= 0 else '−'}{units.duration(abs(ns))}"


def sparkline(values: Sequence[float], span: tuple[float, float]) -> str:
    """A curve of block elements, as wide as there are values, `_WIDTH` at most: each stands for the mean of some.

    Args:
        values: from left to right.
        span: what is lowest and what is highest in all curves that are compared.
    """
    if not values:
        return NOTHING
    width = min(_WIDTH, len(values))
    low, high = span
    parts = [values[len(values) * at // width : len(values) * (at + 1) // width] for at in range(width)]
    means = [sum(part) / len(part) for part in parts]
    steps = len(_LEVELS) - 1
    return "".join(_LEVELS[round((mean - low) / (high - low) * steps) if high > low else 0] for mean in means)


def copied(there: int | list[int] | None, back: int | list[int] | None, first: bool) -> str:
    """What a step copies both ways: of what grows, as a sum of the step.

    Args:
        there, back: bytes, or a list by step.
        first: the first step has a shape of its own, and is left out.
    """
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
