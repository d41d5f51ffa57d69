"""The times of loops in virtual time against the reference device's own trace."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from tests.conftest import modes
from tests.expect import there
from tests.jobs.test_chain_command import BETWEEN, STAGES, defaults, run
from tests.jobs.test_sweep_command import batched
from tests.loop_truth import FED, STATE_BYTES, differences, loop_model
from tests.refdevice import HONESTY, Config, Honesty, Trace
from tests.truth import What, run_on_device
from tests.virtual import CALL_NS

pytestmark = pytest.mark.process

STEPS = {f"step {number}": 1 for number in range(5)}
RUNS = {"first": 1, "middle": 3, "last": 1}  # of the stages of a chain
ONE_LOOP = ("--steps", len(STEPS), "--iterations", 4, "--warmup", 1)
GROWS = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[N,65536] past, float[2,65536] x) => (float[M,65536] present) { present = Concat<axis=0>(past, x) }"""
# Of the host's beside the device: readings of the clock where the first step begins, and where the last one, its stage and
# the chain end; where the first stage begins; and the call of the first copy, which in the middle comes before the first step.
CALLS: dict[What, int] = {
    ("cpu-tensors", "latency"): 5, ("cpu-tensors", "first"): 3, ("cpu-tensors", "middle"): 3, ("cpu-tensors", "last"): 3,
    ("device-resident", "latency"): 6, ("device-resident", "first"): 4, ("device-resident", "middle"): 3,
    ("device-resident", "last"): 3,
}  # fmt: skip


@pytest.mark.parametrize("honesty", HONESTY)
def test_steps_and_whole_loops_are_exact(honesty: Honesty, library: Path, tmp_path: Path) -> None:
    config = Config(trace=tmp_path / "trace", honesty=honesty, compute_us=3000)
    model, line = loop_model(tmp_path / "loop.onnx"), (*FED, *modes("default", "shared"), *ONE_LOOP)
    code, result, _, errors = run_on_device(library, model, config, tmp_path, *line, command="loop")
    assert code == 0, errors
    assert [case.mode for case in result.cases] == ["cpu-tensors", "device-resident", "host-accessible", "shared"]
    assert differences(result, Trace.read(tmp_path / "trace"), STEPS, first_bytes=STATE_BYTES) == {}


def test_so_are_steps_of_a_state_that_grows(library: Path, tmp_path: Path) -> None:
    model = tmp_path / "grows.onnx"
    onnx.save(onnx.parser.parse_model(GROWS), model)
    line = ("--feedback", "present=past", "--first-dim", "N=1", *modes("cpu-tensors", "device-resident"), *ONE_LOOP)
    config = Config(trace=tmp_path / "trace", honesty="async-wait", upload_gbps=1, download_gbps=1)
    code, result, _, errors = run_on_device(library, model, config, tmp_path, *line, command="loop")
    assert code == 0, errors
    assert result.part["grows"] == ["past"]
    assert differences(result, Trace.read(tmp_path / "trace"), STEPS, first_bytes=4 * 65536) == {}


@pytest.mark.parametrize("honesty", ["sync", "async-old-api"])
def test_stages_and_whole_chains_are_exact(honesty: Honesty, library: Path, tmp_path: Path) -> None:
    config = Config(trace=tmp_path / "trace", honesty=honesty)
    text = defaults(library) + STAGES + BETWEEN
    result, _ = run(tmp_path, text, "--iterations", 4, "--warmup", 1, **config.environ())
    assert [case.mode for case in result.cases] == ["cpu-tensors", "device-resident"]
    assert differences(result, Trace.read(tmp_path / "trace"), RUNS, CALLS) == {}


# A sweep of a device whose inference costs a + b·batch, and more where the shape is another one: all three come back.


def test_the_law_of_sizes_and_the_price_of_switching_come_back(library: Path, tmp_path: Path) -> None:
    a_us, b_us, switch_us, batches = 8_000, 1_000, 5_000, (1, 4, 8)
    host_calls = {"device-resident": 2, "host-accessible": 3}  # in a sample: the run's own, and a reading of the clock
    config = Config(compute_us=a_us, item_us=b_us, switch_us=switch_us)
    line = ("--dim", f"batch={','.join(map(str, batches))}", *modes(*host_calls), "--iterations", 5, "--warmup", 2)
    model = batched(tmp_path / "m.onnx")
    code, result, _, errors = run_on_device(library, model, config, tmp_path, *line, command="sweep")
    assert code == 0, errors
    for mode, calls in host_calls.items():
        for batch in batches:
            samples = there(result.case(mode, {"batch": batch})).samples["latency"]
            assert set(samples) == {(a_us + b_us * batch) * 1000 + calls * CALL_NS}
        (switching,) = [it for it in result.own["switching"] or [] if it["mode"] == mode]
        assert switching["cost_ns"] == switch_us * 1000
