"""How a load is shown: in a terminal, as Markdown, on a page, and to other programs."""

from __future__ import annotations

import json
from typing import Any, Literal

import pytest

from ortbench.features.junit.report import outcomes_of_run
from ortbench.features.load.analysis import load_cases
from ortbench.features.load.page import by_clients, by_rate
from ortbench.features.load.report import closed_table, heading, open_table, own_line
from ortbench.features.page.report.chart_model import LineChart
from ortbench.features.page.report.page import build_page
from ortbench.features.services.report import action_json
from ortbench.model.result import UNSUPPORTED, Case
from ortbench.report.model import Table
from ortbench.report.records import markdown
from ortbench.report.run import build
from tests.expect import there
from tests.results import MS, closed, failed_level, load_result, noise_of, opened, paced, serving, slo_rate


def cells(table: Table, *columns: str) -> list[tuple[str, ...]]:
    at = [[it.name for it in table.columns].index(name) for name in columns]
    return [tuple(row[number] for number in at) for row in table.rows]


def test_rows_of_closed_and_open_loops() -> None:
    names = ("mode", "clients", "inf/s", "95% CI", "latency", "p99", "CPU cores", "GIL wait", "Jain's fairness index")
    rows = cells(closed_table(serving()), *names)
    assert rows[2] == ("cpu-tensors", "4", "388", "384–392", "10.3", "20.6", "2.00", "1.00%", "1.00")
    table = open_table(paced())
    assert cells(table, "rate", "latency", "p99", "SLO", "mean queue delay", "service time", "utilisation") == [
        ("back to back", "3.00", "–", "–", "–", "–", "–"),
        ("10/s", "7.30", "12.0", "met", "100 µs", "7.20", "7.20%"),
        ("30/s", "3.30", "14.0", "met", "100 µs", "3.20", "9.60%"),
        ("90/s", "900", "1900", "violated", "saturated", "3.20", "100%"),
    ]
    rows = cells(table, "generator lag p99", "late share", "inf/s", "SM clock")
    assert rows[:3] == [
        ("–", "–", "333", "1725 MHz"),
        ("5.00 µs", "0%", "10.0", "210 MHz"),
        ("1.00 ms", "3.00%", "30.0", "–"),
    ]


def test_what_noise_may_have_made_of_an_slo_is_marked_in_the_tables() -> None:
    result = paced()
    result.noise = noise_of(2, 1.0, [0.4] * 8)
    assert cells(open_table(result), "SLO", "mean queue delay")[2:] == [("met", "100 µs"), ("violated?", "saturated?")]


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        (("unclear", "passed", "failed"), ["met", "met", "violated"]),  # what meets it at a rate does so at lower ones
        (("passed", "unclear", "unclear"), ["met", "cannot tell", "cannot tell"]),
    ],
)
def test_whether_rates_meet_an_slo(
    verdicts: tuple[Literal["passed", "failed", "unclear"], ...], expected: list[str]
) -> None:
    points = [opened("cpu-tensors", rate, 5.0) for rate in (10, 20, 30)]
    for point, verdict in zip(points, verdicts, strict=True):
        point.checks["slo"] = {"verdict": verdict}
    assert [slo for (slo,) in cells(open_table(load_result(*points, slo={"p99": 20 * MS})), "SLO")] == expected


def test_a_level_whose_outputs_are_wrong_keeps_its_figures() -> None:
    wrong = closed("cpu-tensors", 4, 400, 10.0)
    wrong.status, wrong.reason = "failed", "output y of client 2 differs"
    text = markdown(build(load_result(closed("cpu-tensors", 1, 100, 10.0), wrong)))
    assert "| cpu-tensors (failed) | 4 | 400 | 396–404 | " in text
    assert "- cpu-tensors with 4 clients failed: output y of client 2 differs\n" in text


def test_how_a_load_was_put_on() -> None:
    setup: dict[str, Any] = {
        "sessions": "process",
        "workers": 2,
        "arrivals": "file",
        "file": "monday.txt",
        "order": "cycle",
    }
    result = load_result(opened("cpu-tensors", 30, 5.0), slo={"p99": 20 * MS}, shapes=["a", "b"], **setup)
    said = "a process each, 2 workers, arrivals of monday.txt, 2 shapes in turns, 2 s each, SLO p99 ≤ 20 ms"
    assert own_line(result) == f"load: {said}"
    assert heading(result).endswith(f"; the first of 2 shapes; {said}")


def test_ci_systems_read_of_load_points() -> None:
    points = (closed("cpu-tensors", 4, 400, 10.0), failed_level(closed("cpu-tensors", 8, 1, 1.0)))
    result = load_result(*points, opened("cpu-tensors", 30, 5.0))
    result.cases.append(Case("host-accessible", UNSUPPORTED, "no HOST_ACCESSIBLE memory"))
    found = [(it.name, it.verdict, it.text.partition(", of")[0], it.seconds) for it in outcomes_of_run(result)]
    assert found == [
        ("host-accessible", "skipped", "no HOST_ACCESSIBLE memory", 0.0),
        ("cpu-tensors with 4 clients", "passed", "400 inferences/s (95% CI 396 to 404), p50 10.0 ms, p99 20.0 ms", 0.01),
        ("cpu-tensors with 8 clients", "error", "the worker was ended by SIGSEGV", 0.0),
        ("cpu-tensors at 30 requests/s", "passed", "30.0 inferences/s (95% CI 29.7 to 30.3), p50 5.00 ms, p99 10.0 ms", 0.005),
    ]  # fmt: skip
    entries = json.loads(action_json([result]))
    on = " on SomeExecutionProvider (GPU Some GPU): cpu-tensors"
    assert [(it["name"].replace(on, ""), it["value"]) for it in entries] == [
        ("m.onnx (concurrency=4) time per inference", 2.5), ("m.onnx (concurrency=4) latency", 10.0),
        ("m.onnx (concurrency=4) latency.p99", 20.0), ("m.onnx (rate=30) latency.p99", 10.0), ("m.onnx (rate=30) latency", 5.0),
    ]  # fmt: skip
    assert (entries[0]["range"], entries[1]["extra"].splitlines()[0]) == (
        "± 0.025253",
        "median of 800 samples, p95 15.0 ms",
    )


def test_the_marks_of_the_pictures() -> None:
    both, slo = [*load_cases(serving()), *load_cases(paced())], {"p99": 20 * MS}
    text = build_page([load_result(*both, slo=slo, found={"device-tensors": slo_rate(70.0, 74.0)})], ["m"])
    for mark in (
        ">SLO: p99 ≤ 20 ms<",
        "cpu-tensors: the knee, 4 clients",
        "device-tensors: the knee, 2 clients",
        ">saturated<",
        "device-tensors: p99 12.0 ms at 10 requests/s to 1.90 s at 90 requests/s",
        "device-tensors: p99 ≤ 20 ms up to 70 requests/s",
    ):
        assert mark in text, mark


def test_a_picture_takes_two_levels_and_shows_what_the_slo_is_of() -> None:
    assert by_clients([load_result(closed("cpu-tensors", 4, 100, 10.0))], [""]) is None
    assert by_rate([serving()], [""]) is None
    levels = [opened("cpu-tensors", rate, 5.0, 15.0) for rate in (10, 20)]
    picture = there(by_rate([load_result(*levels, slo={"p95": 12 * MS})], [""]))
    assert isinstance(picture.drawing, LineChart)
    (panel,) = picture.drawing.panels
    assert (panel.name, [it.y for it in panel.limits]) == ("p95 of latency", [12 * MS])
    assert panel.lines[-1].points == ((10, 10 * MS), (20, 10 * MS))
    assert picture.table.rows[0] == ("cpu-tensors", "10/s", "10.0", "9.90–10.1", "5.00", "10.0")
