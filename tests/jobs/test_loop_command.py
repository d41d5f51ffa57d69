"""`ortbench loop` as its users have it, compared with the reference device's own trace."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from ortbench.measure.schedule import dropped_count
from ortbench.model.result import Case, Result
from tests.conftest import MODELS, ONCE, ROOT, modes, ortbench
from tests.expect import there
from tests.refdevice import Config, Trace
from tests.truth import is_kind, run_on_device
from tests.versions import VERSIONS, environment

pytestmark = pytest.mark.process

STEPS = 6
STATE, X, Y = 4 * 65536, 4 * 65536, 4 * 16384  # bytes, of loop_on_device
ROW = 4 * 2 * 16  # bytes that growing_on_device adds in each step
SYNC_BYTES = 4  # what the sync of last resort reads back


def recorded(name: str) -> tuple[object, ...]:
    """The inputs of a loop and what it gives."""
    return ("--steps", STEPS, "--input", MODELS / f"{name}.loop.inputs.npz", "--expect", MODELS / f"{name}.loop.npz")


FIXED = ("--feedback", "state_out=state", *recorded("loop_on_device"))
GROWING = ("--feedback", "present=past", *recorded("growing_on_device"))
CACHE = ("--feedback", "present.*=past_key_values.*", "--dim", "total_length=past_length+sequence",
         "--fill", "attention_mask=1", "--fill", "position_ids=past_length+index")  # fmt: skip


def loop(library: Path, name: str, config: Config, folder: Path, *arguments: object) -> tuple[int, Result, str, str]:
    return run_on_device(library, MODELS / f"{name}.onnx", config, folder, *arguments, command="loop")


def measured(library: Path, name: str, folder: Path, *arguments: object, **knobs: Any) -> Result:
    """A loop without an error, whose trace is in the folder."""
    config = Config(trace=folder / "trace", **{"compute_us": 300, **knobs})
    line = (*arguments, "--iterations", 3, "--warmup", 1)
    code, result, _, errors = loop(library, name, config, folder, *line)
    assert (code, errors) == (0, "")
    assert {(case.status, case.checks["outputs"]["verdict"]) for case in result.cases} == {("ok", "passed")}
    return result


def case_of(result: Result, mode: str) -> Case:
    return next(case for case in result.cases if case.mode == mode)


def step_copies(case: Case) -> tuple[object, ...]:
    """The bytes of a state's copies and of all copies in a step, to the device and back."""
    state = case.step_copies("state_h2d"), case.step_copies("state_d2h")
    return (*state, case.step_copies("step_h2d"), case.step_copies("step_d2h"))


def copies(result: Result, mode: str, trace: Trace, steps: int = STEPS) -> list[tuple[int, Counter[int], Counter[int]]]:
    """Of each block of a mode: how many loops it had, and the uploads and downloads by their bytes; of the last step those
    that come behind its inference are not among them, as nobody can tell these from what is read when all is over."""
    starts = sorted(at for case in result.cases for _, _, at in case.blocks["latency"])
    events = trace.of("h2d", "d2h", "inference", "ha-copy")
    events = events[np.argsort(events["queued_ns"], kind="stable")]
    found = []
    for _, n, start in case_of(result, mode).blocks["latency"]:
        loops = n + dropped_count(n)
        stop = next((at for at in starts if at > start), np.iinfo(np.int64).max)
        here = events[(events["queued_ns"] >= start) & (events["queued_ns"] < stop)]
        last = here["queued_ns"][is_kind(here, "inference")][loops * steps - 1]
        here = here[(here["queued_ns"] < last) & (here["bytes"] != SYNC_BYTES)]
        assert not is_kind(here, "ha-copy").any()
        up, down = (Counter(map(int, here["bytes"][is_kind(here, kind)])) for kind in ("h2d", "d2h"))
        found.append((loops, up, down))
    return found


def times(counter: Counter[int], factor: int) -> Counter[int]:
    return Counter({size: count * factor for size, count in counter.items() if size})


def check_copies(
    result: Result, trace: Trace, per_loop: dict[str, tuple[Counter[int], Counter[int], Counter[int]]]
) -> None:
    """Hold each mode's copies against what they should be: uploads and downloads of a loop, and downloads of its last step."""
    for mode, (up, down, last) in per_loop.items():
        found = copies(result, mode, trace)
        assert found
        for loops, ups, downs in found:
            assert (mode, ups) == (mode, times(up, loops))
            assert (mode, downs) == (mode, times(down, loops) - last)


def per_step(size: int) -> Counter[int]:
    return Counter({size: STEPS})


NOTHING: Counter[int] = Counter()


def test_copies_of_a_loop_whose_state_has_a_fixed_size(library: Path, tmp_path: Path) -> None:
    chosen = modes("default", "shared")
    result = measured(library, "loop_on_device", tmp_path, *FIXED, *chosen, honesty="async-old-api")
    stays = Counter({X: STEPS + 1}), per_step(Y), Counter([Y])  # x in every step, and the first state of every loop
    crosses = per_step(STATE) + per_step(X), per_step(STATE) + per_step(Y), Counter([STATE, Y])
    expected = {
        "cpu-tensors": crosses,
        "device-resident": stays,
        "host-accessible": (NOTHING, NOTHING, NOTHING),
        "shared": stays,
    }
    assert [case.mode for case in result.cases] == list(expected)
    check_copies(result, Trace.read(tmp_path / "trace"), expected)
    of_resident = ((0, 0), (X, Y), (STEPS * X + STATE, STEPS * Y))
    figures = {
        "cpu-tensors": ((STATE, STATE), (STATE + X, STATE + Y), (STEPS * (STATE + X), STEPS * (STATE + Y))),
        "device-resident": of_resident,
        "host-accessible": ((0, 0), (0, 0), (0, 0)),
        "shared": of_resident,
    }
    for mode, (state, step, whole) in figures.items():
        case = case_of(result, mode)
        assert step_copies(case) == (*state, *step)
        assert (case.bytes_h2d, case.bytes_d2h) == whole
        assert len(there(case.steps_ns)) == STEPS
        assert len(case.samples["step"]) == STEPS * len(case.samples["latency"]) == STEPS * 3


@pytest.mark.parametrize("alignment", [4096, 0])
def test_copies_of_a_loop_whose_state_grows(alignment: int, library: Path, tmp_path: Path) -> None:
    """Whether ONNX Runtime can allocate the state, in memory without an alignment, or not."""
    result = measured(library, "growing_on_device", tmp_path, *GROWING, honesty="async-old-api", alignment=alignment)
    past, present = [ROW * number for number in range(STEPS)], [ROW * number for number in range(1, STEPS + 1)]
    expected = {
        "cpu-tensors": (Counter(past) + per_step(ROW), Counter(present) + per_step(ROW), Counter([present[-1], ROW])),
        "device-resident": (per_step(ROW), per_step(ROW), Counter([ROW])),
        "host-accessible": (NOTHING, NOTHING, NOTHING),
    }
    assert [case.mode for case in result.cases] == list(expected)
    check_copies(result, Trace.read(tmp_path / "trace"), expected)
    assert step_copies(case_of(result, "cpu-tensors")) == (
        past,
        present,
        [n + ROW for n in past],
        [n + ROW for n in present],
    )
    assert step_copies(case_of(result, "device-resident")) == (0, 0, ROW, ROW)
    assert (result.part["grows"], result.part["state_shapes"]) == (["past"], [[[1, 2, 0, 16], [1, 2, 6, 16]]])


def test_what_is_kept_on_the_device_is_not_copied(library: Path, tmp_path: Path) -> None:
    stay = ("--keep", "y", "--resident", "x", *modes("cpu-tensors", "device-resident"))
    result = measured(library, "loop_on_device", tmp_path, *FIXED, *stay)
    check_copies(result, Trace.read(tmp_path / "trace"), {"device-resident": (Counter([STATE]), NOTHING, NOTHING)})
    case = case_of(result, "device-resident")
    assert (*step_copies(case), case.bytes_h2d, case.bytes_d2h) == (0, 0, 0, 0, STATE, 0)
    assert case_of(result, "cpu-tensors").step_copies("step_h2d") == STATE + X


def test_a_state_that_is_made_on_the_host_crosses_in_every_step(library: Path, tmp_path: Path) -> None:
    """Whatever is bound: the session gives it on the host, and takes it on the device."""
    text = """<ir_version: 8, opset_import: ["" : 17]>
        g (float[256] state, float[4] x) => (float[256] state_out, float[4] y)
        { half = Relu(state)  state_out = Round(half)  y = Relu(x) }"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "host.onnx")
    line = ("--feedback", "state_out=state", "--steps", STEPS, *modes("cpu-tensors", "device-resident"))
    result = measured(library, str(tmp_path / "host"), tmp_path, *line)
    cpu, resident = case_of(result, "cpu-tensors"), case_of(result, "device-resident")
    assert (*step_copies(resident), resident.bytes_h2d) == (1024, 0, 1040, 16, STEPS * 1040 + 1024)
    assert (cpu.step_copies("state_h2d"), cpu.step_copies("state_d2h")) == (1024, 0)
    for loops, up, _ in copies(result, "device-resident", Trace.read(tmp_path / "trace")):
        # The first state, and that of each step but the last, which comes behind its inference.
        assert up == Counter({1024: STEPS * loops - 1 + loops, 16: STEPS * loops})


def test_a_device_out_of_memory_in_the_midst_of_a_loop(library: Path, tmp_path: Path) -> None:
    config = Config(compute_us=100, fail_alloc_bytes=f"{12 * ROW}:host_accessible")
    code, result, _, errors = loop(library, "growing_on_device", config, tmp_path, "--feedback", "present=past", *ONCE)
    reason = "step 12 of 16 failed: RefDeviceHostAccessible (HOST_ACCESSIBLE) could not allocate 1536 bytes for 'past'"
    assert (code, errors) == (1, f"ortbench: host-accessible failed: {reason}\n")
    assert [(it.mode, it.status, it.reason) for it in result.cases] == [
        ("cpu-tensors", "ok", None), ("device-resident", "ok", None), ("host-accessible", "failed", reason),
    ]  # fmt: skip


def doubling(folder: Path) -> tuple[Path, Path]:
    """A model whose state doubles in each step, of operators that have no data to gather, and a state to begin with."""
    text = """<ir_version: 8, opset_import: ["" : 17]>
        g (float[1, past] s, float[1, 1] x) => (float[1, present] out, float[1, past] y) {
            signs = Constant <value = float[2, 1] {1.0, -0.5}> ()
            both = Mul (s, signs)
            shape = Constant <value = int64[2] {1, -1}> ()
            out = Reshape (both, shape)
            y = Add (s, x)
        }"""
    onnx.save(onnx.parser.parse_model(text), folder / "doubling.onnx")
    np.savez(folder / "first.npz", s=np.arange(1, 5, dtype=np.float32)[None])
    return folder / "doubling.onnx", folder / "first.npz"


def measured_on(ep: str, model: Path, out: Path, *arguments: object, prefix: tuple[str, ...]) -> dict[str, Any]:
    """How each mode of a loop ended, whose outputs are compared with those of a plain loop."""
    line = ("loop", model, "--ep", ep, *arguments, *ONCE, "--out", out)
    ran = ortbench(*line, prefix=prefix)
    assert (ran.code, ran.err) == (0, "")
    (path,) = out.glob("*/result.json")
    cases = json.loads(path.read_text())["cases"]
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


@pytest.mark.parametrize(
    ("name", "arguments", "shared"),
    [
        ("decoder", CACHE, "unsupported"),
        ("decoder_shared", ("--feedback", "present.*=past_key_values.*", "--fill", "position_ids=step"), "ok"),
        ("growing_on_device", ("--feedback", "present=past"), "unsupported"),
    ],
)  # fmt: skip
def test_every_model_on_webgpu(
    name: str, arguments: tuple[object, ...], shared: str, software_gpu: tuple[str, ...], tmp_path: Path
) -> None:
    """It begins with an empty state where one grows, which has no buffer there. It has no HOST_ACCESSIBLE memory."""
    line = (*modes("default", "shared"), *arguments, *recorded(name))
    found = measured_on("webgpu", MODELS / f"{name}.onnx", tmp_path, *line, prefix=software_gpu)
    assert (found["cpu-tensors"], found["device-resident"]) == (OK, OK)
    assert (found["host-accessible"][0], found["shared"][0]) == ("unsupported", shared)


@pytest.mark.parametrize("version", VERSIONS)
def test_with_another_onnx_runtime(version: str, software_gpu: tuple[str, ...], tmp_path: Path) -> None:
    """Of a state that grows: ONNX Runtime's side of it is older than that of anything else that a loop needs."""
    for ep, name, arguments in (
        ("cpu", "decoder", CACHE),
        ("webgpu", "growing_on_device", ("--feedback", "present=past")),
    ):
        line = (*arguments, "--python", environment(version), *recorded(name))
        found = measured_on(ep, MODELS / f"{name}.onnx", tmp_path / ep, *line, prefix=software_gpu)
        assert {found[mode] for mode in ("cpu-tensors", "device-resident")} == {OK}


_LONG = """
import resource, sys
from ortbench.model.modes import LATENCY
from ortbench.plan.target import Inputs, Target
from ortbench.features.loop.plan import Steps
from ortbench.features.loop.worker import data, make_loop
from ortbench.worker import providers, session

path, ep = sys.argv[1:]
target, steps, request = Target(ep=ep) if ep == "cpu" else Target(library=ep), Steps((("out", "s"),), 150), Inputs()
model = session.open_model(path, target, providers.find(target))
for mode in ("cpu-tensors", "device-resident", "host-accessible"):
    loop = data.make_loop_data(path, model, request, steps)
    call, a, b = make_loop(mode, model, loop, steps, request).phases()[LATENCY]
    peaks = [resource.getrusage(resource.RUSAGE_SELF).ru_maxrss]
    for _ in range(3):
        call(a, b)
        peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    print(*peaks)
"""


@pytest.mark.wide
@pytest.mark.parametrize("ep", ["cpu", "device"])
def test_a_long_loop_whose_state_grows_keeps_no_past(ep: str, real_library: Path, tmp_path: Path) -> None:
    """All states of 150 steps have 185 MB together, and the last one has 2.5 MB."""
    text = """<ir_version: 8, opset_import: ["" : 17]>
        g (float[past, 4096] s, float[1, 4096] x) => (float[present, 4096] out) { out = Concat<axis=0>(s, x) }"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "long.onnx")
    line = [sys.executable, "-c", _LONG, str(tmp_path / "long.onnx"), ep if ep == "cpu" else str(real_library)]
    environment = {**os.environ, **Config(compute_us=1).environ()}
    done = subprocess.run(line, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    peaks = [
        [*map(int, mode.split())] for mode in done.stdout.splitlines()
    ]  # KiB, before a mode's calls and behind each
    assert len(peaks) == 3
    for before, first, _, last in peaks:
        assert last - first < 100_000
        assert ep != "cpu" or last - before < 100_000  # the device keeps memory itself
