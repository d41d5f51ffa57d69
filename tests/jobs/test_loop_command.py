"""`ortbench loop` as its users have it, compared with the reference device's own trace."""

from __future__ import annotations

import json
import os
import re
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
from tests.conftest import MODELS, ONCE, ROOT, ortbench
from tests.refdevice import Config, Honesty, Trace
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


@pytest.mark.parametrize("honesty", ["sync", "async-old-api"])
def test_copies_of_a_loop_whose_state_has_a_fixed_size(honesty: Honesty, library: Path, tmp_path: Path) -> None:
    result = measured(
        library, "loop_on_device", tmp_path, *FIXED, "--mode", "default", "--mode", "shared", honesty=honesty
    )
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
    for mode, state, step, whole in (
        ("cpu-tensors", (STATE, STATE), (STATE + X, STATE + Y), (STEPS * (STATE + X), STEPS * (STATE + Y))),
        ("device-resident", (0, 0), (X, Y), (STEPS * X + STATE, STEPS * Y)),
        ("shared", (0, 0), (X, Y), (STEPS * X + STATE, STEPS * Y)),
        ("host-accessible", (0, 0), (0, 0), (0, 0)),
    ):
        case = case_of(result, mode)
        assert (case.step_copies("state_h2d"), case.step_copies("state_d2h")) == state
        assert (case.step_copies("step_h2d"), case.step_copies("step_d2h")) == step
        assert (case.bytes_h2d, case.bytes_d2h) == whole
        assert case.steps_ns is not None
        assert len(case.steps_ns) == STEPS
        assert len(case.samples["step"]) == STEPS * len(case.samples["latency"]) == STEPS * 3


@pytest.mark.parametrize("alignment", [4096, 0])
@pytest.mark.parametrize("honesty", ["sync", "async-old-api"])
def test_copies_of_a_loop_whose_state_grows(honesty: Honesty, alignment: int, library: Path, tmp_path: Path) -> None:
    """Whether ONNX Runtime can allocate the state, in memory without an alignment, or not."""
    result = measured(library, "growing_on_device", tmp_path, *GROWING, honesty=honesty, alignment=alignment)
    past, present = [ROW * number for number in range(STEPS)], [ROW * number for number in range(1, STEPS + 1)]
    expected = {
        "cpu-tensors": (Counter(past) + per_step(ROW), Counter(present) + per_step(ROW), Counter([present[-1], ROW])),
        "device-resident": (per_step(ROW), per_step(ROW), Counter([ROW])),
        "host-accessible": (NOTHING, NOTHING, NOTHING),
    }
    assert [case.mode for case in result.cases] == list(expected)
    check_copies(result, Trace.read(tmp_path / "trace"), expected)
    cpu, resident = case_of(result, "cpu-tensors"), case_of(result, "device-resident")
    assert (cpu.step_copies("state_h2d"), cpu.step_copies("state_d2h")) == (past, present)
    assert (cpu.step_copies("step_h2d"), cpu.step_copies("step_d2h")) == (
        [n + ROW for n in past],
        [n + ROW for n in present],
    )
    assert (resident.step_copies("state_h2d"), resident.step_copies("step_h2d"), resident.step_copies("step_d2h")) == (
        0,
        ROW,
        ROW,
    )
    assert (result.part["grows"], result.part["state_shapes"]) == (["past"], [[[1, 2, 0, 16], [1, 2, 6, 16]]])


@pytest.mark.parametrize("honesty", ["sync", "async-old-api"])
def test_what_is_kept_on_the_device_is_not_copied(honesty: Honesty, library: Path, tmp_path: Path) -> None:
    stay = ("--keep", "y", "--resident", "x", "--mode", "cpu-tensors", "--mode", "device-resident")
    result = measured(library, "loop_on_device", tmp_path, *FIXED, *stay, honesty=honesty)
    check_copies(result, Trace.read(tmp_path / "trace"), {"device-resident": (Counter([STATE]), NOTHING, NOTHING)})
    case = case_of(result, "device-resident")
    assert (case.step_copies("step_h2d"), case.step_copies("step_d2h"), case.bytes_h2d, case.bytes_d2h) == (
        0,
        0,
        STATE,
        0,
    )
    assert case_of(result, "cpu-tensors").step_copies("step_h2d") == STATE + X


def test_a_state_that_is_made_on_the_host_crosses_in_every_step(library: Path, tmp_path: Path) -> None:
    """Whatever is bound: the session gives it on the host, and takes it on the device."""
    text = """<ir_version: 8, opset_import: ["" : 17]>
        g (float[256] state, float[4] x) => (float[256] state_out, float[4] y)
        { half = Relu(state)  state_out = Round(half)  y = Relu(x) }"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "host.onnx")
    line = ("--feedback", "state_out=state", "--steps", STEPS, "--mode", "cpu-tensors", "--mode", "device-resident")
    result = measured(library, str(tmp_path / "host"), tmp_path, *line)
    cpu, resident = case_of(result, "cpu-tensors"), case_of(result, "device-resident")
    assert (resident.step_copies("state_h2d"), resident.step_copies("state_d2h")) == (1024, 0)
    assert (resident.step_copies("step_h2d"), resident.step_copies("step_d2h"), resident.bytes_h2d) == (
        1040,
        16,
        STEPS * 1040 + 1024,
    )
    assert (cpu.step_copies("state_h2d"), cpu.step_copies("state_d2h")) == (1024, 0)
    for loops, up, _ in copies(result, "device-resident", Trace.read(tmp_path / "trace")):
        # The first state, and that of each step but the last, which comes behind its inference.
        assert up == Counter({1024: STEPS * loops - 1 + loops, 16: STEPS * loops})


def test_a_device_out_of_memory_in_the_midst_of_a_loop(library: Path, tmp_path: Path) -> None:
    config = Config(compute_us=100, fail_alloc_bytes=f"{12 * ROW}:host_accessible")
    code, result, _, errors = loop(library, "growing_on_device", config, tmp_path, "--feedback", "present=past", *ONCE)
    case = case_of(result, "host-accessible")
    assert (code, case.status) == (1, "failed")
    assert case.reason is not None
    assert re.fullmatch(
        r"step 12 of 16 failed: RefDeviceHostAccessible \(HOST_ACCESSIBLE\) could not allocate 1536 bytes for 'past'", case.reason,
    ), case.reason  # fmt: skip
    assert errors.splitlines() == [f"ortbench: host-accessible failed: {case.reason}"]
    assert [(it.mode, it.status) for it in result.cases if it is not case] == [
        ("cpu-tensors", "ok"),
        ("device-resident", "ok"),
    ]


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


def found(out: Path) -> dict[str, Any]:
    (path,) = out.glob("*/result.json")
    cases = json.loads(path.read_text())["cases"]
    return {
        case["mode"]: (case["status"], case["checks"].get("outputs", {}).get("verdict"), case["reason"])
        for case in cases
    }


def test_on_cuda_in_every_mode(software_cuda: tuple[str, ...], tmp_path: Path) -> None:
    ok = ("ok", "passed", None)
    line = (
        "loop",
        MODELS / "loop_on_device.onnx",
        *FIXED,
        *["--ep", "cuda", "--mode", "default", "--mode", "shared"],
        *ONCE,
    )
    ran = ortbench(*line, "--out", tmp_path / "fixed", prefix=software_cuda)
    assert (ran.code, ran.err) == (0, "")
    assert found(tmp_path / "fixed") == dict.fromkeys(
        ("cpu-tensors", "device-resident", "host-accessible", "shared"), ok
    )

    # Outputs in HOST_ACCESSIBLE memory are bound by their addresses there, which nobody but the loop keeps alive.
    model, first = doubling(tmp_path)
    grown = ("loop", model, "--feedback", "out=s", "--input", first, "--steps", 8, "--ep", "cuda", *ONCE)
    ran = ortbench(*grown, "--out", tmp_path / "growing", prefix=software_cuda)
    assert (ran.code, ran.err) == (0, "")
    assert found(tmp_path / "growing") == dict.fromkeys(("cpu-tensors", "device-resident", "host-accessible"), ok)


@pytest.mark.parametrize(
    ("name", "arguments", "shared"),
    [
        ("decoder", CACHE, False),
        ("decoder_shared", ["--feedback", "present.*=past_key_values.*", "--fill", "position_ids=step"], True),
        ("loop_on_device", ["--feedback", "state_out=state"], None),
        ("growing_on_device", ["--feedback", "present=past"], False),
    ],
)  # fmt: skip
def test_every_model_on_webgpu(
    name: str, arguments: list[object], shared: bool | None, software_gpu: tuple[str, ...], tmp_path: Path
) -> None:
    """It begins with an empty state where one grows, which has no buffer there. It has no HOST_ACCESSIBLE memory."""
    line = ("loop", MODELS / f"{name}.onnx", *["--ep", "webgpu", "--mode", "default", "--mode", "shared"], *arguments)
    ran = ortbench(*line, *recorded(name), *ONCE, "--out", tmp_path, prefix=software_gpu)
    assert (ran.code, ran.err) == (0, "")
    cases = found(tmp_path)
    ok = ("ok", "passed", None)
    assert (cases["cpu-tensors"], cases["device-resident"]) == (ok, ok)
    assert cases["host-accessible"][0] == "unsupported"
    if shared is not None:
        assert cases["shared"][0] == ("ok" if shared else "unsupported")


@pytest.mark.parametrize("version", VERSIONS)
def test_with_another_onnx_runtime(version: str, software_gpu: tuple[str, ...], tmp_path: Path) -> None:
    """Of a state that grows: ONNX Runtime's side of it is older than that of anything else that a loop needs."""
    for ep, name, arguments in (
        ("cpu", "decoder", CACHE),
        ("webgpu", "growing_on_device", ("--feedback", "present=past")),
    ):
        line = ("loop", MODELS / f"{name}.onnx", "--ep", ep, *arguments, "--python", environment(version))
        ran = ortbench(*line, *recorded(name), *ONCE, "--out", tmp_path / ep, prefix=software_gpu)
        assert (ran.code, ran.err) == (0, "")
        cases = found(tmp_path / ep)
        assert {cases[mode][:2] for mode in ("cpu-tensors", "device-resident")} == {("ok", "passed")}


_LONG = """
import resource, sys
from ortbench.model.modes import LATENCY
from ortbench.plan.target import Inputs, Target
from ortbench.features.loop.plan import Steps
from ortbench.features.loop.worker import data
from ortbench.features.loop.worker import make_loop
from ortbench.worker import providers, session

path, ep = sys.argv[1:]
target, steps, request = Target(ep=ep) if ep == "cpu" else Target(library=ep), Steps((("out", "s"),), 300), Inputs()
model = session.open_model(path, target, providers.find(target))
for mode in ("cpu-tensors", "device-resident", "host-accessible"):
    loop = data.make_loop_data(path, model, request, steps)
    made = make_loop(mode, model, loop, steps, request)
    call, a, b = made.phases()[LATENCY]
    peaks = [resource.getrusage(resource.RUSAGE_SELF).ru_maxrss]
    for _ in range(3):
        call(a, b)
        peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    print(*peaks)
"""


@pytest.mark.wide
@pytest.mark.parametrize("ep", ["cpu", "device"])
def test_a_long_loop_whose_state_grows_keeps_no_past(ep: str, real_library: Path, tmp_path: Path) -> None:
    """All states of 300 steps have 740 MB together, and the last one has 4.9 MB."""
    text = """<ir_version: 8, opset_import: ["" : 17]>
        g (float[past, 4096] s, float[1, 4096] x) => (float[present, 4096] out) { out = Concat<axis=0>(s, x) }"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "long.onnx")
    line = [sys.executable, "-c", _LONG, str(tmp_path / "long.onnx"), ep if ep == "cpu" else str(real_library)]
    environment = {**os.environ, **Config(compute_us=1).environ()}
    done = subprocess.run(line, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    peaks = [
        list(map(int, mode.split())) for mode in done.stdout.splitlines()
    ]  # KiB: before a mode's calls, behind each
    assert len(peaks) == 3
    for before, first, _, last in peaks:
        assert last - first < 100_000
        assert ep != "cpu" or last - before < 100_000  # the device keeps memory itself
