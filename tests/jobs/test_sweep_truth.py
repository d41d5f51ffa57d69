"""A sweep of a device whose inference costs a + b·batch, and more where the shape is another one: all three come back."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.jobs.test_sweep_command import batched
from tests.refdevice import Config
from tests.truth import run_on_device
from tests.virtual import CALL_NS

A_US, B_US, SWITCH_US = 8_000, 1_000, 5_000
BATCHES = (1, 4, 8)
MODES = {
    "device-resident": 2,
    "host-accessible": 3,
}  # and the host's calls in a sample: the run's own, and a reading of the clock


@pytest.mark.process
def test_the_law_of_sizes_and_the_price_of_switching_come_back(library: Path, tmp_path: Path) -> None:
    config = Config(compute_us=A_US, item_us=B_US, switch_us=SWITCH_US)
    modes = [word for mode in MODES for word in ("--mode", mode)]
    line = ("--dim", f"batch={','.join(map(str, BATCHES))}", *modes, "--iterations", 5, "--warmup", 2)
    model = batched(tmp_path / "m.onnx")
    code, result, _, errors = run_on_device(library, model, config, tmp_path, *line, command="sweep")
    assert code == 0, errors
    for mode, calls in MODES.items():
        for batch in BATCHES:
            case = result.case(mode, {"batch": batch})
            assert case is not None
            assert set(case.samples["latency"]) == {(A_US + B_US * batch) * 1000 + calls * CALL_NS}
        (switching,) = [it for it in result.own["switching"] or [] if it["mode"] == mode]
        assert switching["cost_ns"] == SWITCH_US * 1000
