"""Memory in the section "Resource usage": in a terminal, Markdown, pages, comparisons, suites' summaries and CSV."""

from __future__ import annotations

import pytest

from ortbench.features.suite import report as suite
from ortbench.features.suite.job.record import Record, figures
from ortbench.model.result import Result
from ortbench.model.result_file import parse, result_json
from ortbench.report import comparison, run
from ortbench.report.markdown import markdown
from tests.results import measured, result_of, steady, weighed

pytestmark = pytest.mark.usefixtures("undrawn")

MB = 1_000_000


def result(device: int = 100 * MB) -> Result:
    return result_of(
        weighed(measured("cpu-tensors", latency=steady([2000] * 20)), device, 200 * MB, nodes=True),
        weighed(measured("device-resident", latency=steady([1000] * 20)), device // 2, 180 * MB),
        weighed(measured("device-tensors", latency=steady([1500] * 20)), failed="the worker was ended by SIGKILL"),
    )


SECTION = """## Resource usage: memory

Each mode alone in a worker of its own, after the timing.

| mode | device memory | bound device memory | arena held | arena in use | before the session | with the session | host memory |
| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
| cpu-tensors | 100 MB | 50.0 MB | 50.0 MB | 25.0 MB | 50.0 MB | 100 MB | 200 MB |
| device-resident | 50.0 MB | 25.0 MB | 25.0 MB | 12.5 MB | 45.0 MB | 90.0 MB | 180 MB |

## Nodes that hold most, with cpu-tensors

| node | operator | allocated | outputs | weights |
| --- | --- | ---: | ---: | ---: |
| /head/Conv_3 | Conv on Some | 4.00 MB | 4.00 MB | 1.00 kB |

- memory of device-tensors could not be measured: the worker was ended by SIGKILL
- device: as it was scripted
- arena: as the profile has it
- host: scripted too
"""


def test_the_section_of_a_run() -> None:
    assert SECTION in markdown(run.build(result()))


def test_ways_that_differ_name_their_modes() -> None:
    found = result()
    other = found.cases[1].own["memory"]
    assert other is not None
    other["device"] = "otherwise"
    text = markdown(run.build(found))
    assert "- device: as it was scripted (cpu-tensors)\n- device: otherwise (device-resident)\n" in text


def test_a_comparison_has_a_table_of_it() -> None:
    found = comparison.build([result(), result(50 * MB)], ["a", "b"], 0.02, in_order=True)
    assert """## Resource usage

| mode | cost | a | b | ratio | 95% CI | verdict |
| --- | ---: | ---: | ---: | ---: | ---: | ---: |
| cpu-tensors | device memory | 100 MB | 50.0 MB | 0.500 | – | less |
| cpu-tensors | host memory | 200 MB | 200 MB | 1.000 | – | same |
""" in markdown(found)
    records = comparison.records([result(), result(50 * MB)], ["a", "b"], 0.02)
    (line,) = (
        it for it in records if (it["mode"], it["metric"], it["result"]) == ("cpu-tensors", "device_memory", "b")
    )
    assert (line["value"], line["vs_first"]["ratio"], line["vs_first"]["verdict"]) == (50 * MB, 0.5, "less")


def test_the_result_file_keeps_it() -> None:
    found = result()
    again = parse(result_json(found).encode(), "x")
    assert [case.own for case in again.cases] == [case.own for case in found.cases]


def test_a_suites_summary_has_it() -> None:
    kept = result()
    del kept.cases[2]  # of which nobody knows
    record = Record("m--some", "m", "some", "", "f", "measured", **figures(kept))
    assert (record.device_memory_bytes, record.host_memory_bytes) == (100 * MB, 200 * MB)
    table = suite.case_table([record])
    assert [column.name for column in table.columns][-3:] == ["device memory", "host memory", "verdict"]
    assert table.rows[0][-3:] == ("100 MB", "200 MB", "measured")
    assert suite.csv([record]).splitlines()[0].endswith(",device_memory_bytes,host_memory_bytes")
    plain = Record("m--some", "m", "some", "", "f", "measured")
    assert "memory" not in suite.csv([plain])
