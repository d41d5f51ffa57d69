"""The callers of a load, wherever they are: threads of a side's worker, or workers of one caller each that begin together."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ortbench.analysis.loads.load_levels import Burst
from ortbench.analysis.loads.load_requests import Requests
from ortbench.core.errors import BenchmarkFailed, OrtbenchError, WrongOutputs
from ortbench.core.int_codec import pack, unpack
from ortbench.measure.folder import temporary_folder
from ortbench.measure.lock_watch import LockWatch
from ortbench.measure.process import Client, WorkerLost, open_worker
from ortbench.measure.side import Side
from ortbench.model.protocol import LoadBlock, LoadCallers, LoadRuns, LoadServed
from ortbench.model.schema import OWN, PROCESS

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Moments = NDArray[np.int64]

LEAST_RUNS = 3  # of each caller in a block: one before what counts, and two that do
_LEAD_NS = 50_000_000  # from when several workers are asked to when they begin
_LEAD_PER_REQUEST_NS = 2_000  # and longer where they have to read many moments first


class Crew:
    """The callers of a side.

    Args:
        side: open.
        sessions: what each has: see `ortbench.plan.load_plan.LoadPlan`.
        seed: of the moments at which Python's lock is looked at.
        stage: told what takes time before the first block.
    """

    def __init__(self, side: Side, sessions: str, seed: int, stage: Callable[[str], None]) -> None:
        self._side, self._sessions, self._seed, self._stage = side, sessions, seed, stage
        self._others: list[Client] = []
        self._callers: LoadCallers | None = None

    # Having callers

    def prepare(self, mode: str, count: int) -> None:
        """Have so many callers of a mode, each checked by itself.

        Raises:
            WorkerLost: a worker was lost; `reset` is to follow.
            BenchmarkFailed: they cannot be had.
        """
        if self._sessions != PROCESS:
            own = self._sessions == OWN
            self._callers = self._side.ask("load_callers", mode=mode, count=count, own=own)
            return
        self._side.ask("load_callers", mode=mode, count=1)
        while len(self._others) < count - 1:
            self._stage(f"starting caller {len(self._others) + 2}")
            client = open_worker(self._side.plan)
            self._others.append(client)
            client.while_waiting = self._side.while_waiting
            client.receive()
        for number, client in enumerate(self._others[: count - 1], 1):
            client.resume()
            client.ask("load_callers", mode=mode, count=1, first=number)
        for client in self._others:
            client.pause()

    def reset(self) -> None:
        """Let the workers of their own go after one was lost; callers are to be prepared again."""
        self.close()
        self._callers = None

    def close(self) -> None:
        """End the workers of their own."""
        for client in self._others:
            client.close()
        self._others.clear()

    # Having them do something

    def closed(self, mode: str, count: int, duration_ns: int, round: int) -> Burst:
        """A block of a closed loop.

        Args:
            mode, count: so many callers of a mode.
            duration_ns: for so long, and `LEAST_RUNS` runs each.
            round: of the block.

        Raises:
            WorkerLost: a worker was lost; `reset` is to follow.
            WrongOutputs: a caller was left with wrong outputs.
            BenchmarkFailed: a caller died.
        """
        asked = {"mode": mode, "duration_ns": duration_ns, "least": LEAST_RUNS}
        with self._watched(count, duration_ns) as watch:
            if self._sessions == PROCESS:
                with _shared_file(count + 1) as board:
                    answers: list[LoadRuns] = self._in_processes(
                        "load_closed", count, board, _LEAD_NS, {**asked, "board": str(board)}
                    )
            else:
                answers = [self._side.ask("load_closed", count=count, **asked)]
        _refuse(answers)
        begin = answers[0]["at_ns"]
        burst = Burst(
            [unpack(it) for answer in answers for it in answer["starts"]],
            [unpack(it) for answer in answers for it in answer["ends"]],
            begin + duration_ns,
            sum(it["cpu_ns"] for it in answers),
            max(it["wall_ns"] for it in answers),
            begin,
            round=round,
        )
        lock = None if watch is None else watch.seen(begin, burst.end_ns)
        return Burst(**{**vars(burst), "lock": lock})

    def open(self, mode: str, count: int, due: Moments, cutoff_ns: int, round: int) -> Requests:
        """A level of an open loop.

        Args:
            mode, count: so many callers of a mode serve it.
            due: ns from the beginning on.
            cutoff_ns: from the beginning on; no request is begun after that.
            round: of the stretch.

        Raises:
            WorkerLost, WrongOutputs, BenchmarkFailed: as `closed`.
        """
        import numpy as np

        asked = {"mode": mode, "due": pack(due), "cutoff_ns": cutoff_ns}
        with self._watched(count, cutoff_ns) as watch:
            if self._sessions == PROCESS:
                lead = _LEAD_NS + _LEAD_PER_REQUEST_NS * due.size
                with _shared_file(16) as turn:
                    answers: list[LoadServed] = self._in_processes(
                        "load_open", count, None, lead, {**asked, "turn": str(turn)}
                    )
            else:
                answers = [self._side.ask("load_open", count=count, **asked)]
        _refuse(answers)
        begin = answers[0]["at_ns"]
        numbers, free, start, end = (
            np.concatenate([unpack(it) for answer in answers for it in answer[key]])
            for key in ("numbers", "free", "starts", "ends")
        )
        sizes = [unpack(it).size for answer in answers for it in answer["numbers"]]
        order = np.argsort(numbers, kind="stable")
        ended = int(end.max(initial=begin))
        return Requests(
            due,
            free[order] - begin,
            start[order] - begin,
            end[order] - begin,
            cutoff_ns if order.size < due.size else None,
            count,
            sum(it["cpu_ns"] for it in answers),
            max(it["wall_ns"] for it in answers),
            None if watch is None else watch.seen(begin, ended),
            begin,
            round,
            caller=np.repeat(np.arange(len(sizes)), sizes)[order],
        )

    @contextmanager
    def _watched(self, count: int, longest_ns: int) -> Iterator[LockWatch | None]:
        """Python's lock is looked at where callers share one, and an answer may take as long as it does."""
        clients = [self._side.worker, *self._others]
        for client in clients:
            client.timeout_s += longest_ns / 1e9
        try:
            callers = self._callers
            if callers is None:
                yield None
                return
            self._seed += 1
            threads = callers["threads"][:count]
            with LockWatch(self._side.worker.pid, threads, callers["lock"], self._seed) as watch:
                yield watch
        finally:
            for client in clients:
                client.timeout_s -= longest_ns / 1e9

    def _in_processes(self, do: str, count: int, board: Path | None, lead_ns: int, asked: dict[str, Any]) -> list[Any]:
        """Have the first callers do something that begins at the same moment; the others are paused.

        Raises:
            WorkerLost: one was lost; the others are told, so that they do not wait for it.
        """
        clients = [self._side.worker, *self._others[: count - 1]]
        for client in clients[1:]:
            client.resume()
        at_ns = time.perf_counter_ns() + lead_ns

        def look() -> None:
            self._side.while_waiting()
            if board is not None and any(not it.is_running for it in clients):
                _tell_failed(board)

        for client in clients:
            client.send(do, count=1, at_ns=at_ns, **asked)
        answers: list[Any] = []
        errors: list[OrtbenchError] = []
        for client in clients:  # also of the others, whose answers would be taken for those to the next request
            client.while_waiting = look
            try:
                answers.append(client.receive())
            except OrtbenchError as error:
                errors.append(error)
                if board is not None:
                    _tell_failed(board)
        if errors:
            raise next((it for it in errors if isinstance(it, WorkerLost)), errors[0])
        for client in clients[1:]:
            client.pause()
        return answers


def _refuse(answers: Sequence[LoadBlock]) -> None:
    """Raise what callers died of, or what is wrong with their outputs."""
    for answer in answers:
        if answer["error"] is not None:
            raise BenchmarkFailed(f"a caller died: {answer['error']}")
    for answer in answers:
        if answer["differs"] is not None:
            alone = "; with one caller they are right" if len(answers) > 1 or len(answer["starts"]) > 1 else ""
            raise WrongOutputs(f"outputs of {answer['differs']}{alone}")


def _tell_failed(board: Path) -> None:
    with board.open("r+b") as file:
        file.seek(-1, 2)
        file.write(b"\1")


@contextmanager
def _shared_file(size: int) -> Iterator[Path]:
    """A file of zeros that several processes see."""
    with temporary_folder() as folder:
        path = Path(folder) / "shared"
        path.write_bytes(bytes(size))
        yield path
