"""The process of a worker. A command that needs one starts it before all else, so little is loaded here: not even typing."""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
import tempfile
import time

from ortbench.core import signals

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import IO

SCRIPT = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "worker", "bootstrap.py")


class WorkerProcess:
    """A process that answers requests; `line` is of another interpreter than this one."""

    def __init__(self, line: Sequence[str] = (), env: dict[str, str] | None = None) -> None:
        self.started_ns = time.perf_counter_ns()
        self.stderr = nameless_file()  # what it prints
        with signals.held():  # what started is known to be ended
            self.popen = subprocess.Popen(
                line or [sys.executable, SCRIPT],
                env=env,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self.stderr,
                # In a session of its own, Ctrl-C reaches only this process, which then ends the worker in its own time.
                start_new_session=True,
            )
            signals.end_with_process(self.popen.kill)

    def end(self) -> None:
        if self.popen.poll() is None:
            self.popen.kill()
        self.popen.wait()
        signals.ended(self.popen.kill)


def nameless_file() -> IO[bytes]:
    """A file for what a process prints, which goes with its last user; where there is no room for one, nowhere."""
    try:
        return tempfile.TemporaryFile()
    except OSError:
        return open(os.devnull, "w+b")


early: list[WorkerProcess] = []  # at most one, until it is taken


def start_early() -> None:
    """Start the worker that will be needed first, before it is known what it is to open.

    It loads ONNX Runtime while this process still reads its command line. One that nobody asked for ends with it.
    """
    early.append(WorkerProcess())
    atexit.register(early[0].end)
