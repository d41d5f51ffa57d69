"""What a run costs besides its time, in virtual time, against a device that says what it costs the host."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ortbench.modes import CPU_TIME, SUBMIT, TOTAL
from ortbench.result import Result
from tests.refdevice import Config
from tests.truth import relu_model, run_on_device

pytestmark = pytest.mark.process

US = 1000
SUBMIT_US, BUSY_US = 3_000, 4_000
LINE = ("--iterations", 4, "--warmup", 1, "--depth", 2, "--async-runs", "--spin")
# A thread that starts an inference makes so many calls of 1 µs for it, the clock's readings around them included; of a
# burst of 4 only one waits.
SUBMIT_CALLS = {
    "device": 2, "device-resident": 2, "host-accessible": 3, "pipelined": 2, "device-resident-async": 1.25,
}  # fmt: skip


def measure(library: Path, folder: Path, *arguments: object, **knobs: Any) -> tuple[Result, str]:
    folder.mkdir(exist_ok=True)
    host = {"submit_us": SUBMIT_US, "busy_us": BUSY_US, "compute_us": 10_000}
    model = relu_model(folder / "relu.onnx", 1 << 16)
    code, result, out, errors = run_on_device(library, model, Config(**(host | knobs)), folder, *arguments)
    assert code == 0, errors
    return result, out


def test_each_run_says_what_it_costs_the_host(library: Path, tmp_path: Path) -> None:
    costly, out = measure(library, tmp_path / "costly", *LINE, honesty="async")
    plain, _ = measure(library, tmp_path / "plain", *LINE, honesty="async", submit_us=0, busy_us=0)
    for case, free in zip(costly.cases, plain.cases, strict=True):
        runs = sum(n for _, n, _ in case.blocks[TOTAL]) * case.inferences(TOTAL)
        for taken, without in ((case.host, free.host), (case.spin, free.spin)):
            assert taken is not None
            assert without is not None
            assert taken["runs"] == without["runs"] == runs
            assert taken["user_ns"] - without["user_ns"] == (SUBMIT_US + BUSY_US) * US * runs
            assert taken["system_ns"] == 0
            assert 4 * US <= without["user_ns"] / runs * (4 if case.mode == "device-resident-async" else 1) <= 9 * US
        spent, submit = case.phases[CPU_TIME], case.phases.get(SUBMIT)
        assert spent is not None
        assert spent.n == len(case.blocks[TOTAL]) == len(case.samples_ns[CPU_TIME])
        assert case.spin is not None
        assert case.spin["total_ns"] == case.median(TOTAL)
        if case.mode not in SUBMIT_CALLS:
            assert submit is None
            continue
        assert submit is not None
        assert set(case.samples_ns[SUBMIT]) == {(SUBMIT_US + SUBMIT_CALLS[case.mode]) * US}
        shown = case.phases["inference"] or case.phases[TOTAL]
        assert shown is not None
        assert submit.n == shown.n == sum(n for _, n, _ in case.blocks[SUBMIT])
    assert "What else it costs: the host's own work\n" in out
    (table,) = tmp_path.glob("costly/out/*/table.csv")
    assert {"submit_median_ns", "cpu_time_median_ns", "cores", "spin_off_cpu_ns"} <= {
        *table.read_text().partition("\n")[0].split(",")
    }


def test_where_the_run_waits_there_is_no_submit(library: Path, tmp_path: Path) -> None:
    result, out = measure(library, tmp_path, "--iterations", 1, "--warmup", 1, honesty="sync")
    for case in result.cases:
        assert SUBMIT not in case.samples_ns
        assert case.phases.get(SUBMIT) is None
    assert "of inference" not in out


@pytest.mark.parametrize(("submit_us", "said"), [(50_000, "• Host-bound: submit is 98%"), (500, None)])
def test_host_bound_is_said_where_the_call_is_nearly_all_of_an_inference(
    submit_us: int, said: str | None, library: Path, tmp_path: Path
) -> None:
    line = ("--iterations", 30, "--warmup", 1, "--mode", "device-resident")
    _, out = measure(library, tmp_path, *line, honesty="async", submit_us=submit_us, busy_us=0, compute_us=1000)
    assert ("Host-bound" in out) is (said is not None)
    assert said is None or said in out
