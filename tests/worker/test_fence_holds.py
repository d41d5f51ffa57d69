"""The fence at the end of a measurement: a device that changes while it runs is found out, and one that does not is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from ortbench.errors import BENCHMARK_FAILED, DONE
from ortbench.result import Result
from tests.refdevice import Config, Honesty, Trace
from tests.truth import relu_model, run_on_device

MODES = ("device", "device-resident", "host-accessible")
FENCES = {"sync": "run", "async-wait": "run", "async": "synchronize_outputs", "async-old-api": "readback"}


def measured(library: Path, folder: Path, config: Config) -> tuple[int, Result]:
    modes = [word for mode in MODES for word in ("--mode", mode)]
    model = relu_model(folder / "relu.onnx", 1 << 12)
    code, result, _, _ = run_on_device(
        library, model, config, folder, *modes, "--iterations", 40, "--warmup", 1, "--quiet"
    )
    return code, result


# A run on a busy machine may make so few runs that what was in the middle of the one before is not reached.
_ATTEMPTS = 6


@pytest.mark.process
@pytest.mark.parametrize("honesty", ["sync", "async-wait", "async"])
def test_a_mode_whose_fence_no_longer_waits_has_failed(library: Path, tmp_path: Path, honesty: Honesty) -> None:
    in_the_middle = 0  # for ever
    for attempt in range(_ATTEMPTS):
        place = tmp_path / str(attempt)
        place.mkdir()
        config = Config(compute_us=5000, honesty=honesty, trace=place / "trace", later_runs=in_the_middle)
        code, result = measured(library, place, config)
        if code == BENCHMARK_FAILED:
            break
        blocks = sorted(start for case in result.cases for it in case.blocks.values() for _, _, start in it)
        runs = Trace.read(place / "trace").of("run")["queued_ns"]
        in_the_middle = int((runs < blocks[len(blocks) // 2]).sum())
    assert in_the_middle, [case.reason for case in result.cases]
    assert code == BENCHMARK_FAILED
    for case in result.cases:
        assert (case.status, case.samples_ns["total"][:1] != []) == ("failed", True), case
        fence = FENCES[honesty]
        wanted = f"after the timed runs: the device was not done when the fence of inference ({fence}) returned"
        # A run in HOST_ACCESSIBLE memory that nobody waits for leaves its outputs unwritten, which is found first.
        assert case.reason == wanted or "output" in str(case.reason), case.reason


@pytest.mark.process
@pytest.mark.parametrize("honesty", list(FENCES))
@pytest.mark.parametrize("compute_us", [5, 20_000])
def test_a_fence_that_waits_still_does(library: Path, tmp_path: Path, honesty: Honesty, compute_us: int) -> None:
    for attempt in range(_ATTEMPTS):
        (tmp_path / str(attempt)).mkdir()
        code, result = measured(library, tmp_path / str(attempt), Config(compute_us=compute_us, honesty=honesty))
        # A busy host can take a fence for one that waits, or that does not, where there is next to nothing to wait for.
        if {case.fence["kind"] for case in result.cases if case.fence is not None} == {FENCES[honesty]}:
            break
    assert (code, [case.reason for case in result.cases]) == (DONE, [None] * len(MODES))


@pytest.mark.process
@pytest.mark.parametrize("honesty", ["sync", "async", "async-old-api"])
def test_outputs_that_are_not_there_refuse_a_fence(library: Path, tmp_path: Path, honesty: Honesty) -> None:
    """Where its trials found nothing left: the host reads the outputs where the device writes them."""
    model, config = relu_model(tmp_path / "relu.onnx", 1 << 12), Config(compute_us=20_000, honesty=honesty)
    line = ("--mode", "host-accessible", "--iterations", 2, "--warmup", 1, "--quiet")
    code, result, _, errors = run_on_device(library, model, config, tmp_path, *line, program=["tests.deceived"])
    assert (code, errors) == (DONE, "")
    [case] = result.cases
    assert case.fence is not None
    assert (case.outputs_match, case.fence["kind"]) == (True, FENCES[honesty])
