"""What a report's pictures show: shaped from scripted results, figure by figure."""

from __future__ import annotations

import pytest

from ortbench.features.page.report.chart_model import Chart, LineChart, StackedBars
from ortbench.features.page.report.charts import bandwidth, distribution, drift, latencies, phases, samples_of
from ortbench.features.page.report.drawings import draw
from ortbench.features.page.report.parts import charts_of
from ortbench.model.result import FAILED, Case, Result
from tests.odd import MS, swept, without_samples
from tests.results import broken, measured, result_of, steady, with_bytes


def device_case() -> Case:
    phases = {"h2d": 6, "inference": 7, "d2h": 5, "latency": 20}
    return measured("device-tensors", **{name: steady([ms * MS]) for name, ms in phases.items()})


def published() -> Result:
    cpu = measured("cpu-tensors", latency=steady([20 * MS]))
    cpu.set_metric("copies", 12 * MS, derived=True)
    cpu.set_metric("inference", 8 * MS, derived=True)
    with_bytes(cpu, 30_000_000, 6_000_000)
    device = device_case()
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
    assert found is not None
    assert bars(found) == [
        ("cpu-tensors", [("≈ copies, both directions (derived)", 12 * MS), ("≈ inference (derived)", 8 * MS)], 20 * MS),
        ("device-tensors", [("H2D", 6 * MS), ("inference", 7 * MS), ("D2H", 5 * MS)], 20 * MS),
        ("device-resident", [("inference", 8 * MS)], 8 * MS),
    ]
    table = found.table
    assert table.headings == [
        "mode",
        "H2D (ms)",
        "inference (ms)",
        "D2H (ms)",
        "copies (ms)",
        "sum (ms)",
        "latency (ms)",
    ]
    assert table.rows == (
        ("cpu-tensors", "–", "≈8.00", "–", "≈12.0", "20.0", "20.0"),
        ("device-tensors", "6.00", "7.00", "5.00", "–", "18.0", "20.0"),
        ("device-resident", "–", "8.00", "–", "–", "8.00", "8.00"),
    )


def test_a_run_that_nobody_split_is_whole() -> None:
    found = phases(result_of(measured("cpu-tensors", latency=steady([20 * MS]))))
    assert found is not None
    assert bars(found) == [("cpu-tensors", [("no breakdown", 20 * MS)], 20 * MS)]


@pytest.mark.parametrize("copies", [0, -MS])
def test_a_run_whose_copies_are_too_short_to_be_seen_is_inference(copies: int) -> None:
    cpu = measured("cpu-tensors", latency=steady([20 * MS]))
    cpu.set_metric("copies", copies, derived=True)
    cpu.set_metric("inference", 20 * MS - copies, derived=True)
    found = phases(result_of(cpu))
    assert found is not None
    assert bars(found) == [("cpu-tensors", [("≈ inference (derived)", 20 * MS)], 20 * MS)]
    assert found.table.rows == (("cpu-tensors", "–", "≈20.0", "–", "≈0", "20.0", "20.0"),)


def test_many_runs_with_one_wait_are_a_time_per_run() -> None:
    found = phases(result_of(measured("device-resident-async", latency=steady([2 * MS]))))
    assert found is not None
    assert bars(found) == [("device-resident-async", [("time per inference", 2 * MS)], 2 * MS)]
    drawn = draw(found.drawing, "it")
    assert ">time per inference 2.00 ms<" in drawn
    assert "<title>device-resident-async: time per inference, median 2.00 ms</title>" in drawn
    assert "no breakdown" not in drawn


def test_only_modes_that_are_ok_are_pictured() -> None:
    result = result_of(
        measured("cpu-tensors", latency=steady([MS])),
        broken("device-tensors", FAILED, "it differs", latency=steady([1])),
    )
    made = (phases(result), distribution(result), drift(result))
    assert [[row[0] for row in it.table.rows] for it in made if it is not None] == [["cpu-tensors"]] * 3
    assert charts_of(result_of(broken("cpu-tensors", FAILED, "it broke"))) == []


# The samples


def test_spread_in_figures() -> None:
    slow_one = {0: [10 * MS] * 19, 1: [40 * MS]}
    found = distribution(
        result_of(measured("cpu-tensors", latency=slow_one), measured("device-tensors", latency=steady([8 * MS])))
    )
    assert found is not None
    assert found.table.headings == [
        "mode", "samples", "min (ms)", "median (ms)", "95% CI (ms)", "p90 (ms)", "p95 (ms)", "p99 (ms)",
        "max (ms)", "std dev (ms)",
    ]  # fmt: skip
    assert found.table.rows[0] == (
        "cpu-tensors",
        "20",
        "10.0",
        "10.0",
        "10.0–10.0",
        "10.0",
        "11.5",
        "–",
        "40.0",
        "6.71",
    )
    assert found.table.rows[1][6:8] == ("–", "–")


def test_every_sample_has_its_time() -> None:
    cpu = measured("cpu-tensors", latency={0: [10 * MS, 20 * MS], 1: [30 * MS, 40 * MS]})
    device = measured("device-tensors", latency={0: [5 * MS, 5 * MS]})
    cpu.blocks["latency"] = [[0, 2, 10**9], [1, 2, 3 * 10**9]]
    device.blocks["latency"] = [[0, 2, 2 * 10**9]]
    assert [it.seconds.tolist() for it in samples_of(result_of(cpu, device))] == [[0, 0.01, 2, 2.03], [1, 1.005]]


def test_drift_in_figures() -> None:
    cpu = measured(
        "cpu-tensors", latency={0: [10 * MS] * 4, 1: [11 * MS] * 3 + [44 * MS], 2: [10 * MS] * 4, 3: [12 * MS] * 4}
    )
    cpu.blocks["latency"] = [[number, 4, number * 10**9] for number in range(4)]
    found = drift(result_of(cpu))
    assert found is not None
    assert found.table.headings == [
        "mode", "first quarter (ms)", "last quarter (ms)", "change", "slowest (ms)", "slowest at (s)", "over 1.5× median",
    ]  # fmt: skip
    assert found.table.rows == (("cpu-tensors", "10.0", "12.0", "+20 %", "44.0", "1.03", "1"),)


def test_too_few_samples_to_tell_drift() -> None:
    found = drift(result_of(measured("cpu-tensors", latency={0: [MS] * 7})))
    assert found is not None
    assert found.table.rows[0][1:4] == ("–", "–", "–")
    lost = measured("cpu-tensors", latency=steady([MS] * 4))
    lost.blocks["latency"].pop()
    assert drift(result_of(lost)) is None
    assert drift(result_of(measured("cpu-tensors", latency={0: [MS]}))) is None
    assert [type(chart.drawing) for chart in charts_of(without_samples())] == [StackedBars]


# The copies


def test_copies_lie_beside_the_bandwidth_curve_of_their_link() -> None:
    result = swept()
    result.cases = published().cases
    found = bandwidth(result)
    assert found is not None
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


# Several results


def test_totals_side_by_side() -> None:
    results = [
        published(),
        result_of(measured("cpu-tensors", latency=steady([3 * MS]))),
        result_of(broken("cpu-tensors", FAILED, "it broke")),
    ]
    found = latencies(results, ["a", "b", "c"])
    assert found is not None
    assert found.table.headings == ["result", "cpu-tensors", "device-tensors", "device-resident"]
    assert found.table.rows == (("a", "20.0 ms", "20.0 ms", "8.00 ms"), ("b", "3.00 ms", "–", "–"))
    assert bars(found) == [
        ("a: cpu-tensors", [("median", 20 * MS)], None),
        ("a: device-tensors", [("median", 20 * MS)], None),
        ("a: device-resident", [("median", 8 * MS)], None),
        ("b: cpu-tensors", [("median", 3 * MS)], None),
    ]
    assert latencies(results[2:], ["c"]) is None
