"""The clients of a load, wherever they are: threads of a configuration's worker, or workers of one client each that begin together."""

from __future__ import annotations

import os
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from ortbench.core.errors import BenchmarkFailed, OrtbenchError, WrongOutputs
from ortbench.core.files import temporary_folder
from ortbench.features.load.analysis.blocks import ClosedLoopBlock, OpenLoopBlock, cpu_marks, cpu_parts
from ortbench.features.load.model import OWN, PROCESS, LoadClients, LoadRuns, LoadServed
from ortbench.measure.configuration import Configuration
from ortbench.measure.process import Client, WorkerLost, open_worker
from ortbench.measure.rounds import shape_requests
from ortbench.model.protocol import pack, unpack
from ortbench.plan.target import begun_by

if TYPE_CHECKING:
    from ortbench.features.load.analysis.queueing import Moments

LEAST_RUNS = 3  # of each client in a block: one before what counts, and two that do
_LEAD_NS = 50_000_000  # from when several workers are asked to when they begin
_LEAD_PER_REQUEST_NS = 2_000  # and longer where they have to read many moments first


class ClientPool:
    """The clients of a configuration; `sessions` is what each has, see `ortbench.features.load.plan.LoadPlan`. After `WorkerLost` it is
    to be closed."""

    def __init__(self, configuration: Configuration, sessions: str) -> None:
        self._configuration, self._sessions = configuration, sessions
        self.tell: Callable[[str], None] = lambda _: None  # what is done, in words
        requests = shape_requests(configuration.plan)
        self._shapes: dict[str, Any] = {"shapes": requests} if requests else {}
        self._others: list[Client] = []
        self._clients: LoadClients | None = None

    @property
    def pids(self) -> list[int]:
        return [worker.pid for worker in self._others]

    def prepare(self, mode: str, count: int) -> None:
        """Have so many clients of a mode, each checked by itself. `BenchmarkFailed`: they cannot be had."""
        if self._sessions != PROCESS:
            own = self._sessions == OWN
            self._clients = self._configuration.ask("load_clients", mode=mode, count=count, own=own, **self._shapes)
            return
        self._configuration.ask("load_clients", mode=mode, count=1, **self._shapes)
        while len(self._others) < count - 1:
            self.tell(f"starting client {len(self._others) + 2}")
            worker = open_worker(self._configuration.plan)
            self._others.append(worker)
            worker.while_waiting = self._configuration.while_waiting
            with self._configuration.same_model():
                worker.receive()
        for number, worker in enumerate(self._others[: count - 1], 1):
            worker.resume()
            worker.ask("load_clients", mode=mode, count=1, first=number, **self._shapes)
        for worker in self._others:
            worker.pause()

    def close(self) -> None:
        """End the workers of their own, also after one was lost; then clients are to be prepared again."""
        for worker in self._others:
            worker.close()
        self._others.clear()
        self._clients = None

    def run_closed(
        self, mode: str, count: int, duration_ns: int, round: int, order: Sequence[int], requests: int = 0
    ) -> ClosedLoopBlock:
        """A block of a closed loop, in an order of shapes: so long, and `LEAST_RUNS` runs of each client, or so many requests of each.
        `WrongOutputs`: a client was left with some. `BenchmarkFailed`: a client died."""
        asked = {"mode": mode, "duration_ns": duration_ns, "least": requests or LEAST_RUNS, "order": order}
        answers: list[LoadRuns]
        answers, watch = self._run("load_closed", count, duration_ns, _LEAD_NS, ("board", count + 1), asked)
        import numpy as np

        begin = answers[0]["at_ns"]
        ends = [unpack(it) for answer in answers for it in answer["ends"]]
        last = max((int(it[-1]) for it in ends if it.size), default=begin)
        return ClosedLoopBlock(
            [unpack(it) for answer in answers for it in answer["starts"]],
            ends,
            begin + duration_ns,
            [np.resize(begun_by(client, order), it.size) for client, it in enumerate(ends)],
            **_block(answers, watch, last, round),
        )

    def run_open(
        self, mode: str, count: int, due: Moments, cutoff_ns: int, round: int, order: Sequence[int]
    ) -> OpenLoopBlock:
        """A stretch of an open loop, due and cut off (no request is begun after that) ns from its beginning on; raises as
        `run_closed`."""
        import numpy as np

        marks = cpu_marks(due.size)
        asked = {"mode": mode, "due": pack(due), "cutoff_ns": cutoff_ns, "marks": marks, "order": order}
        lead_ns = _LEAD_NS + _LEAD_PER_REQUEST_NS * due.size
        answers: list[LoadServed]
        answers, watch = self._run("load_open", count, cutoff_ns, lead_ns, ("turn", 16), asked)
        begin = answers[0]["at_ns"]
        numbers, free, start, end = (
            np.concatenate([unpack(it) for answer in answers for it in answer[key]])
            for key in ("numbers", "free", "starts", "ends")
        )
        sizes = [unpack(it).size for answer in answers for it in answer["numbers"]]
        served = np.argsort(numbers, kind="stable")
        return OpenLoopBlock(
            due,
            free[served] - begin,
            start[served] - begin,
            end[served] - begin,
            cutoff_ns if served.size < due.size else None,
            count,
            client=np.repeat(np.arange(len(sizes)), sizes)[served],
            shapes=np.resize(order, due.size),
            cpu_parts=cpu_parts(marks, numbers[served], [answer["readings"] for answer in answers]),
            **_block(answers, watch, int(end.max(initial=begin)), round),
        )

    def _run(
        self, do: str, count: int, longest_ns: int, lead_ns: int, shared: tuple[str, int], asked: dict[str, Any]
    ) -> tuple[list[Any], LockWatch | None]:
        """Have clients do something, with a file of that name and size where they are in processes of their own: what they
        answer, and who has looked at them meanwhile."""
        name, size = shared
        with self._watch_lock(count, longest_ns) as watch:
            if self._sessions == PROCESS:
                with temporary_folder() as folder:
                    file = Path(folder) / "shared"
                    file.write_bytes(bytes(size))
                    board = file if name == "board" else None
                    answers = self._in_processes(do, count, board, lead_ns, {**asked, name: str(file)})
            else:
                answers = [self._configuration.ask(do, count=count, **asked)]
        for answer in answers:
            if answer["error"] is not None:
                raise BenchmarkFailed(f"a client died: {answer['error']}")
        for answer in answers:
            if answer["differs"] is not None:
                alone = "; with one client they are right" if len(answers) > 1 or len(answer["starts"]) > 1 else ""
                raise WrongOutputs(f"outputs of {answer['differs']}{alone}")
        return answers, watch

    @contextmanager
    def _watch_lock(self, count: int, longest_ns: int) -> Iterator[LockWatch | None]:
        """the GIL is looked at where clients share one, and an answer may take as long as it does."""
        workers = [self._configuration.worker, *self._others]
        for worker in workers:
            worker.timeout_s += longest_ns / 1e9
        try:
            clients = self._clients
            if clients is None:
                yield None
                return
            threads = clients["threads"][:count]
            with LockWatch(self._configuration.worker.pid, threads, clients["lock"]) as watch:
                yield watch
        finally:
            for worker in workers:
                worker.timeout_s -= longest_ns / 1e9

    def _in_processes(self, do: str, count: int, board: Path | None, lead_ns: int, asked: dict[str, Any]) -> list[Any]:
        """Have the first clients do something that begins at the same moment; the others are paused. `WorkerLost` where one
        was lost; the others are told, so that they do not wait for it."""
        workers = [self._configuration.worker, *self._others[: count - 1]]
        for worker in workers[1:]:
            worker.resume()
        at_ns = time.perf_counter_ns() + lead_ns

        def look() -> None:
            self._configuration.while_waiting()
            if board is not None and any(not it.is_running for it in workers):
                _tell_failed(board)

        for worker in workers:
            worker.send(do, count=1, at_ns=at_ns, **asked)
        answers: list[Any] = []
        errors: list[OrtbenchError] = []
        for worker in workers:  # also of the others, whose answers would be taken for those to the next request
            worker.while_waiting = look
            try:
                answers.append(worker.receive())
            except OrtbenchError as error:
                errors.append(error)
                if board is not None:
                    _tell_failed(board)
        if errors:
            raise next((it for it in errors if isinstance(it, WorkerLost)), errors[0])
        for worker in workers[1:]:
            worker.pause()
        return answers


def _block(answers: Sequence[LoadRuns], watch: LockWatch | None, last_ns: int, round: int) -> dict[str, Any]:
    """What both loops have of a block, whose last run ended then."""
    begin = answers[0]["at_ns"]
    return {
        "cpu_ns": sum(it["cpu_ns"] for it in answers),
        "wall_ns": max(it["wall_ns"] for it in answers),
        "begin_ns": begin,
        "round": round,
        "lock": None if watch is None else watch.count_waiting(begin, last_ns),
    }


def _tell_failed(board: Path) -> None:
    with board.open("r+b") as file:
        file.seek(-1, 2)
        file.write(b"\1")


_EVERY_S = 0.01  # mean time between looks, each of which takes 70 µs of a core from clients where all are busy
_NEAR = 256  # bytes around the address that belong to the lock: it has more than one place to sleep at
_LONGEST = 512


class LockWatch:
    """Looks at threads of a worker while a block lasts; use it as a context manager. Nobody looks where the place (system call
    and address) is not known: see `ortbench.features.load.worker.clients.gil_wait_point`."""

    def __init__(self, pid: int, threads: Sequence[int], wait_point: Sequence[int] | None) -> None:
        self._wait_point = wait_point
        self._end = threading.Event()
        self._looks: list[tuple[int, int]] = []
        self._files: list[int] = []
        if wait_point is not None:
            with suppress(OSError):
                self._files = [os.open(f"/proc/{pid}/task/{thread}/syscall", os.O_RDONLY) for thread in threads]
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        if self._files:
            with suppress(RuntimeError):  # the system has no thread left
                self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        if self._thread.ident is not None:
            self._thread.join()
        for file in self._files:
            os.close(file)

    def count_waiting(self, start_ns: int, end_ns: int) -> tuple[int, int] | None:
        """How many clients were waiting, and how many were looked at, between two moments of `time.perf_counter_ns`; None
        where nobody looked."""
        waiting = [count for at, count in self._looks if start_ns <= at < end_ns]
        return (sum(waiting), len(waiting) * len(self._files)) if waiting else None

    def _watch(self) -> None:
        if sys.platform == "win32":  # there is no such file to look at
            return
        with suppress(OSError):  # the worker has ended, or may not be looked at
            while not self._end.wait(random.expovariate(1 / _EVERY_S)):
                at = time.perf_counter_ns()
                self._looks.append((at, sum(self._is_waiting(os.pread(file, _LONGEST, 0)) for file in self._files)))

    def _is_waiting(self, text: bytes) -> bool:
        """Whether a thread waits for the lock, by what the system says of it: such as ``202 0x7f051f74e6f0 0x89 …``."""
        assert self._wait_point is not None
        number, _, rest = text.partition(b" ")
        address, _, _ = rest.partition(b" ")
        if not number.isdigit() or not address.startswith(b"0x"):
            return False  # it runs
        return int(number) == self._wait_point[0] and abs(int(address, 16) - self._wait_point[1]) < _NEAR
