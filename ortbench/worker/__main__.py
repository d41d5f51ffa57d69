"""The worker's process, which runs as ``python -m ortbench.worker``.

Requests come as JSON lines on standard input, one answer line each goes out on what was standard output, and
lines that say what is done meanwhile; whatever libraries print there goes to standard error instead. It ends with its input.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from contextlib import suppress
from typing import IO

from ortbench.core.interpreters import NO_TELEMETRY, start_no_threads
from ortbench.core.profiler import is_profiled
from ortbench.worker import messages
from ortbench.worker.worker import Worker


def serve(requests: IO[str], answers: IO[str]) -> None:
    worker = Worker()
    for line in requests:
        messages.send_line(answers, worker.answer(json.loads(line)))


def _end_with_parent() -> None:
    """Have Linux kill this process when `ortbench` dies: a paused worker would not notice that its input ended."""
    if sys.platform == "linux":
        import ctypes
        import signal

        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # 1 is PR_SET_PDEATHSIG


def main(python: str | None = None) -> None:
    """The process: keeps the answers' channel to itself."""
    gc.set_threshold(100_000)  # looking for rubbish among modules, which stay, takes a tenth of loading them
    _end_with_parent()
    os.environ |= {**NO_TELEMETRY, **os.environ}
    start_no_threads()
    messages.set_interpreter(python)
    channel = os.dup(1)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    with os.fdopen(channel, "w", encoding="utf-8") as answers:
        messages.send_on(answers)
        with suppress(Exception):  # it is said when it is asked for; loading it need not wait for the first request
            from ortbench.worker import measuring, opening  # noqa: F401
        # In UTF-8, whatever PYTHONIOENCODING says of what people type; an input called /dev/stdin is none of it.
        with os.fdopen(os.dup(0), encoding="utf-8") as requests, open(os.devnull) as nothing:
            os.dup2(nothing.fileno(), 0)
            serve(requests, answers)
        answers.flush()
        # Some EPs abort while they unload, so only what needs an orderly exit gets one: a profiler takes its data then.
        if not is_profiled():
            os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
