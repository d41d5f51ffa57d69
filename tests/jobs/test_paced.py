"""Inferences and steps that begin at set moments, in virtual time: their times are those of the reference device."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ortbench.core.stats import Value
from ortbench.model.result import Case
from tests.conftest import modes
from tests.expect import there
from tests.jobs.test_generation_command import TOKENS, generated
from tests.loop_truth import FED, loop_model
from tests.refdevice import Config, Trace
from tests.truth import relu_model, run_on_device
from tests.virtual import CALL_NS

pytestmark = pytest.mark.process

STEPS, EVERY_NS, IDLE_NS, CPU_NS = 5, 32_000_000, 5_000_000, 700_000
ONCE = ("--iterations", 4, "--warmup", 1)


def starts_in(case: Case, trace: Trace) -> list[np.ndarray]:
    """When the device was given the inferences of each paced block, ns, without the first one, which does not count."""
    queued = np.sort(trace.of("inference")["queued_ns"])
    return [queued[queued >= at][1 : 1 + n] for _, n, at in case.blocks["paced"]]


@pytest.mark.parametrize(
    ("command", "line", "of", "calls"),
    [
        ("run", ("--rate", 31.25), "latency", {"cpu-tensors": 3, "device-resident": 1}),
        ("loop", (*FED, "--steps", STEPS, "--every", "32ms"), "step", {"cpu-tensors": 5, "device-resident": 3}),
    ],
)
def test_paced_times_are_exact(
    command: str, line: tuple[object, ...], of: str, calls: dict[str, int], library: Path, tmp_path: Path
) -> None:
    """Of a device that takes 5 ms longer after 20 ms without work, and so many calls of the host."""
    config = Config(trace=tmp_path / "trace", compute_us=3000, idle_us=IDLE_NS / 1000, busy_us=CPU_NS / 1000)
    model = loop_model(tmp_path / "m.onnx") if command == "loop" else relu_model(tmp_path / "m.onnx", 4000)
    code, result, _, errors = run_on_device(
        library, model, config, tmp_path, *line, *modes(*calls), *ONCE, command=command
    )
    assert (code, errors, result.setup["every_ns"]) == (0, "", EVERY_NS)
    trace = Trace.read(tmp_path / "trace")
    for case in result.cases:
        paced, alone = case.samples["paced"], case.samples[of]
        assert paced == [ns + IDLE_NS for ns in alone[: len(paced)]]
        assert len(paced) == (STEPS if command == "loop" else 4)
        for starts in starts_in(case, trace):
            assert {*np.diff(starts[-3:])} == {EVERY_NS}
        # A call begins with four readings of the clock: whether to sleep, how long, and when it began and ended.
        assert case.samples["paced_cpu_time"] == [CPU_NS + (4 + calls[case.mode]) * CALL_NS]
        assert case.samples["missed_starts"] == [0]
        assert case.value("paced_ratio") == there(case.median("paced")) / there(case.stats(of)).median


def test_the_ratio_of_paced_steps_has_an_interval_by_processes(library: Path, tmp_path: Path) -> None:
    """A step of 3 ms and its copies, and 5 ms more where there is one each 32 ms."""
    model, config = loop_model(tmp_path / "m.onnx"), Config(compute_us=3000, idle_us=IDLE_NS / 1000)
    line = (*FED, "--steps", STEPS, *modes("device-resident"), "--every", "32ms", "--processes", 3)
    code, result, _, _ = run_on_device(library, model, config, tmp_path, *line, command="loop")
    (case,) = result.cases
    found, ratio = case.metrics["paced_ratio"], 1 + IDLE_NS / there(case.median("step"))
    assert isinstance(found, Value)
    assert (code, found.value, len(case.first_rounds)) == (0, ratio, 3)
    assert there(found.ci95) == pytest.approx((ratio, ratio))  # but for what logarithms round
    assert there(case.stats("paced")).n >= 100  # which a p99 takes


def test_of_a_decoder_the_prompt_is_not_paced(library: Path, tmp_path: Path) -> None:
    result, _ = generated(library, tmp_path, "sync", "--every", "1s", *modes("cpu-tensors"))
    (case,) = result.cases
    later = [ns for number, ns in enumerate(case.samples["step"]) if number % TOKENS]
    assert case.samples["paced"] == later[: TOKENS - 1]
    assert (case.samples["missed_starts"], case.value("paced_ratio")) == ([0], 1.0)


def test_starts_that_wait_for_the_one_before_are_counted(library: Path, tmp_path: Path) -> None:
    model, config = relu_model(tmp_path / "m.onnx", 4000), Config(compute_us=40_000)
    line = (*modes("device-resident"), *ONCE, "--every", "32ms")
    _, result, _, _ = run_on_device(library, model, config, tmp_path, *line)
    (case,) = result.cases
    assert case.samples["paced"] == case.samples["latency"]  # back to back all the same
    assert (case.samples["missed_starts"], case.value("paced_ratio")) == ([1.0], 1.0)
