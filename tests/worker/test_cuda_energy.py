"""Energy, throttling and locked clocks on softcuda's card, whose law of power and whose clocks are known."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests import softcuda
from tests.conftest import MODELS, cases, command, measure, ortbench
from tests.softcuda import Card, Config
from tests.worker.test_cuda import with_knobs

pytestmark = pytest.mark.process

TINY = MODELS / "tiny.onnx"
KERNEL_W, COPY_W, IDLE_W = 100.0, 30.0, 20.0
PATIENCE_S = 120.0


def wait_for(there: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE_S
    while not there():
        assert time.monotonic() < until, "it never came"
        time.sleep(0.01)


def drawn(found: dict[str, Any], trace: Path, late_s: float = 0) -> float:
    """What the law says that the work drew which ended in the stretch, or so much earlier, J a run; it counts when it ends."""
    begin = found["start_ns"] - late_s * 1e9
    end = begin + sum(seconds for _, seconds, _ in found["parts"]) * 1e9
    watts = {"compute": KERNEL_W, "h2d": COPY_W, "d2h": COPY_W}
    inside = [it for it in softcuda.records(trace) if it.engine in watts and begin <= it.end_ns <= end]
    joules = sum(watts[it.engine] * (it.end_ns - it.begin_ns) / 1e9 for it in inside)
    return float(joules / sum(runs for runs, _, _ in found["parts"]))


def test_energy_is_what_the_law_of_power_says(software_cuda: tuple[str, ...], tmp_path: Path) -> None:
    """With clocks locked meanwhile, and reset at the end."""
    card, trace = Card(tmp_path / "card", idle_w=IDLE_W, kernel_w=KERNEL_W, copy_w=COPY_W), tmp_path / "trace"
    prefix = with_knobs(software_cuda, Config(kernel_us=5000, card=card.path, trace=trace))
    asked = ("--ep", "cuda", "--mode", "device-tensors", "--iterations", 6, "--warmup", 1, "--measure-energy")
    result = measure(TINY, *asked, "--lock-clocks", "base", out=tmp_path / "out", prefix=prefix)
    case = cases(result)["device-tensors"]
    found, metrics = case["energy"], case["metrics"]
    assert (found["how"], found["of"]) == ("counter", "GPU 0")
    joules = metrics["energy"]
    assert metrics["idle_power"]["value"] == pytest.approx(IDLE_W, rel=0.05)
    assert joules["value"] == pytest.approx(drawn(found, trace), rel=0.05)
    assert joules["ci95"][0] < joules["value"] < joules["ci95"][1]
    assert len(found["parts"]) >= 5
    seconds = sum(seconds for _, seconds, _ in found["parts"])
    assert seconds > 1.5
    assert metrics["power"]["value"] == pytest.approx(sum(it for _, _, it in found["parts"]) / seconds, rel=1e-3)
    assert result["environment"]["locked_clocks"] == "base"
    assert {reading["sm_mhz"] for reading in result["environment"]["gpu_readings"]} == {900}
    assert card.locked_mhz == 0


def test_rounds_held_back_in_a_known_time_are_left_out(software_cuda: tuple[str, ...], tmp_path: Path) -> None:
    """The first half second of a measurement of at least 1.5 s."""
    prefix = with_knobs(software_cuda, Config(kernel_us=10_000, slowed=0x40, slowed_until_s=0.5))
    asked = ("--ep", "cuda", "--mode", "device-resident", "--iterations", 150, "--warmup", 1)
    result = measure(TINY, *asked, out=tmp_path, prefix=prefix)
    found, case = result["throttled"], cases(result)["device-resident"]
    assert (found["reasons"], found["left_out"]) == (["its temperature (hardware)"], True)
    assert 0 < len(found["rounds"]) < found["of"] == 50
    assert found["rounds"] == list(range(len(found["rounds"])))
    assert [it for it, _, _ in case["left_out"]["blocks"]["latency"]] == found["rounds"]
    assert len(case["left_out"]["samples"]["latency"]) + len(case["samples"]["latency"]) == 150
    assert case["metrics"]["latency"]["n"] == len(case["samples"]["latency"])
    # No block that is in the figures began before a reading that says that the card is free again.
    held = [it["at_ns"] for it in result["environment"]["gpu_readings"] if it["reasons"]]
    assert all(start > max(held) for _, _, start in case["blocks"]["latency"])


@pytest.mark.parametrize(
    ("number", "of_worker"), [(signal.SIGTERM, False), (signal.SIGKILL, False), (signal.SIGKILL, True)]
)
def test_clocks_are_reset_however_the_run_ends(
    number: signal.Signals, of_worker: bool, software_cuda: tuple[str, ...], tmp_path: Path
) -> None:
    """Ended by a signal, killed, or with its worker killed, as an EP that crashes does."""
    card = Card(tmp_path / "card")
    prefix = with_knobs(software_cuda, Config(card=card.path))
    line = command("run", TINY, "--ep", "cuda", "--mode", "device-tensors", "--precision", 0, "--duration", 600,
                   "--lock-clocks", 1200, "--out", tmp_path / "out", prefix=prefix)  # fmt: skip
    with subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            wait_for(lambda: card.locked_mhz == 1200)
            (worker,) = (
                it for it in psutil.Process(process.pid).children() if any("worker" in word for word in it.cmdline())
            )
        except BaseException:
            process.kill()
            raise
        os.kill(worker.pid if of_worker else process.pid, number)
        process.wait(PATIENCE_S)
    assert process.returncode == (1 if of_worker else 143 if number == signal.SIGTERM else -number)
    wait_for(lambda: card.locked_mhz == 0)


def test_who_may_not_lock_clocks_is_told_what_does_it(software_cuda: tuple[str, ...], tmp_path: Path) -> None:
    asked = ("run", TINY, "--ep", "cuda", "--mode", "device-tensors", "--out", tmp_path)
    ran = ortbench(*asked, "--lock-clocks", 1200, prefix=software_cuda)
    assert ran.code == 2
    assert ran.error_line == (
        "--lock-clocks 1200: you may not lock the clocks of GPU 0: run 'sudo nvidia-smi -i 0 -lgc 1200,1200' before and "
        "'sudo nvidia-smi -i 0 -rgc' afterwards, without this option"
    )
    assert list(tmp_path.iterdir()) == []
    card = Card(tmp_path / "card")
    prefix = with_knobs(software_cuda, Config(card=card.path))
    ran = ortbench(*asked, "--lock-clocks", 5000, prefix=prefix)
    assert (ran.code, ran.error_line) == (2, "--lock-clocks 5000: GPU 0 does not take it: Invalid Argument")
