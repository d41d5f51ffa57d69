"""The process of a worker. A command that needs one starts it before all else, so little is loaded here: not even typing."""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
import tempfile
import time
from contextlib import suppress

from ortbench.core import processes, signals
from ortbench.core.errors import BenchmarkFailed

if sys.platform != "win32":
    import fcntl

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import IO, Any

SCRIPT = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "worker", "bootstrap.py")


class WorkerProcess:
    """A process that answers requests; `line` is of another interpreter than this one. `BenchmarkFailed`: it cannot be started."""

    def __init__(self, line: Sequence[str] = (), env: dict[str, str] | None = None, called: str = "a worker") -> None:
        self.started_ns = time.perf_counter_ns()
        with processes.startable(called):
            self.stderr = nameless_file()  # what it prints
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": self.stderr}
        with signals.held():  # what started is known to be ended
            self.popen = processes.start_process(called, line or [sys.executable, SCRIPT], env=env, **pipes)
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
