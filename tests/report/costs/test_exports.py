"""What runs cost besides their time, in what other programs read."""

from __future__ import annotations

import json
from typing import Any

from ortbench.features.junit.report import outcomes_of_run
from ortbench.features.services.report import action_json, bmf
from ortbench.model.metrics import METRICS
from ortbench.model.result import Result
from tests.report.costs.test_host import costly
from tests.results import MS, broken, drawing, measured, result_of, steady, weighed


def with_all_costs() -> Result:
    result = costly()
    weighed(result.cases[0], 12_300, 68_300_000)
    drawing(result.cases[1], 0.4)
    result.cases.append(weighed(broken("device-tensors", latency=steady([MS])), 5, 5))
    return result


def test_services_have_them_as_series_of_their_own() -> None:
    entries: list[dict[str, Any]] = json.loads(action_json([with_all_costs()]))
    label = entries[0]["name"].removesuffix(": cpu-tensors latency")
    found = {it.pop("name").removeprefix(f"{label}: "): it for it in entries}
    assert [*found] == [
        "cpu-tensors latency", "cpu-tensors cpu_time", "cpu-tensors device_memory", "cpu-tensors host_memory",
        "device-resident latency", "device-resident enqueue", "device-resident cpu_time", "device-resident energy",
    ]  # fmt: skip
    shown = [(it["value"], it["unit"], it.get("range"), it["extra"].splitlines()[0]) for it in found.values()]
    assert shown[1:4] + shown[5:] == [
        (12, "ms", None, "mean of 10 blocks"),
        (0.0123, "MB", None, METRICS["device_memory"].meaning),
        (68.3, "MB", None, METRICS["host_memory"].meaning),
        (3.05, "ms", "± 0", "median of 30 samples, p95 3.05 ms"),
        (2.5, "ms", None, "mean of 10 blocks"),
        (0.4, "J", "± 0.008", METRICS["energy"].meaning),
    ]
    measures = {name.partition("): ")[2]: it for name, it in json.loads(bmf([with_all_costs()])).items()}
    assert [*measures] == [*found]
    assert measures["cpu-tensors cpu_time"] == {"latency": {"value": 12 * MS}}
    assert measures["cpu-tensors device_memory"] == {"size": {"value": 12_300}}
    assert measures["device-resident energy"] == {
        "energy": {"value": 0.4, "lower_value": 0.4 * 0.98, "upper_value": 0.4 * 1.02}
    }


def test_junit_says_them_below_the_time() -> None:
    cpu, resident, broken_one = outcomes_of_run(with_all_costs())
    assert cpu.text.splitlines()[1:] == ["CPU time 12.0 ms, device memory 12.3 kB, host memory 68.3 MB"]
    assert resident.text.splitlines()[1:] == ["enqueue 3.05 ms, CPU time 2.50 ms, energy per inference 400 mJ"]
    assert broken_one.text == "it broke"
    bare = outcomes_of_run(result_of(measured("cpu-tensors", latency=steady([MS]))))[0]
    assert len(bare.text.splitlines()) == 1
