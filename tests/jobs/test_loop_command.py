"""`ortbench loop` as its users have it, compared with the reference device's own trace."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from ortbench.measure.schedule import dropped_count
from ortbench.model.result import Case, Result
from tests.conftest import MODELS, ONCE, modes, ortbench
from tests.jobs.reports import json_in
from tests.refdevice import Config, Trace
from tests.truth import block_events, is_kind, run_on_device
from tests.versions import VERSIONS, environment
from tests.worker import saved

STEPS = 6
STATE, X, Y = 4 * 65536, 4 * 65536, 4 * 16384  # bytes, of loop_on_device
ROW = 4 * 2 * 16  # bytes that growing_on_device adds in each step
SYNC_BYTES = 4  # what the sync of last resort reads back


def recorded(name: str) -> tuple[object, ...]:
    return ("--steps", STEPS, "--input", MODELS / f"{name}.loop.inputs.npz", "--expect", MODELS / f"{name}.loop.npz")


FIXED = ("--feedback", "state_out=state", *recorded("loop_on_device"))
GROWING = ("--feedback", "present=past", *recorded("growing_on_device"))
CACHE = ("--feedback", "present.*=past_key_values.*", "--dim", "total_length=past_length+sequence",
         "--fill", "attention_mask=1", "--fill", "position_ids=past_length+index")  # fmt: skip


def loop(library: Path, model: Path, folder: Path, *arguments: object, **knobs: Any) -> tuple[int, Result, str]:
    """A loop on the reference device, whose trace is in the folder: exit code, result, standard error."""
    config = Config(**{"compute_us": 300, "trace": folder / "trace", **knobs})
    code, result, _, errors = run_on_device(library, model, config, folder, *arguments, command="loop")
    return code, result, errors


def copies(result: Result, case: Case, trace: Trace) -> list[tuple[int, Counter[int], Counter[int]]]:
    """Of each block of a mode: how many loops it had, and the copies to the device and back by their bytes; of the last step
    those that come behind its inference are not among them, as nobody can tell these from what is read when all is over."""
    starts = [at for it in result.cases for _, _, at in it.blocks["latency"]]
    found = []
    for _, n, start in case.blocks["latency"]:
        loops, (here, _) = n + dropped_count(n), block_events(trace, starts, start)
        last = here["queued_ns"][is_kind(here, "inference")][loops * STEPS - 1]
        here = here[(here["queued_ns"] < last) & (here["bytes"] != SYNC_BYTES)]
        assert not is_kind(here, "ha-copy").any()
        up, down = (Counter(map(int, here["bytes"][is_kind(here, kind)])) for kind in ("h2d", "d2h"))
        found.append((loops, up, down))
    return found


class Copied(NamedTuple):
    """Bytes of each copy of a loop to the device and back, of those back in its last step, and what the result has of a step."""

    up: list[int]
    down: list[int]
    last: list[int]
    figures: tuple[int | list[int], ...]  # of the state, to the device and back, and of all


NOTHING = Copied([], [], [], (0, 0, 0, 0))
PAST, PRESENT = [ROW * number for number in range(STEPS)], [ROW * number for number in range(1, STEPS + 1)]
RESIDENT = Copied([X] * (STEPS + 1), [Y] * STEPS, [Y], (0, 0, X, Y))  # x in every step, and the first state
HOST = """g (float[256] state, float[4] x) => (float[256] state_out, float[4] y)
    { half = Relu(state)  state_out = Round(half)  y = Relu(x) }"""
TWO = modes("cpu-tensors", "device-resident")
# The model, options, and copies in every mode.
LOOPS: dict[str, tuple[str, tuple[object, ...], dict[str, Copied]]] = {
    "a state of fixed size": ("loop_on_device", (*FIXED, *modes("default", "shared")), {
        "cpu-tensors": Copied([STATE, X] * STEPS, [STATE, Y] * STEPS, [STATE, Y], (STATE, STATE, STATE + X, STATE + Y)),
        "device-resident": RESIDENT, "host-accessible": NOTHING, "shared": RESIDENT,
    }),
    "a state that grows": ("growing_on_device", GROWING, {
        "cpu-tensors": Copied(
            PAST + [ROW] * STEPS, PRESENT + [ROW] * STEPS, [PRESENT[-1], ROW],
            (PAST, PRESENT, [n + ROW for n in PAST], [n + ROW for n in PRESENT]),
        ),
        "device-resident": Copied([ROW] * STEPS, [ROW] * STEPS, [ROW], (0, 0, ROW, ROW)),
        "host-accessible": NOTHING,
    }),
    "kept on the device": ("loop_on_device", (*FIXED, "--keep", "y", "--resident", "x", *TWO), {
        "cpu-tensors": Copied([STATE, X] * STEPS, [STATE, Y] * STEPS, [STATE, Y], (STATE, STATE, STATE + X, STATE + Y)),
        "device-resident": Copied([STATE], [], [], (0, 0, 0, 0)),
    }),
}  # fmt: skip


# In memory without an alignment ONNX Runtime cannot allocate a state that grows.
@pytest.mark.parametrize(("name", "alignment"), [*((name, 4096) for name in LOOPS), ("a state that grows", 0)])
def test_a_mode_makes_the_copies_that_it_says(name: str, alignment: int, library: Path, tmp_path: Path) -> None:
    model, options, wanted = LOOPS[name]
    line, knobs = (*options, "--iterations", 3, "--warmup", 1), {"honesty": "async-old-api", "alignment": alignment}
    code, result, errors = loop(library, MODELS / f"{model}.onnx", tmp_path, *line, **knobs)
    assert (code, errors, [case.mode for case in result.cases]) == (0, "", [*wanted])
    trace = Trace.read(tmp_path / "trace")
    for case in result.cases:
        copied = wanted[case.mode]
        assert (case.status, case.checks["outputs"]["verdict"]) == ("ok", "passed")
        for loops, ups, downs in copies(result, case, trace):
            assert (case.mode, ups) == (case.mode, Counter(it for it in copied.up * loops if it))
            assert (case.mode, downs) == (case.mode, Counter(copied.down * loops) - Counter(copied.last))
        state = case.step_copies("state_h2d"), case.step_copies("state_d2h")
        assert (*state, case.step_copies("step_h2d"), case.step_copies("step_d2h")) == copied.figures
        assert (case.bytes_h2d, case.bytes_d2h) == (sum(copied.up), sum(copied.down))
        assert len(case.samples["step"]) == STEPS * len(case.samples["latency"]) == STEPS * 3
    if model == "growing_on_device":
        assert (result.part["grows"], result.part["state_shapes"]) == (["past"], [[[1, 2, 0, 16], [1, 2, 6, 16]]])


def test_a_state_that_is_made_on_the_host_crosses_in_every_step(library: Path, tmp_path: Path) -> None:
    """Whatever is bound: the session gives it on the host, and takes it on the device."""
    model = saved(tmp_path / "host.onnx", HOST)
    line = ("--feedback", "state_out=state", "--steps", STEPS, *TWO, *ONCE)
    code, result, _ = loop(library, model, tmp_path, *line)
    cpu, resident = result.cases
    assert (code, cpu.step_copies("state_h2d"), cpu.step_copies("state_d2h")) == (0, 1024, 0)
    assert (resident.step_copies("state_h2d"), resident.step_copies("state_d2h")) == (1024, 0)
    assert (resident.step_copies("step_h2d"), resident.bytes_h2d) == (1040, STEPS * 1040 + 1024)
    for loops, up, _ in copies(result, resident, Trace.read(tmp_path / "trace")):
        # The first state, and that of each step but the last, which comes behind its inference.
        assert up == Counter({1024: STEPS * loops - 1 + loops, 16: STEPS * loops})


def test_a_device_out_of_memory_in_the_midst_of_a_loop(library: Path, tmp_path: Path) -> None:
    line, memory = ("--feedback", "present=past", *ONCE), f"{12 * ROW}:host_accessible"
    code, result, errors = loop(library, MODELS / "growing_on_device.onnx", tmp_path, *line, fail_alloc_bytes=memory)
    reason = "step 12 of 16 failed: RefDeviceHostAccessible (HOST_ACCESSIBLE) could not allocate 1536 bytes for 'past'"
    assert (code, errors) == (1, f"ortbench: host-accessible failed: {reason}\n")
    assert [(it.status, it.reason) for it in result.cases] == [("ok", None), ("ok", None), ("failed", reason)]


@pytest.mark.parametrize(
    ("model", "fed", "count"),
    [
        ("decoder", "", "--prompt-length 1 --generate 3"),
        ("growing_on_device", "--feedback present=past", "--steps 3"),
    ],
)
def test_the_loop_that_inspect_suggests_is_one(model: str, fed: str, count: str, tmp_path: Path) -> None:
    path = MODELS / f"{model}.onnx"
    answer = json.loads(ortbench("inspect", path, "--json", "-").out)["loop"]
    assert answer["command"] == f"ortbench loop {shlex.quote(str(path))} {fed}".rstrip()
    line = [*shlex.split(answer["command"])[1:], *f"--ep cpu --mode cpu-tensors {count}".split(), *ONCE]
    ran = ortbench(*line, "--out", tmp_path, "--json", "-")
    assert ran.code == 0, ran.err
    assert json.loads(ran.out)["loop"]["feedback"] == answer["feedback"]


def doubling(folder: Path) -> tuple[Path, Path]:
    """A model whose state doubles in each step, of operators that have no data to gather, and a state to begin with."""
    text = """g (float[1, past] s, float[1, 1] x) => (float[1, present] out, float[1, past] y) {
            signs = Constant <value = float[2, 1] {1.0, -0.5}> ()
            both = Mul (s, signs)
            shape = Constant <value = int64[2] {1, -1}> ()
            out = Reshape (both, shape)
            y = Add (s, x)
        }"""
    np.savez(folder / "first.npz", s=np.arange(1, 5, dtype=np.float32)[None])
    return saved(folder / "doubling.onnx", text), folder / "first.npz"


def measured_on(ep: str, model: Path, out: Path, *arguments: object, prefix: tuple[str, ...]) -> dict[str, Any]:
    """How each mode of a loop ended, whose outputs are compared with those of a plain loop."""
    line = ("loop", model, "--ep", ep, *arguments, *ONCE, "--out", out)
    ran = ortbench(*line, prefix=prefix)
    assert (ran.code, ran.err) == (0, "")
    cases = json_in(out)["cases"]
    return {case["mode"]: (case["status"], case["checks"].get("outputs", {}).get("verdict")) for case in cases}


OK = ("ok", "passed")


def test_on_cuda_in_every_mode(software_cuda: tuple[str, ...], tmp_path: Path) -> None:
    line = (*FIXED, *modes("default", "shared"))
    found = measured_on("cuda", MODELS / "loop_on_device.onnx", tmp_path / "fixed", *line, prefix=software_cuda)
    assert found == dict.fromkeys(("cpu-tensors", "device-resident", "host-accessible", "shared"), OK)
    # Outputs in HOST_ACCESSIBLE memory are bound by their addresses there, which nobody but the loop keeps alive.
    model, first = doubling(tmp_path)
    line = ("--feedback", "out=s", "--input", first, "--steps", 8)
    found = measured_on("cuda", model, tmp_path / "growing", *line, prefix=software_cuda)
    assert found == dict.fromkeys(("cpu-tensors", "device-resident", "host-accessible"), OK)


def test_on_webgpu(software_gpu: tuple[str, ...], tmp_path: Path) -> None:
    fed = ("--feedback", "present.*=past_key_values.*", "--fill", "position_ids=step", *recorded("decoder_shared"))
    line = (*modes("default", "shared"), *fed)
    found = measured_on("webgpu", MODELS / "decoder_shared.onnx", tmp_path, *line, prefix=software_gpu)
    assert found == dict.fromkeys(("cpu-tensors", "device-resident", "shared"), OK) | {
        "host-accessible": ("unsupported", None)
    }


@pytest.mark.parametrize("version", VERSIONS)
def test_with_another_onnx_runtime(version: str, software_gpu: tuple[str, ...], tmp_path: Path) -> None:
    """Of a state that grows: ONNX Runtime's side of it is older than that of anything else that a loop needs."""
    growing = ("webgpu", "growing_on_device", ("--feedback", "present=past"))
    for ep, name, arguments in (("cpu", "decoder", CACHE), growing):
        line = (*arguments, "--python", environment(version), *recorded(name))
        found = measured_on(ep, MODELS / f"{name}.onnx", tmp_path / ep, *line, prefix=software_gpu)
        assert {found[mode] for mode in ("cpu-tensors", "device-resident")} == {OK}
