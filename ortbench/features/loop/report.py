"""The tables of a loop and its steps."""

from __future__ import annotations

from collections.abc import Sequence

from ortbench.core import units
from ortbench.features.loop.analysis import growth_ns, is_first_apart, law
from ortbench.model.modes import LATENCY, STEP
from ortbench.model.result import Case, Result
from ortbench.report.case_table import Own
from ortbench.report.model import NOTHING, Kind, maybe
from ortbench.report.records import csv_text

_LEVELS = "▁▂▃▄▅▆▇█"
_WIDTH = 16  # characters of a curve


# What the table of a loop that generates shows by other names.
_NOT_OF_TOKENS = ("loop.p95", "loop.p99", "step", "step.p95", "step.p99", "first_step", "last_step", "step_throughput")


def loop_columns(result: Result) -> dict[str, Own]:
    """What the table of a loop shows that is not, or not only, a figure of the catalogue."""
    first = is_first_apart(result)
    every = [ns for case in result.cases if case.stats(LATENCY) is not None for ns in _curve(case, result)]
    span = (min(every, default=0), max(every, default=0))
    per = "token" if result.generation else STEP
    return {
        **(dict.fromkeys(_NOT_OF_TOKENS, Own(lambda _: NOTHING)) if result.generation else {}),
        "step_growth": Own(lambda case: maybe(growth_ns(case), units.difference)),
        "by step": Own(lambda case: sparkline(_curve(case, result), span), Kind.WORD),
        "state/step": Own(
            lambda case: copied(case.step_copies("state_h2d"), case.step_copies("state_d2h"), first),
            header=f"state/{per}",
        ),
        "copied/step": Own(
            lambda case: copied(case.step_copies("step_h2d"), case.step_copies("step_d2h"), first),
            header=f"copied/{per}",
        ),
    }


def _curve(case: Case, result: Result) -> Sequence[int]:
    """The steps that a curve is of: without the first one where that has a shape of its own."""
    steps = case.steps_ns or []
    return steps[1:] if is_first_apart(result) else steps


def curve_legend(result: Result) -> str:
    """What the curve by step shows, and on which scale."""
    but = (", without the prompt" if result.generation else ", without the first") * is_first_apart(result)
    return f"by step: medians from the shortest step of all modes (▁) to the longest (█){but}."


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
