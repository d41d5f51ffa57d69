"""The other end of the worker: starts it, asks it, and survives it."""

from __future__ import annotations

import atexit
import contextlib
import errno
import json
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection
from functools import cache
from typing import TYPE_CHECKING, Any

from ortbench.core import features, output, signals
from ortbench.core.errors import CANNOT_ANSWER, BadInput, BenchmarkFailed, Unsupported, from_data, one_line
from ortbench.core.processes import SCRIPT, WorkerProcess, early, interpreter_in, is_profiled, startable, surroundings

if TYPE_CHECKING:
    from ortbench.plan.plan import Plan

_TELL_S = 1.0  # how often who waits for an answer is told that there is none yet
_FLUSH_S = 30.0  # how long a profiler may take to save what it recorded in a worker


_NO_PROGRAM = {errno.ENOEXEC, errno.ENOENT, errno.EACCES}
_NO_READER = {errno.EPIPE, errno.EINVAL}  # EINVAL on Windows
_programs: set[str] = set()  # interpreters that have started a worker

# By the interpreter, the trials that ended or held up a worker, and what was said.
_lost_trials: dict[str | None, dict[str, str]] = {}


_running: set[int] = set()


def running_pids() -> Collection[int]:
    """The process ids of all workers, those that are paused among them."""
    return frozenset(_running)


class WorkerLost(BenchmarkFailed):
    """The worker ended, or was ended because it did not answer."""


class Client:
    """A worker process and the requests to it. Use it as a context manager: it never outlives the block.

    Args:
        python: another interpreter to run it with, or the folder of its environment.
        started: its process, where that has been started already.

    Attributes:
        started_ns: on the clock of `time.perf_counter_ns`.
        while_waiting: called each second for which an answer is waited for.
        meanwhile: called once before the next answer is waited for, for what can be done in that time; then None.
        name: of the configuration that it measures.
    """

    def __init__(self, timeout_s: float, python: str | None = None, started: WorkerProcess | None = None) -> None:
        self.timeout_s = timeout_s
        self.while_waiting: Callable[[], None] = lambda: None
        self.meanwhile: Callable[[], None] | None = None
        self.name = ""
        self._python = python
        self._title = "the worker" if python is None else f"the worker of {python}"
        self._start(started)

    def _start(self, started: WorkerProcess | None = None) -> None:
        self._worker = started or _start_worker(self._python)
        self._process, self.started_ns = self._worker.popen, self._worker.started_ns
        self._request: dict[str, Any] = {}
        self._has_state = False
        self._about: dict[str, Any] = {}
        _running.add(self._process.pid)
        # A thread reads, because only that can be waited for with a limit on every system.
        self._answers: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        try:
            with startable(self._title):
                self._reader.start()
        except BenchmarkFailed:
            self._kill()
            raise

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as answers:
            for line in answers:
                self._answers.put(line)
        self._answers.put(b"")  # the end

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def pause(self) -> None:
        """Stop the process until `resume`, so that nothing of it runs beside another worker's blocks.

        The threads of ONNX Runtime's pool go on spinning for some 45 ms after a run. On two cores that doubled the time
        of the other worker's runs; a stopped process takes nothing.
        """
        if sys.platform == "win32":
            self._control("suspend")
        else:
            self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        if sys.platform == "win32":
            self._control("resume")
        else:
            self._process.send_signal(signal.SIGCONT)

    def _control(self, what: str) -> None:
        import psutil

        with contextlib.suppress(psutil.NoSuchProcess):
            getattr(psutil.Process(self._process.pid), what)()

    def send(self, do: str, **arguments: Any) -> None:
        """Send a request without waiting for its answer; `WorkerLost` where it has ended."""
        assert self._process.stdin is not None
        self._has_state |= bool(self._request) and self._request["do"] not in features.stateless_requests()
        self._request = {"do": do, **arguments}
        lost = _lost_trials.get(self._python)
        output.limit(self._worker.stderr)  # while the worker writes nothing that could be lost by it
        try:
            self._process.stdin.write(json.dumps(self._request | ({"lost": lost} if lost else {})).encode() + b"\n")
            self._process.stdin.flush()
        except (OSError, ValueError) as error:  # ValueError: it was closed, and no other could be started
            if isinstance(error, OSError) and error.errno not in _NO_READER:
                self._kill()  # it lives, and waits for the rest of the request
                raise WorkerLost(f"{self._title} cannot be asked: {one_line(error)}") from None
            raise WorkerLost(self._obituary()) from None

    def ask(self, do: str, **arguments: Any) -> Any:
        """Send a request and wait for what it gives.

        Raises:
            WorkerLost: the worker ended or did not answer in time.
            Unsupported, BadInput, BenchmarkFailed: what the worker says.
        Stopped: the program is to end, by Ctrl-C for example.
        """
        self.send(do, **arguments)
        return self.receive()

    def is_loaded(self) -> bool:
        """Wait until it has loaded what any worker needs; whether it could. One that has ended is closed."""
        try:
            self.ask("packages")
        except BenchmarkFailed:
            self.close()
            return False
        return True

    def receive(self) -> Any:
        if self.meanwhile is not None:
            call, self.meanwhile = self.meanwhile, None
            call()
        answer = self._answer()
        if "ok" in answer:
            return answer["ok"]
        raise from_data(answer)

    def _answer(self) -> dict[str, Any]:
        """The next answer, behind lines that say what the worker does meanwhile (`ortbench.worker`)."""
        until = time.monotonic() + self.timeout_s
        while True:
            try:
                line = self._line(until)
            except WorkerLost as error:
                trial = self._about.get("trial")
                # What earlier requests have set up is gone; a trial is not to blame where the worker could not write its answer.
                if trial is None or self._has_state or self._process.returncode == CANNOT_ANSWER:
                    raise
                # A fresh worker takes it that the trial ended or held up the one before.
                _lost_trials.setdefault(self._python, {})[trial] = str(error).replace(self._activity(), "")
                request = self._request
                self.close()
                self._start()
                self.send(**request)
                until = time.monotonic() + self.timeout_s
                continue
            try:
                answer: dict[str, Any] = json.loads(line)
            except ValueError:
                self._kill()
                raise WorkerLost(f"{self._title} answers as no worker does: is it a Python interpreter?") from None
            if "about" not in answer:
                return answer
            self._about = answer["about"] or {}

    def _line(self, until: float) -> bytes:
        own_s = self._about.get("limit_s")
        limit_s = self.timeout_s if own_s is None else min(own_s, self.timeout_s)
        until = min(until, time.monotonic() + limit_s)
        line = None
        while line is None:
            left_s = until - time.monotonic()
            try:
                with signals.stoppable_wait():
                    line = self._answers.get(timeout=max(0.0, min(_TELL_S, left_s)))
            except queue.Empty:
                if left_s > _TELL_S:
                    output.limit(self._worker.stderr)
                    self.while_waiting()
                    continue
                self._kill()
                option = " (--timeout)" if limit_s == self.timeout_s else ""
                raise WorkerLost(
                    f"{self._title} gave no answer for {limit_s:g} s{self._activity()} and was stopped{option}{self._last_words()}"
                ) from None
        if not line:
            raise WorkerLost(self._obituary())
        return line

    def _activity(self) -> str:
        return f" while {self._about['doing']}" if self._about else ""

    def _obituary(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=10)
        self._kill()
        code = self._process.returncode
        how = f"was ended by {_signal_name(-code)}" if code < 0 else f"ended with exit code {code}"
        return f"{self._title} {how}{self._activity()}{self._last_words()}"

    def _last_words(self) -> str:
        return output.last_words(self._worker.stderr)

    def _kill(self) -> None:
        self._worker.end()
        _running.discard(self._process.pid)

    def close(self) -> None:
        if self._process.stdin is not None:
            with contextlib.suppress(OSError):  # it died with a request unread
                self._process.stdin.close()
        if is_profiled():
            self.resume()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_FLUSH_S)
        self._kill()
        self._reader.join(timeout=5)  # longer only if something the EP started keeps the pipe
        output.take(self._worker.stderr, f"process {self.pid}: {self.name or self._title}")


def worker_for(plan: Plan) -> Client:
    python = plan.target.python
    return Client(plan.timeout_s + plan.paced_block_s, python, early.pop() if python is None and early else None)


def open_worker(plan: Plan, started: Client | None = None) -> Client:
    """A fresh worker, which may have been started, that has been sent what it is to open."""
    client = started or worker_for(plan)
    client.send(plan.part.opened_by, **request_of(plan))
    return client


def request_of(plan: Plan) -> dict[str, Any]:
    """What a worker is sent to open a model.

    Another environment may lack the package that reads models, and every side of a run is to have the same inputs: this
    one's worker reads for it.
    """
    request = plan.worker_request()
    if plan.target.python is None:
        return request
    for one, sent in plan.models_of(request):
        if one.inputs.path is None:
            sent["inputs"]["index_sizes"] = _index_sizes(one.model, plan.timeout_s)
    return request


@cache
def _index_sizes(model: str, timeout_s: float) -> dict[str, int]:
    """How many entries each integer input of a model indexes into; see the worker's request."""
    try:
        sizes: dict[str, int] = ask_once(timeout_s, None, "index_sizes", model=model)
    except BenchmarkFailed:  # no model, which the worker that opens it says
        return {}
    return sizes


def own_folder() -> str:
    """A folder that goes with this process."""
    from ortbench.core.files import temporary_folder

    stack = contextlib.ExitStack()
    atexit.register(stack.close)
    return stack.enter_context(temporary_folder())


def ask_once(timeout_s: float, python: str | None, do: str, **arguments: Any) -> Any:
    """Ask a fresh worker of an interpreter, which ends with its answer; raises as `Client.ask` does, but no `Unsupported`, as there is
    no mode that it could end."""
    try:
        with Client(timeout_s, python) as client:
            return client.ask(do, **arguments)
    except Unsupported as error:
        raise BenchmarkFailed(str(error)) from None


def _start_worker(python: str | None) -> WorkerProcess:
    """A worker under this interpreter, or one that was named; `BadInput` where the system does not take that for a program."""
    if python is None:
        return WorkerProcess()
    try:
        worker = WorkerProcess(
            [interpreter_in(python), SCRIPT, interpreter_in(python)], surroundings(), f"the worker of {python}"
        )
    except BenchmarkFailed as error:
        cause = error.__cause__
        if python in _programs or not isinstance(cause, OSError) or cause.errno not in _NO_PROGRAM:
            raise
        raise BadInput(f"--python {python}: it does not start: {cause.strerror}", "--python") from None
    _programs.add(python)
    return worker


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
