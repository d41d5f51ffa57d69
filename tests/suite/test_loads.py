"""Loads in suites: their keys, what a case is, when it is measured again, and the summary."""

from __future__ import annotations

from pathlib import Path

import pytest

from ortbench.load_plan import LoadPlan
from ortbench.report.markdown import markdown
from ortbench.report.suite import build, case_table, csv
from ortbench.result import Result
from ortbench.suite.record import Record, figures, record_from
from tests.made_load import broken, closed, load_result, opened, serving
from tests.results import MS, measured, result_of, steady
from tests.suite.test_suite import jobs, mark, mistake

LOAD = """
[[bench]]
model = "a.onnx"
ep = "cpu"
"""


def load_of(folder: Path, text: str) -> LoadPlan | None:
    (job,) = jobs(folder, text).values()
    return job.load


@pytest.mark.parametrize(
    ("keys", "load"),
    [
        ("concurrency = [1, 2, 4]", LoadPlan(concurrency=(1, 2, 4))),
        (
            "concurrency = 4\nsessions = 'own'\nduration = 0.5",
            LoadPlan(concurrency=(4,), sessions="own", duration_s=0.5),
        ),
        ("concurrency = '1,8'", LoadPlan(concurrency=(1, 8))),
        (
            "rate = [10, 20.5]\narrivals = 'uniform'\ncallers = 2",
            LoadPlan(rate=(10.0, 20.5), arrivals="uniform", callers=2),
        ),
        ("rate = 'auto'\nslo = 'p99=20ms'", LoadPlan(rate="auto", slo={"p99": 20 * MS})),
        ("sessions = 'process'", LoadPlan(sessions="process")),
        ("duration = 1", None),
    ],
)
def test_keys_that_make_a_bench_a_load(keys: str, load: LoadPlan | None, tmp_path: Path) -> None:
    assert load_of(tmp_path, LOAD + keys) == load


def test_the_duration_of_a_load_is_that_of_a_level(tmp_path: Path) -> None:
    (job,) = jobs(tmp_path, f"{LOAD}concurrency = 2\nduration = 0.5").values()
    assert job.load is not None
    assert (job.load.duration_s, job.plans[0].loop.duration_s) == (0.5, 5.0)


def test_a_file_of_arrivals_is_beside_the_suite(tmp_path: Path) -> None:
    (tmp_path / "monday.txt").write_text("0\n0.5\n1\n")
    load = load_of(tmp_path, f"{LOAD}rate = 10\narrivals = 'monday.txt'")
    assert load is not None
    assert load.file == str(tmp_path / "monday.txt")


def test_defaults_of_loads_are_for_loads_and_those_that_loads_lack_are_for_others(tmp_path: Path) -> None:
    text = f"""
[defaults]
slo = "p99=20ms"
callers = 2
precision = "2%"
memory = true
{LOAD}rate = 30
[[bench]]
model = "b.onnx"
ep = "cpu"
"""
    found = jobs(tmp_path, text)
    assert found["b--cpu"].load is None
    assert found["b--cpu"].plans[0].memory
    assert found["a--cpu"].load == LoadPlan(rate=(30.0,), callers=2, slo={"p99": 20 * MS})
    assert not found["a--cpu"].plans[0].memory
    assert found["a--cpu"].limits.slo == {"p99": 20 * MS}


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("concurrency = 0", "bench.toml:5: bench[0].concurrency: 0: from 1 to 256 callers"),
        ("concurrency = true", "bench.toml:5: bench[0].concurrency: must be a number, a list of numbers or text"),
        ("rate = 'auto'", "bench.toml:5: bench[0].rate: auto: say what latency may be at most, such as --slo p99=20ms"),
        ("rate = 30\nslo = '20ms'", "bench.toml:6: bench[0].slo: '20ms': name the statistic, such as p99=20ms"),
        ("slo = 'p99=20ms'", "bench.toml:5: bench[0].slo: is of requests that are due; give a --rate too"),
        ("concurrency = 2\nmemory = true", "bench.toml:6: bench[0].memory: is not for a load; 'ortbench load --help' lists what is"),
        ("concurrency = 2\nmode = 'shared'", "bench.toml:6: bench[0].mode: 'shared': is no mode of single inferences; choose from cpu, "
         "device, device-resident, host-accessible, cpu-pinned, device-pinned, pipelined, device-resident-async"),
        ("concurrency = 2\ngate = {baseline-threads = 1, metric = 'load@rate=30'}", "bench.toml:6: bench[0].gate.metric: "
         "load@rate=30: no such level is to be measured; there are concurrency=2"),
        ("concurrency = 2\ngate = {baseline-threads = 1, metric = 'total.mean'}", "bench.toml:6: bench[0].gate.metric: total.mean: is "
         "of single inferences; of a load write load.p99@rate=30 or load.runs_per_s@concurrency=4"),
        ("concurrency = 2\ngate = {baseline-depth = 4}", "bench.toml:6: bench[0].gate.baseline-depth: is not for a load; 'ortbench "
         "load --help' lists what is"),
        ("concurency = 2", "bench.toml:5: bench[0].concurency: no such key; did you mean concurrency?"),
    ],
)  # fmt: skip
def test_a_mistake_is_told_with_its_line(more: str, message: str, tmp_path: Path) -> None:
    assert mistake(tmp_path, LOAD + more) == message


def test_a_load_has_a_live_gate_too(tmp_path: Path) -> None:
    text = f"{LOAD}concurrency = 2\nduration = 3\ngate = {{baseline-threads = 1, metric = 'load.p99'}}"
    (job,) = jobs(tmp_path, text).values()
    assert [plan.target.threads for plan in job.plans] == [None, 1]
    assert job.load == LoadPlan(concurrency=(2,), duration_s=1.5)
    assert [metric.text for metric in job.limits.metrics] == ["load.p99"]


def test_a_changed_load_is_measured_again(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text("0\n1\n")
    variants = ["", "concurrency = 2", "concurrency = [2, 4]", "rate = 30", "rate = 30\ncallers = 2", "sessions = 'own'",
                "rate = 30\nslo = 'p99=1ms'", "rate = 30\narrivals = 't.txt'", "rate = 30\nduration = 1"]  # fmt: skip
    marks = [mark(tmp_path, LOAD + more) for more in variants]
    assert len(set(marks)) == len(marks)
    assert mark(tmp_path, f"{LOAD}concurrency = '2'") == marks[1]


# The summary


def record(name: str, result: Result) -> Record:
    return Record(name, "m", "e", "", "f", "measured", **figures(result))


def test_a_load_has_its_peak_and_its_knee_in_the_summary() -> None:
    found = load_result(opened("cpu", 10, 5.0), slo={"p99": MS}, found={"cpu": {"rate": 210.0, "ci95": [205.0, 216.0]}})
    records = [
        record("many", serving()),
        record("paced", found),
        record("plain", result_of(measured("cpu", total=steady([MS] * 24)))),
        record("none", load_result(broken(closed("cpu", 1, 1, 1.0)))),
    ]
    assert (records[0].fastest, records[0].runs_per_s, records[0].callers, records[0].knee) == ("cpu", 400, 8, 4)
    assert (records[1].slo_rate, records[1].runs_per_s) == (210, None)
    assert record_from(records[0].to_dict()) == records[0]
    table = case_table(records)
    assert [column.name for column in table.columns] == [
        "case", "cpu", "fastest mode", "total", "most runs/s", "callers", "knee", "keeps SLO up to", "verdict"
    ]  # fmt: skip
    assert table.rows == (
        ("many", "–", "cpu", "–", "400", "8", "4", "–", "measured"),
        ("paced", "–", "–", "–", "–", "–", "–", "210/s", "measured"),
        ("plain", "1.00 ms", "cpu", "1.00 ms", "–", "–", "–", "–", "measured"),
        ("none", "–", "–", "–", "–", "–", "–", "–", "measured"),
    )
    assert "| most runs/s | callers | knee | keeps SLO up to |" in markdown(build("nightly", records))
    head, first, *_ = csv(records).splitlines()
    assert head.endswith(",runs_per_s,callers,knee,slo_rate")
    assert first.endswith(",400.0,8,4,")
