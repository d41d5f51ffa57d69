"""A worker: what it keeps from one request to the next, and how it answers each.

Requests come as JSON lines on standard input, one answer line each goes out on what was standard output, and lines that say what is
done meanwhile; whatever libraries print there goes to standard error instead. It ends with its input.

Each request is carried out by the function of its name in one of the modules beside this one. They own one session, set modes up and
time blocks when asked. Requests and answers are plain data. ``stages`` in an answer, and whatever else is there for a timeline, are
lists of name, start and duration, in ns of `time.perf_counter_ns`.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ortbench.core import errors, features
from ortbench.core.processes import NO_TELEMETRY, is_profiled, start_no_threads, with_pip_of
from ortbench.worker import environment

if TYPE_CHECKING:
    from ortbench.worker.mode_base import Mode
    from ortbench.worker.modes import Opened, Shared
    from ortbench.worker.timing import Capture, Ranges

Answer = dict[str, Any]


@dataclass
class State:
    opened: Opened = field(init=False)  # the model; there once it is open
    modes: dict[str, Mode] = field(default_factory=dict)  # those that are set up
    ranges: dict[str, Ranges] = field(default_factory=dict)  # their NVTX ranges
    capture: Capture | None = None  # the range that tells a profiler what to record; None until it is asked for
    shared: Shared = field(init=False)  # of a sweep of shapes, what all of them have in common; there once it is open
    others: dict[type, Any] = field(default_factory=dict)  # what requests of one module alone keep, by its class
    # of such a sweep, the states of its shapes, by their numbers; each has a model, modes and ranges of its own
    points: dict[int, State] = field(default_factory=dict)

    def release(self) -> None:
        self.others.clear()
        self.modes.clear()
        self.ranges.clear()
        if self.points:
            self.points.clear()
            del self.shared
        else:
            del self.opened


class Stages:
    """The parts of a request, one after the other: names, starts and durations, in ns of `time.perf_counter_ns`."""

    def __init__(self) -> None:
        self.spans: list[tuple[str, int, int]] = []
        self._begun = time.perf_counter_ns()

    def end(self, name: str) -> None:
        now = time.perf_counter_ns()
        self.spans.append((name, self._begun, now - self._begun))
        self._begun = now


_REQUESTS = {
    "opening": ("open", "save_inputs", "save_outputs", "compare_saved_outputs", "release", "index_sizes"),
    "measuring": (
        "prepare",
        "block",
        "finish",
        "capture",
        "time_steps",
        "begin_stream",
        "time_stream",
        "measure_copies",
    ),
    "nodes": ("nodes", "nodes_begin", "nodes_run", "nodes_end", "nodes_read", "profile"),
}
_NEEDED = ("onnxruntime", "numpy")  # all that an environment must have
_HOME = {request: module for module, requests in _REQUESTS.items() for request in requests}


class Worker:
    """Answers requests about one model on one EP, or about one EP's copies."""

    def __init__(self) -> None:
        self.state = State()

    def answer(self, request: dict[str, Any]) -> Answer:
        """Carry one request out: ``{"ok": …}``, or what `ortbench.core.errors.to_data` makes of an error. It names one of the functions
        (``do``), a shape of a sweep (``of_point``) and trials of memory that are known to end the worker (``lost``); the rest are arguments."""
        arguments = dict(request)
        name, point, lost = (arguments.pop(key, None) for key in ("do", "of_point", "lost"))
        try:
            if lost:
                import_module("ortbench.worker.providers").add_lost_trials(lost)
            # Loaded when it is asked for: that onnxruntime does not load is an answer too.
            module = import_module(f"ortbench.worker.{_HOME[name]}" if name in _HOME else features.requests()[name])
            state = self.state if point is None else self.state.points[point]
            return {"ok": getattr(module, name)(state, **arguments)}
        except ImportError as error:
            return errors.to_data(_not_there(error))
        except Exception as error:
            return errors.to_data(error)


def _not_there(error: ImportError) -> Exception:
    """The same, with what to do about it, where this environment lacks what a worker needs."""
    from ortbench.core.eps import mending
    from ortbench.worker import environment

    numpy = environment.installed_version("numpy")
    command = mending(str(error), numpy)
    if isinstance(error, ModuleNotFoundError):
        if error.name not in _NEEDED:
            return error
        if command is None or environment.module_folder() is None:
            command = "pip install onnxruntime"
        what = f"{sys.executable} has no package {error.name}; install it"
    elif command is not None and numpy is not None:
        what = f"{errors.one_line(error)}: this ONNX Runtime was built for numpy 1, and numpy {numpy} is here; mend it"
    else:
        return error
    return errors.BenchmarkFailed(f"{what} with: {with_pip_of(command, sys.executable)}")


def answer_requests(python: str | None = None) -> None:
    """The process: answers what comes on standard input, and keeps the channel of the answers to itself."""
    gc.set_threshold(100_000)  # looking for rubbish among modules, which stay, takes a tenth of loading them
    if sys.platform == "linux":  # kills it when `ortbench` dies: a paused worker would not notice that its input ended
        import ctypes
        import signal

        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # 1 is PR_SET_PDEATHSIG
    os.environ |= {**NO_TELEMETRY, **os.environ}
    start_no_threads()
    environment.set_interpreter(python)
    channel = os.dup(1)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    with os.fdopen(channel, "w", encoding="utf-8") as answers:
        environment.send_on(answers)
        with suppress(Exception):  # it is said when it is asked for; loading it need not wait for the first request
            for module in ("opening", "measuring"):
                import_module(f"ortbench.worker.{module}")
        # In UTF-8, whatever PYTHONIOENCODING says of what people type; an input called /dev/stdin is none of it.
        with os.fdopen(os.dup(0), encoding="utf-8") as requests, open(os.devnull) as nothing:
            os.dup2(nothing.fileno(), 0)
            worker = Worker()
            for line in requests:
                environment.send_line(answers, worker.answer(json.loads(line)))
        answers.flush()
        # Some EPs abort while they unload, so only what needs an orderly exit gets one: a profiler takes its data then.
        if not is_profiled():
            os._exit(0)
