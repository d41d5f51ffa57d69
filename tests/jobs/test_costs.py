"""What a run costs besides its time, in virtual time, against a device that says what it costs the host."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ortbench.model.modes import CPU_TIME, ENQUEUE, LATENCY
from ortbench.model.result import Result
from tests.conftest import modes
from tests.expect import there
from tests.refdevice import Config
from tests.truth import relu_model, run_on_device

pytestmark = pytest.mark.process

US = 1000
ENQUEUE_US, BUSY_US = 3_000, 4_000
# A thread that starts an inference makes so many calls of 1 µs for it, the clock's readings around them included; of a
# burst of 4 only one waits.
ENQUEUE_CALLS = {
    "device-tensors": 2, "device-resident": 2, "host-accessible": 3, "pipelined": 2, "device-resident-async": 1.25,
}  # fmt: skip


def measure(library: Path, folder: Path, *arguments: object, **knobs: Any) -> tuple[Result, str]:
    folder.mkdir(exist_ok=True)
    model = relu_model(folder / "relu.onnx", 1 << 16)
    config = Config(**{"honesty": "async", "compute_us": 10_000, **knobs})
    code, result, out, errors = run_on_device(library, model, config, folder, *arguments)
    assert code == 0, errors
    return result, out


def test_each_run_says_what_it_costs_the_host(library: Path, tmp_path: Path) -> None:
    chosen = modes("default", "device-resident-async", "pipelined")
    line = ("--iterations", 4, "--warmup", 1, *chosen, "--depth", 2, "--measure-spin")
    costly, _ = measure(library, tmp_path / "costly", *line, submit_us=ENQUEUE_US, busy_us=BUSY_US)
    plain, _ = measure(library, tmp_path / "plain", *line)
    for case, free in zip(costly.cases, plain.cases, strict=True):
        runs = sum(n for _, n, _ in case.blocks[LATENCY]) * case.inferences(LATENCY)
        assert there(case.host)["runs"] == there(free.host)["runs"] == runs
        for spinning in ("", "_spin_off"):
            taken, without = (it.value(f"cpu_user{spinning}") or 0 for it in (case, free))
            assert taken - without == (ENQUEUE_US + BUSY_US) * US
            assert case.value(f"cpu_system{spinning}") == 0
            # A block of few inferences counts as much.
            assert 4 * US <= without * (4 if case.mode == "device-resident-async" else 1) <= 10 * US
        assert there(case.stats(CPU_TIME)).n == len(case.blocks[LATENCY]) == len(case.samples[CPU_TIME])
        assert case.value("latency_spin_off") == case.median(LATENCY)
        if case.mode not in ENQUEUE_CALLS:
            assert case.stats(ENQUEUE) is None
            continue
        assert set(case.samples[ENQUEUE]) == {(ENQUEUE_US + ENQUEUE_CALLS[case.mode]) * US}
        shown = there(case.stats("inference") or case.stats(LATENCY))
        assert there(case.stats(ENQUEUE)).n == shown.n == sum(n for _, n, _ in case.blocks[ENQUEUE])
    (table,) = tmp_path.glob("costly/out/*/table.csv")
    assert {"enqueue_median_ns", "cpu_time_median_ns", "cpu_cores", "cpu_time_spin_off_ns"} <= {
        *table.read_text().partition("\n")[0].split(",")
    }
