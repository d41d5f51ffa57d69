"""Memory in the section "Resource usage": in a terminal, Markdown, pages, comparisons, suites' summaries and CSV."""

from __future__ import annotations

import pytest

from ortbench.model.result import Result
from ortbench.report import run
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
