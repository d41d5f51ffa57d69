"""`ortbench load` from end to end: clients in one session, a session each, a process each, and what goes wrong with them."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from ortbench.analysis.load_points import latency_of
from ortbench.core.processes import DOMAIN
from ortbench.features.load.analysis import load_cases, load_point_of
from ortbench.features.load.worker.clients import gil_wait_point
from ortbench.model.result import Case, Result
from ortbench.model.result_file import load
from tests import nvtx
from tests.conftest import MODELS, Ran, modes, ortbench
from tests.expect import there
from tests.jobs.reports import result_in
from tests.refdevice import Config, Trace
from tests.results import fact, values
from tests.truth import relu_model

TINY = MODELS / "tiny.onnx"
CLOSED = {"throughput", "latency", "fairness", "cpu_time", "cpu_cores", "scaling"}
OPEN = {
    "throughput", "latency", "queue_delay", "service_time", "generator_lag", "late_share", "utilisation", "cpu_time", "cpu_cores",
}  # fmt: skip


def on_device(library: Path, folder: Path, *arguments: object, **knobs: Any) -> tuple[Ran, Result]:
    config: dict[str, Any] = Config(trace=folder / "trace", **knobs).environ()
    model = relu_model(folder / "relu.onnx", 4096)
    line = ("load", model, "--ep-library", library, "--warmup", 1, "--out", folder / "out", *arguments)
    ran = ortbench(*line, **config)
    return ran, result_in(folder / "out")


def assert_whole(case: Case) -> None:
    """A load point that was measured says all that it can; what its figures are, tests in virtual time say."""
    assert case.metrics.keys() - {"gil_wait"} == (OPEN if "rate" in case.point else CLOSED)
    assert (case.status, case.reason, case.checks["outputs"]) == ("ok", None, {"verdict": "passed"})


@pytest.mark.wide
@pytest.mark.parametrize("sessions", ["own", "process"])
def test_clients_with_a_session_of_their_own(sessions: str, real_library: Path, tmp_path: Path) -> None:
    load = ("--mode", "device-tensors", "--concurrency", "1,2", "--rate", 30, "--workers", 2, "--duration", 0.3)
    ran, result = on_device(real_library, tmp_path, "--sessions", sessions, *load, compute_us=2000, spin_us=50)
    assert (ran.code, ran.err) == (0, "")
    assert len(load_cases(result)) == 3
    for level in load_cases(result):
        assert_whole(level)
        assert sessions == "own" or level.value("gil_wait") is None
    assert result.part["sessions"] == sessions
    runs = Trace.read(tmp_path / "trace").of("run")
    assert runs["failed"].max() == 0
    assert len({(run["pid"], run["session"]) for run in runs}) >= 2
    assert len({run["pid"] for run in runs}) == (2 if sessions == "process" else 1)


@pytest.mark.parametrize(
    ("knobs", "words", "wrong"),
    [
        ({"wrong_run": "1500+:default"}, "outputs of client 1: 1 of 1024 values of output y differ", True),
        ({"fail_upload": "4600:default"}, "a client died: ", False),
        ({"abort_run": "1500:default"}, "the worker was ended by SIGABRT", False),
    ],
)
def test_a_load_point_that_fails(knobs: dict[str, str], words: str, wrong: bool, library: Path, tmp_path: Path) -> None:
    rates = ("--mode", "device-tensors", "--rate", "5,400", "--duration", 3)
    ran, result = on_device(library, tmp_path, *rates, compute_us=1000, **knobs)
    calm, busy = load_cases(result)
    assert (calm.status, there(calm.stats("latency")).n, calm.checks) == ("ok", 10, {"outputs": {"verdict": "passed"}})
    assert (busy.status, busy.metrics) == ("failed", {})
    assert busy.checks == ({"outputs": {"verdict": "failed"}} if wrong else {})
    assert (busy.reason or "").startswith(words)
    assert result.cases[0].status == ("failed" if wrong else "ok")
    assert ran.code == 1
    assert wrong or f"device-tensors at 400 requests/s failed: {words}" in ran.err


def test_a_load_is_measured_in_several_processes(library: Path, tmp_path: Path) -> None:
    load = ("--concurrency", "1,2", "--rate", 100, "--slo", "p50=20ms", "--duration", 1, "--processes", 3)
    ran, result = on_device(library, tmp_path, "--mode", "device-resident", *load, compute_us=1000)
    assert (ran.code, ran.err) == (0, "")
    assert len({run["pid"] for run in Trace.read(tmp_path / "trace").of("run")}) == 3
    alone, one, two, rate = result.cases
    assert alone.processes == one.processes == two.processes == rate.processes
    first, second, third = there(alone.processes)
    assert first == 0
    rounds = [*range(3), *range(second, second + 3), *range(third, third + 3)]
    assert [block["round"] for block in there(one.load_blocks)] == rounds
    assert [second <= block["round"] < third for block in there(rate.load_blocks)] == [False, True, False]
    assert there(one.metrics["throughput"].ci95)[0] > 0
    assert rate.checks["slo"]["verdict"] == "passed"


def test_the_highest_rate_that_keeps_an_slo_is_searched_for(library: Path, tmp_path: Path) -> None:
    """Of M/D/1 with 5 ms an inference, whose p99 is 20 ms at some 94 requests a second."""
    line = ("--mode", "device-resident", "--rate", "auto", "--slo", "p99=20ms", "--duration", 10)
    ran, result = on_device(library, tmp_path, *line, compute_us=5000)
    assert ran.code == 0, ran.err
    found = result.own["slo"]["found"]["device-resident"]
    levels = {load_point_of(it).value: it for it in load_cases(result)}  # all tries of a rate are one level
    assert len(levels) == len(load_cases(result))
    level = levels[found["rate"]]
    assert 65 < found["rate"] < 96
    # The table, the finding and the file say the same of the same requests.
    assert level.checks["slo"]["verdict"] == "passed"
    assert (found["requests"], found["latency"]) == (latency_of(level).n, {"p99": latency_of(level).p99})
    assert there(there(level.latency_bounds)["p99"]["high"]) <= 20_000_000
    assert all(it.checks["slo"]["verdict"] != "passed" for rate, it in levels.items() if rate > found["rate"])
    assert values(fact(result, "slo-rate"))["rate"] == found["rate"]
    ((number, unit),) = re.findall(r"about (\d+) (s|min)", ran.forecast)
    assert there(result.took_ns) <= int(number) * (60e9 if unit == "min" else 1e9)


def test_arrivals_of_a_file_are_replayed(real_library: Path, tmp_path: Path, recorder: Path) -> None:
    file, record = tmp_path / "arrivals.txt", tmp_path / "record.jsonl"
    file.write_text("100\n100.02\n100.1\n100.4\n")
    line = ("load", TINY, "--ep-library", real_library, "--warmup", 1, "--mode", "device-resident", "--arrivals", file)
    environment: dict[str, Any] = {**nvtx.environ(recorder, record), **Config(compute_us=1000).environ()}
    ran = ortbench(*line, "--workers", 2, "--out", tmp_path / "out", **environment)
    assert (ran.code, ran.err) == (0, "")
    result = result_in(tmp_path / "out")
    (level,) = load_cases(result)
    assert_whole(level)
    assert [case.processes for case in result.cases] == [None, None]  # in one process
    assert (round(load_point_of(level).value, 6), there(level.stats("latency")).n) == (7.5, 4)
    part = result.part
    assert (part["arrivals"], part["file"], round(part["duration_s"], 6)) == ("file", "arrivals.txt", 0.4)
    ranges = [it for it in nvtx.Record.read(record, DOMAIN).ranges if it.name == "device-resident/load"]
    assert sorted(int(it.payload or 0) for it in ranges) == [0, 1, 2, 3]


def test_more_requests_than_can_be_served_are_cut_off_and_said(library: Path, tmp_path: Path) -> None:
    line = ("--mode", "device-resident", "--rate", 2000, "--duration", 0.5)
    ran, result = on_device(library, tmp_path, *line, compute_us=20_000)
    assert ran.code == 0, ran.err
    (level,) = load_cases(result)
    assert (there(level.stats("latency")).n, round(there(level.value("throughput")), 2)) == (978, 49.98)
    (warning,) = [it["message"] for it in result.warnings if it["code"] == "overload"]
    assert warning.startswith("requests came faster than they were served, so latencies are lower bounds: ")
    assert warning.endswith(" of 978 served with device-resident at 2000 requests/s")


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel tells it on Linux alone")
def test_the_place_where_threads_wait_for_pythons_lock_is_found() -> None:
    assert min(there(gil_wait_point())) > 0


# Gates: two sides under load in turns

GATE = ("gate", "--model", TINY, "--load", "--warmup", 1)


def check_turns(folder: Path) -> None:
    """Both sides have the same load points of one run, in blocks of the same rounds."""
    results = [load(folder / side / "result.json") for side in ("candidate", "baseline")]
    assert results[0].setup["run_id"] == results[1].setup["run_id"]
    for one, other in zip(*map(load_cases, results), strict=True):
        assert (one.point, one.status, one.checks["outputs"]["verdict"]) == (other.point, "ok", "passed")
        rounds = [[block["round"] for block in it.load_blocks or ()] for it in (one, other)]
        assert rounds[0] == rounds[1] == list(range(max(10, len(rounds[0]))))


def test_a_device_four_times_as_slow_fails_with_fresh_workers_too(library: Path, tmp_path: Path) -> None:
    metrics = ("--metric", "throughput@concurrency=1", "--metric", "latency.p50@rate=100", "--max-regression", "50%")
    sides = ("--ep-option", "compute_us=8000", "--baseline-set", "ep-option=compute_us=2000", "--sessions", "process")
    points = (*modes("device-resident"), "--concurrency", 1, "--rate", 100, "--duration", 20, "--out", tmp_path)
    ran = ortbench(*GATE, "--ep", library, *sides, *points, *metrics)
    assert (ran.code, ran.err) == (3, ""), ran.out
    (folder,) = tmp_path.glob("gate-*")
    check_turns(folder)
    check_turns(folder / "again")
    checks = json.loads((folder / "gate.json").read_text())["checks"]
    assert {check["name"]: (check["verdict"], round(check["ratio"])) for check in checks} == {
        "device-resident throughput concurrency=1": ("failed", 4), "device-resident latency median rate=100": ("failed", 8),
    }  # fmt: skip
    assert all("; again with fresh workers: ratio " in check["text"] for check in checks)


def test_an_slo_alone_needs_no_baseline(tmp_path: Path) -> None:
    line = (*GATE, "--ep", "cpu", *modes("cpu-tensors"), "--rate", 50, "--duration", 0.4, "--out", tmp_path)
    assert [ortbench(*line, "--slo", f"max={limit}").code for limit in ("1ns", "1000s")] == [3, 0]
