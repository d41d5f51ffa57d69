"""`ortbench code`: programs that run as they are, without ortbench, and give what a plain run gives."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest

from ortbench.model.modes import LOOP_MODES, MODES
from tests import programs
from tests.conftest import MODELS, measure, ortbench
from tests.environments import Environment, without_ortbench
from tests.refdevice import Config

pytestmark = pytest.mark.process

HOST_MODES = ("cpu-tensors", "device-tensors", "device-resident", "host-accessible")
QUICK = ("--duration", 0.02)  # of each program
LOOPED = ("--feedback", "state_out=state", "--steps", 4)
CACHE = ("--feedback", "present.*=past_key_values.*", "--dim", "total_length=past_length+sequence", "--first-dim",
         "sequence=4", "--fill", "attention_mask=1", "--fill", "position_ids=past_length+index", "--steps", 5)  # fmt: skip


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An environment with all that is here but ortbench."""
    return without_ortbench(tmp_path_factory.mktemp("bare"))


def names(found: dict[str, tuple[str, float]]) -> dict[str, str]:
    """The modes that programs said they were, by the programs' names."""
    return {name: mode for name, (mode, _) in found.items()}


def same(modes: tuple[str, ...]) -> dict[str, str]:
    return {mode: mode for mode in modes}


def check_style(folder: Path) -> None:
    """What is written is formatted, and has nothing that it does not use."""
    for arguments in (("format", "--check"), ("check", "--select", "E,F,I,UP,B", "--ignore", "E501")):
        line = [sys.executable, "-m", "ruff", *arguments, "--isolated", "--line-length", "120", str(folder)]
        done = subprocess.run(line, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.wide
def test_programs_on_the_cpu_ep(bare: Environment, tmp_path: Path) -> None:
    """One by the command; of several dtypes, with options."""
    single = ("--ep", "cpu", "--intra-op-threads", 1, "--session-config", "session.intra_op.allow_spinning=0")
    model = MODELS / "multi_output.onnx"
    refused = programs.written(tmp_path / "one", model, *single, *QUICK, modes=list(MODES))
    assert {*refused} == {*MODES} - {*HOST_MODES}
    printed = ortbench("code", model, *single, *QUICK, "--mode", "device-tensors")
    assert (printed.code, printed.err) == (0, "")
    assert "ortbench" not in printed.out.split('"""')[2].replace(str(model), "")  # but for who wrote it
    (tmp_path / "one" / "printed.py").write_text(printed.out, encoding="utf-8")
    loops: dict[str, tuple[str, tuple[object, ...]]] = {
        "fixed": ("loop_on_device", LOOPED),
        "cache": ("decoder", CACHE),
    }
    for name, (looped, options) in loops.items():
        wanted = [mode for mode in LOOP_MODES if (name, mode) != ("cache", "shared")]
        folder = tmp_path / name
        assert programs.written(folder, MODELS / f"{looped}.onnx", *options, "--ep", "cpu", *QUICK, modes=wanted) == {}
        for file in folder.glob("*.py"):
            shutil.move(file, tmp_path / "one" / f"{name}-{file.name}")
    check_style(tmp_path / "one")
    found = names(programs.run_all(tmp_path / "one", bare))
    assert found == {
        **same(HOST_MODES),
        "printed": "device-tensors",
        **{f"fixed-{mode}": mode for mode in LOOP_MODES},
        **{f"cache-{mode}": mode for mode in LOOP_MODES if mode != "shared"},
    }


def saved(path: Path, text: str, opset: int = 21) -> Path:
    onnx.save(onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : {opset}]> {text}'), path)
    return path


NONZERO = """g (float[8] x) => (int64[1, N] where, float[8] y) { where = NonZero(x)  y = Relu(x) }"""
BOOLS = "g (float[8] x, bool[8] b) => (float[8] y) { z = Relu(x)  c = Cast<to = 1>(b)  y = Mul(z, c) }"
SEQUENCES = "g (seq(float[N, 2]) s, float[2] x) => (seq(float[]) o) { o = SequenceInsert(s, x) }"
SCALARS = "g (float[4] s, int64[] t) => (float[4] o) { f = Cast<to = 1>(t)  o = Add(s, f) }"
OPTIONAL = "g (optional(float[2]) o) => (bool h, float[2] x) { h = OptionalHasElement(o)  x = OptionalGetElement(o) }"
FOUR_BITS = """g (int4[3, 5] a, uint4[3] u, float[2] f) => (int4[3, 5] b, uint4[3] v, float[2] g) {
    c = Cast<to = 1>(a)  b = Cast<to = 22>(c)  w = Cast<to = 1>(u)  v = Cast<to = 21>(w)  g = Relu(f) }"""
NOT_OF_NUMPY = """g (bfloat16[3, 5] a, float8e4m3fn[3] u, int4[] i) => (bfloat16[3, 5] b, float8e4m3fn[3] v, int4[] j) {
    c = Cast<to = 1>(a)  b = Cast<to = 16>(c)  w = Cast<to = 1>(u)  v = Cast<to = 17>(w)
    k = Cast<to = 1>(i)  j = Cast<to = 22>(k) }"""


@pytest.mark.wide
@pytest.mark.usefixtures("clock")
def test_programs_with_what_a_session_or_a_model_has_besides(tmp_path: Path) -> None:
    """Outputs without a shape, inputs in memory of numpy, sequences, optionals, types that numpy has not."""
    every = tmp_path / "every"
    every.mkdir()
    inputs = tmp_path / "bits.npz"
    np.savez(
        inputs,
        a=np.full((3, 5), 0xF8, np.uint8).view(ml_dtypes.int4),
        u=np.ones(3, ml_dtypes.uint4),
        f=np.ones(2, np.float32),
    )
    bound = ("device-tensors", "device-resident")
    scalars = tmp_path / "scalars.npz"
    np.savez(scalars, s=np.ones(4, np.float32), t=np.int64(2))
    asked: dict[str, tuple[Path, tuple[object, ...], tuple[str, ...]]] = {
        "dynamic": (saved(tmp_path / "n.onnx", NONZERO), ("--dynamic-outputs",), bound),
        "external": (MODELS / "multi_output.onnx", ("--input-memory", "numpy"), bound),
        "bools": (saved(tmp_path / "b.onnx", BOOLS), ("--input-memory", "numpy"), bound[:1]),
        "sequences": (saved(tmp_path / "s.onnx", SEQUENCES), ("--sequence-tensors", "s=3"), ("cpu-tensors",)),
        "nothing": (tmp_path / "s.onnx", ("--sequence-tensors", "s=0"), ("cpu-tensors",)),
        "optional": (saved(tmp_path / "o.onnx", OPTIONAL, 18), (), ("cpu-tensors",)),
        "bits": (saved(tmp_path / "i.onnx", FOUR_BITS), (), ("cpu-tensors",)),
        "given": (tmp_path / "i.onnx", ("--input", inputs), ("cpu-tensors",)),
        "ml": (saved(tmp_path / "m.onnx", NOT_OF_NUMPY), (), ("cpu-tensors",)),
        "scalar": (saved(tmp_path / "t.onnx", SCALARS), ("--input", scalars), bound),
        "filled": (tmp_path / "t.onnx", ("--feedback", "o=s", "--fill", "t=step"), bound[1:]),
    }
    for name, (model, options, modes) in asked.items():
        folder = tmp_path / name
        assert programs.written(folder, model, *options, "--ep", "cpu", *QUICK, modes=modes) == {}, name
        for file in folder.glob("*.py"):
            shutil.move(file, every / f"{name}-{file.name}")
    check_style(every)
    found = names(programs.run_all(every))
    assert found == {f"{name}-{mode}": mode for name, (_, _, modes) in asked.items() for mode in modes}
    refused = programs.written(
        tmp_path / "r", tmp_path / "s.onnx", "--sequence-tensors", "s=3", "--ep", "cpu", modes=["device-tensors"]
    )
    assert "only tensors can be bound and copied" in refused["device-tensors"]


@pytest.mark.wide
@pytest.mark.parametrize("honesty", ["async", "async-old-api"])
def test_programs_on_the_reference_device(honesty: str, library: Path, tmp_path: Path) -> None:
    """Every mode, and loops, where nothing waits by itself; the sync in each is the one that was proved."""
    variables = Config(honesty=honesty, compute_us=300).environ()  # type: ignore[arg-type]
    target = ("--ep-library", library, *QUICK)
    model = MODELS / "loop_on_device.onnx"
    refused = programs.written(tmp_path / "one", model, *target, modes=list(MODES), **variables)
    looped = tmp_path / "loops"
    not_looped = programs.written(looped, model, *LOOPED, *target, modes=list(LOOP_MODES), **variables)
    assert (refused, not_looped) == ({}, {})
    for file in looped.glob("*.py"):
        shutil.move(file, tmp_path / "one" / f"loop-{file.name}")
    text = (tmp_path / "one" / "device-resident.py").read_text()
    assert "    binding.synchronize_outputs()" in text  # alone, or behind a copy
    assert "EP" in text.partition("def wait")[2].partition("copy_in()")[0] or honesty == "async"  # reads something back
    check_style(tmp_path / "one")
    found = names(programs.run_all(tmp_path / "one", None, **variables))
    assert found == same(tuple(MODES)) | {f"loop-{mode}": mode for mode in LOOP_MODES}


def test_programs_whose_outputs_have_no_shape(library: Path, tmp_path: Path) -> None:
    variables = Config(compute_us=300, alignment=0).environ()
    modes = ("device-tensors", "device-resident", "device-tensors-pinned")
    target = ("--ep-library", library, "--dynamic-outputs", *QUICK)
    model = MODELS / "loop_on_device.onnx"
    assert programs.written(tmp_path, model, *target, modes=modes, **variables) == {}
    assert "device = ort.OrtDevice.make(" in (tmp_path / "device-tensors.py").read_text()
    check_style(tmp_path)
    assert names(programs.run_all(tmp_path, None, **variables)) == same(modes)


def test_programs_on_webgpu(software_gpu: tuple[str, ...], bare: Environment, tmp_path: Path) -> None:
    modes = ("cpu-tensors", "device-tensors", "device-resident", "device-resident-async")
    refused = programs.written(
        tmp_path, MODELS / "tiny.onnx", "--ep", "webgpu", *QUICK, modes=list(MODES), prefix=software_gpu
    )
    assert {*refused} == {*MODES} - {*modes}
    assert "no HOST_ACCESSIBLE memory" in refused["host-accessible"]
    assert "does not support streams" in refused["pipelined"]
    text = (tmp_path / "device-resident.py").read_text()
    assert "library = onnxruntime_ep_webgpu.get_library_path()\n" in text
    assert "waits for this EP" in text.partition("def wait")[2]  # reads something back: nothing else waits
    every = tmp_path / "every"
    every.mkdir()
    for option in ("cuda-graph", "dynamic-outputs"):
        folder, typed = tmp_path / option, (MODELS / "tiny.onnx", "--ep", "webgpu", f"--{option}", *QUICK)
        assert programs.written(folder, *typed, modes=modes[:3], prefix=software_gpu) == {}
        for file in folder.glob("*.py"):
            shutil.move(file, every / f"{option}-{file.name}")
    assert '"gpu_graph_id", "1")\n' in (every / "cuda-graph-device-tensors.py").read_text()
    for file in tmp_path.glob("*.py"):
        shutil.move(file, every)
    check_style(every)
    wanted = same(modes) | {f"{it}-{mode}": mode for it in ("cuda-graph", "dynamic-outputs") for mode in modes[:3]}
    assert names(programs.run_all(every, bare, software_gpu)) == wanted


def test_programs_on_cuda(software_cuda: tuple[str, ...], bare: Environment, tmp_path: Path) -> None:
    """Every mode on ONNX Runtime's own CUDA EP; outputs in pinned memory are bound by address there."""
    target = ("--ep", "cuda", *QUICK)
    assert programs.written(tmp_path, MODELS / "tiny.onnx", *target, modes=list(MODES), prefix=software_cuda) == {}
    text = (tmp_path / "host-accessible.py").read_text()
    assert 'library = str(Path(ort.__file__).parent / "capi" / "libonnxruntime_providers_cuda.so")\n' in text
    assert "binding.bind_output(name" in text
    every, wanted = tmp_path / "every", same(tuple(MODES))
    every.mkdir()
    own = {"dynamic": ("--dynamic-outputs",), "stream": ("--stream", "ort"), "graph": ("--cuda-graph",)}
    for name, options in own.items():
        folder, modes = tmp_path / name, ("cpu-tensors", "device-tensors", "device-resident")
        assert (
            programs.written(folder, MODELS / "tiny.onnx", *target, *options, modes=modes, prefix=software_cuda) == {}
        )
        for file in folder.glob("*.py"):
            shutil.move(file, every / f"{name}-{file.name}")
        wanted |= {f"{name}-{mode}": mode for mode in modes}
    for file in tmp_path.glob("*.py"):
        shutil.move(file, every)
    check_style(every)
    assert names(programs.run_all(every, bare, software_cuda)) == wanted


def test_a_notebook_has_the_cells_of_the_program(tmp_path: Path) -> None:
    file, page = tmp_path / "p.py", tmp_path / "p.ipynb"
    asked = ("--ep", "cpu", "--mode", "cpu-tensors", "--input", MODELS / "tiny.inputs.npz", *QUICK)
    ran = ortbench("code", MODELS / "tiny.onnx", *asked, "--out", file, "--notebook", page)
    assert (ran.code, ran.out, ran.err) == (0, f"Saved in {file}\nSaved in {page}\n", "")
    made = json.loads(page.read_text(encoding="utf-8"))
    assert (made["nbformat"], made["metadata"]["kernelspec"]["name"]) == (4, "python3")
    title, *cells = ("".join(cell["source"]) for cell in made["cells"])
    assert title.startswith(f"# {MODELS / 'tiny.onnx'} on CPUExecutionProvider, mode cpu-tensors.\n")
    assert [cell["cell_type"] for cell in made["cells"]] == ["markdown", *["code"] * len(cells)]
    assert [line for cell in cells for line in cell.splitlines() if line] == [
        line for line in file.read_text(encoding="utf-8").split('"""\n', 1)[1].splitlines() if line
    ]
    names: dict[str, object] = {}
    for cell in cells:
        exec(compile(cell, "cell", "exec"), names)
    assert len(names["times"]) >= 3  # type: ignore[arg-type]


def test_a_mode_that_the_ep_has_not_is_said() -> None:
    ran = ortbench("code", MODELS / "tiny.onnx", "--ep", "cpu", "--mode", "pipelined")
    reason = "CPUExecutionProvider computes in host memory, so there are no copies to hide behind inference"
    assert (ran.code, ran.error_line) == (1, f"pipelined: {reason}")


def test_a_programs_median_is_that_of_ortbench_in_virtual_time(library: Path, tmp_path: Path) -> None:
    """A second witness of the figures: the same work by another way, in every mode."""
    variables = Config(honesty="async-old-api", compute_us=2000).environ()
    target = (MODELS / "loop_on_device.onnx", "--ep-library", library, "--duration", 0.1)
    assert programs.written(tmp_path / "p", *target, modes=list(MODES), **variables) == {}
    asked = [word for mode in MODES for word in ("--mode", mode)]
    words = ("env", *(f"{name}={value}" for name, value in variables.items()))
    result = measure(*target, *asked, out=tmp_path / "out", prefix=words)
    own = {case["mode"]: case["metrics"]["latency"]["median"] / 1000 for case in result["cases"]}
    found = {mode: median for mode, (_, median) in programs.run_all(tmp_path / "p", None, **variables).items()}
    own["host-accessible"] -= (
        10  # its program reads the word that it waits for from that memory, and no copy of it takes time
    )
    assert found == pytest.approx(own, abs=0.1)  # as a program prints it
