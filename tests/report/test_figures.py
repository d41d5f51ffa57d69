"""What a report's pictures show, from scripted results; their tables are in golden files too."""

from __future__ import annotations

import re

import pytest

from ortbench.features.page.report.chart_model import Chart, LineChart, StackedBars
from ortbench.features.page.report.charts import bandwidth, distribution, drift, phases
from ortbench.features.page.report.drawings import draw
from ortbench.model.result import FAILED, Case, Result
from tests.expect import there
from tests.odd import MS, swept
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


# Where the time goes


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


def short_copies(ns: int) -> Case:
    return copying(measured("cpu-tensors", latency=steady([2 * MS])), ns, 2 * MS - ns)


@pytest.mark.parametrize(
    ("case", "part"),
    [
        (measured("cpu-tensors", latency=steady([2 * MS])), "no breakdown"),
        (short_copies(-MS), "≈ inference (derived)"),
        (measured("device-resident-async", latency=steady([2 * MS])), "time per inference"),
    ],
    ids=["whole", "copies below nothing", "many with one wait"],
)
def test_a_run_without_parts_is_one_bar(case: Case, part: str) -> None:
    found = phases(result_of(case))
    assert bars(found) == [(case.mode, [(part, 2 * MS)], 2 * MS)]
    titles = re.findall("<title>(.*?)</title>", draw(there(found).drawing, "it"))
    assert titles[0].startswith(f"{case.mode}: {part}")


def test_only_modes_that_are_ok_are_pictured() -> None:
    differs = broken("device-tensors", FAILED, "it differs", latency=steady([1]))
    result = result_of(measured("cpu-tensors", latency=steady([MS])), differs)
    charts = (phases(result), distribution(result), drift(result))
    assert [[row[0] for row in there(it).table.rows] for it in charts] == [["cpu-tensors"]] * 3


# The copies, and several results


def test_copies_lie_beside_the_bandwidth_curve_of_their_link() -> None:
    result = swept()
    result.cases = published().cases
    found = there(bandwidth(result))
    assert isinstance(found.drawing, LineChart)
    (panel,) = found.drawing.panels
    assert [(it.name, it.points[0], len(it.points)) for it in panel.lines] == [
        *((f"{way}, bandwidth curve", (1024, 1e9 * 1024 / ns), 19) for way, ns in (("H2D", 10171), ("D2H", 15256))),
        ("≈ copies, both directions (derived)", (36_000_000, 3e9), 1),
        ("H2D", (30_000_000, 5e9), 1),
        ("D2H", (6_000_000, 1.2e9), 1),
    ]
    assert found.table.rows[1] == ("device-tensors H2D", "30.0 MB", "6.00 ms", "5.00")
    assert bandwidth(published()) is None  # without a curve the table says as much
