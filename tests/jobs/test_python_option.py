"""`--python`: the ONNX Runtime of another environment, which has nothing of ortbench's own."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import venv
from pathlib import Path

import onnx
import onnxruntime
import pytest

from ortbench.features.doctor.facts import BAD, Finding, Section
from ortbench.features.doctor.job import of_environment
from tests.conftest import MODELS, ONCE, lacking, ortbench
from tests.environments import Environment, plain, with_onnxruntime_alone

TINY, IDS = MODELS / "tiny.onnx", MODELS / "transformer_ids.onnx"
CPU = ("--ep", "cpu", *ONCE)


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An environment with onnxruntime, and without all that ortbench has besides."""
    made = with_onnxruntime_alone(tmp_path_factory.mktemp("environments") / "bare")
    names = "numpy onnxruntime onnx psutil nvtx typer ml_dtypes ortbench"
    code = f"from importlib.util import find_spec; print(*[it for it in '{names}'.split() if find_spec(it)])"
    done = subprocess.run([made.python, "-I", "-c", code], env=plain(), capture_output=True, text=True, check=True)
    if done.stdout.split() != ["numpy", "onnxruntime"]:
        lacking(f"packages of pip are not where they can be told apart: {done.stdout}")
    return made


@pytest.mark.wide
def test_an_environment_needs_nothing_of_ortbenchs(bare: Environment, real_library: Path, tmp_path: Path) -> None:
    where = ["--python", bare.python, "--ep", real_library]
    asked = ("--mode", "all", "--depth", 2, "--measure-nodes", "--trace", tmp_path / "t.json", *ONCE)
    ran = ortbench("run", TINY, *where, *asked, "--out", tmp_path / "out", COLUMNS="400")
    assert (ran.code, ran.err) == (0, "")
    assert f", ONNX Runtime {onnxruntime.__version__} of {bare.python}\n" in ran.out
    (folder,) = (tmp_path / "out").glob("[!.]*")
    assert "-bare-" in folder.name
    result = json.loads((folder / "result.json").read_text())
    assert {case["status"] for case in result["cases"]} == {"ok"}
    assert result["nodes"]["operators"]
    assert result["target"]["python"] == str(bare.python)
    assert {*result["environment"]["packages"].values()} == {onnxruntime.__version__}
    line = ("profile", TINY, "--ep", "cpu", "--attach-only", "--iterations", 3, "--python", bare.python)  # without nvtx
    assert ortbench(*line, "--out", tmp_path / "profile").code == 0
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "input_0.pb").touch()
    ran = ortbench("run", TINY, *CPU, "--input", tmp_path / "data", "--python", bare.python, "--out", tmp_path / "none")
    lacks = f"is read with the package onnx, which {bare.python} has not; what it reads is an .npz"
    assert (ran.code, ran.error_line) == (2, f"{tmp_path}/data/input_0.pb {lacks}")


@pytest.mark.wide
def test_nothing_of_ortbenchs_own_environment_reaches_it(bare: Environment, tmp_path: Path) -> None:
    for name in ("onnxruntime", "onnx", "nvtx"):
        (tmp_path / f"{name}.py").write_text("raise RuntimeError('of another environment')\n")
    # ortbench itself sees its own packages first; a worker of another interpreter must see neither.
    path = f"{Path(onnx.__file__).parent.parent}:{tmp_path}"
    ran = ortbench("inspect", TINY, "--python", bare.python, "--json", "-", PYTHONPATH=path)
    assert (ran.code, ran.err) == (0, "")
    assert json.loads(ran.out)["operators"] is None


def script(path: Path, text: str) -> Path:
    """A program that could be taken for an interpreter."""
    path.write_text(text)
    path.chmod(0o755)
    return path


def test_what_does_not_start_is_one_line(tmp_path: Path) -> None:
    nothing = script(tmp_path / "nothing", "no program")
    other = script(tmp_path / "other", "#!/bin/sh\necho hello\nread -r request\n")
    ends = script(tmp_path / "ends", "#!/bin/sh\necho why >&2\nexit 3\n")
    too_old = f"#!/bin/sh\nexec {shlex.quote(sys.executable)} -c 'import sys; sys.version_info = (3, 9, 1); "
    old = script(tmp_path / "old", too_old + """sys.argv = sys.argv[1:]; exec(open(sys.argv[0]).read())' "$@"\n""")
    words = "Python 3.9 is too old: ortbench measures with 3.10 or newer"
    venv.create(tmp_path / "empty", symlinks=True)
    empty = tmp_path / "empty" / "bin" / "python"
    run, bandwidth = ("run", TINY, *CPU), ("bandwidth", "--ep", "cpu")
    for line, python, code, said in (
        (run, nothing, 2, f"--python {nothing}: it does not start: Exec format error"),
        (run, other, 1, f"the worker of {other} answers as no worker does: is it a Python interpreter?"),
        (run, empty, 1, f"{empty} has no package onnxruntime; install it with: {empty} -m pip install onnxruntime"),
        (("devices",), old, 1, f"the worker of {old} ended with exit code 1; its last words: {words}"),
        *(
            (line, ends, 1, f"the worker of {ends} ended with exit code 3; its last words: why")
            for line in (run, bandwidth, ("inspect", TINY), ("gate", "--model", TINY, "--max-cpu-nodes", "0"))
        ),
    ):
        ran = ortbench(*line, "--python", python, cwd=tmp_path)
        assert (ran.code, ran.error_line.removeprefix("before any copy was measured ")) == (code, said)


def test_doctor_mends_that_environment() -> None:
    findings = [Finding(BAD, "it is broken", "pip uninstall -y a && pip install b"), Finding(BAD, "x", "nvidia-smi")]
    section, pip = Section("Some", findings), "/env/bin/python -m pip"
    commands = [it.command for it in of_environment(section, "/env/bin/python").findings]
    assert commands == [f"{pip} uninstall -y a && {pip} install b", "nvidia-smi"]
    assert of_environment(section, None) == section
