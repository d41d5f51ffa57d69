"""How processes begin: each one that ortbench starts, by one function. A worker is started before all else."""

from __future__ import annotations

import atexit
import errno
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager, suppress

from ortbench.core import signals
from ortbench.core.errors import BenchmarkFailed, one_line

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
    with startable(called), signals.held():  # what started is known to be ended
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
        with startable(line[0]), signals.awaited():
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


SCRIPT = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "worker", "bootstrap.py")


class WorkerProcess:
    """A process that answers requests; `line` is of another interpreter than this one. `BenchmarkFailed`: it cannot be started."""

    def __init__(self, line: Sequence[str] = (), env: dict[str, str] | None = None, called: str = "a worker") -> None:
        self.started_ns = time.perf_counter_ns()
        with startable(called):
            self.stderr = nameless_file()  # what it prints
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": self.stderr}
        with signals.held():  # what started is known to be ended
            self.popen = start_process(called, line or [sys.executable, SCRIPT], env=env, **pipes)
            signals.end_with_process(self.popen.kill)

    def end(self) -> None:
        if self.popen.poll() is None:
            self.popen.kill()
        self.popen.wait()
        signals.ended(self.popen.kill)


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
