"""How a sweep is shown: in a terminal, as Markdown, on a page, and to other programs."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from math import isnan

import pytest

from ortbench.analysis.items import put_throughput
from ortbench.features.junit.report import outcomes_of_run
from ortbench.features.page.report.chart_model import Chart, LineChart, Panel
from ortbench.features.services.report import action_json, bmf
from ortbench.features.sweep.analysis import best_of
from ortbench.features.sweep.page import rates_by_size, times_by_size
from ortbench.features.sweep.report import mode_table
from ortbench.model.metric_names import Slo
from ortbench.model.result import Result
from ortbench.model.result_file import load
from ortbench.model.schema import Axis
from ortbench.report.records import markdown
from ortbench.report.run import build
from tests.conftest import ROOT
from tests.expect import there
from tests.results import US, drawing, hosted, noise_of, published, sweep_result

LIMIT = Slo("p99", 1_300 * US)
SWITCHING = ROOT / "reports/gpu-h100-2/switching/result.json"


def panel_of(chart: Chart | None) -> Panel:
    assert chart is not None
    assert isinstance(chart.drawing, LineChart)
    (panel,) = chart.drawing.panels
    return panel


def busy() -> Result:
    made = sweep_result({"cpu-tensors": {1: 100, 8: 780}})
    made.noise = noise_of(2, 1.0, [0.5] * 40)
    return made


def by_bytes() -> Result:
    made = sweep_result(slo=LIMIT)
    made.own["shapes"] = [replace(it, items=None) for it in made.shapes]
    made.own["best"] = best_of(made, LIMIT)
    return made


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (sweep_result, ["worse", "worse", "best"]),
        (lambda: sweep_result({"cpu-tensors": {1: 100, 2: 200, 4: 480}}), ["as good", "as good", "worse"]),
        (lambda: load(SWITCHING), ["worse", "cannot tell", "cannot tell"]),  # whose best shape may be another one
        (busy, ["cannot tell"] * 2),
        (by_bytes, ["smaller", "best", "SLO violated"]),
    ],
)
def test_the_column_best_has_a_word_for_every_shape(make: Callable[[], Result], words: list[str]) -> None:
    table = mode_table(make())
    at = [column.name for column in table.columns].index("best")
    assert [row[at] for row in table.rows if row[0] == "cpu-tensors"] == words


def test_where_the_best_shape_is_open_none_has_a_ring() -> None:
    assert [len(it.rings) for it in panel_of(rates_by_size(load(SWITCHING))).lines] == [0, 1]
    assert [it.rings for it in panel_of(rates_by_size(busy())).lines] == [()]


def test_each_shape_has_its_modes_in_junit_and_its_medians_in_the_forms_of_actions() -> None:
    made = sweep_result(failed={2: "no memory"})
    outcomes = outcomes_of_run(made)
    assert [(it.name, it.verdict) for it in outcomes[:3]] == [
        ("batch=1: cpu-tensors", "passed"), ("batch=1: device-resident", "passed"), ("batch=2: cpu-tensors", "error"),
    ]  # fmt: skip
    assert (outcomes[2].text, outcomes[5].seconds) == ("no memory", 0.0015)
    entries = [(it["name"].partition("(")[2].partition(")")[0], it["value"]) for it in json.loads(action_json([made]))]
    assert entries == [("batch=1", 1.0), ("batch=1", 0.5), ("batch=4", 1.6), ("batch=4", 1.5)]
    assert {it["latency"]["value"] for it in json.loads(bmf([made])).values()} == {1e6, 5e5, 1.6e6, 1.5e6}


def lines_of(panel: Panel) -> dict[tuple[str, str], tuple[list[float | None], list[float]]]:
    """By mode and other sizes, the rates and the sizes with a ring."""
    return {
        (it.name, it.end): ([None if isnan(y) else y for _, y in it.points], [ring.x for ring in it.rings])
        for it in panel.lines
    }


def test_curves_are_by_mode_over_the_sizes_with_the_best_marked() -> None:
    panel = panel_of(rates_by_size(sweep_result(failed={2: "no"})))
    assert (panel.axis.ticks, panel.axis.name) == (((1, "1"), (2, "2"), (4, "4")), "batch")
    assert [*lines_of(panel).values()] == [([1000.0, None, 2500.0], [4]), ([2000.0, None, 2666.667], [4])]
    times = panel_of(times_by_size(sweep_result(slo=LIMIT)))
    assert [it.y for it in times.limits] == [LIMIT.limit_ns]
    assert (times.lines[0].points[1], times.lines[0].intervals[1]) == ((2, 1.2e6), (2, 1.2e6, 1.2e6))
    assert rates_by_size(published()) is times_by_size(published()) is None


def grid() -> Result:
    """Batches of 1, 2 and 4 of sequences of 16, and one of 1 of 32."""
    made = sweep_result()
    shapes = [replace(it, shape={"sequence": 16, **it.shape}) for it in made.shapes]
    cases = [replace(case, point={**case.point, "sequence": 16}) for case in made.cases]
    for it in shapes:
        it.point = {**it.shape}
    point: dict[str, int | float | str] = {"batch": 1, "sequence": 32}
    longer = replace(made.shapes[0], name="longer", point=point, shape={"sequence": 32, "batch": 1})
    cases += [replace(case, point=point) for case in made.at_point({"batch": 1})]
    sequence: Axis = {"name": "sequence", "unit": "elements", "values": [16, 32]}
    return replace(made, axes=[sequence, *made.axes], own={**made.own, "shapes": [*shapes, longer]}, cases=cases)


def test_a_grid_has_a_line_for_each_size_of_the_other_dimension() -> None:
    panel = panel_of(rates_by_size(grid()))
    assert ([x for x, _ in panel.axis.ticks], panel.axis.name) == ([1, 2, 4], "batch")
    assert lines_of(panel) == {
        ("cpu-tensors", "sequence=16"): ([1000.0, 1666.667, 2500.0], [4]),
        ("cpu-tensors", "sequence=32"): ([1000.0, None, None], []),
        ("device-resident", "sequence=16"): ([2000.0, 3333.333, 2666.667], [2]),
        ("device-resident", "sequence=32"): ([2000.0, None, None], []),
    }


def test_what_shapes_cost_besides_time_is_a_table_of_its_own() -> None:
    made = sweep_result()
    first, second, third = (there(made.case("cpu-tensors", {"batch": batch})) for batch in (1, 2, 4))
    hosted(first, 10, 1_000, 400, 100, still=(200, 1, 0))
    put_throughput(drawing(second, 0.5), {"count": 2, "dim": "batch"})
    third.own["energy"] = {"unsupported": "no counter"}
    text = markdown(build(made))
    part = text.partition("## Resource usage: by shape\n")[2].partition("• best")[0]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in part.splitlines() if line.startswith("|")]
    assert rows[0] == ["mode", "shape", "CPU time", "spinning", "CPU time, no spin", "energy", "power", "items/J"]
    assert rows[2:] == [
        ["cpu-tensors", "batch=1", "500 ns", "≈60.0%", "200 ns", "–", "–", "–"],
        ["cpu-tensors", "batch=2", "–", "–", "–", "500 mJ", "214 W", "4.00"],
        ["cpu-tensors", "batch=4", "–", "–", "–", "–", "–", "–"],
    ]
    assert "batch=4 with cpu-tensors: energy is unsupported: no counter" in part
