"""The sync at the end of a measurement: a device that changes while it runs is found out, and one that does not is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from ortbench.core.errors import BENCHMARK_FAILED, DONE
from ortbench.model.result import Result
from tests import wrong_builds
from tests.conftest import modes
from tests.expect import there
from tests.refdevice import Config, Honesty, Trace
from tests.truth import relu_model, run_on_device

pytestmark = pytest.mark.process

MODES = ("device-tensors", "device-resident", "host-accessible")
SYNCS = {"sync": "run", "async-wait": "run", "async": "synchronize_outputs"}


def measured(library: Path, folder: Path, config: Config, *asked: str, **environment: str) -> tuple[int, Result]:
    folder.mkdir()
    line = (*modes(*asked), "--iterations", 40, "--warmup", 1, "--quiet")
    model = relu_model(folder / "relu.onnx", 1 << 12)
    code, result, _, _ = run_on_device(library, model, config, folder, *line, **environment)
    return code, result


@pytest.mark.parametrize("honesty", list(SYNCS))
def test_a_mode_whose_sync_no_longer_waits_has_failed(library: Path, tmp_path: Path, honesty: Honesty) -> None:
    trace = tmp_path / "before" / "trace"
    code, result = measured(library, tmp_path / "before", Config(compute_us=5000, honesty=honesty, trace=trace), *MODES)
    assert (code, [case.reason for case in result.cases]) == (DONE, [None] * len(MODES))
    blocks = sorted(start for case in result.cases for it in case.blocks.values() for _, _, start in it)
    in_the_middle = int((Trace.read(trace).of("run")["queued_ns"] < blocks[len(blocks) // 2]).sum())
    config = Config(compute_us=5000, honesty=honesty, later_runs=in_the_middle)
    code, result = measured(library, tmp_path / "later", config, *MODES)
    assert code == BENCHMARK_FAILED
    sync = SYNCS[honesty]
    early = f"after the timed runs: the device was not done when the synchronization of inference ({sync}) returned"
    for case in result.cases:
        assert (case.status, case.samples["latency"][:1] != []) == ("failed", True), case
        # A run in HOST_ACCESSIBLE memory that nobody waits for leaves its outputs unwritten, which is found first.
        assert case.reason == early or "output" in str(case.reason), case.reason


@pytest.mark.parametrize("honesty", ["sync", "async", "async-old-api"])
def test_outputs_that_are_not_there_refuse_a_sync(library: Path, tmp_path: Path, honesty: Honesty) -> None:
    """Where its trials found nothing left: the host reads the outputs where the device writes them."""
    wrong = wrong_builds.build("finds_nothing_left")
    code, result = measured(library, tmp_path / "wrong", Config(honesty=honesty), "host-accessible", **wrong)
    [case] = result.cases
    kind = {**SYNCS, "async-old-api": "readback"}[honesty]
    assert (code, case.checks["outputs"]["verdict"], there(case.sync)["kind"]) == (DONE, "passed", kind)
