"""What tests share: the command line as a user has it, and what a machine may lack."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NoReturn, TypeVar
from unittest.mock import patch

import pytest

from tests import installed  # noqa: F401 - before anything of ortbench is

# isort: split
from ortbench.cli import program, with_default_command
from ortbench.model.result import Result
from ortbench.model.result_file import save
from tests import forks, nvtx, openvino, softcuda, virtual
from tests.compiling import BuildError
from tests.refdevice import build
from tests.virtual import Clock, machine

T = TypeVar("T")
ROOT = Path(__file__).resolve().parent.parent
MODELS = ROOT / "models"
MODEL_NAMES = sorted(path.stem for path in MODELS.glob("*.onnx"))
# For what a run does besides taking times; it warms up for half a second else.
ONCE = ("--iterations", 1, "--warmup", 1)

# A shell starts what it runs in the background with SIGINT ignored, which programs inherit; tests that press Ctrl-C then
# wait for ever; nohup does the same with SIGHUP. What is handled here is not ignored in the programs that tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)
if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda *_: None)


# pytest-xdist gives its workers the width of the terminal, by which programs that write to a pipe would wrap their lines.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.pop("COLUMNS", None)


def pytest_configure(config: pytest.Config) -> None:
    """What tests compile lies in one folder, which whoever starts the others makes and removes."""
    os.environ["ORTBENCH_STATE"] = os.devnull  # nothing that is said depends on what a user keeps
    if "ORTBENCH_TESTS_BUILT" not in os.environ:
        folder = os.environ["ORTBENCH_TESTS_BUILT"] = tempfile.mkdtemp(prefix="ortbench-tests-")
        config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Tests run side by side, one more than there are cores, as some wait, and few for the memory that they take; those of
    times have the machine to themselves."""
    alone = "timing" in config.option.markexpr.replace("not timing", "")
    return 0 if alone else min(1 + (os.cpu_count() or 1), 4)


machine.take_place()  # that of the tests is busy now and then


# A test that says nothing else of itself is pure, and is held to it, unless it is one of commands, in tests/jobs.
_pure = False
_clock: Clock | None = None
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
        if _WIDE & set(getattr(item, "fixturenames", ())) and "timing" not in _marks(item):
            item.add_marker(pytest.mark.wide)
        if not _marks(item) & {"process", "timing", "wide", "pure"}:
            item.add_marker(pytest.mark.process if item.path.parent.name == "jobs" else pytest.mark.pure)


def _marks(item: pytest.Item) -> set[str]:
    return {mark.name for mark in item.iter_markers()}


# What not every machine has, or what takes long to make.
_WIDE = {"software_gpu", "software_cuda", "openvino_ep", "chromium"}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """From its fixtures' set-up to their end a pure test starts no process, and one on the reference device has a clock."""
    global _pure, _clock
    _pure = "pure" in _marks(item)
    if {"library", "clock"} & set(getattr(item, "fixturenames", ())):
        _clock = Clock(built() / f"clock-{os.getpid()}")
        os.environ[virtual.VARIABLE] = str(_clock.path)
    try:
        return (yield)
    finally:
        _pure, _clock = False, None
        os.environ.pop(virtual.VARIABLE, None)


# Variables that are read when a process starts, or when it loads a library.
_READ_AT_START = ("PYTHON", "NVTX", "LD_", "LC_", "LANG", "GITHUB_ACTIONS")


@dataclass(frozen=True)
class Ran:
    """What a command did; `err` is without the line that says how long it takes, which is `forecast`."""

    code: int
    out: str
    err: str
    forecast: str = ""

    @property
    def error_line(self) -> str:
        """Standard error, which must be exactly one line without a traceback."""
        lines = self.err.splitlines()
        assert len(lines) == 1, self.err
        assert lines[0].startswith("ortbench: "), self.err
        return lines[0].removeprefix("ortbench: ")


def ran_of(code: int, out: str, err: str) -> Ran:
    """What a command did, by what it printed."""
    forecast = re.compile(r"^ortbench: \w[\w ]* takes about \d+ (?:s|min) at most\n", re.MULTILINE)
    return Ran(code, out, forecast.sub("", err), next(iter(forecast.findall(err)), "").rstrip())


def command(*arguments: object, prefix: Sequence[str] = ()) -> list[str]:
    """The command line of `ortbench` with this interpreter."""
    return [*prefix, sys.executable, "-m", "ortbench", *map(str, arguments)]


def ortbench(
    *arguments: object,
    prefix: Sequence[str] = (),
    cwd: Path | str = ROOT,
    text_encoding: str | None = None,
    **environment: str,
) -> Ran:
    """Run `ortbench` to its end; what it prints is in `text_encoding`, else in the system's: whole reports, or with
    the variable `SCREEN` set the default screens.

    It is a fork (`tests.forks`), but for what hangs on a process's own start: a prefix other than `env`, an encoding, and
    variables that Python and libraries read when they are loaded.
    """
    arguments = arguments if SCREEN in environment else tuple(whole(arguments))
    if tuple(prefix[:1]) == ("env",):
        given = list(itertools.takewhile(lambda word: "=" in word, prefix[1:]))
        environment = {**dict(word.split("=", 1) for word in given), **environment}
        prefix = prefix[1 + len(given) :]
    if forks.MAIN in environment and not forks.POSSIBLE:
        lacking("what is run in the program's place wants Linux and a C compiler")
    everything = {**os.environ, **environment}
    if prefix or text_encoding or any(name.startswith(_READ_AT_START) for name in environment) or not forks.POSSIBLE:
        line, limit_s = command(*arguments, prefix=prefix), 1800  # a slow machine is only slow
        done = subprocess.run(
            line, cwd=cwd, env=everything, capture_output=True, encoding=text_encoding, text=True, timeout=limit_s
        )
        return ran_of(done.returncode, done.stdout, done.stderr)
    assert not _pure, "a test that starts commands has the mark `process`, or `timing`"
    code, out, err = forks.server(clock_library()).run(list(map(str, arguments)), Path(cwd), everything, 1800)
    return ran_of(code, out.decode(), err.decode())


SCREEN = "ORTBENCH_TESTS_SCREEN"
_REPORTING = {
    "run", "loop", "chain", "sweep", "load", "soak", "start", "compare", "gate", "suite", "tune", "bandwidth", "profile", "doctor",
    "devices", "inspect",
}  # fmt: skip


def whole(arguments: Sequence[object]) -> Sequence[object]:
    """A command whose default is a screen, with the option that prints its whole report."""
    asks = {"--verbose", "-v", "--help", "merge", "explain", "plan", "--"} & {*map(str, arguments)}
    return arguments if asks or not arguments or arguments[0] not in _REPORTING else [*arguments, "--verbose"]


def ortbench_here(*arguments: object, cwd: Path = ROOT, **environment: str) -> Ran:
    """The same inside this process, for tests that put something of their own in the place of a part of the program."""
    arguments = arguments if SCREEN in environment else tuple(whole(arguments))
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    with (
        contextlib.chdir(cwd),
        patch.dict(os.environ, environment),
        patch.object(sys, "argv", ["ortbench", *map(str, arguments)]),
        patch.object(program.app, "registered_commands", []),  # as in a new process: the program adds what was typed
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        pytest.raises(SystemExit) as ended,
    ):
        program.main(with_default_command(sys.argv[1:]))
    assert isinstance(ended.value.code, int)
    for stream in (out, err):
        stream.seek(0)
    return ran_of(ended.value.code, out.read(), err.read())


def since_runtime(*release: int) -> pytest.MarkDecorator:
    """Skips what an ONNX Runtime before a release, such as 1, 30, cannot do."""
    import onnxruntime

    found = tuple(int(part) for part in onnxruntime.__version__.split(".")[:2])
    return pytest.mark.skipif(found < release, reason=f"needs ONNX Runtime {'.'.join(map(str, release))}")


def modes(*names: str) -> list[str]:
    """The options that name modes."""
    return [word for name in names for word in ("--mode", name)]


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


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages whose pictures are left blank, for tests of their words and tables: drawing takes most of a page's time."""
    for module in ("page", "parts"):  # by name: loading them loads Matplotlib
        monkeypatch.setattr(f"ortbench.features.page.report.{module}.draw", _blank)


def _blank(*_: object) -> str:
    return "<svg></svg>"


def works(prefix: Sequence[str], what: str) -> tuple[str, ...]:
    """A prefix of commands, with which the simplest must work."""
    try:
        probe = subprocess.run([*prefix, "true"], capture_output=True, text=True)
    except OSError as error:
        lacking(f"no {what}: {error}")
    if probe.returncode != 0:
        lacking(f"no {what}: {probe.stderr.strip()}")
    return tuple(prefix)


def compiled(build: Callable[..., T], *arguments: Any, **named: Any) -> T:
    """What a function compiles."""
    try:
        return build(*arguments, **named)
    except BuildError as error:
        lacking(str(error))


@pytest.fixture(scope="session")
def software_gpu() -> tuple[str, ...]:
    """The prefix that gives a command a software GPU for the WebGPU EP."""
    if importlib.util.find_spec("onnxruntime_ep_webgpu") is None:
        lacking("the package onnxruntime-ep-webgpu is not installed")
    return works([str(ROOT / "tests" / "software-gpu")], "software GPU")


@pytest.fixture(scope="session")
def software_cuda() -> tuple[str, ...]:
    """The prefix that gives a command a CUDA runtime for ONNX Runtime's CUDA EP."""
    if (reason := softcuda.problem()) is not None:
        lacking(reason)
    return works(softcuda.wrapper(compiled(softcuda.build, built())), "software CUDA")


@pytest.fixture(scope="session")
def openvino_ep() -> str:
    """The name of OpenVINO's EP, where it has a device. CI's machine may have an AMD CPU, where it has none."""
    if not openvino.installed():
        lacking("the package onnxruntime-ep-openvino is not installed")
    if (reason := openvino.problem()) is not None:
        pytest.skip(reason)
    return openvino.EP


@cache
def built() -> Path:
    """The folder of what tests compile, one for all that run side by side."""
    return Path(os.environ["ORTBENCH_TESTS_BUILT"])


@cache
def clock_library() -> Path:
    """The virtual clock."""
    return compiled(virtual.build, built())


def device_library(**knobs: Any) -> Path:
    """A build of the reference device that goes by virtual time; see `tests.refdevice.build`."""
    return compiled(build, built(), clock=clock_library(), **knobs)


@pytest.fixture(scope="session")
def library() -> Path:
    """The reference device, in virtual time: a test that has it has a `clock`, and its commands go by that."""
    return device_library()


@pytest.fixture(scope="session")
def real_library() -> Path:
    """The reference device in real time, for tests of several threads, of what is cut short, and of times themselves."""
    return compiled(build, built())


@pytest.fixture
def clock(tmp_path: Path) -> Clock:
    """The clock that this test's commands go by."""
    assert _clock is not None
    return _clock


@pytest.fixture(scope="session")
def recorder() -> Path:
    """The NVTX recorder's library."""
    if sys.platform != "linux":
        lacking("the NVTX recorder is for Linux")
    if importlib.util.find_spec("nvtx") is None:
        lacking("the package nvtx is not installed")
    return compiled(nvtx.build, built())
