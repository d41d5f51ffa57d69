"""What a report's pictures show, from scripted results; their tables are in golden files too."""

from __future__ import annotations

from ortbench.features.page.report.chart_model import Chart, StackedBars
from ortbench.features.page.report.charts import distribution, drift, phases
from ortbench.model.result import FAILED, Result
from tests.expect import there
from tests.odd import MS
from tests.results import broken, copying, measured, result_of, steady, with_bytes


def published() -> Result:
    cpu = with_bytes(measured("cpu-tensors", latency=steady([20 * MS])), 30_000_000, 6_000_000)
    copying(cpu, 12 * MS, 8 * MS)
    timed = {"h2d": 6, "inference": 7, "d2h": 5, "latency": 20}
    device = measured("device-tensors", **{name: steady([ms * MS]) for name, ms in timed.items()})
    with_bytes(device, 30_000_000, 6_000_000)
    return result_of(cpu, device, measured("device-resident", latency=steady([8 * MS])))


def bars(chart: Chart | None) -> list[tuple[str, list[tuple[str, float]], float | None]]:
    """Of stacked bars the names, the parts with the names of their fills, and where the mark is."""
    assert chart is not None
    assert isinstance(chart.drawing, StackedBars)
    return [(it.name, [(part.fill.name, part.ns) for part in it.parts], it.mark_ns) for it in chart.drawing.bars]


def test_bars_hold_phases_derived_copies_and_the_whole() -> None:
    found = phases(published())
    assert bars(found) == [
        ("cpu-tensors", [("≈ copies, both directions (derived)", 12 * MS), ("≈ inference (derived)", 8 * MS)], 20 * MS),
        ("device-tensors", [("H2D", 6 * MS), ("inference", 7 * MS), ("D2H", 5 * MS)], 20 * MS),
        ("device-resident", [("inference", 8 * MS)], 8 * MS),
    ]
    assert there(found).table.rows == (
        ("cpu-tensors", "–", "≈8.00", "–", "≈12.0", "20.0", "20.0"),
        ("device-tensors", "6.00", "7.00", "5.00", "–", "18.0", "20.0"),
        ("device-resident", "–", "8.00", "–", "–", "8.00", "8.00"),
    )


def test_only_modes_that_are_ok_are_pictured() -> None:
    differs = broken("device-tensors", FAILED, "it differs", latency=steady([1]))
    result = result_of(measured("cpu-tensors", latency=steady([MS])), differs)
    charts = (phases(result), distribution(result), drift(result))
    assert [[row[0] for row in there(it).table.rows] for it in charts] == [["cpu-tensors"]] * 3
