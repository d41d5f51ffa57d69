"""What a report's pictures show: shaped from scripted results, figure by figure and word for word."""

from __future__ import annotations

import pytest

from ortbench.features.page.report.chart_data.copies import bandwidth
from ortbench.features.page.report.chart_data.model import Chart, Scatter, StackedBars
from ortbench.features.page.report.chart_data.samples import distribution, drift, samples_of
from ortbench.features.page.report.chart_data.times import latencies, phases
from ortbench.features.page.report.chart_svg.draw import draw
from ortbench.features.page.report.chart_svg.sheet import WIDE
from ortbench.features.page.report.parts import charts_of
from ortbench.model.result import FAILED, Case, Result
from tests.odd import MS, swept, usual, without_samples
from tests.results import broken, measured, result_of, steady, with_bytes


def device_case() -> Case:
    phases = {"h2d": 6, "inference": 7, "d2h": 5, "latency": 20}
    return measured("device-tensors", **{name: steady([ms * MS]) for name, ms in phases.items()})


def published() -> Result:
    cpu = measured("cpu-tensors", latency=steady([20 * MS]))
    cpu.put("copies", 12 * MS, derived=True)
    cpu.put("inference", 8 * MS, derived=True)
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
    assert found.caption == (
        "cpu-tensors: ≈12.0 ms of copies in both directions and ≈8.00 ms of inference make up 20.0 ms. "
        "device-tensors: H2D 6.00 ms, inference 7.00 ms, D2H 5.00 ms, in sum 18.0 ms, each timed in blocks of its own; "
        "latency 20.0 ms. Inference only: device-resident 8.00 ms."
    )
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
    assert found.caption == "Not split into phases: cpu-tensors 20.0 ms."


@pytest.mark.parametrize("copies", [0, -MS])
def test_a_run_whose_copies_are_too_short_to_be_seen_is_inference(copies: int) -> None:
    cpu = measured("cpu-tensors", latency=steady([20 * MS]))
    cpu.put("copies", copies, derived=True)
    cpu.put("inference", 20 * MS - copies, derived=True)
    found = phases(result_of(cpu))
    assert found is not None
    assert bars(found) == [("cpu-tensors", [("≈ inference (derived)", 20 * MS)], 20 * MS)]
    assert found.caption == ("cpu-tensors: ≈0 of copies in both directions and ≈20.0 ms of inference make up 20.0 ms.")
    assert found.table.rows == (("cpu-tensors", "–", "≈20.0", "–", "≈0", "20.0", "20.0"),)


def test_many_runs_with_one_wait_are_a_time_per_run() -> None:
    found = phases(result_of(measured("device-resident-async", latency=steady([2 * MS]))))
    assert found is not None
    assert bars(found) == [("device-resident-async", [("time per inference", 2 * MS)], 2 * MS)]
    assert found.caption == (
        "Time per inference, one synchronization for many (throughput, not latency): device-resident-async 2.00 ms."
    )
    drawn = draw(found.drawing, WIDE, "it")
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


def test_spread_in_words_and_figures() -> None:
    slow_one = {0: [10 * MS] * 19, 1: [40 * MS]}
    found = distribution(
        result_of(measured("cpu-tensors", latency=slow_one), measured("device-tensors", latency=steady([8 * MS])))
    )
    assert found is not None
    assert found.caption == (
        "Median and p95: cpu-tensors 10.0 ms and 11.5 ms; device-tensors 8.00 ms (too few samples for a "
        "p95). Farthest above its median: 40.0 ms with cpu-tensors, 4.00× its median."
    )
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


def test_drift_in_words_and_figures() -> None:
    cpu = measured(
        "cpu-tensors", latency={0: [10 * MS] * 4, 1: [11 * MS] * 3 + [44 * MS], 2: [10 * MS] * 4, 3: [12 * MS] * 4}
    )
    cpu.blocks["latency"] = [[number, 4, number * 10**9] for number in range(4)]
    found = drift(result_of(cpu))
    assert found is not None
    assert found.caption == (
        "Change of the median from the first to the last quarter of the samples: cpu-tensors +20 %. 1 of 16 inferences took more than "
        "1.5× the median of their mode."
    )
    assert found.table.headings == [
        "mode", "first quarter (ms)", "last quarter (ms)", "change", "slowest (ms)", "slowest at (s)", "over 1.5× median",
    ]  # fmt: skip
    assert found.table.rows == (("cpu-tensors", "10.0", "12.0", "+20 %", "44.0", "1.03", "1"),)


def test_too_few_samples_to_tell_drift() -> None:
    found = drift(result_of(measured("cpu-tensors", latency={0: [MS] * 7})))
    assert found is not None
    assert found.caption == (
        "Too few samples to tell drift. None of 7 inferences took more than 1.5× the median of their mode."
    )
    assert found.table.rows[0][1:4] == ("–", "–", "–")
    lost = measured("cpu-tensors", latency=steady([MS] * 4))
    lost.blocks["latency"].pop()
    assert drift(result_of(lost)) is None
    assert drift(result_of(measured("cpu-tensors", latency={0: [MS]}))) is None
    assert [type(chart.drawing) for chart in charts_of(without_samples())] == [StackedBars, Scatter]


# The copies


def test_copies_by_size_and_rate() -> None:
    found = bandwidth([published()], ["unused"])
    assert found is not None
    assert isinstance(found.drawing, Scatter)
    assert [(it.name, it.x, it.y) for it in found.drawing.marks] == [
        ("≈ copies, both directions (derived)", 36_000_000, 3e9), ("H2D", 30_000_000, 5e9), ("D2H", 6_000_000, 1.2e9),
    ]  # fmt: skip
    assert found.caption == (
        "inside cpu-tensors: 36.0 MB in both directions in ≈12.0 ms, ≈3.00 GB/s. device-tensors H2D: 30.0 MB in 6.00 ms, 5.00 GB/s. "
        "device-tensors D2H: 6.00 MB in 5.00 ms, 1.20 GB/s. Copies on a diagonal take equally long."
    )
    assert found.table.rows[1] == ("device-tensors H2D", "30.0 MB", "6.00 ms", "5.00")
    assert bandwidth([result_of(measured("cpu-tensors", latency=steady([MS])))], [""]) is None
    assert bandwidth([result_of(device_case())], [""]) is None  # bytes are not known


def test_copies_of_several_results_are_told_by_their_range() -> None:
    other = published()
    other.cases[0].put("copies", 6 * MS, derived=True)
    other.cases[1].put("bytes_h2d", 15_000_000)
    found = bandwidth([published(), other], ["a", "b"])
    assert found is not None
    assert [row[0] for row in found.table.rows][:2] == ["a: inside cpu-tensors", "a: device-tensors H2D"]
    assert found.caption == (
        "copies inside cpu-tensors, both directions: 36.0 MB, ≈3.00 to ≈6.00 GB/s. H2D: 15.0 MB to 30.0 MB, 2.50 to 5.00 GB/s. "
        "D2H: 6.00 MB, 1.20 GB/s. Copies on a diagonal take equally long."
    )


def test_the_sweep_of_the_link_is_behind_the_copies_of_one_result() -> None:
    found = bandwidth([swept()], [""])
    assert found is not None
    assert isinstance(found.drawing, Scatter)
    assert [(it.name, it.points[0], len(it.points)) for it in found.drawing.lines] == [
        (f"{way}, bandwidth curve", (1024, 1e9 * 1024 / ns), 19) for way, ns in (("H2D", 10171), ("D2H", 15256))
    ]
    assert found.caption.endswith(
        "Bandwidth curve, H2D: at most 6.00 GB/s, with 268 MB. Bandwidth curve, D2H: at most 4.00 GB/s, with 268 MB. "
        "Copies on a diagonal take equally long."
    )
    many = bandwidth([swept(), usual()], ["a", "b"])
    assert many is not None
    assert isinstance(many.drawing, Scatter)
    assert many.drawing.lines == ()


# Several results


def test_totals_side_by_side() -> None:
    results = [
        published(),
        result_of(measured("cpu-tensors", latency=steady([3 * MS]))),
        result_of(broken("cpu-tensors", FAILED, "it broke")),
    ]
    found = latencies(results, ["a", "b", "c"])
    assert found is not None
    assert found.caption == "Shortest medians: a 8.00 ms with device-resident; b 3.00 ms with cpu-tensors."
    assert found.table.headings == ["result", "cpu-tensors", "device-tensors", "device-resident"]
    assert found.table.rows == (("a", "20.0 ms", "20.0 ms", "8.00 ms"), ("b", "3.00 ms", "–", "–"))
    many = latencies(
        [result_of(measured("cpu-tensors", latency=steady([n * MS]))) for n in (3, 1, 2, 5, 4)], list("abcde")
    )
    assert many is not None
    assert many.caption == "Shortest medians: from b 1.00 ms with cpu-tensors to d 5.00 ms with cpu-tensors."
    assert latencies(results[2:], ["c"]) is None
