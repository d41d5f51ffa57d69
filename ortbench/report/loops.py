"""The table of a loop: by mode the whole loop, its first and its last step, how steps grow, and what is copied in one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ortbench import units
from ortbench.analysis.loops import growth_ns, is_first_apart, law, slope_ns, steps_per_s
from ortbench.analysis.memory import is_weighed
from ortbench.modes import CPU_TIME, LOOP_PHASES, STEP, TOTAL
from ortbench.report.costs.energy import energy_records
from ortbench.report.costs.host import host_records
from ortbench.report.costs.memory import memory_record
from ortbench.report.csv import csv_text, ratio, statistics
from ortbench.report.model import KEY, NOTHING, Column, Kind, Table, columns, filled
from ortbench.report.words import mode_name, ratio_cells
from ortbench.result import Case, Result

WHAT_A_LOOP_IS = "loop: the first state is brought to the device, then all steps run; step: any one of them."
_LEVELS = "▁▂▃▄▅▆▇█"
_WIDTH = 16  # characters of a curve

COLUMNS = (
    Column("mode", Kind.NAME, KEY),
    Column("loop", Kind.TIME, 1),
    *columns(Kind.NUMBER, "vs cpu", "95 %", group=2),
    # Each in its own unit: a loop may have a thousand steps.
    *columns(Kind.NUMBER, "step", "first", "last", "each adds", group=3),
    Column("by step", Kind.WORD, 4),
    Column("steps/s", Kind.NUMBER, 5),
    *columns(Kind.NUMBER, "state/step", "copied/step", group=6),
)


def loop_table(result: Result) -> Table:
    """The table of a loop: a row for each mode that was measured; only columns that hold something."""
    shown = [case for case in result.cases if case.phases[TOTAL] is not None]
    medians = [median for case in shown if (median := case.median(TOTAL))]
    unit, scale = units.time_unit(max(medians, default=1))
    every = [ns for case in shown for ns in _curve(case, result)]
    span = (min(every, default=0), max(every, default=0))
    rows = tuple(_row(case, result, scale, span) for case in shown)
    return filled(Table(COLUMNS, rows, unit, title="Table"))


def _curve(case: Case, result: Result) -> Sequence[int]:
    """The steps that a curve is of: without the first one where that has a shape of its own."""
    steps = case.steps_ns or []
    return steps[1:] if is_first_apart(result) else steps


def _row(case: Case, result: Result, scale: float, span: tuple[int, int]) -> tuple[str, ...]:
    assert result.loop is not None
    total, steps, first = case.median(TOTAL), case.steps_ns, is_first_apart(result)
    step = case.median(STEP)
    ends = (NOTHING, NOTHING) if not steps else tuple(map(units.duration, (steps[0], steps[-1])))
    each = None if not steps else growth_ns(steps, first)
    per_s = steps_per_s(case, result.loop["steps"])
    return (
        mode_name(case),
        NOTHING if total is None else units.time(total, scale),
        *ratio_cells(case),
        NOTHING if step is None else units.duration(step),
        *ends,
        NOTHING if each is None else _signed(each),
        sparkline(_curve(case, result), span),
        NOTHING if per_s is None else units.rate(per_s),
        copied(case.state_bytes_in, case.state_bytes_out, first),
        copied(case.step_bytes_in, case.step_bytes_out, first),
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


def loop_records(result: Result) -> list[dict[str, Any]]:
    """The figures of a loop as flat records, one a mode; None if not known.

    Every statistic of ``step`` and ``loop`` in ns; ``first_ns`` and ``last_ns``, the medians of those steps; ``slope_ns``,
    by how much a step takes longer than the one before it, where it does; ``steps_per_s``; and of what a step copies
    because of the state and in all, bytes each way: the fewest and the most of all steps.
    """
    assert result.loop is not None
    found = []
    for case in result.cases:
        row: dict[str, Any] = {"mode": case.mode, "status": case.status, "reason": case.reason}
        row["steps"] = result.loop["steps"]
        for phase in reversed(LOOP_PHASES):
            row |= statistics(phase, case.phases.get(phase))
        row |= statistics(CPU_TIME, case.phases.get(CPU_TIME)) | host_records(case)
        steps = case.steps_ns or []
        row["first_ns"], row["last_ns"] = (steps[0], steps[-1]) if steps else (None, None)
        row["slope_ns"] = slope_ns(steps, is_first_apart(result))
        row["steps_per_s"] = steps_per_s(case, result.loop["steps"])
        for name in ("state_bytes_in", "state_bytes_out", "step_bytes_in", "step_bytes_out"):
            value = getattr(case, name)
            sizes = [value] if isinstance(value, int) else value or [None]
            row[f"{name}_min"], row[f"{name}_max"] = (None, None) if None in sizes else (min(sizes), max(sizes))
        if is_weighed(result):
            row |= memory_record(case)
        row |= energy_records(result, case)
        row |= ratio(case)
        row["outputs_match"] = case.outputs_match
        row["zero_copy_proved"] = case.zero_copy and case.zero_copy["proved"]
        found.append(row)
    return found


def steps_csv(result: Result) -> str:
    """The medians of the steps of a loop as CSV: a row a step, numbered from 0, and a column a mode that has them, in ns."""
    timed = {case.mode: case.steps_ns for case in result.cases if case.steps_ns}
    count = max(map(len, timed.values()), default=0)
    rows = [{STEP: number, **{mode: ns[number] for mode, ns in timed.items()}} for number in range(count)]
    return csv_text([STEP, *timed], rows)
