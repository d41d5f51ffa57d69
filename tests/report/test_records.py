"""The figures of results for other programs: flat records, CSV and data frames, from scripted results of every kind."""

from __future__ import annotations

from csv import DictReader

import pytest

from ortbench.core.stats import Stats
from ortbench.model.metrics import METRICS, known_or_plain
from ortbench.model.result import Result
from ortbench.report.records import frame, records, records_csv
from tests.odd import ODD, usual
from tests.results import (
    MB,
    MS,
    US,
    case,
    decoding,
    drawing,
    hosted,
    result_of,
    weighed,
)


def costly() -> Result:
    """A mode of which everything was measured, and one of which next to nothing was."""
    cpu = case("cpu-tensors", ratio=(1.0, 0.9, 1.1), latency=8 * MS, enqueue=2 * MS)
    hosted(cpu, 30, 8 * MS, 11_690 * US, 310 * US, still=(3 * MS, 9 * MS, 10))
    weighed(cpu, 100 * MB, 200 * MB)
    return result_of(drawing(cpu, 0.312), case("device-tensors", latency=4 * MS))


def test_the_first_case() -> None:
    for make, expected in (
        (costly, {"mode": "cpu-tensors", "status": "ok", "reason": None, "latency_n": 200, "latency_ci95_low_ns": 7_920 * US,
                  "cpu_user_ns": 11_690 * US, "cpu_cores": 1.5, "spin_share": 0.75, "cpu_time_spin_off_ci95_high_ns": 3 * MS + 10,
                  "device_memory_bytes": 100 * MB, "energy_j": 0.312, "energy_ci95_low_j": 0.312 * 0.98, "power_w": 214.25}),
        (decoding, {"loop_median_ns": 8_280 * US, "step_median_ns": 1_035 * US, "first_step_median_ns": 1_000 * US,
                    "step_growth_ns": 10 * US, "state_bytes_h2d_min": 8_000, "step_bytes_d2h_max": 15_100, "speedup": 1.0}),
    ):  # fmt: skip
        (first, *others) = records(make())
        assert {name: first[name] for name in expected} == pytest.approx(expected)
        assert all(it.keys() == first.keys() for it in others)


@pytest.mark.parametrize("name", ODD)
def test_every_metric_of_any_result_has_its_columns_in_the_order_of_the_catalogue(name: str) -> None:
    result = ODD[name]()
    found = records(result)
    assert [(it["mode"], it["status"]) for it in found] == [(case.mode, case.status) for case in result.cases]
    for case_, record in zip(result.cases, found, strict=True):
        assert [record[axis] for axis in case_.point] == [*case_.point.values()]
        for key, it in case_.metrics.items():
            metric = known_or_plain(key)
            if isinstance(it, Stats):
                assert record[metric.column("p99")] == it.p99
            else:
                assert record[metric.column(metric.usual)] == it.value
    order = {metric.column(metric.usual): place for place, metric in enumerate(METRICS.values())}
    columns = [order[column] for column in (found[0] if found else ()) if column in order]
    assert columns == sorted(columns)
    read = [{**row, "reason": ""} for row in DictReader(records_csv(result).splitlines())]
    texts = [{column: "" if value is None else str(value) for column, value in record.items()} for record in found]
    assert read == [{**record, "reason": ""} for record in texts]


def test_a_frame_has_the_units_of_the_catalogue_and_the_axes() -> None:
    result = usual()
    result.axes = [{"name": "size", "unit": "B", "values": [1, 2]}, {"name": "status", "unit": "", "values": ["a"]}]
    result.cases[0].point = {"size": 1, "status": "a"}
    made = frame([result, costly()])
    assert [*made.columns[:8]] == ["created", "model", "ep", "mode", "status", "reason", "size", "axis_status"]
    assert (made["axis_status"][0], made["status"][0]) == ("a", "ok")
    units = made.attrs["units"]
    names = ("size", "latency_median_ns", "latency_n", "speedup", "energy_j", "host_memory_bytes", "throughput_per_s")
    assert [units.get(name) for name in names] == ["B", "ns", None, None, "J", "B", "inf/s"]
    assert len(made) == len(result.cases) + 2
    assert made["latency_median_ns"].dtype == "Int64"
