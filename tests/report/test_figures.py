"""What a report's pictures show; their tables are in golden files."""

from __future__ import annotations

from ortbench.features.page.report.chart_model import StackedBars
from ortbench.features.page.report.charts import distribution, drift, phases
from ortbench.model.result import FAILED
from tests.expect import there
from tests.results import MS, US, broken, measured, published, result_of, steady


def test_bars_hold_phases_derived_copies_and_the_whole() -> None:
    drawing = there(phases(published())).drawing
    assert isinstance(drawing, StackedBars)
    bars = [(it.name, [(part.fill.name, part.ns) for part in it.parts], it.mark_ns) for it in drawing.bars]
    assert bars[:3] == [
        ("cpu-tensors", [("≈ copies, both directions (derived)", 4_200 * US), ("≈ inference (derived)", 3 * MS)], 7_200 * US),
        ("device-tensors", [("H2D", 2_100 * US), ("inference", 3_100 * US), ("D2H", 2_100 * US)], 8 * MS),
        ("device-resident", [("inference", 3 * MS)], 3 * MS),
    ]  # fmt: skip


def test_only_modes_that_are_ok_are_pictured() -> None:
    differs = broken("device-tensors", FAILED, "it differs", latency=steady([1]))
    result = result_of(measured("cpu-tensors", latency=steady([MS])), differs)
    charts = (phases(result), distribution(result), drift(result))
    assert [[row[0] for row in there(it).table.rows] for it in charts] == [["cpu-tensors"]] * 3
