"""What runs cost besides their time (host CPU, memory, energy), in every report."""

from __future__ import annotations

import csv
import json
from typing import Any

import pytest

from ortbench.analysis.derive import derive
from ortbench.core.parts import text as json_text
from ortbench.features.gate.gates.baseline import check_stored
from ortbench.features.gate.plan import Limits
from ortbench.features.junit.report import outcomes_of_run
from ortbench.features.page.report.page import build_page
from ortbench.features.services.report import action_json, bmf
from ortbench.features.suite.job.record import MEASURED, Record, figures, record_from
from ortbench.features.suite.report import build as build_suite
from ortbench.features.suite.report import csv as suite_csv
from ortbench.model.metric_names import parse_metric
from ortbench.model.result import Result
from ortbench.report import comparison, run
from ortbench.report.parts import cost_parts, host_table
from ortbench.report.records import markdown
from tests.results import MB, MS, US, broken, decoding, drawing, hosted, measured, result_of, steady, weighed

pytestmark = pytest.mark.usefixtures("undrawn")


def costly(cpu_ms: int = 12, enqueue_us: int = 3_050) -> Result:
    """Mode cpu-tensors on one core and a half, device-resident on a quarter of one."""
    cpu = measured("cpu-tensors", latency=steady([8 * MS] * 10), cpu_time={n: [cpu_ms * MS] for n in range(10)})
    hosted(cpu, 30, 8 * MS, cpu_ms * MS - 310 * US, 310 * US)
    resident = measured(
        "device-resident",
        latency=steady([10 * MS] * 10),
        enqueue=steady([enqueue_us * US] * 10),
        cpu_time={n: [2_500 * US] for n in range(10)},
    )
    return result_of(cpu, hosted(resident, 30, 10 * MS, 2_400_400, 99_600))


def test_results_that_lack_them_read_as_before() -> None:
    result = result_of(measured("cpu-tensors", latency=steady([8 * MS] * 10)))
    assert cost_parts(result) == []
    assert "Resource usage" not in build_page([result], ["m"])
    assert "Resource usage" not in markdown(comparison.build([result, result], ["a", "b"], 0.02, in_order=True))
    assert len(outcomes_of_run(result)[0].text.splitlines()) == 1


def test_a_loop_has_cpu_time_by_step_too() -> None:
    result = decoding()
    result.cases[0].host = {"runs": 20, "wall_ns": 200 * MS, "user_ns": 80 * MS, "system_ns": 0}
    derive(result)
    table = host_table(result)
    assert [it.name for it in table.columns] == ["mode", "CPU time", "user", "system", "CPU cores", "CPU time per step"]
    assert table.rows == (("cpu-tensors", "4.00 ms", "4.00 ms", "0 ns", "0.400", "500 µs"),)


def test_costs_of_two_results() -> None:
    results, names = [costly(), costly(18, 1_500)], ["a", "b"]
    text = markdown(comparison.build(results, names, 0.02, in_order=True)).partition("\n## Resource usage\n")[2]
    assert "| cpu-tensors | CPU time | 12.0 | 18.0 | 1.50 | 1.46–1.54 | more |" in text
    assert "| device-resident | enqueue | 3.05 | 1.50 | 0.492 | 0.477–0.507 | less |" in text
    found = {(it["mode"], it["metric"]): it["vs_first"] for it in comparison.records(results, names, 0.02)}
    assert found["cpu-tensors", "cpu_time"]["verdict"] == "more"
    assert found["device-resident", "enqueue"]["verdict"] == "less"


def counted(name: str, each: list[float]) -> Result:
    blocks: Any = {name: {n: [it] for n, it in enumerate(each * 4)}}
    return result_of(hosted(measured("cpu-tensors", latency=steady([8 * MS] * 12), **blocks), 36, 8 * MS, 9 * MS, MS))


def test_cpu_time_is_one_figure_in_a_report_and_in_a_comparison() -> None:
    """The system counts it coarsely, so that the median of blocks is far from the mean."""
    result = counted("cpu_time", [8 * MS, 8 * MS, 20 * MS])
    assert host_table(result).rows[0][1:4] == ("12.0 ms", "10.8 ms", "1.20 ms")
    records = comparison.records([result], ["a"], 0.02)
    assert [it["value"] for it in records if it["metric"] == "cpu_time"] == [12 * MS]


def test_a_few_page_faults_are_no_difference() -> None:
    few, fewer, many = (counted("page_faults", [it] * 3) for it in (3.0, 0.5, 400.0))
    assert "page faults" not in markdown(comparison.build([fewer, few], ["a", "b"], 0.02, in_order=True))
    text = markdown(comparison.build([few, many], ["a", "b"], 0.02, in_order=True))
    assert "| cpu-tensors | page faults | 3.00 | 400 | – | – | more |" in text  # whose ratio is not 40.0
    found = {it["metric"]: it["vs_first"] for it in comparison.records([few, many], ["a", "b"], 0.02)}["page_faults"]
    assert (found["ratio"], found["low"], found["verdict"]) == (None, None, "more")
    (check,) = check_stored(many, few, Limits(0.05, (parse_metric("page_faults"),)))
    assert "400 against 3.00 (counts as 10.0), ratio 40" in check.text


def test_the_summary_of_a_suite() -> None:
    made = Record("m--e", "m", "e", "", "f", MEASURED, **figures(costly()))
    assert record_from(json_text(made).encode(), "case.json") == made
    old = Record("n--e", "n", "e", "", "f", MEASURED, cpu_ns=8 * MS, fastest="cpu-tensors", fastest_ns=8 * MS)
    text = markdown(build_suite("bench", [made, old]))
    assert "| m--e | 8.00 ms | cpu-tensors | 8.00 ms | 12.0 ms | device-resident | 10.0 ms | measured |" in text
    assert "| n--e | 8.00 ms | cpu-tensors | 8.00 ms | – | – | – | measured |" in text
    assert [row["cpu_time_ns"] for row in csv.DictReader(suite_csv([made, old]).splitlines())] == ["12000000", ""]


# Memory


def weighty() -> Result:
    return result_of(
        weighed(measured("cpu-tensors", latency=steady([2000] * 20)), 100 * MB, 200 * MB, nodes=True),
        weighed(measured("device-resident", latency=steady([1000] * 20)), 50 * MB, 180 * MB),
        weighed(measured("device-tensors", latency=steady([1500] * 20)), failed="the worker was ended by SIGKILL"),
    )


ROWS = (
    "| mode | device memory | bound device memory | arena held | arena in use | before the session | with the session | host memory |",
    "| cpu-tensors | 100 MB | 50.0 MB | 50.0 MB | 25.0 MB | 50.0 MB | 100 MB | 200 MB |",
    "| device-resident | 50.0 MB | 25.0 MB | 25.0 MB | 12.5 MB | 45.0 MB | 90.0 MB | 180 MB |",
    "| /head/Conv_3 | Conv on Some | 4.00 MB | 4.00 MB | 1.00 kB |",
    "- memory of device-tensors could not be measured: the worker was ended by SIGKILL",
    "- device: as it was scripted (cpu-tensors)",
    "- device: otherwise (device-resident)",
    "- arena: as the profile has it",
)


def test_memory_of_a_run() -> None:
    result = weighty()
    memory = result.cases[1].own["memory"]
    assert memory is not None
    memory["device"] = "otherwise"
    lines = markdown(run.build(result)).partition("## Resource usage: memory\n")[2].splitlines()
    assert [line for line in lines if line in ROWS] == [*ROWS]


# For other programs


def with_all_costs() -> Result:
    result = costly()
    weighed(result.cases[0], 12_300, 68_300_000)
    drawing(result.cases[1], 0.4)
    result.cases.append(weighed(broken("device-tensors", latency=steady([MS])), 5, 5))
    return result


def test_services_have_them_as_series_of_their_own() -> None:
    entries = json.loads(action_json([with_all_costs()]))
    found = {it["name"].partition("): ")[2]: (it["value"], it["unit"], it.get("range")) for it in entries}
    assert found == {
        "cpu-tensors latency": (8, "ms", "± 0"),
        "cpu-tensors cpu_time": (12, "ms", None),
        "cpu-tensors device_memory": (0.0123, "MB", None),
        "cpu-tensors host_memory": (68.3, "MB", None),
        "device-resident latency": (10, "ms", "± 0"),
        "device-resident enqueue": (3.05, "ms", "± 0"),
        "device-resident cpu_time": (2.5, "ms", None),
        "device-resident energy": (0.4, "J", "± 0.008"),
    }
    measures = {name.partition("): ")[2]: it for name, it in json.loads(bmf([with_all_costs()])).items()}
    assert [*measures] == [*found]
    assert measures["cpu-tensors cpu_time"] == {"latency": {"value": 12 * MS}}
    assert measures["cpu-tensors device_memory"] == {"size": {"value": 12_300}}
    energy = {"value": 0.4, "lower_value": 0.4 * 0.98, "upper_value": 0.4 * 1.02}
    assert measures["device-resident energy"] == {"energy": energy}


def test_junit_says_them_below_the_time() -> None:
    cpu, resident, failed = outcomes_of_run(with_all_costs())
    assert cpu.text.splitlines()[1:] == ["CPU time 12.0 ms, device memory 12.3 kB, host memory 68.3 MB"]
    assert resident.text.splitlines()[1:] == ["enqueue 3.05 ms, CPU time 2.50 ms, energy per inference 400 mJ"]
    assert failed.text == "it broke"
