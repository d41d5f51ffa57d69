"""The chart of what the parts of a start take."""

from __future__ import annotations

from ortbench.features.page.report import chart_model as model
from ortbench.features.page.report.charts import parts_in_order
from ortbench.model.metrics import METRICS
from ortbench.model.modes import START_PARTS
from ortbench.model.result import Result


def start_parts(result: Result) -> model.Chart | None:
    """How long each part of a start takes, from the start of the process to the first answer; None where nothing was measured."""
    found = [
        (case.mode, {METRICS[part].title: ns for part in START_PARTS if (ns := case.median(part))}, total.median)
        for case, total in model.measured_cases(result)
    ]
    return parts_in_order(found, "start", "parts")


CHARTS = {"starts": start_parts}
