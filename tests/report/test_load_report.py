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
from ortbench.model.result import UNSUPPORTED, Case, Result
from ortbench.report.markdown import markdown
from ortbench.report.run import build
from tests.report.test_terminal import shown
from tests.results import (
    MS,
    closed,
    failed_level,
    load_result,
    noise_of,
    opened,
    paced,
    serving,
    slo_rate,
)

CLOSED = """\
mode            clients  inf/s    95% CI  scaling     95% CI  latency   p95   p99  CPU cores  GIL wait
                                                                   ms    ms    ms
cpu-tensors           1    100  99.0–101    1.00×          –     10.0  15.0  20.0      0.500     1.00%
cpu-tensors           2    190   188–192    1.90×  1.86–1.94     10.5  15.8  21.0       1.00     1.00%
cpu-tensors           4    388   384–392    3.88×  3.81–3.95     10.3  15.4  20.6       2.00     1.00%
cpu-tensors           8    400   396–404    4.00×  3.92–4.08     20.0  30.0  40.0       4.00     1.00%
device-tensors        1    200   198–202    1.00×          –     5.00  7.50  10.0      0.500     1.00%
device-tensors        2    380   376–384    1.90×  1.86–1.94     5.30  7.95  10.6       1.00     1.00%
device-tensors        4    390   386–394    1.95×  1.91–1.99     10.3  15.4  20.6       2.00     1.00%
device-tensors        8    388   384–392    1.94×  1.90–1.98     20.6  30.9  41.2       4.00     1.00%

mode            clients  Jain's fairness index
cpu-tensors           1                   1.00
cpu-tensors           2                   1.00
cpu-tensors           4                   1.00
cpu-tensors           8                   1.00
device-tensors        1                   1.00
device-tensors        2                   1.00
device-tensors        4                   1.00
device-tensors        8                   1.00
"""

OPEN = """\
mode                    rate  latency   p95   p99  SLO       mean queue delay  service time  utilisation
                                   ms    ms    ms                                        ms
device-tensors  back to back     3.00  3.00     –  –                        –             –            –
device-tensors          10/s     7.30  9.65  12.0  met                 100 µs          7.20        7.20%
device-tensors          30/s     3.30  8.65  14.0  met                 100 µs          3.20        9.60%
device-tensors          90/s      900  1400  1900  violated         saturated          3.20         100%

mode                    rate  generator lag p99  late share  inf/s     95% CI  CPU cores  GIL wait  SM clock
device-tensors  back to back                  –           –    333    333–333          –         –  1725 MHz
device-tensors          10/s            5.00 µs          0%   10.0  9.90–10.1      0.500        0%   210 MHz
device-tensors          30/s            1.00 ms       3.00%   30.0  29.7–30.3      0.500        0%         –
device-tensors          90/s            5.00 µs          0%   80.0  79.2–80.8      0.500        0%         –
"""


def text_of(result: Result, width: int = 120) -> str:
    return "\n".join([*shown(build, result, width=width), ""])


def test_a_terminal_shows_closed_and_open_loops() -> None:
    assert CLOSED in text_of(serving())
    assert OPEN in text_of(paced())


def test_what_noise_may_have_made_of_an_slo_is_marked_in_the_tables() -> None:
    result = paced()
    assert "violated?" not in text_of(result)
    result.noise = noise_of(2, 1.0, [0.4] * 8)
    text = text_of(result)
    cells = " ".join(text.split())
    assert all(it in cells for it in (" violated? saturated? ", " 12.0 met 100 µs "))
    met = load_result(opened("cpu-tensors", 10, 5.0, 6.0), slo={"p99": 20 * MS})
    met.noise = result.noise
    assert "met?" not in text_of(met)


@pytest.mark.parametrize(
    ("verdicts", "cells"),
    [
        (("unclear", "passed", "failed"), ("met", "met", "violated")),  # what meets it at a rate does so at lower ones
        (("passed", "unclear", "unclear"), ("met", "cannot tell", "cannot tell")),
    ],
)
def test_whether_rates_meet_an_slo(
    verdicts: tuple[Literal["passed", "failed", "unclear"], ...], cells: tuple[str, ...]
) -> None:
    points = [opened("cpu-tensors", rate, 5.0) for rate in (10, 20, 30)]
    for point, verdict in zip(points, verdicts, strict=True):
        point.checks["slo"] = {"verdict": verdict}
    table = open_table(load_result(*points, slo={"p99": 20 * MS}))
    column = [it.name for it in table.columns].index("SLO")
    assert tuple(row[column] for row in table.rows) == cells
    clients = closed("cpu-tensors", 4, 100, 5.0)
    clients.checks["slo"] = {"verdict": "unclear"}
    assert "cannot tell" in closed_table(load_result(clients, slo={"p99": 20 * MS})).rows[0]


def test_a_level_whose_outputs_are_wrong_keeps_its_figures() -> None:
    wrong = closed("cpu-tensors", 4, 400, 10.0)
    wrong.status, wrong.reason = "failed", "output y of client 2 differs"
    wrong.checks["outputs"] = {"verdict": "failed"}
    text = markdown(build(load_result(closed("cpu-tensors", 1, 100, 10.0), wrong, closed("cpu-tensors", 2, 100, 10.0))))
    assert "| cpu-tensors (failed) | 4 | 400 | 396–404 | – | – |" in text
    assert "- cpu-tensors with 4 clients failed: output y of client 2 differs\n" in text


@pytest.mark.parametrize(
    ("setup", "said"),
    [
        ({"sessions": "own"}, "a session each, 1 worker, poisson arrivals, 2 s each"),
        (
            {"sessions": "process", "workers": 2, "arrivals": "uniform", "duration_s": 0.5, "slo": {"p99": 20 * MS}},
            "a process each, 2 workers, uniform arrivals, 0.5 s each, SLO p99 ≤ 20 ms",
        ),
        (
            {"arrivals": "file", "file": "monday.txt", "order": "cycle", "shapes": ["a", "b"]},
            "one session, 1 worker, arrivals of monday.txt, 2 shapes in turns, 2 s each",
        ),
    ],
)
def test_how_a_load_was_put_on(setup: dict[str, Any], said: str) -> None:
    result = load_result(opened("cpu-tensors", 30, 5.0), **setup)
    assert own_line(result) == f"load: {said}"
    assert heading(result).endswith(f"; {said}")


# Other programs


def test_ci_systems_read_of_levels() -> None:
    result = load_result(
        closed("cpu-tensors", 4, 400, 10.0),
        failed_level(closed("cpu-tensors", 8, 1, 1.0)),
        opened("cpu-tensors", 30, 5.0),
    )
    result.cases.append(Case("host-accessible", UNSUPPORTED, "no HOST_ACCESSIBLE memory"))
    found = [(it.name, it.verdict, it.text, it.seconds) for it in outcomes_of_run(result)]
    assert found == [
        ("host-accessible", "skipped", "no HOST_ACCESSIBLE memory", 0.0),
        (
            "cpu-tensors with 4 clients",
            "passed",
            "400 inferences/s (95% CI 396 to 404), p50 10.0 ms, p99 20.0 ms, of 800 inferences",
            0.01,
        ),
        ("cpu-tensors with 8 clients", "error", "the worker was ended by SIGSEGV", 0.0),
        (
            "cpu-tensors at 30 requests/s",
            "passed",
            "30.0 inferences/s (95% CI 29.7 to 30.3), p50 5.00 ms, p99 10.0 ms, of 800 inferences",
            0.005,
        ),
    ]
    entries = json.loads(action_json([result]))
    on = " on SomeExecutionProvider (GPU Some GPU): cpu-tensors"
    assert [(it["name"].replace(on, ""), it["value"]) for it in entries] == [
        ("m.onnx (concurrency=4) time per inference", 2.5), ("m.onnx (concurrency=4) latency", 10.0),
        ("m.onnx (concurrency=4) latency.p99", 20.0), ("m.onnx (rate=30) latency.p99", 10.0), ("m.onnx (rate=30) latency", 5.0),
    ]  # fmt: skip
    assert entries[0]["range"] == "± 0.025253"
    assert entries[1]["extra"].splitlines()[0] == "median of 800 samples, p95 15.0 ms"


# The page


def test_the_marks_of_the_pictures() -> None:
    text = build_page([load_result(*load_cases(serving()), *load_cases(paced()), slo={"p99": 20 * MS})], ["m"])
    assert text.count(">SLO: p99 ≤ 20 ms<") == 2
    assert "cpu-tensors: the knee, 4 clients" in text
    assert "device-tensors: the knee, 2 clients" in text
    assert ">saturated<" in text
    assert "device-tensors: p99 12.0 ms at 10 requests/s to 1.90 s at 90 requests/s" in text
    found = {"device-tensors": slo_rate(70.0, 74.0)}
    assert "device-tensors: p99 ≤ 20 ms up to 70 requests/s" in build_page([paced(found=found)], ["m"])
    assert ">saturated<" not in build_page([serving()], ["m"])


def test_a_picture_takes_two_levels_and_shows_what_the_slo_is_of() -> None:
    assert by_clients([load_result(closed("cpu-tensors", 4, 100, 10.0))], [""]) is None
    assert by_rate([serving()], [""]) is None
    levels = [opened("cpu-tensors", rate, 5.0, 15.0) for rate in (10, 20)]
    picture = by_rate([load_result(*levels, slo={"p95": 12 * MS})], [""])
    assert picture is not None
    assert isinstance(picture.drawing, LineChart)
    (panel,) = picture.drawing.panels
    assert (panel.name, [it.y for it in panel.limits]) == ("p95 of latency", [12 * MS])
    assert panel.lines[-1].points == ((10, 10 * MS), (20, 10 * MS))
    assert picture.table.headings == ["mode", "rate", "inferences/s", "95% CI", "latency (ms)", "p95 (ms)"]
    assert picture.table.rows[0] == ("cpu-tensors", "10/s", "10.0", "9.90–10.1", "5.00", "10.0")
