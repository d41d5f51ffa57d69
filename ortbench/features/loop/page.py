"""The chart of a loop: how long its steps take."""

from __future__ import annotations

from collections.abc import Sequence

from ortbench.core import units
from ortbench.features.loop.analysis import is_first_apart
from ortbench.features.page.report import chart_model as model
from ortbench.model.result import Result
from ortbench.report.model import NOTHING, Column, Kind, Table, columns

_ROWS = 16  # of the table, so that a long loop does not fill the page


def step_times(result: Result) -> model.Chart | None:
    """How long each step of a loop takes, mode by mode; None where no times of steps are known."""
    found = [(case, case.steps_ns) for case, _ in model.measured_cases(result) if case.steps_ns]
    if not found:
        return None
    apart = is_first_apart(result)
    unit, scale = units.time_unit(max(max(ns) for _, ns in found))
    count = max(len(ns) for _, ns in found)
    last = min(count, _ROWS) - 1
    # Of a long loop the ends of as many parts of equal length as there are rows for.
    shown = [0] if last < 1 else [round(at * (count - 1) / last) for at in range(last + 1)]
    rows = tuple(
        (str(number), *(units.time(ns[number], scale) if number < len(ns) else NOTHING for _, ns in found))
        for number in shown
    )
    headed = columns(Kind.TIME, *(case.mode for case, _ in found))
    first = "; the first step is a point by itself" if apart else ""
    lines = tuple(line for case, ns in found for line in _step_lines(case.mode, ns, apart))
    return model.Chart(
        "Time of each step",
        f"Lines of the median time of each step over its number, one for each mode{first}.",
        Table((Column("step", Kind.NAME), *headed), rows, unit),
        model.LineChart((model.Panel(lines, model.Axis("whole", "step")),)),
    )


def _step_lines(mode: str, ns: Sequence[int], apart: bool) -> list[model.Line]:
    """The steps as a line, to which none leads from a first one that has a shape of its own."""
    points = tuple((float(at), float(max(it, 1))) for at, it in enumerate(ns))
    begins = int(apart and len(ns) > 1)
    tip = f"{mode}: {units.duration(ns[begins])} to {units.duration(ns[-1])}"
    first = [model.Line(mode, model.look_of(mode), points[:1], f"{mode}, first step: {units.duration(ns[0])}")] * begins
    return [*first, model.Line(mode, model.look_of(mode), points[begins:], tip)]


CHARTS = {"steps": step_times}
