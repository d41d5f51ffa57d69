"""What a run costs besides its time, against a device that says what it costs the host."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ortbench.modes import CPU_TIME, SUBMIT, TOTAL
from ortbench.result import Result
from tests.refdevice import Config
from tests.truth import Check, relu_model, run_on_device

US = 1000
SUBMIT_US, BUSY_US, COMPUTE_US = 3_000, 4_000, 10_000
ATTEMPTS = 5
APART = {"device", "device-resident", "host-accessible", "pipelined", "device-resident-async"}


def measure(library: Path, folder: Path, *arguments: object, **knobs: Any) -> tuple[Result, str]:
    folder.mkdir(exist_ok=True)
    host = {"submit_us": SUBMIT_US, "busy_us": BUSY_US, "compute_us": COMPUTE_US, "spin_us": 0}
    model = relu_model(folder / "relu.onnx", 1 << 16)
    code, result, out, errors = run_on_device(library, model, Config(**(host | knobs)), folder, *arguments)
    assert code == 0, errors
    return result, out


@pytest.mark.process
def test_each_run_says_what_it_costs_the_host(library: Path, tmp_path: Path) -> None:
    """What the host is known to take is the least that is reported, on a busy machine too."""
    line = ("--iterations", 4, "--warmup", 1, "--depth", 2, "--async-runs", "--spin")
    result, out = measure(library, tmp_path, *line, honesty="async")
    for case in result.cases:
        submit, spent = case.phases.get(SUBMIT), case.phases[CPU_TIME]
        assert (submit is not None) is (case.mode in APART), case.mode
        if submit is not None:
            shown = case.phases["inference"] or case.phases[TOTAL]
            assert shown is not None
            assert submit.min_ns >= SUBMIT_US * US
            assert submit.median_ns <= shown.median_ns
            assert submit.n == shown.n == sum(n for _, n, _ in case.blocks[SUBMIT])
        assert spent is not None
        assert spent.n == len(case.blocks[TOTAL]) == len(case.samples_ns[CPU_TIME])
        assert case.host is not None
        assert case.spin is not None
        assert case.host["runs"] == sum(n for _, n, _ in case.blocks[TOTAL]) * case.inferences(TOTAL)
        for taken in (
            case.host,
            case.spin,
        ):  # the thread that is busy has a run of its own behind the last one, at most
            assert taken["user_ns"] + taken["system_ns"] >= BUSY_US * US * (taken["runs"] - 1)
            assert taken["wall_ns"] >= SUBMIT_US * US * taken["runs"]
        assert case.spin["total_ns"] >= SUBMIT_US * US
    assert "What else it costs: the host's own work\n" in out
    (table,) = tmp_path.glob("out/*/table.csv")
    assert {"submit_median_ns", "cpu_time_median_ns", "cores", "spin_off_cpu_ns"} <= {
        *table.read_text().partition("\n")[0].split(",")
    }


@pytest.mark.process
def test_where_the_run_waits_there_is_no_submit(library: Path, tmp_path: Path) -> None:
    result, out = measure(library, tmp_path, "--iterations", 1, "--warmup", 1, honesty="sync")
    waits = [case.mode for case in result.cases if case.fence is None or case.fence["kind"] == "run"]
    # On a busy machine a proof can doubt that the run itself waits; what ends that mode's samples is then another call.
    assert [case.mode for case in result.cases if SUBMIT not in case.samples_ns] == waits
    assert [case.mode for case in result.cases if case.phases.get(SUBMIT) is None] == waits
    assert "cpu" in waits
    assert ("of inference" in out) <= (len(waits) < len(result.cases))


def attempts(library: Path, folder: Path) -> Iterator[list[Check]]:
    """Runs, each with what it says the host takes and what that is. Of submit without the thread that takes its core, and
    with what the same call takes on a device that wants nothing of the host taken off."""
    line = ("--iterations", 40, "--warmup", 3, "--mode", "device-resident", "--mode", "device")
    for attempt in range(ATTEMPTS):
        alone, _ = measure(library, folder / f"{attempt}-alone", *line, honesty="async", busy_us=0)
        bare, _ = measure(library, folder / f"{attempt}-bare", *line, honesty="async", busy_us=0, submit_us=0)
        found = []
        for case, plain in zip(alone.cases, bare.cases, strict=True):
            more = (case.median(SUBMIT) or 0) - (plain.median(SUBMIT) or 0)
            found.append(Check((case.mode, SUBMIT), more, SUBMIT_US * US))
        result, _ = measure(library, folder / f"{attempt}-busy", *line, honesty="async")
        for case in result.cases:
            assert case.host is not None
            spent = round((case.host["user_ns"] + case.host["system_ns"]) / case.host["runs"])
            found.append(Check((case.mode, CPU_TIME), spent, (SUBMIT_US + BUSY_US) * US))
        yield found


@pytest.mark.timing
def test_they_agree_with_what_the_device_takes_of_the_host(library: Path, tmp_path: Path) -> None:
    """Within 2 % or 20 µs; the reference device's own waits and Python's part are in it too."""
    right: set[tuple[str | int, ...]] = set()
    for found in attempts(library, tmp_path):
        right |= {it.what for it in found if abs(it.error) <= max(0.02 * it.true, 20 * US)}
        if len(right) == len(found):
            return
    assert {it.what for it in found} - right == set()


@pytest.mark.timing
def test_host_bound_is_said_where_the_call_is_nearly_all_of_an_inference(library: Path, tmp_path: Path) -> None:
    line = ("--iterations", 30, "--warmup", 1, "--mode", "device-resident")
    host = {"honesty": "async", "submit_us": 50_000, "busy_us": 0, "compute_us": 1000}
    runs = (measure(library, tmp_path / str(attempt), *line, **host)[1] for attempt in range(ATTEMPTS))
    assert any("• Host-bound: submit is 9" in out for out in runs)
