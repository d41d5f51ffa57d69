"""The host's own work in every report: from scripted results, word for word."""

from __future__ import annotations

import csv as csv_format
import json
from pathlib import Path
from typing import Any

import pytest

from ortbench.analysis.derive import derive
from ortbench.core.parts import text as json_text
from ortbench.features.page.report.page import build_page
from ortbench.features.suite.job.record import MEASURED, Record, figures, record_from
from ortbench.features.suite.report import build as build_suite
from ortbench.features.suite.report import csv as suite_csv
from ortbench.model.result import Result
from ortbench.model.result_file import load, save
from ortbench.report.comparison import build as build_comparison
from ortbench.report.comparison import records as comparison_records
from ortbench.report.markdown import markdown
from ortbench.report.model import Report
from ortbench.report.parts import cost_parts, host_table
from ortbench.report.run import build
from ortbench.report.terminal import print_report
from tests.report.test_page import Page
from tests.report.test_terminal import screen
from tests.results import MS, US, decoding, hosted, measured, result_of, steady

pytestmark = pytest.mark.usefixtures("undrawn")

TITLE = "Resource usage: host CPU per inference"


def costly(cpu_ms: int = 12, submit_us: int = 3_050, run_id: str | None = None) -> Result:
    """Mode cpu on one core and a half, device-resident on a quarter of one."""
    cpu = measured("cpu-tensors", latency=steady([8 * MS] * 10), cpu_time={n: [cpu_ms * MS] for n in range(10)})
    hosted(cpu, 30, 8 * MS, cpu_ms * MS - 310 * US, 310 * US)
    resident = measured(
        "device-resident",
        latency=steady([10 * MS] * 10),
        enqueue=steady([submit_us * US] * 10),
        cpu_time={n: [2_500 * US] for n in range(10)},
    )
    hosted(resident, 30, 10 * MS, 2_400_400, 99_600)
    return result_of(cpu, resident, run_id=run_id)


def part_of(report: Report, title: str = TITLE) -> str:
    """The part of a terminal's report that begins with a title, up to the next part."""
    text = "\n".join(screen(print_report, report, width=80))
    return text[text.index(title) :].partition("\n\n")[0].rstrip() + "\n"


def test_results_that_lack_it_read_as_before() -> None:
    result = result_of(measured("cpu-tensors", latency=steady([8 * MS] * 10)))
    assert cost_parts(result) == []
    assert "Resource usage" not in markdown(build(result))
    assert "Resource usage" not in build_page([result], ["m"])
    assert "Resource usage" not in markdown(build_comparison([result, result], ["a", "b"], 0.02, in_order=True))


def test_a_loop_has_it_by_step_too() -> None:
    result = decoding()
    result.cases[0].host = {"runs": 20, "wall_ns": 200 * MS, "user_ns": 80 * MS, "system_ns": 0}
    derive(result)
    table = host_table(result)
    assert [column.name for column in table.columns] == [
        "mode",
        "CPU time",
        "user",
        "system",
        "CPU cores",
        "CPU time per step",
    ]
    assert table.rows == (("cpu-tensors", "4.00 ms", "4.00 ms", "0 ns", "0.400", "500 µs"),)


def test_the_result_file_and_back(tmp_path: Path) -> None:
    result = costly()
    save(result, tmp_path / "result.json")
    data = json.loads((tmp_path / "result.json").read_text())
    assert data["cases"][1]["metrics"]["enqueue"]["median"] == 3_050_000
    assert data["cases"][1]["host"] == {"runs": 30, "wall_ns": 300 * MS, "user_ns": 72_012_000, "system_ns": 2_988_000}
    assert load(tmp_path / "result.json") == result


# Side by side


COMPARED = """\
Resource usage
mode             cost         a     b  ratio       95% CI  verdict
                             ms    ms
cpu-tensors      CPU time  12.0  18.0   1.50    1.46–1.54  more
device-resident  enqueue   3.05  1.50  0.492  0.477–0.507  less
device-resident  CPU time  2.50  2.50  1.000  0.971–1.030  cannot tell
"""


def test_costs_of_two_results() -> None:
    results, names = [costly(), costly(18, 1_500)], ["a", "b"]
    report = build_comparison(results, names, 0.02, in_order=True)
    assert part_of(report, "Resource usage") == COMPARED
    assert "\n## Resource usage\n" in markdown(report)
    assert "| cpu-tensors | CPU time | 12.0 | 18.0 | 1.50 | 1.46–1.54 | more |" in markdown(report)
    assert "| cpu-tensors | latency | 8.00 | 8.00 | 1.000 | 0.971–1.030 | cannot tell |" in markdown(report)
    verdicts = {
        (it["mode"], it["metric"]): it["vs_first"]["verdict"]
        for it in comparison_records(results, names, 0.02)
        if it["result"] == "b"
    }
    assert verdicts[("cpu-tensors", "cpu_time")] == "more"
    assert verdicts[("device-resident", "enqueue")] == "less"
    page = Page(build_page(results, names))
    assert {"more", "less", "CPU time"} <= {*page.text("td")}


def with_counts(name: str, each: list[float]) -> Result:
    counted: Any = {name: {n: [it] for n, it in enumerate(each * 4)}}
    case = measured("cpu-tensors", latency=steady([8 * MS] * 12), **counted)
    hosted(case, 36, 8 * MS, 9 * MS, MS)
    return result_of(case)


def test_cpu_time_is_one_figure_in_a_report_and_in_a_comparison() -> None:
    """The system counts it coarsely, so that the median of blocks is far from the mean."""
    result = with_counts("cpu_time", [8 * MS, 8 * MS, 20 * MS])
    assert host_table(result).rows[0][1:4] == ("12.0 ms", "10.8 ms", "1.20 ms")
    (shown_,) = [it["value"] for it in comparison_records([result], ["a"], 0.02) if it["metric"] == "cpu_time"]
    assert shown_ == 12 * MS


def test_a_few_page_faults_are_no_difference() -> None:
    few, fewer, many = (with_counts("page_faults", [it]) for it in (3.0, 0.5, 400.0))
    assert "page faults" not in markdown(build_comparison([fewer, few], ["a", "b"], 0.02, in_order=True))
    text = markdown(build_comparison([few, many], ["a", "b"], 0.02, in_order=True))
    assert "| cpu-tensors | page faults | 3.00 | 400 | 40.0 |" in text


# Suites


def test_the_summary_of_a_suite() -> None:
    made = Record("m--e", "m", "e", "", "f", MEASURED, **figures(costly()))
    assert made.cpu_time_ns == 12 * MS
    assert record_from(json_text(made).encode(), "case.json") == made
    old = Record("n--e", "n", "e", "", "f", MEASURED, cpu_ns=8 * MS, fastest="cpu-tensors", fastest_ns=8 * MS)
    text = markdown(build_suite("bench", [made, old]))
    device = "tensors on the device | latency on device"
    assert f"| case | cpu-tensors | mode | latency | CPU time | {device} | verdict |" in text
    assert "| m--e | 8.00 ms | cpu-tensors | 8.00 ms | 12.0 ms | device-resident | 10.0 ms | measured |" in text
    assert "| n--e | 8.00 ms | cpu-tensors | 8.00 ms | – | – | – | measured |" in text
    rows = list(csv_format.DictReader(suite_csv([made, old]).splitlines()))
    assert [row["cpu_time_ns"] for row in rows] == ["12000000", ""]
