"""How a sweep is shown: in a terminal, as Markdown, on a page, and to other programs."""

from __future__ import annotations

import json
from dataclasses import replace
from math import isnan
from pathlib import Path

import pytest

from ortbench.analysis.items import put_throughput
from ortbench.features.junit.report import outcomes_of_run
from ortbench.features.page.report.chart_model import Chart, LineChart, Panel
from ortbench.features.page.report.page import build_page
from ortbench.features.services.report import action_json, bmf
from ortbench.features.sweep.analysis import best_of
from ortbench.features.sweep.page import rates_by_size, times_by_size
from ortbench.features.sweep.report import mode_table
from ortbench.model.metric_names import Slo
from ortbench.model.result import Result
from ortbench.model.result_file import load
from ortbench.model.schema import Axis
from ortbench.report.markdown import markdown
from ortbench.report.run import build
from tests.expect import there
from tests.report.test_page import Page
from tests.results import US, drawing, hosted, noise_of, published, sweep_result

LIMIT = Slo("p99", 1_300 * US)


def test_the_column_best_has_a_word_for_every_shape() -> None:
    def best(result: Result) -> list[str]:
        table = mode_table(result)
        at = [column.name for column in table.columns].index("best")
        return [row[at] for row in table.rows if row[0] == "cpu-tensors"]

    assert best(sweep_result()) == ["worse", "worse", "best"]
    assert best(sweep_result({"cpu-tensors": {1: 100, 2: 200, 4: 480}})) == ["as good", "as good", "worse"]
    stored = load(Path("reports/gpu-h100-2/switching/result.json"))  # whose best shape may be another one
    assert best(stored) == ["worse", "cannot tell", "cannot tell"]
    assert [len(it.rings) for it in panel_of(rates_by_size(stored)).lines] == [0, 1]
    busy = sweep_result({"cpu-tensors": {1: 100, 8: 780}})
    busy.noise = noise_of(2, 1.0, [0.5] * 40)
    assert best(busy) == ["cannot tell"] * 2
    by_bytes = sweep_result(slo=LIMIT)
    by_bytes.own["shapes"] = [replace(it, items=None) for it in by_bytes.shapes]
    by_bytes.own["best"] = best_of(by_bytes, LIMIT)
    assert best(by_bytes) == ["smaller", "best", "SLO violated"]


# What CI systems read


def test_each_shape_has_its_modes_in_junit_and_its_medians_in_the_forms_of_actions() -> None:
    made = sweep_result(failed={2: "no memory"})
    outcomes = outcomes_of_run(made)
    assert {it.group for it in outcomes} == {"m.onnx on SomeExecutionProvider"}
    assert [(it.name, it.verdict) for it in outcomes] == [
        ("batch=1: cpu-tensors", "passed"), ("batch=1: device-resident", "passed"),
        ("batch=2: cpu-tensors", "error"), ("batch=2: device-resident", "error"),
        ("batch=4: cpu-tensors", "passed"), ("batch=4: device-resident", "passed"),
    ]  # fmt: skip
    assert outcomes[2].text == "no memory"
    assert outcomes[5].seconds == 0.0015
    entries = {it["name"]: it["value"] for it in json.loads(action_json([made]))}
    assert [name.partition("(")[2].partition(")")[0] for name in entries] == ["batch=1"] * 2 + ["batch=4"] * 2
    assert [*entries.values()] == [1.0, 0.5, 1.6, 1.5]
    assert {it["latency"]["value"] for it in json.loads(bmf([made])).values()} == {1e6, 5e5, 1.6e6, 1.5e6}


# Pictures and pages


def panel_of(chart: Chart | None) -> Panel:
    assert chart is not None
    assert isinstance(chart.drawing, LineChart)
    (panel,) = chart.drawing.panels
    return panel


def test_curves_are_by_mode_over_the_sizes_with_the_best_marked() -> None:
    picture = rates_by_size(sweep_result(failed={2: "no"}))
    panel = panel_of(picture)
    assert (panel.axis.ticks, panel.axis.name) == (((1, "1"), (2, "2"), (4, "4")), "batch")
    assert [
        (it.name, [None if isnan(y) else y for _, y in it.points], [ring.x for ring in it.rings]) for it in panel.lines
    ] == [
        ("cpu-tensors", [1000.0, None, 2500.0], [4]),
        ("device-resident", [2000.0, None, 2666.667], [4]),
    ]
    assert picture is not None
    times = panel_of(times_by_size(sweep_result(slo=LIMIT)))
    assert [it.y for it in times.limits] == [LIMIT.limit_ns]
    assert times.lines[0].points[1] == (2, 1_200_000.0)
    assert times.lines[0].intervals[1] == (2, 1_200_000.0, 1_200_000.0)
    assert rates_by_size(published()) is times_by_size(published()) is None


def test_where_the_machine_was_too_busy_to_tell_no_shape_has_a_ring() -> None:
    busy = sweep_result({"cpu-tensors": {1: 100, 8: 780}})
    assert [len(it.rings) for it in panel_of(rates_by_size(busy)).lines] == [1]
    busy.noise = noise_of(2, 1.0, [0.5] * 40)
    picture = rates_by_size(busy)
    assert [it.rings for it in panel_of(picture).lines] == [()]
    assert picture is not None


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
    picture = rates_by_size(grid())
    panel = panel_of(picture)
    assert ([x for x, _ in panel.axis.ticks], panel.axis.name) == ([1, 2, 4], "batch")
    lines = {
        (it.name, it.end): ([None if isnan(y) else y for _, y in it.points], [ring.x for ring in it.rings])
        for it in panel.lines
    }
    assert lines == {
        ("cpu-tensors", "sequence=16"): ([1000.0, 1666.667, 2500.0], [4]),
        ("cpu-tensors", "sequence=32"): ([1000.0, None, None], []),
        ("device-resident", "sequence=16"): ([2000.0, 3333.333, 2666.667], [2]),
        ("device-resident", "sequence=32"): ([2000.0, None, None], []),
    }
    assert picture is not None
    assert "one for each mode and size of the other dimensions" in picture.caption
    text = build_page([grid()], ["m"])
    assert ">sequence=16<" in text


def test_the_times_are_those_that_an_slo_is_of() -> None:
    picture = times_by_size(sweep_result(slo=Slo("max", 5_000_000)))
    assert picture is not None
    assert (picture.title, panel_of(picture).lines[0].points[0]) == ("max of latency by shape", (1, 1_000_000.0))
    few = times_by_size(sweep_result(slo=LIMIT, rounds=3))  # of which there is no p99
    assert few is not None
    assert (few.title, panel_of(few).limits) == ("Latency by shape", ())


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
    assert "Resource usage" not in markdown(build(sweep_result()))


@pytest.mark.usefixtures("undrawn")
def test_a_page_has_the_curves_the_tables_and_the_words() -> None:
    text = build_page([sweep_result(slo=LIMIT, failed={2: "out of memory"})], ["m"])
    page = Page(text)
    assert page.text("h1") == ["batch=1 has the most items/s with cpu-tensors: 1.00k items/s"]
    titles = page.text("h2")
    assert [it for it in titles if it not in ("Placement", "Environment", "Words", "Command")] == [
        "Items/s by shape",
        "p99 of latency by shape",
        "By mode",
        "Shapes",
        "Switching shapes",
    ]
    assert "batch=2 failed: out of memory" in text
    words = text.partition("<h2>Words</h2>")[2]
    assert "first vs later" in words
    assert "switching cost" in words
    assert build_page([sweep_result()], ["m"]) == build_page([sweep_result()], ["m"])
    assert "by shape" not in build_page([published()], ["m"])
