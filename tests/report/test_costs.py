"""What runs have besides their time (host CPU, memory, energy, items a second), in every report."""

from __future__ import annotations

import csv as csv_module
import io
import json
from typing import Any

import pytest

from ortbench.analysis.comparable import changes
from ortbench.analysis.derive import derive, put_host
from ortbench.facts.comparison import items_facts
from ortbench.facts.sentences import PASSED
from ortbench.features.gate.gates.baseline import check_stored
from ortbench.features.gate.plan import Limits
from ortbench.features.junit.report import outcomes_of_run
from ortbench.features.page.report.page import build_page
from ortbench.features.services.report import action_json, bmf
from ortbench.features.suite import report as suite
from ortbench.features.suite.job.record import Record, figures
from ortbench.model.metric_names import parse_metric
from ortbench.model.result import Result
from ortbench.report import comparison, run
from ortbench.report.parts import host_table
from ortbench.report.records import markdown
from ortbench.report.run import build, mode_table
from tests.results import MB, MS, US, broken, drawing, hosted, measured, published, result_of, steady, tensor, weighed

pytestmark = pytest.mark.usefixtures("undrawn")


def counted(name: str, each: list[float]) -> Result:
    blocks: Any = {name: {n: [it] for n, it in enumerate(each * 4)}}
    made = hosted(measured("cpu-tensors", latency=steady([8 * MS] * 12), **blocks), 36, 8 * MS, 9 * MS, MS)
    put_host(made, None)
    return result_of(made)


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
    result = result_of(
        weighed(measured("cpu-tensors", latency=steady([2000] * 20)), 100 * MB, 200 * MB, nodes=True),
        weighed(measured("device-resident", latency=steady([1000] * 20)), 50 * MB, 180 * MB),
        weighed(measured("device-tensors", latency=steady([1500] * 20)), failed="the worker was ended by SIGKILL"),
    )
    memory = result.cases[1].own["memory"]
    assert memory is not None
    memory["device"] = "otherwise"
    lines = markdown(run.build(result)).partition("## Resource usage: memory\n")[2].splitlines()
    assert [line for line in lines if line in ROWS] == [*ROWS]


# For other programs


def with_all_costs() -> Result:
    """Mode cpu-tensors on one core and a half, device-resident on a quarter of one."""
    spent, little = ({n: [us * US] for n in range(10)} for us in (12_000, 2_500))
    cpu = measured("cpu-tensors", latency=steady([8 * MS] * 10), cpu_time=spent)
    enqueue = steady([3_050 * US] * 10)
    resident = measured("device-resident", latency=steady([10 * MS] * 10), enqueue=enqueue, cpu_time=little)
    weighed(hosted(cpu, 30, 8 * MS, 11_690 * US, 310 * US), 12_300, 68_300_000)
    drawing(hosted(resident, 30, 10 * MS, 2_400_400, 99_600), 0.4)
    return result_of(cpu, resident, weighed(broken("device-tensors", latency=steady([MS])), 5, 5))


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


BY_POWER = {"how": "power", "of": "GPU 0"}
BROKEN = {"unsupported": "the stretch failed: it broke"}


def test_the_section_says_how_energy_was_read_or_why_not() -> None:
    for own, parts in (
        ([None, None, BROKEN], [
            "| mode | energy | 95% CI | power | idle power | inf/J |", "| cpu-tensors | 312 mJ | 306 mJ–318 mJ | 214 W | 72.1 W | 3.21 |",
            "energy: of one inference, by the energy counter of GPU 0, measured after the timing, less idle power.",
            "unsupported (device-resident): the stretch failed: it broke.",
        ]),
        ([BY_POWER, None], ["by readings of the power of GPU 0, integrated, as it has no energy counter; by the energy counter of GPU 0"]),
        ([BROKEN] * 4, ["energy\n\nunsupported (cpu-tensors, device-tensors, host-accessible, device-resident): the stretch failed: it broke."]),
    ):  # fmt: skip
        made = published()
        for case, energy in zip(made.cases, own, strict=False):
            if energy != BROKEN:
                drawing(case, 0.312)
            case.own["energy"] = energy or case.own["energy"]
        text = markdown(build(made)).partition("## Resource usage: ")[2]
        assert text.startswith("energy\n")
        assert all(part in text for part in parts)


@pytest.mark.parametrize(("clocks", "words"), [(1200, "1200 MHz"), ("base", "base")])
def test_clocks_that_were_locked_are_a_difference_and_in_the_heading(clocks: int | str, words: str) -> None:
    free, locked = published(), published()
    locked.environment["locked_clocks"] = clocks
    assert changes(free, locked) == [f"locked clocks: default → {clocks}"]
    assert f"; clocks locked to {words}" in markdown(build(locked))
    assert "Resource usage" not in markdown(build(free))


# Items, where a run has several


def batch(count: int, total: int, run_id: str | None = "r", resident: int | None = None) -> Result:
    """A run of so many items, with the medians of its modes in ns."""
    modes = {"cpu-tensors": total} | ({} if resident is None else {"device-resident": resident})
    made = result_of(*(measured(mode, latency=steady([ns] * 12)) for mode, ns in modes.items()), run_id=run_id)
    made.model["inputs"] = [tensor("x", [count, 3])]
    made.items = {"count": count, "dim": "batch"}
    derive(made)
    return made


@pytest.mark.parametrize(("total", "verdict"), [(2 * MS, "most"), (4 * MS, "tied")])
def test_which_of_several_runs_gets_most_items_done(total: int, verdict: str) -> None:
    (fact,) = items_facts([batch(8, MS), batch(32, total)], ["batch=8", "batch=32"])
    assert (fact.code, fact.verdict) == ("most-items", verdict)
    assert verdict == "tied" or fact.values["configuration"] == "batch=32"
    assert not [*items_facts([batch(8, MS)], ["batch=8"])]


def test_one_item_or_an_unknown_number_adds_nothing() -> None:
    plain, one = batch(8, MS), batch(1, MS)
    plain.items = None
    derive(plain)
    for made in (plain, one):
        assert "item" not in "".join(it.name for it in mode_table(made).columns)
        assert "items/s" not in markdown(build(made)) + build_page([made], ["a"])
    assert (one.cases[0].value("item_throughput"), one.cases[0].value("item_time")) == (1000, MS)  # for comparisons


def test_several_results_have_a_row_of_it_for_each_mode() -> None:
    (two,) = comparison.tables([batch(1, 500 * US), batch(8, 2 * MS)], ["a", "b"], 0.02, in_order=False)
    assert [row[:5] for row in two.rows] == [
        ("cpu-tensors", "latency", "500 µs", "2.00 ms", "4.00"),
        ("cpu-tensors", "item throughput", "2.00k items/s", "4.00k items/s", "0.500"),
    ]


def test_the_summary_of_a_suite() -> None:
    made = [Record(f"m--{count}", "m", "cpu", "", "f", PASSED, **figures(batch(count, MS))) for count in (1, 8)]
    table = suite.case_table(made)
    assert table.headings[3:] == ["latency", "items/s", "time per item", "verdict"]
    assert [row[4:6] for row in table.rows] == [("1.00k", "1.00 ms"), ("8.00k", "125 µs")]
    _, eight = csv_module.DictReader(io.StringIO(suite.csv(made)))
    assert (eight["items"], eight["item_throughput_per_s"], eight["item_time_ns"]) == ("8", "8000.0", "125000.0")
