"""What a report's pictures show, from scripted results; their tables are in golden files too."""

from __future__ import annotations

import re

import pytest

from ortbench.features.page.report.chart_model import Chart, LineChart, StackedBars
from ortbench.features.page.report.charts import bandwidth, distribution, drift, latencies, phases, samples_of
from ortbench.features.page.report.drawings import draw
from ortbench.features.page.report.parts import charts_of
from ortbench.features.page.report.sheet import inline_svg
from ortbench.model.result import FAILED, Case, Result
from tests.expect import there
from tests.odd import MS, swept, without_samples
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
        (short_copies(0), "≈ inference (derived)"),
        (short_copies(-MS), "≈ inference (derived)"),
        (measured("device-resident-async", latency=steady([2 * MS])), "time per inference"),
    ],
    ids=["whole", "no copies", "copies below nothing", "many with one wait"],
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
    assert charts_of(result_of(broken("cpu-tensors", FAILED, "it broke"))) == []


# The samples


def test_spread_in_figures() -> None:
    slow_one = measured("cpu-tensors", latency={0: [10 * MS] * 19, 1: [40 * MS]})
    found = there(distribution(result_of(slow_one, measured("device-tensors", latency=steady([8 * MS])))))
    assert [it.partition(" (")[0] for it in found.table.headings][3:] == [
        "median", "95% CI", "p90", "p95", "p99", "max", "std dev",
    ]  # fmt: skip
    assert found.table.rows[0][3:] == ("10.0", "10.0–10.0", "10.0", "11.5", "–", "40.0", "6.71")
    assert found.table.rows[1][6:8] == ("–", "–")


def test_every_sample_has_its_time() -> None:
    cpu = measured("cpu-tensors", latency={0: [10 * MS, 20 * MS], 1: [30 * MS, 40 * MS]})
    device = measured("device-tensors", latency={0: [5 * MS, 5 * MS]})
    cpu.blocks["latency"] = [[0, 2, 10**9], [1, 2, 3 * 10**9]]
    device.blocks["latency"] = [[0, 2, 2 * 10**9]]
    assert [it.seconds.tolist() for it in samples_of(result_of(cpu, device))] == [[0, 0.01, 2, 2.03], [1, 1.005]]


def test_drift_in_figures() -> None:
    each_ms = ([10] * 4, [11, 11, 11, 44], [10] * 4, [12] * 4)
    cpu = measured("cpu-tensors", latency={n: [ms * MS for ms in times] for n, times in enumerate(each_ms)})
    cpu.blocks["latency"] = [[number, 4, number * 10**9] for number in range(4)]
    found = there(drift(result_of(cpu)))
    # first and last quarter, change, slowest, when it was, how many took 1.5 times the median
    assert found.table.rows == (("cpu-tensors", "10.0", "12.0", "+20 %", "44.0", "1.03", "1"),)
    few = there(drift(result_of(measured("cpu-tensors", latency={0: [MS] * 7}))))
    assert few.table.rows[0][1:4] == ("–", "–", "–")
    assert drift(result_of(measured("cpu-tensors", latency={0: [MS]}))) is None
    lost = measured("cpu-tensors", latency=steady([MS] * 4))
    lost.blocks["latency"].pop()
    assert drift(result_of(lost)) is None
    assert [type(chart.drawing) for chart in charts_of(without_samples())] == [StackedBars]


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


def test_totals_side_by_side() -> None:
    failed = result_of(broken("cpu-tensors", FAILED, "it broke"))
    results = [published(), result_of(measured("cpu-tensors", latency=steady([3 * MS]))), failed]
    found = there(latencies(results, ["a", "b", "c"]))
    assert found.table.headings == ["result", "cpu-tensors", "device-tensors", "device-resident"]
    assert found.table.rows == (("a", "20.0 ms", "20.0 ms", "8.00 ms"), ("b", "3.00 ms", "–", "–"))
    assert bars(found)[2:] == [
        ("a: device-resident", [("median", 8 * MS)], None),
        ("b: cpu-tensors", [("median", 3 * MS)], None),
    ]
    assert latencies([failed], ["c"]) is None


# Matplotlib's SVG made fit for a page

WRITTEN = """<?xml version="1.0" encoding="utf-8" standalone="no"?>
<!DOCTYPE svg PUBLIC "-//W3C//DTD SVG 1.1//EN"
  "http://www.w3.org/Graphics/SVG/1.1/DTD/svg11.dtd">
<svg xmlns:xlink="http://www.w3.org/1999/xlink" width="80pt" height="40pt" viewBox="0 0 80 40"
 xmlns="http://www.w3.org/2000/svg" version="1.1">
 <metadata><x/></metadata>
 <defs><style type="text/css">*{stroke-linejoin: round; stroke-linecap: butt}</style></defs>
 <g id="figure_1">
  <g id="tip-0">
   <path d="M 1.2345 2
L 10.06 20
z
" clip-path="url(#c)" style="fill: #0072b2; stroke: #123456; stroke-width: 1.25"/>
  </g>
  <g id="text_1">
   <text style="font-size: 12px; font-family: 'DejaVu Sans', sans-serif; text-anchor: middle; fill: #57606a"
    x="28.84" y="129.797656" transform="rotate(-0 28.84 129.797656)">a &lt; b</text>
  </g>
  <g id="line2d_1">
   <defs><path id="m" d="M 0 0 L 0 3.5"/></defs>
   <g clip-path="url(#c)"><use xlink:href="#m" x="1" y="2.0" style="stroke: #0072b2"/></g>
  </g>
  <g id="dots"><path d="M 1.26 2.26 L 1.26 2.26 M 3 4 L 3 4" style="fill: none"/></g>
 </g>
 <defs><clipPath id="c"><rect x="0" y="0" width="80" height="40"/></clipPath></defs>
</svg>
"""


def test_styles_become_attributes_and_colours_classes() -> None:
    palette = {"#0072b2": "h2d", "#57606a": "muted"}
    assert inline_svg(WRITTEN, palette, {"tip-0": 'a "bar" & more'}) == (
        '<svg viewBox="0 0 80 40" width="80" height="40" font-family="system-ui, sans-serif" stroke-linejoin="round">'
        '<g><title>a "bar" &amp; more</title>'
        '<path d="M 1.2 2 L 10.1 20 z" clip-path="url(#c)" fill="#0072b2" stroke="#123456" stroke-width="1.2"'
        ' class="fill-h2d" /></g>'
        '<text x="28.8" y="129.8" font-size="12px" text-anchor="middle" fill="#57606a" class="fill-muted">a &lt; b</text>'
        '<defs><path id="m" d="M 0 0 L 0 3.5" /></defs>'
        '<g clip-path="url(#c)"><use href="#m" x="1" y="2" stroke="#0072b2" class="stroke-h2d" /></g>'
        '<path d="M1.3 2.3h0 M3 4h0" fill="none" />'
        '<defs><clipPath id="c"><rect x="0" y="0" width="80" height="40" /></clipPath></defs>'
        "</svg>"
    )
