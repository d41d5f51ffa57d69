"""Memory in the section "What else it costs": in a terminal, Markdown, pages, comparisons, suites' summaries and CSV."""

from __future__ import annotations

import csv as csv_reader
import io

from ortbench.analysis.compare import EVERYTHING
from ortbench.report import comparison, run, suite
from ortbench.report.costs.compared import compared_costs
from ortbench.report.costs.section import TITLE, cost_parts
from ortbench.report.markdown import markdown
from ortbench.report.page.page import build_page
from ortbench.result import Result, from_dict, result_json
from ortbench.suite.record import Record, figures
from tests.report.test_page import Page
from tests.results import loop_case, loop_result, measured, result_of, steady, weighed

MB = 1_000_000


def result(device: int = 100 * MB) -> Result:
    return result_of(
        weighed(measured("cpu", total=steady([2000] * 20)), device, 200 * MB, nodes=True),
        weighed(measured("device-resident", total=steady([1000] * 20)), device // 2, 180 * MB),
        weighed(measured("device", total=steady([1500] * 20)), failed="the worker was ended by SIGKILL"),
    )


SECTION = """## What else it costs: memory

Memory: each mode in a worker of its own after the measurement: session, buffers, runs.

| mode | device | bound | arena held | arena in use | before | with session | host peak |
| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
| cpu | 100 MB | 50.0 MB | 50.0 MB | 25.0 MB | 50.0 MB | 100 MB | 200 MB |
| device-resident | 50.0 MB | 25.0 MB | 25.0 MB | 12.5 MB | 45.0 MB | 90.0 MB | 180 MB |

| node | operator | allocated | outputs | weights |
| --- | --- | ---: | ---: | ---: |
| /head/Conv_3 | Conv on Some | 4.00 MB | 4.00 MB | 1.00 kB |

- memory of device could not be measured: the worker was ended by SIGKILL
- device: as it was scripted
- arena: as the profile has it
- host: scripted too
"""


def test_the_section_of_a_run() -> None:
    assert SECTION in markdown(run.build(result()))


def test_without_figures_there_is_no_section() -> None:
    plain = result_of(measured("cpu", total=steady([2000] * 20)))
    assert cost_parts(plain) == []
    assert TITLE not in markdown(run.build(plain))
    assert "memory_host" not in run.csv(plain)
    assert compared_costs([plain, plain], EVERYTHING) == []


def test_ways_that_differ_name_their_modes() -> None:
    found = result()
    other = found.cases[1].memory
    assert other is not None
    assert other["device"] is not None
    other["device"]["how"] = "otherwise"
    text = markdown(run.build(found))
    assert "- device: as it was scripted (cpu)\n- device: otherwise (device-resident)\n" in text


def test_a_page_has_it() -> None:
    page = Page(build_page([result()], ["m"]))
    titles = page.text("h3") + page.text("h2")
    assert "What else it costs: memory" in titles
    assert "Nodes that hold most, with cpu" in titles
    assert any("memory of device could not be measured" in text for text in page.text("p"))


def test_a_comparison_has_a_table_of_it() -> None:
    found = comparison.build([result(), result(50 * MB)], ["a", "b"], 0.02, in_order=True)
    assert """## What else it costs

| mode | cost | a | b | ratio | 95 % | verdict |
| --- | ---: | ---: | ---: | ---: | ---: | ---: |
| cpu | device memory | 100 MB | 50.0 MB | ×0.500 | – | less |
| cpu | host memory | 200 MB | 200 MB | ×1.000 | – | same |
""" in markdown(found)
    records = comparison.records([result(), result(50 * MB)], ["a", "b"], 0.02)
    assert {"mode": "cpu", "phase": "memory.device", "result": "b", "bytes": 50 * MB,
            "vs_first": {"ratio": 0.5, "verdict": "less"}} in records  # fmt: skip


def test_csv_has_the_bytes() -> None:
    rows = list(csv_reader.DictReader(io.StringIO(run.csv(result()))))
    columns = [name for name in rows[0] if name.startswith("memory_")]
    assert [rows[0][name] for name in columns] == [
        "100000000", "50000000", "50000000", "25000000", "", "50000000", "100000000", "200000000", "0",
    ]  # fmt: skip
    assert [rows[2][name] for name in columns] == [""] * len(columns)
    loop = loop_result(weighed(loop_case("cpu", [1000, 1000]), MB, 2 * MB))
    assert "memory_host" in run.csv(loop)


def test_the_result_file_keeps_it() -> None:
    import json

    found = result()
    again = from_dict(json.loads(result_json(found)))
    assert [case.memory for case in again.cases] == [case.memory for case in found.cases]


def test_a_suites_summary_has_it() -> None:
    record = Record("m--some", "m", "some", "", "f", "measured", **figures(result()))
    assert (record.memory_device, record.memory_host) == (50 * MB, 180 * MB)
    table = suite.case_table([record])
    assert [column.name for column in table.columns][-3:] == ["device memory", "host memory", "verdict"]
    assert table.rows[0][-3:] == ("50.0 MB", "180 MB", "measured")
    assert suite.csv([record]).splitlines()[0].endswith(",memory_device,memory_host")
    plain = Record("m--some", "m", "some", "", "f", "measured")
    assert "memory" not in suite.csv([plain])
