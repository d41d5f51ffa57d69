"""Memory by trial: what a value and two copies show of an EP's memory decides which modes it can do."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from ortbench.worker import providers
from tests.conftest import ortbench
from tests.forks import WORKER
from tests.refdevice import Config, Trace
from tests.truth import relu_model, run_on_device

pytestmark = pytest.mark.process

MODES = ("cpu-tensors", "device-tensors", "device-resident", "host-accessible")
NOT_OFFERED = (
    "no device memory that can be used (no copies {} it: Data transfer implementation between source and destination device "
    "was not found.)"
)
FAILED = "RefDevice (DEFAULT) of RefDeviceExecutionProvider cannot be used: {}"


def listed(library: Path, environment: Mapping[str, str] | None = None, **knobs: object) -> dict[str, str | None]:
    """What `devices` says of each mode of the same EP."""
    environment = {**Config(compute_us=50, **knobs).environ(), **(environment or {})}  # type: ignore[arg-type]
    ran = ortbench("devices", "--ep-library", library, "--json", "-", **environment)
    assert (ran.code, ran.err) == (0, "")
    (ep,) = (it for it in json.loads(ran.out)["eps"] if it["library"] == str(library))
    modes: dict[str, str | None] = ep["devices"][0]["modes"]
    return {mode: modes[mode] for mode in MODES}


def test_a_trial_that_ends_the_worker_costs_the_modes_that_need_the_memory(library: Path, tmp_path: Path) -> None:
    model, config = relu_model(tmp_path / "relu.onnx", 4096), Config(abort_copy="1+:default")
    code, result, _, _ = run_on_device(library, model, config, tmp_path, "--iterations", 5, "--warmup", 1)
    why = "RefDevice (DEFAULT) of RefDeviceExecutionProvider cannot be used: the worker was ended by SIGABRT"
    assert (code, [case.reason for case in result.cases][:2]) == (1, [None, why])
    said = listed(library, abort_copy="1+:default")
    assert (said["cpu-tensors"], said["device-tensors"]) == (None, why)


@pytest.mark.parametrize(
    ("knobs", "why"),
    [
        ({"copies": "none"}, NOT_OFFERED.format("to and from")),
        ({"copies": "uploads"}, NOT_OFFERED.format("from")),
        ({"copies": "downloads"}, NOT_OFFERED.format("to")),
        ({"fail_alloc": "1+:default"}, FAILED.format("RefDevice (DEFAULT) could not allocate 64 bytes for 'word'")),
        ({"wrong_copy": "1+:default"}, FAILED.format("a copy to it and back gives other bytes")),
        ({"fail_download": "1+"}, FAILED.format("no copies from it: the reference device was told to fail this download")),
    ],
    ids=["no-copies", "in-only", "out-only", "null", "other-bytes", "error"],
)  # fmt: skip
def test_memory_that_does_not_work_is_said_before_anything_is_run(
    knobs: dict[str, str], why: str, library: Path
) -> None:
    """ONNX Runtime itself can run nothing on such an EP, as it cannot copy either."""
    said = listed(library, None, **knobs)
    assert (said["device-tensors"], said["device-resident"]) == (why, why)
    assert said["cpu-tensors"] == (why if "copies" in knobs else None)


def short_trials() -> None:
    providers.LIMIT_S = 0.5


def test_a_trial_that_hangs_is_ended(library: Path) -> None:
    said = listed(library, {WORKER: f"{__name__}:short_trials"}, fault="hang", fault_at="copy", fault_when="1+")
    why = FAILED.format("the worker gave no answer for 0.5 s and was stopped")
    assert (said["cpu-tensors"], said["device-tensors"]) == (None, why)


def test_trials_leave_nothing_and_take_no_time(library: Path, tmp_path: Path) -> None:
    listed(library, trace=tmp_path / "trace")
    found = Trace.read(tmp_path / "trace")
    assert [found.held(memory)[0] for memory in ("default", "host_accessible")] == [0, 0]
    copies = found.of("h2d", "d2h", "host-copy")
    assert 0 < sum(copies["end_ns"] - copies["start_ns"]) < 1_000_000
