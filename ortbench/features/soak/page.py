"""The chart of what a soak's process holds."""

from __future__ import annotations

from ortbench.core import units
from ortbench.features.page.report import chart_model as model
from ortbench.features.soak.analysis import TOLERANCE, Trend, trends_of
from ortbench.model.result import Result
from ortbench.report.model import Column, Kind, Table, columns


def memory(result: Result) -> model.Chart | None:
    """What the process of a soak holds over its inferences; None with fewer than two readings."""
    found = [it for it in trends_of(result.part) if it.is_memory and len(it.points) > 1]
    if not found:
        return None
    rows = [(it.title, f"{at:.0f}", units.size(held)) for it in found for at, held in (it.points[0], it.points[-1])]
    return model.Chart(
        "Memory over inferences",
        "A line of the memory that the process holds over its inferences, one for the host and one for the device.",
        Table((Column("memory", Kind.NAME), *columns(Kind.NUMBER, "inferences", "held")), tuple(rows)),
        model.LineChart(tuple(map(_panel, found)), height=200),
    )


def _panel(trend: Trend) -> model.Panel:
    least, most = min(held for _, held in trend.points), max(held for _, held in trend.points)
    room = max((most - least) / 10, TOLERANCE)
    line = model.Line(
        trend.title,
        model.Look("inference"),
        tuple(trend.points),
        f"{trend.title}: {units.size(least)} to {units.size(most)}",
    )
    return model.Panel(
        (line,), model.Axis("rates", "inferences"), units.size, trend.title, span=(max(least - room, 0), most + room)
    )


CHARTS = {"memory": memory}
