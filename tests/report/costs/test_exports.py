"""What runs cost besides their time, in what other programs read."""

from __future__ import annotations

import json
from typing import Any

from ortbench.gate.limits import Check
from ortbench.report.exports.bencher import bmf
from ortbench.report.exports.github import action_json
from ortbench.report.exports.junit import junit, outcomes_of_gate, outcomes_of_run
from ortbench.result import Result
from tests.report.costs.test_host import costly
from tests.report.test_energy import drawn
from tests.results import MS, broken, measured, result_of, steady, weighed


def with_all_costs() -> Result:
    result = costly()
    weighed(result.cases[0], 12_300, 68_300_000)
    result.cases[1].energy = drawn(0.4)
    result.cases.append(weighed(broken("device", total=steady([MS])), 5, 5))
    return result


def test_the_actions_json_has_them_as_series_of_their_own() -> None:
    found: list[dict[str, Any]] = json.loads(action_json([with_all_costs()]))
    label = found[0]["name"].removesuffix(": cpu total")
    series = {it["name"].removeprefix(f"{label}: "): it for it in found}
    assert [*series] == [
        "cpu total", "cpu cpu_time", "device-resident total", "device-resident submit", "device-resident cpu_time",
        "cpu memory.device", "cpu memory.host", "device-resident energy",
    ]  # fmt: skip
    shown = {
        name: (it["value"], it["unit"], it.get("range"), it["extra"].splitlines()[0]) for name, it in series.items()
    }
    assert shown["cpu cpu_time"] == (12, "ms", "± 0", "median of 10 blocks, time per run, p95 –")
    assert shown["device-resident submit"] == (3.05, "ms", "± 0", "median of 30 runs, p95 3.05 ms")
    assert shown["cpu memory.device"] == (0.0123, "MB", None, "at most, in a worker of its own")
    assert shown["cpu memory.host"] == (68.3, "MB", None, "at most, in a worker of its own")
    assert shown["device-resident energy"] == (0.4, "J", "± 0.008", "of a run, less the idle draw")


def test_bencher_has_a_measure_for_each_kind() -> None:
    found = json.loads(bmf([with_all_costs()]))
    by_mode = {name.partition("): ")[2]: it for name, it in found.items()}
    assert by_mode["cpu cpu_time"] == {"latency": {"value": 12 * MS, "lower_value": 12 * MS, "upper_value": 12 * MS}}
    assert by_mode["cpu memory.device"] == {"memory": {"value": 12_300}}
    low, high = drawn(0.4)["ci95"] or (0, 0)
    assert by_mode["device-resident energy"] == {"energy": {"value": 0.4, "lower_value": low, "upper_value": high}}


def test_junit_says_them_below_the_time() -> None:
    cpu, resident, broken_one = outcomes_of_run(with_all_costs())
    assert cpu.text.splitlines()[1:] == ["CPU time 12.0 ms, device memory 12.3 kB, host memory 68.3 MB"]
    assert resident.text.splitlines()[1:] == ["submit 3.05 ms, CPU time 2.50 ms, energy/run 400 mJ"]
    assert broken_one.text == "it broke"
    bare = outcomes_of_run(result_of(measured("cpu", total=steady([MS]))))[0]
    assert len(bare.text.splitlines()) == 1


def test_a_gates_checks_of_them_are_listed() -> None:
    checks = [
        Check("cpu cpu_time median", "passed", "12.0 ms, at most 13.0 ms"),
        Check("cpu host memory", "failed", "68.3 MB, at most 60.0 MB"),
    ]
    outcomes = outcomes_of_gate([with_all_costs()], checks)
    assert [(it.name, it.verdict, it.seconds) for it in outcomes[-2:]] == [
        ("cpu cpu_time median", "passed", 0.012),
        ("cpu host memory", "failed", 0.0),
    ]
    assert 'name="cpu host memory"' in junit("gate", outcomes)
