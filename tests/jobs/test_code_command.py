"""`ortbench code`: programs that run as they are, without ortbench, and give what a plain run gives."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from ortbench.model.modes import LOOP_MODES, MODES
from tests.conftest import MODELS, ROOT, measure, modes, ortbench
from tests.environments import Environment, plain, without_ortbench
from tests.refdevice import Config
from tests.worker import saved

TINY, MULTI, LOOPED = (MODELS / f"{name}.onnx" for name in ("tiny", "multi_output", "loop_on_device"))
HOST_MODES = ("cpu-tensors", "device-tensors", "device-resident", "host-accessible")
HOST_LOOPS = tuple(mode for mode in LOOP_MODES if mode != "shared")
QUICK = ("--duration", 0.02)  # of each program
FED = ("--feedback", "state_out=state", "--steps", 4)
CACHE = ("--feedback", "present.*=past_key_values.*", "--dim", "total_length=past_length+sequence", "--first-dim",
         "sequence=4", "--fill", "attention_mask=1", "--fill", "position_ids=past_length+index", "--steps", 5)  # fmt: skip
# Model, options and modes, by what begins the names of programs.
Asked = Mapping[str, tuple[Path, Sequence[object], Sequence[str]]]
_SAID = re.compile(r"^(.*)\.py: ([\w-]+): median ([\d.]+) µs .*; outputs are those of (?:a )?plain (?:run|runs|loop)$")


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An environment with all that is here but ortbench."""
    return without_ortbench(tmp_path_factory.mktemp("bare"))


def run_programs(
    folder: Path,
    asked: Asked,
    *target: object,
    bare: Environment | None = None,
    prefix: Sequence[str] = (),
    config: Config | None = None,
) -> dict[str, float]:
    """Write, format and run the programs of all that is asked, none of which may be refused, without ortbench: in an environment, or in
    a fork by the clock of the test. Their medians, µs; a program that fails, as one whose outputs differ, fails here too."""
    knobs = {} if config is None else config.environ()
    (every := folder / "every").mkdir()
    for name, (model, options, modes_) in asked.items():
        line = ("code", model, *target, *options, *(() if "--duration" in options else QUICK))
        for mode in modes_:
            ran = ortbench(*line, "--mode", mode, "--out", every / f"{name}-{mode}.py", prefix=prefix, **knobs)
            assert ran.code == 0, ran.err
    for arguments in (("format", "--check"), ("check", "--select", "E,F,I,UP,B", "--ignore", "E501")):
        ruff = [sys.executable, "-m", "ruff", *arguments, "--isolated", "--line-length", "120", str(every)]
        done = subprocess.run(ruff, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    files = sorted(map(str, every.glob("*.py")))
    if bare is None:
        ran = ortbench(*files, **knobs, ORTBENCH_TESTS_MAIN="tests.run_programs:main_of_a_fork")
        code, out, err = ran.code, ran.out, ran.err
    else:
        words = [*prefix, str(bare.python), str(ROOT / "tests" / "run_programs.py"), *files]
        done = subprocess.run(words, cwd=ROOT, env=plain() | knobs, capture_output=True, encoding="utf-8")
        code, out, err = done.returncode, done.stdout, done.stderr
    assert code == 0, err  # where onnxruntime itself may warn of what it finds in /sys
    found = [it.groups() for line in out.splitlines() if (it := _SAID.match(line))]
    assert {name: mode for name, mode, _ in found} == {
        f"{name}-{mode}": mode for name, (_, _, modes_) in asked.items() for mode in modes_
    }
    return {name: float(median) for name, _, median in found}


def text_of(folder: Path, name: str) -> str:
    return (folder / "every" / f"{name}.py").read_text()


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
def test_programs_on_the_cpu_ep(tmp_path: Path) -> None:
    """Also loops, outputs without a shape, inputs in memory of numpy, sequences, optionals, types that numpy has not."""
    bits, scalars = tmp_path / "bits.npz", tmp_path / "scalars.npz"
    four = np.full((3, 5), 0xF8, np.uint8).view(ml_dtypes.int4)
    np.savez(bits, a=four, u=np.ones(3, ml_dtypes.uint4), f=np.ones(2, np.float32))
    np.savez(scalars, s=np.ones(4, np.float32), t=np.int64(2))
    bound, cpu = ("device-tensors", "device-resident"), ("cpu-tensors",)
    sequences, with_scalar = saved(tmp_path / "s.onnx", SEQUENCES), saved(tmp_path / "t.onnx", SCALARS)
    four_bits = saved(tmp_path / "i.onnx", FOUR_BITS, 21)
    session = ("--intra-op-threads", 1, "--session-config", "session.intra_op.allow_spinning=0")
    asked: Asked = {
        "one": (MULTI, session, HOST_MODES),
        "fixed": (LOOPED, FED, tuple(LOOP_MODES)),
        "cache": (MODELS / "decoder.onnx", CACHE, HOST_LOOPS),
        "dynamic": (saved(tmp_path / "n.onnx", NONZERO), ("--dynamic-outputs",), bound),
        "external": (MULTI, ("--input-memory", "numpy"), bound),
        "bools": (saved(tmp_path / "b.onnx", BOOLS), ("--input-memory", "numpy"), bound[:1]),
        "sequences": (sequences, ("--sequence-tensors", "s=3"), cpu),
        "nothing": (sequences, ("--sequence-tensors", "s=0"), cpu),
        "optional": (saved(tmp_path / "o.onnx", OPTIONAL, 18), (), cpu),
        "bits": (four_bits, (), cpu),
        "given": (four_bits, ("--input", bits), cpu),
        "ml": (saved(tmp_path / "m.onnx", NOT_OF_NUMPY, 21), (), cpu),
        "scalar": (with_scalar, ("--input", scalars), bound),
        "filled": (with_scalar, ("--feedback", "o=s", "--fill", "t=step"), bound[1:]),
    }
    run_programs(tmp_path, asked, "--ep", "cpu")
    assert "ortbench" not in text_of(tmp_path, "one-device-tensors").split('"""')[2].replace(str(MULTI), "")


def test_programs_on_the_device_take_as_long_as_ortbench_says(library: Path, tmp_path: Path) -> None:
    """A second witness of the figures: the same work by another way, in every mode; the sync is the one that was proved."""
    config, target = Config(honesty="async-old-api", compute_us=2000), ("--ep-library", library, "--duration", 0.1)
    words = ("env", *(f"{name}={value}" for name, value in config.environ().items()))
    result = measure(LOOPED, *target, *modes(*MODES), out=tmp_path / "out", prefix=words)
    own = {case["mode"]: case["metrics"]["latency"]["median"] / 1000 for case in result["cases"]}
    own["host-accessible"] -= 10  # its program reads the word that it waits for in that memory, which takes no copy
    found = run_programs(tmp_path, {"p": (LOOPED, target[2:], tuple(MODES))}, *target[:2], config=config)
    assert found == pytest.approx({f"p-{mode}": us for mode, us in own.items()}, abs=0.1)  # as a program prints it
    text = text_of(tmp_path, "p-device-resident")
    assert "EP" in text.partition("def wait")[2].partition("copy_in()")[0]  # reads something back


@pytest.mark.wide
@pytest.mark.parametrize("alignment", [4096, 0])
def test_programs_of_loops_and_of_outputs_without_a_shape(alignment: int, library: Path, tmp_path: Path) -> None:
    config = Config(honesty="async", compute_us=300, alignment=alignment)
    bound = ("device-tensors", "device-resident", "device-tensors-pinned")
    asked: Asked = {"dynamic": (LOOPED, ("--dynamic-outputs",), bound)}
    if alignment:
        asked = {"loop": (LOOPED, FED, tuple(LOOP_MODES)), "one": (LOOPED, (), bound)}
    run_programs(tmp_path, asked, "--ep-library", library, config=config)
    if alignment:
        assert "    binding.synchronize_outputs()" in text_of(tmp_path, "one-device-resident")
    else:
        assert "device = ort.OrtDevice.make(" in text_of(tmp_path, "dynamic-device-tensors")


def test_programs_on_webgpu(software_gpu: tuple[str, ...], bare: Environment, tmp_path: Path) -> None:
    asked: Asked = {
        "one": (TINY, (), ("cpu-tensors", "device-tensors", "device-resident", "device-resident-async")),
        "graph": (TINY, ("--cuda-graph",), ("device-tensors",)),
        "dynamic": (TINY, ("--dynamic-outputs",), ("device-resident",)),
    }
    run_programs(tmp_path, asked, "--ep", "webgpu", bare=bare, prefix=software_gpu)
    text = text_of(tmp_path, "one-device-resident")
    assert "library = onnxruntime_ep_webgpu.get_library_path()\n" in text
    assert "waits for this EP" in text.partition("def wait")[2]  # reads something back: nothing else waits
    assert '"gpu_graph_id", "1")\n' in text_of(tmp_path, "graph-device-tensors")


def test_programs_on_cuda(software_cuda: tuple[str, ...], bare: Environment, tmp_path: Path) -> None:
    """Every mode on ONNX Runtime's own CUDA EP; outputs in pinned memory are bound by address there."""
    asked: Asked = {"one": (TINY, (), tuple(MODES))} | {
        option[2:]: (TINY, (option, *value), ("device-tensors",))
        for option, *value in (("--dynamic-outputs",), ("--stream", "ort"), ("--cuda-graph",))
    }
    run_programs(tmp_path, asked, "--ep", "cuda", bare=bare, prefix=software_cuda)
    text = text_of(tmp_path, "one-host-accessible")
    assert 'library = str(Path(ort.__file__).parent / "capi" / "libonnxruntime_providers_cuda.so")\n' in text
    assert "binding.bind_output(name" in text


def test_a_notebook_has_the_cells_of_the_program(tmp_path: Path) -> None:
    file, page = tmp_path / "p.py", tmp_path / "p.ipynb"
    asked = ("--ep", "cpu", "--mode", "cpu-tensors", "--input", MODELS / "tiny.inputs.npz", *QUICK)
    ran = ortbench("code", TINY, *asked, "--out", file, "--notebook", page)
    assert (ran.code, ran.out, ran.err) == (0, f"Saved in {file}\nSaved in {page}\n", "")
    made = json.loads(page.read_text(encoding="utf-8"))
    assert (made["nbformat"], made["metadata"]["kernelspec"]["name"]) == (4, "python3")
    title, *cells = ("".join(cell["source"]) for cell in made["cells"])
    assert title.startswith(f"# {TINY} on CPUExecutionProvider, mode cpu-tensors.\n")
    assert [cell["cell_type"] for cell in made["cells"]] == ["markdown", *["code"] * len(cells)]
    assert [line for cell in cells for line in cell.splitlines() if line] == [
        line for line in file.read_text(encoding="utf-8").split('"""\n', 1)[1].splitlines() if line
    ]
    names: dict[str, object] = {}
    for cell in cells:
        exec(compile(cell, "cell", "exec"), names)
    assert len(names["times"]) >= 3  # type: ignore[arg-type]
