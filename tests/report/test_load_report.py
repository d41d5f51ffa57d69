"""How a load is shown: in a terminal, as Markdown, on a page, and to other programs."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from ortbench.report.exports.github import action_json
from ortbench.report.exports.junit import outcomes_of_run
from ortbench.report.folder import write_run
from ortbench.report.markdown import markdown
from ortbench.report.page.page import build_page
from ortbench.report.page.pictures.load import by_callers, by_rate
from ortbench.report.run import build, frame
from ortbench.report.run import csv as csv_of
from ortbench.result import UNSUPPORTED, Case, Result
from tests.report.test_page import Page
from tests.report.test_terminal import shown
from tests.results import MS, closed, failed_level, load_result, opened, paced, published, serving

CLOSED = """\
m.onnx (x 1x3, s scalar)
load in one session: 1, 2, 4, 8 callers; 2 s a level
SomeExecutionProvider 0.4 on GPU Some GPU, ONNX Runtime 1.28.0
fence: synchronize_outputs, 2.30 µs of every run; memory: EP device Some and SomeShared; done: time is up (2 s per
level)

mode    callers  runs/s     ±  speed-up       95 %   p50   p95   p99  CPU cores   lock  fairness
                                                      ms    ms    ms
cpu           1     100  1.0%     1.00×          –  10.0  15.0  20.0       0.50  1.00%      1.00
cpu           2     190  1.0%     1.90×  1.86–1.94  10.5  15.8  21.0       1.00  1.00%      1.00
cpu           4     388  1.0%     3.88×  3.81–3.95  10.3  15.4  20.6       2.00  1.00%      1.00
cpu           8     400  1.0%     4.00×  3.92–4.08  20.0  30.0  40.0       4.00  1.00%      1.00
device        1     200  1.0%     1.00×          –  5.00  7.50  10.0       0.50  1.00%      1.00
device        2     380  1.0%     1.90×  1.86–1.94  5.30  7.95  10.6       1.00  1.00%      1.00
device        4     390  1.0%     1.95×  1.91–1.99  10.3  15.4  20.6       2.00  1.00%      1.00
device        8     388  1.0%     1.94×  1.90–1.98  20.6  30.9  41.2       4.00  1.00%      1.00

mode    knee  of peak  most runs/s  runs/s by callers  p99 by callers
cpu        4      97%          400  ▃▄██               ▄▅▅█
device     2      97%          390  ▅███               ▃▃▅█

p50, p95 and p99 are latencies: of so many callers from the start of a run, at a rate from the moment when a request was
due, so that what it waited is in it.
ortbench explain speed-up, lock, fairness, knee … says what the words mean.

• cpu brings most: 400 runs/s with 8 callers.
"""

OPEN = """\
mode            rate   p50   p95   p99  SLO      wait  service   busy   late  runs/s     ±  CPU cores  lock  SM clock
                        ms    ms    ms             ms       ms
device  back to back  3.00  4.50  6.00  –           –     3.00      –      –     333     –          –     –  1725 MHz
device          10/s  7.30  9.65  12.0  kept    0.100     7.20  7.20%     0%    10.0  1.0%       0.50    0%   210 MHz
device          30/s  3.30  8.65  14.0  kept    0.100     3.20  9.60%  3.00%    30.0  1.0%       0.50    0%         –
device          90/s   900  1400  1900  broken  grows      900   100%     0%    80.0  1.2%       0.50    0%         –

mode    p99 by rate
device  ▇██
"""


def text_of(result: Result, width: int = 120) -> str:
    return "\n".join([*shown(build, result, width=width), ""])


def test_a_terminal_shows_closed_and_open_loops() -> None:
    assert text_of(serving()).startswith(CLOSED)
    text = text_of(paced())
    assert text.splitlines()[1] == (
        "load in one session: 10, 30, 90 a second, Poisson arrivals, served by 1 caller; 2 s a level; SLO: p99 ≤ 20 ms"
    )
    assert OPEN in text


@pytest.mark.parametrize("result", [serving(), paced()], ids=["callers", "rates"])
def test_a_narrow_terminal_has_the_tables_in_parts(result: Result) -> None:
    lines = shown(build, result, width=80)
    assert max(map(len, lines)) <= 80
    assert sum(line.startswith("mode  ") for line in lines) == 3


def test_both_kinds_of_levels_and_one_that_failed() -> None:
    result = load_result(*serving().levels, *paced().levels)
    result.levels[3] = failed_level(result.levels[3])
    text = text_of(result)
    both = "1, 2, 4, 8 callers and 10, 30, 90 a second, Poisson arrivals, served by 1 caller; 2 s"
    assert f"load in one session: {both}" in text
    assert "✗ cpu with 8 callers: failed: the worker was ended by SIGSEGV\n" in text
    assert "\ncpu           8 " not in text
    assert text.count("\ndevice  ") == 4 + 3 + 1
    assert "<b>failed:</b> cpu with 8 callers: the worker was ended by SIGSEGV" in build_page([result], ["m"])
    words = Page(build_page([result], ["m"]).partition("<h2>Words</h2>")[2].partition("</section>")[0]).text("th")
    assert {"callers", "rate", "knee", "lock", "fairness", "wait", "busy", "late", "SLO", "p50", "runs/s"} <= set(words)
    assert [words.count(word) for word in ("runs/s", "p95", "p99", "total")] == [1, 1, 1, 0]


def test_a_level_whose_outputs_are_wrong_keeps_its_figures() -> None:
    wrong = closed("cpu", 4, 400, 10.0, status="failed", reason="output y of caller 2 differs", outputs_match=False)
    text = markdown(build(load_result(closed("cpu", 1, 100, 10.0), wrong, closed("cpu", 2, 100, 10.0))))
    assert "| cpu (failed) | 4 | 400 | 1.0% | – | – |" in text
    assert "- cpu with 4 callers: failed: output y of caller 2 differs\n" in text
    assert "| cpu | 1 | 100% | 100 |" in text  # and are no peak


def test_a_mode_that_cannot_be_is_said_once() -> None:
    result = load_result(closed("cpu", 1, 100, 10.0))
    result.cases.append(Case("host-accessible", UNSUPPORTED, "no HOST_ACCESSIBLE memory"))
    text = markdown(build(result))
    assert "- host-accessible: unsupported: no HOST_ACCESSIBLE memory\n" in text
    assert "knee" not in text


def test_markdown_has_the_tables_and_what_latencies_are() -> None:
    text = markdown(build(serving()))
    assert text.startswith("# ortbench load: m.onnx\n")
    head = "| mode | callers | runs/s | ± | speed-up | 95 % | p50 (ms) | p95 (ms) | p99 (ms) | CPU cores | lock | fairness |\n"
    assert head in text
    assert "| cpu | 4 | 388 | 1.0% | 3.88× | 3.81–3.95 | 10.3 | 15.4 | 20.6 | 2.00 | 1.00% | 1.00 |\n" in text
    assert "| device | 2 | 97% | 390 | ▅███ | ▃▃▅█ |\n" in text
    assert "at a rate from the moment when a request was due" in text


@pytest.mark.parametrize(
    ("setup", "said"),
    [
        ({"sessions": "own"}, "load in a session each: 30 a second, Poisson arrivals, served by 1 caller; 2 s a level"),
        (
            {"sessions": "process", "callers": 2, "arrivals": "uniform", "duration_s": 0.5},
            "load in a process each: 30 a second, even arrivals, served by 2 callers; 0.5 s a level",
        ),
        (
            {"arrivals": "file", "file": "monday.txt"},
            "load in one session: 30 a second, arrivals of monday.txt, served by 1 caller; 2 s a level",
        ),
    ],
)
def test_how_a_load_was_put_on(setup: dict[str, Any], said: str) -> None:
    assert f"{said}  \n" in markdown(build(load_result(opened("cpu", 30, 5.0), **setup)))
    many = load_result(*(opened("cpu", 10 * number, 5.0) for number in range(1, 9)))
    assert "load in one session: 10 to 80 a second, Poisson" in markdown(build(many))


# Other programs


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_the_csv_has_a_row_a_level() -> None:
    result = serving()
    result.levels[3] = failed_level(result.levels[3])
    found = rows(csv_of(result))
    wanted = {
        "mode": "cpu", "status": "ok", "sessions": "shared", "concurrency": "4", "rate": "", "runs_per_s": "388.0", "speed_up": "3.88",
        "p50_ns": "10300000", "p99_ns": "20600000", "max_ns": "41200000", "n": "800", "cpu_cores": "2.0", "lock_wait": "0.01",
        "fairness": "1.0", "wait_mean_ns": "", "sm_mhz": "",
    }  # fmt: skip
    assert {key: found[2][key] for key in wanted} == wanted
    assert (found[3]["status"], found[3]["reason"], found[3]["runs_per_s"]) == (
        "failed",
        "the worker was ended by SIGSEGV",
        "",
    )
    first, second, last = rows(csv_of(paced()))
    wanted = {
        "rate": "10", "concurrency": "", "slo_held": "True", "wait_mean_ns": "100000", "wait_mean_ns_ci95_high": "125000",
        "wait_p99_ns": "1000000", "late": "0.0", "late_max_ns": "20000", "utilisation": "0.072", "service_p50_ns": "7200000",
        "sm_mhz": "210", "speed_up": "",
    }  # fmt: skip
    assert {key: first[key] for key in wanted} == wanted
    assert (second["late"], second["late_max_ns"], last["slo_held"]) == ("0.03", "4000000", "False")


def test_a_folder_and_a_data_frame_have_levels(tmp_path: Path) -> None:
    write_run(serving(), tmp_path)
    assert (tmp_path / "table.csv").read_text() == csv_of(serving())
    assert (tmp_path / "table.md").read_text() == markdown(build(serving()))
    found = frame([serving(), published()])
    assert list(found["runs_per_s"].dropna())[:3] == [100, 190, 388]
    assert "load in one session: no level; 2 s a level" in markdown(build(load_result()))
    assert csv_of(load_result()) == "mode,status,reason\n"


def test_ci_systems_read_of_levels() -> None:
    result = load_result(closed("cpu", 4, 400, 10.0), failed_level(closed("cpu", 8, 1, 1.0)), opened("cpu", 30, 5.0))
    result.cases.append(Case("host-accessible", UNSUPPORTED, "no HOST_ACCESSIBLE memory"))
    found = [(it.name, it.verdict, it.text, it.seconds) for it in outcomes_of_run(result)]
    assert found == [
        ("host-accessible", "skipped", "no HOST_ACCESSIBLE memory", 0.0),
        ("cpu with 4 callers", "passed", "400 runs/s (95 %: 396 to 404), p50 10.0 ms, p99 20.0 ms, of 800 runs", 0.01),
        ("cpu with 8 callers", "error", "the worker was ended by SIGSEGV", 0.0),
        (
            "cpu at 30 a second",
            "passed",
            "30.0 runs/s (95 %: 29.7 to 30.3), p50 5.00 ms, p99 10.0 ms, of 800 runs",
            0.005,
        ),
    ]
    entries = json.loads(action_json([result]))
    label = "m.onnx on SomeExecutionProvider (GPU Some GPU): cpu "
    assert [(it["name"].removeprefix(label), it["value"]) for it in entries] == [
        ("with 4 callers time per run", 2.5), ("with 4 callers p50", 10.0), ("with 4 callers p99", 20.0),
        ("at 30 a second p99", 10.0), ("at 30 a second p50", 5.0),
    ]  # fmt: skip
    assert entries[0]["range"] == "± 0.025253"
    assert entries[0]["extra"].splitlines()[0] == "of 800 runs"


# The page


def test_a_page_of_closed_loops() -> None:
    found = Page(build_page([serving()], ["m"]))
    assert found.text("h1") == ["4 callers reach 97% of the peak: 400 runs/s with cpu"]
    assert found.text("h2") == [
        "Latency and runs/s against callers", "By callers", "By mode", "Placement", "Environment", "Reproduce it", "Words",
    ]  # fmt: skip
    told = zip(found.text("dt"), zip(found.text("dd")[::2], found.text("dd")[1::2], strict=True), strict=True)
    assert dict(told) == {
        "Most runs/s": ("400", "cpu with 8 callers (95 %: 396 to 404)"),
        "Knee": ("4 callers", "97% of the peak with cpu, 3.88 times one caller's runs/s"),
    }
    assert found.text("figcaption") == [
        "cpu: at most 400 runs/s, with 8 callers, the knee at 4; device: at most 390 runs/s, with 4 callers, the knee at 2."
    ]


def test_a_page_of_open_loops() -> None:
    result = paced(found={"device": {"rate": 70.0, "ci95": [66.0, 74.0]}})
    found = Page(build_page([result], ["m"]))
    assert found.text("h1") == ["device keeps p99 ≤ 20 ms up to 70.0 a second"]
    assert "Latency against rate" in found.text("h2")
    assert found.text("figcaption") == [
        "device: p99 12.0 ms at 10 a second, 1.90 s at 90; p99 ≤ 20 ms up to 70.0 a second."
    ]
    assert found.text("dd") == ["70.0/s", "device keeps p99 ≤ 20 ms (95 %: 66.0 to 74.0)"]
    assert Page(build_page([paced()], ["m"])).text("dd") == ["14.0 ms", "device at 30 a second, median 3.30 ms"]


def test_the_marks_of_the_pictures() -> None:
    text = build_page([load_result(*serving().levels, *paced().levels, slo={"p99": 20 * MS})], ["m"])
    assert text.count(">SLO: p99 ≤ 20 ms<") == 2 * 2  # wide and narrow
    assert "cpu: the knee, 4 callers" in text
    assert "device: the knee, 2 callers" in text
    assert ">queue grows<" in text
    assert "device: p99 12.0 ms at 10 to 1.90 s at 90" in text
    found = {"device": {"rate": 70.0, "ci95": [66.0, 74.0]}}
    assert "device: p99 ≤ 20 ms up to 70.0 a second" in build_page([paced(found=found)], ["m"])
    assert ">queue grows<" not in build_page([serving()], ["m"])


def test_a_picture_takes_two_levels_and_shows_what_the_slo_is_of() -> None:
    assert by_callers([load_result(closed("cpu", 4, 100, 10.0))], [""]) is None
    assert by_rate([serving()], [""]) is None
    levels = [opened("cpu", rate, 5.0, 15.0) for rate in (10, 20)]
    picture = by_rate([load_result(*levels, slo={"p95": 12 * MS})], [""])
    assert picture is not None
    assert (picture.stat, picture.slo_ns, [it.tail for it in picture.lines[0].points]) == (
        "p95",
        12 * MS,
        [10 * MS, 10 * MS],
    )
    assert picture.table().headings == ["mode", "rate", "runs/s", "95 %", "p50 (ms)", "p95 (ms)"]
    assert picture.table().rows[0] == ("cpu", "10/s", "10.0", "9.90–10.1", "5.00", "10.0")


def test_two_loads_on_one_page_are_side_by_side() -> None:
    text = build_page([serving(), serving(1.5)], ["old", "new"])
    found = Page(text)
    assert "Latency and runs/s against callers" in found.text("h2")
    assert "old: cpu: at most 400 runs/s, with 8 callers, the knee at 4" in found.text("figcaption")[0]
    assert found.text("th")[:4] == ["result", "most runs/s", "mode", "callers"]
    table = text.partition("<h2>Side by side</h2>")[2].partition("</table>")[0]
    cells = Page(table[table.index("<table") :] + "</table>").text("td")
    assert cells[:6] == ["1 caller", "runs/s", "100", "66.7", "×1.500", "1.450–1.552"]


def test_a_load_beside_a_run_on_one_page() -> None:
    found = Page(build_page([serving(), published()], ["load", "run"]))
    assert "they differ in kind, so a ratio of their figures says little" in " ".join(found.text("li"))
    assert "Latency and runs/s against callers" in found.text("h2")
