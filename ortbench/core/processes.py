"""How processes begin: each one that ortbench starts, by one function, a worker before all else; interpreters of other environments, and the
variables that they get; and whether a profiler listens."""

from __future__ import annotations

import atexit
import errno
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path

from ortbench.core import signals
from ortbench.core.errors import BadInput, BenchmarkFailed, one_line
from ortbench.core.files import may

if sys.platform != "win32":
    import fcntl

TYPE_CHECKING = False  # a worker is started before all else, so little is loaded here: not even typing
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import IO, Any

_CURES = {errno.EAGAIN: " (ulimit -u)", errno.EMFILE: " (ulimit -n)"}


def start_process(
    called: str, line: Sequence[str], ends_with_us: bool = False, **options: Any
) -> subprocess.Popen[bytes]:
    """Start a process in a session of its own, which no Ctrl-C reaches; `BenchmarkFailed`, of what it is `called`: the system
    does not. One that `ends_with_us` is killed by Linux, with those that it starts, when this process dies; it has no other input.
    """
    with startable(called), signals.hold_signals():  # what started is known to be ended
        if not ends_with_us:
            return subprocess.Popen(line, start_new_session=True, **options)
        read, write = os.pipe()
        try:
            process = subprocess.Popen(line, start_new_session=True, stdin=read, **options)
            process.stdin = os.fdopen(write, "wb")  # closed with this process, however that ends
            if sys.platform == "linux":
                fcntl.fcntl(read, fcntl.F_SETOWN, -process.pid)
                fcntl.fcntl(read, fcntl.F_SETSIG, signal.SIGKILL)
                fcntl.fcntl(read, fcntl.F_SETFL, os.O_ASYNC)
        finally:
            os.close(read)
        return process


@contextmanager
def startable(called: str) -> Iterator[None]:
    """Inside the block a process, and what it needs here, begins; `BenchmarkFailed` where the system gives no more."""
    try:
        yield
    except (OSError, ValueError, RuntimeError) as error:  # a name that holds a NUL; a thread that cannot be started
        number = (
            error.errno if isinstance(error, OSError) else errno.EAGAIN if isinstance(error, RuntimeError) else None
        )
        reason = one_line(error if number is None else os.strerror(number))
        raise BenchmarkFailed(f"{called} cannot be started: {reason}{_CURES.get(number or 0, '')}") from error


def output_of(line: Sequence[str], timeout_s: float, **options: Any) -> subprocess.CompletedProcess[Any]:
    """Run a program to its end and take what it prints; `BenchmarkFailed`: it cannot be started, or takes longer."""
    try:
        with startable(line[0]), signals.stoppable_wait():
            return subprocess.run(
                line,
                capture_output=True,
                stdin=subprocess.DEVNULL,
                timeout=timeout_s,
                start_new_session=True,
                **options,
            )
    except subprocess.TimeoutExpired:
        raise BenchmarkFailed(f"{line[0]} gave no answer for {timeout_s:g} s") from None


def checked_output(line: Sequence[str], timeout_s: float) -> str:
    """A tool's output; `BenchmarkFailed` where it fails or does not end."""
    done: subprocess.CompletedProcess[str] = output_of(line, timeout_s, text=True, errors="replace")
    if done.returncode != 0:
        words = (done.stderr.strip() or done.stdout.strip() or "no output").splitlines()
        raise BenchmarkFailed(
            f"{' '.join(line[:2])} ended with exit code {done.returncode}: {one_line(words[-1], 200)}"
        )
    return done.stdout


# The worker


SCRIPT = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "worker", "__main__.py")


class WorkerProcess:
    """A process that answers requests; `line` is of another interpreter than this one. `BenchmarkFailed`: it cannot be started."""

    def __init__(self, line: Sequence[str] = (), env: dict[str, str] | None = None, called: str = "a worker") -> None:
        self.started_ns = time.perf_counter_ns()
        with startable(called):
            self.stderr = nameless_file()  # what it prints
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": self.stderr}
        with signals.hold_signals():  # what started is known to be ended
            self.popen = start_process(called, line or [sys.executable, SCRIPT], env=env, **pipes)
            signals.end_with_process(self.popen.kill)

    def end(self) -> None:
        if self.popen.poll() is None:
            self.popen.kill()
        self.popen.wait()
        signals.unregister_end(self.popen.kill)


def nameless_file() -> IO[bytes]:
    """A file for what a process prints, which goes with its last user; where there is no room for one, nowhere."""
    try:
        file = tempfile.TemporaryFile()  # noqa: SIM115 - whoever asked for it closes it
    except OSError:
        return open(os.devnull, "w+b")
    if sys.platform != "win32":  # what is cut goes on at its end
        fcntl.fcntl(file, fcntl.F_SETFL, fcntl.fcntl(file, fcntl.F_GETFL) | os.O_APPEND)
    return file


early: list[WorkerProcess] = []  # at most one, until it is taken


def start_early() -> None:
    """Start the worker that will be needed first, before it is known what it is to open.

    It loads ONNX Runtime while this process still reads its command line. One that nobody asked for ends with it.
    """
    with suppress(BenchmarkFailed):  # who needs it starts it, and says why that fails
        early.append(WorkerProcess())
        atexit.register(early[0].end)


DOMAIN, CAPTURE = "ortbench", "capture"  # of the NVTX ranges, and the name of the one that says what to record


def is_profiled() -> bool:
    """Whether a profiler is attached to this process and those that it starts."""
    # How NVTX and CUDA are told to load a tool.
    return any(os.environ.get(name) for name in ("NVTX_INJECTION64_PATH", "CUDA_INJECTION64_PATH"))


def find_nsys() -> str | None:
    return shutil.which("nsys")


def nsys_version(nsys: str) -> str:
    """The version that ``nsys --version`` tells, without its build; `BenchmarkFailed` where it does not start."""
    from ortbench.core.processes import checked_output

    said = checked_output([nsys, "--version"], 60).strip()
    return said.rpartition(" ")[2].partition("-")[0] or "of unknown version"


# Interpreters of other environments, and the variables of a process


_IN_ENVIRONMENT = ("bin/python", "bin/python3", "Scripts/python.exe", "python.exe")  # of venv, conda and their like
_SITES = ("lib/python3*/site-packages", "lib/site-packages", "Lib/site-packages")
_PROGRAMS = {"bin", "Scripts"}
_SAY_NOTHING = {"venv", ".venv", "env", ".env"}  # folders of environments that are called like all others
_SYSTEM = {"usr", "local", ""}
_PIP = re.compile(r"(?<!\S)(?<!-m )pip (?=install |uninstall )")
# What tells Python where its packages are: ortbench's own are not for another interpreter.
_OF_PYTHON = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "__PYVENV_LAUNCHER__")
# ONNX Runtime looks up a host and keeps a database of events otherwise, which a benchmark is to be without.
NO_TELEMETRY = {"ORT_DISABLE_TELEMETRY": "1"}
# NumPy's OpenBLAS sends SIGINT, as Ctrl-C does, where no thread can be started; ortbench itself has no use for its threads.
_NO_THREADS = {"OPENBLAS_NUM_THREADS": "1"}
_added: set[str] = set()  # variables that are this process's own


def interpreter_in(path: str) -> str:
    """The interpreter that a path names: itself, or that of the virtual environment whose folder it is; from the root on, as a
    name alone is another one to a system that starts it: the first on ``PATH``."""
    whole = path if os.path.isabs(path) else os.path.join(os.getcwd(), path)  # a virtual environment's link is kept
    if not os.path.isdir(whole):
        return whole
    return next((found for it in _IN_ENVIRONMENT if os.path.isfile(found := os.path.join(whole, it))), whole)


def is_interpreter(path: str, option: str) -> None:
    """Refuse (`BadInput`) what cannot be an interpreter: no such file, one that cannot be run, a folder without one."""
    if not path:
        raise BadInput(
            f"{option}: is empty; leave it out for ortbench's own interpreter, or, beside others, give its path", option
        )
    found = interpreter_in(path)
    if os.path.isdir(found):
        raise BadInput(f"{option}: no interpreter in that folder, such as bin/python: {path}", option)
    if not os.path.exists(found):
        raise BadInput(f"{option}: no such interpreter: {path}", option)
    if not may(found, os.X_OK):
        raise BadInput(f"{option}: not an interpreter, it cannot be run: {path}", option)


def environment_name(path: str) -> str:
    """A short name of an environment: that of its folder, or of the interpreter where that is the system's."""
    parts = list(Path(path).absolute().parts)
    if not os.path.isdir(path):
        file = parts.pop()
        if parts and parts[-1] in _PROGRAMS:
            parts.pop()
        if not parts or parts[-1].strip("/") in _SYSTEM:
            return file
    if len(parts) > 1 and parts[-1] in _SAY_NOTHING:
        parts.pop()
    return parts[-1]


def packages_of(path: str) -> list[str]:
    """Name and version of every package in an environment, as their folders say."""
    found = Path(interpreter_in(path)).absolute()
    sites = [it for root in found.parents[:2] for pattern in _SITES for it in root.glob(pattern)]
    return sorted(info.stem.replace("-", " ", 1) for site in sites for info in site.glob("*.dist-info"))


def with_pip_of(text: str, python: str) -> str:
    """A text whose commands of pip are those of an environment: the pip on the path is that of another one."""
    import shlex

    pip = f"{shlex.quote(interpreter_in(python))} -m pip "
    return _PIP.sub(lambda _: pip, text)


def start_no_threads() -> None:
    """Have NumPy, which is still to be loaded, start no threads in this process and its workers."""
    for name in _NO_THREADS.keys() - os.environ.keys():
        os.environ[name] = _NO_THREADS[name]
        _added.add(name)


def given_variables() -> dict[str, str]:
    """The environment variables that this process was started with."""
    return {key: value for key, value in os.environ.items() if key not in _added}


def surroundings() -> dict[str, str]:
    """Those for another interpreter, without those that are for Python's own packages."""
    return {key: value for key, value in given_variables().items() if key not in _OF_PYTHON}
