"""The figures of results for other programs: flat records, CSV and data frames, from scripted results of every kind."""

from __future__ import annotations

from csv import DictReader

import pytest

from ortbench.core.stats import Stats
from ortbench.model.metrics import METRICS, known_or_plain
from ortbench.report.records import frame, records, records_csv
from tests.odd import ODD, usual
from tests.results import MB, MS, case, drawing, result_of, weighed


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
            assert record.get(metric.column("ci95_low")) == (it.ci95 and it.ci95[0])
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
    costly = result_of(drawing(weighed(case("cpu-tensors", latency=8 * MS), 100 * MB, 200 * MB), 0.312))
    made = frame([result, costly])
    assert [*made.columns[:8]] == ["created", "model", "ep", "mode", "status", "reason", "size", "axis_status"]
    assert (made["axis_status"][0], made["status"][0]) == ("a", "ok")
    units = made.attrs["units"]
    names = ("size", "latency_median_ns", "latency_n", "speedup", "energy_j", "host_memory_bytes", "throughput_per_s")
    assert [units.get(name) for name in names] == ["B", "ns", None, None, "J", "B", "inf/s"]
    assert len(made) == len(result.cases) + 1
    assert made["latency_median_ns"].dtype == "Int64"
