"""The picture of a bandwidth curve."""

from __future__ import annotations

from ortbench.features.bandwidth.analysis import TITLES, gbps, measured_cases, size_of
from ortbench.features.page.report.chart_model import Line, LineChart
from ortbench.features.page.report.charts import LOOKS, by_size
from ortbench.model.modes import DIRECTIONS, MEMORIES, ORDINARY
from ortbench.model.result import Result
from ortbench.report.phrases import ep_line


def bandwidth_curve(result: Result) -> LineChart:
    """A bandwidth curve with at least one measured case: a line for each direction and kind of host memory."""
    lines = []
    for memory in MEMORIES:
        for way in DIRECTIONS:
            points = tuple(
                (float(size_of(case)), gbps(case, way) * 1e9) for case in measured_cases(result, way, memory)
            )
            if points:
                look = LOOKS[way]._replace(dash=int(memory != ORDINARY), hollow=memory != ORDINARY)
                lines.append(Line(f"{way.upper()}, {TITLES[memory]}", look, points))
    return by_size(lines, f"Copies of {ep_line(result)}")
