"""The times of chains and of their stages in virtual time against the reference device's own trace."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.jobs.test_chain_command import BETWEEN, STAGES, defaults, run
from tests.loop_truth import differences
from tests.refdevice import HONESTY, Config, Honesty, Trace
from tests.truth import What

RUNS = {"first": 1, "middle": 3, "last": 1}
# Of the host's beside the device: readings of the clock where the first step begins, and where the last one, its stage and
# the chain end; where the first stage begins; and the call of the first copy, which in the middle comes before the first step.
CALLS: dict[What, int] = {
    ("cpu-tensors", "latency"): 5, ("cpu-tensors", "first"): 3, ("cpu-tensors", "middle"): 3, ("cpu-tensors", "last"): 3,
    ("device-resident", "latency"): 6, ("device-resident", "first"): 4, ("device-resident", "middle"): 3,
    ("device-resident", "last"): 3,
}  # fmt: skip


@pytest.mark.process
@pytest.mark.parametrize("honesty", HONESTY)
def test_stages_and_whole_chains_are_what_the_devices_trace_has_of_them(
    honesty: Honesty, library: Path, tmp_path: Path
) -> None:
    config = Config(trace=tmp_path / "trace", honesty=honesty)
    text = defaults(library) + STAGES + BETWEEN
    result, _ = run(tmp_path, text, "--iterations", 4, "--warmup", 1, **config.environ())
    assert [case.mode for case in result.cases] == ["cpu-tensors", "device-resident"]
    assert differences(result, Trace.read(tmp_path / "trace"), RUNS, CALLS) == {}
