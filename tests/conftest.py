"""What tests share: the command line as a user has it, and what a machine may lack."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn
from unittest.mock import patch

import pytest

from tests import installed  # noqa: F401 - before anything of ortbench is

# isort: split
from ortbench import cli
from ortbench.result import Result, save
from tests import nvtx, openvino, softcuda
from tests.compiling import BuildError
from tests.refdevice import build

ROOT = Path(__file__).resolve().parent.parent
MODELS = ROOT / "models"
MODEL_NAMES = sorted(path.stem for path in MODELS.glob("*.onnx"))
ONCE = (
    "--iterations",
    1,
    "--warmup",
    1,
)  # for what a run does besides taking times; it warms up for half a second else


# A shell starts what it runs in the background with SIGINT ignored, which programs inherit; tests that press Ctrl-C then
# wait for ever; nohup does the same with SIGHUP. What is handled here is not ignored in the programs that tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)
if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda *_: None)


# pytest-xdist gives its workers the width of the terminal, by which programs that write to a pipe would wrap their lines.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.pop("COLUMNS", None)


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Tests run side by side, more than there are cores, as most of their time they wait, and few for the memory that they
    take; those of times have the machine to themselves."""
    alone = "timing" in config.option.markexpr.replace("not timing", "")
    return 0 if alone else min(2 + (os.cpu_count() or 1), 4)


# A test that says nothing else of itself is pure, and is held to it.
_pure = False
_start = subprocess.Popen.__init__


def _start_unless_pure(*arguments: Any, **named: Any) -> None:
    assert not _pure, "a test that starts processes has the mark `process`, or `timing`"
    _start(*arguments, **named)


subprocess.Popen.__init__ = _start_unless_pure  # type: ignore[method-assign]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is pure, so that it can be chosen: `pytest -m pure`; and begin with what takes longest, the software GPU, so that
    nobody waits for that alone in the end."""
    items.sort(key=lambda item: "webgpu" not in item.name and "software_gpu" not in getattr(item, "fixturenames", ()))
    for item in items:
        if not _marks(item) & {"process", "timing"}:
            item.add_marker(pytest.mark.pure)


def _marks(item: pytest.Item) -> set[str]:
    return {mark.name for mark in item.iter_markers()}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """From its fixtures' set-up to their end a pure test starts no process."""
    global _pure
    _pure = "pure" in _marks(item)
    try:
        return (yield)
    finally:
        _pure = False


@dataclass(frozen=True)
class Ran:
    """What a command did."""

    code: int
    out: str
    err: str

    @property
    def error_line(self) -> str:
        """Standard error, which must be exactly one line without a traceback."""
        lines = self.err.splitlines()
        assert len(lines) == 1, self.err
        assert lines[0].startswith("ortbench: "), self.err
        return lines[0].removeprefix("ortbench: ")


def command(*arguments: object, prefix: Sequence[str] = ()) -> list[str]:
    """The command line of `ortbench` with this interpreter."""
    return [*prefix, sys.executable, "-m", "ortbench", *map(str, arguments)]


def ortbench(
    *arguments: object,
    prefix: Sequence[str] = (),
    cwd: Path = ROOT,
    text_encoding: str | None = None,
    **environment: str,
) -> Ran:
    """Run `ortbench` to its end; what it prints is in `text_encoding`, else in the system's."""
    done = subprocess.run(
        command(*arguments, prefix=prefix),
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        encoding=text_encoding,
        timeout=1800,  # a slow machine is only slow
    )
    return Ran(done.returncode, done.stdout, done.stderr)


def ortbench_here(*arguments: object, cwd: Path = ROOT, **environment: str) -> Ran:
    """The same inside this process, without the third of a second and more that a process takes to load the program.

    For what a command says and saves. What depends on a process of its own (streams and their encoding, signals, what is
    loaded when) is for `ortbench`. Workers are processes of their own here too.
    """
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    with (
        contextlib.chdir(cwd),
        patch.dict(os.environ, environment),
        patch.object(sys, "argv", ["ortbench", *map(str, arguments)]),
        patch.object(cli.app, "registered_commands", []),  # as in a new process: the program adds what was typed
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        pytest.raises(SystemExit) as ended,
    ):
        cli.main()
    assert isinstance(ended.value.code, int)
    for stream in (out, err):
        stream.seek(0)
    return Ran(ended.value.code, out.read(), err.read())


def measure(*arguments: object, out: Path, prefix: Sequence[str] = (), code: int = 0) -> dict[str, Any]:
    """Run `ortbench run` and give its result, which must be what was saved too."""
    ran = ortbench("run", *arguments, "--out", out, "--json", "-", prefix=prefix)
    assert ran.code == code, ran.err
    result: dict[str, Any] = json.loads(ran.out)
    (folder,) = [path for path in out.iterdir() if path.is_dir()]
    assert json.loads((folder / "result.json").read_text()) == result
    return result


def cases(result: dict[str, Any]) -> dict[str, Any]:
    """The cases of a result by mode."""
    return {case["mode"]: case for case in result["cases"]}


def lacking(reason: str) -> NoReturn:
    """Skip a test for what this machine lacks; fail where everything was to be installed (CI)."""
    if os.environ.get("ORTBENCH_TESTS_MUST_RUN"):
        pytest.fail(f"must not be skipped here: {reason}")
    pytest.skip(reason)


@pytest.fixture
def files(tmp_path: Path) -> Callable[[str, Result], Path]:
    """Saves a scripted result and gives its path."""

    def write(name: str, result: Result) -> Path:
        path = tmp_path / f"{name}.json"
        save(result, path)
        return path

    return write


@pytest.fixture(scope="session")
def software_gpu() -> tuple[str, ...]:
    """The prefix that gives a command a software GPU for the WebGPU EP."""
    if importlib.util.find_spec("onnxruntime_ep_webgpu") is None:
        lacking("the package onnxruntime-ep-webgpu is not installed")
    wrapper = str(ROOT / "tests" / "software-gpu")
    try:
        probe = subprocess.run([wrapper, "true"], capture_output=True, text=True)
    except OSError as error:
        lacking(f"no software GPU: {error}")
    if probe.returncode != 0:
        lacking(f"no software GPU: {probe.stderr.strip()}")
    return (wrapper,)


@pytest.fixture(scope="session")
def openvino_ep() -> str:
    """The name of OpenVINO's EP, where it has a device. CI's machine may have an AMD CPU, where it has none."""
    if not openvino.installed():
        lacking("the package onnxruntime-ep-openvino is not installed")
    if (reason := openvino.problem()) is not None:
        pytest.skip(reason)
    return openvino.EP


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The reference device's library."""
    try:
        return build(tmp_path_factory.mktemp("refdevice"))
    except BuildError as error:
        lacking(str(error))


@pytest.fixture(scope="session")
def software_cuda(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """The prefix that gives a command a CUDA runtime for ONNX Runtime's CUDA EP."""
    if (reason := softcuda.problem()) is not None:
        lacking(reason)
    try:
        prefix = softcuda.wrapper(softcuda.build(tmp_path_factory.mktemp("softcuda")))
        probe = subprocess.run([*prefix, "true"], capture_output=True, text=True)
    except (BuildError, OSError) as error:
        lacking(f"no software CUDA: {error}")
    if probe.returncode != 0:
        lacking(f"no software CUDA: {probe.stderr.strip()}")
    return prefix


@pytest.fixture(scope="session")
def recorder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The NVTX recorder's library."""
    if sys.platform != "linux":
        lacking("the NVTX recorder is for Linux")
    if importlib.util.find_spec("nvtx") is None:
        lacking("the package nvtx is not installed")
    try:
        return nvtx.build(tmp_path_factory.mktemp("nvtx"))
    except BuildError as error:
        lacking(str(error))
