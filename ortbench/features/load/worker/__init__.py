"""Requests of a load: have clients, have them call in a closed or an open loop; and what clients do in such loops.

In a closed loop each starts the next inference when the last is done, until all have done so for long enough. Nobody stops
before everybody has a run that ended after the end of the measured time: what is taken into account of a client ends with
the first such run of its own, and until then all the others are busy too. Clients in several processes are held together
by a board, a byte for each and one more, which all of them see.

In an open loop requests are due at moments that were made beforehand, and clients serve them in their order. They take turns
as leader and followers (Schmidt and others, Leader/Followers, 2000): the one that has the turn waits for the next moment by
itself, hands on the turn and runs. So nothing lies between the moment at which a request is due and its run if a client is
free: no queue between threads, and nobody to be woken by somebody else.
"""

from __future__ import annotations

import mmap
import sys
import threading
import time
from collections.abc import Callable, MutableSequence, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import count, cycle
from pathlib import Path
from typing import Any, TypeVar

from ortbench.core.errors import one_line
from ortbench.features.load.model import LoadClients, LoadRuns, LoadServed
from ortbench.features.load.worker.clients import Clients, Seat, gil_wait_point
from ortbench.model.protocol import pack, unpack
from ortbench.plan.target import begun_by, inputs_from
from ortbench.worker import State, tensors
from ortbench.worker.measuring import size_inputs
from ortbench.worker.timing import cpu_ns, no_garbage_collection

# An EP may serve clients so unfairly that some get no run: how much longer than they measure others call for them.
_PATIENCE_NS, _PATIENCE = 10_000_000_000, 10
_LEAD_NS = 5_000_000  # from when threads are asked to when they begin
_NEAR_NS = 500_000  # before a moment that is waited for: from there on the wait is in short steps


@dataclass
class Runs:
    """The runs of a client: when they started and ended, ns; `error`: what ended it, in words; `begun`: CPU time of the process
    and the clock once it had waited for the others to begin, ns, where it did."""

    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    error: str | None = None
    begun: tuple[int, int] | None = None


R = TypeVar("R", bound=Runs)


def keep_calling(
    seat: Seat,
    board: MutableSequence[int],
    at_ns: int,
    until_ns: int,
    least: int,
    order: Sequence[int],
) -> Runs:
    """Call until every client on the board has called for long enough, each `least` times and until `until_ns`, in an order of shapes. The
    board has a byte for each client, all 0 at the beginning, and a last one for whoever fails."""
    found, clock, clients = Runs(), time.perf_counter_ns, len(board) - 1
    latest_ns = until_ns + max(_PATIENCE_NS, _PATIENCE * (until_ns - at_ns))
    add_start, add_end = found.starts.append, found.ends.append
    listening, push, pop = seat.ranges.listening, seat.ranges.push, seat.ranges.pop
    attributes = seat.ranges.sample["latency"]
    calls, shapes = seat.calls, begun_by(seat.number, order)
    following = cycle([calls[shape] for shape in shapes])
    while (left := at_ns - clock()) > 0:  # others have the GIL meanwhile
        time.sleep((left - _NEAR_NS) / 1e9 if left > _NEAR_NS else 0)
    found.begun = (sum(cpu_ns()), clock())
    try:
        while not board[clients]:
            call, a, b = next(following)
            if listening:
                attributes.payload = len(found.ends)
                push(attributes)
            try:
                start = clock()
                kept = call(a, b)  # and frees what the last one returned, see `ortbench.worker.timing.time_block`
                end = clock()
            finally:
                if listening:
                    pop()
            add_start(start)
            add_end(end)
            if end >= until_ns and len(found.ends) >= least:
                board[seat.number] = 1
                if all(board[:clients]) or end >= latest_ns:
                    seat.kept, seat.last = kept, shapes[(len(found.ends) - 1) % len(shapes)]
                    break
    except Exception as error:
        board[clients] = 1
        found.error = one_line(f"{type(error).__name__}: {error}")
    return found


# Before a moment: a sleep ends late by less, and nobody waits longer for the GIL, which it holds.
_SPIN_NS = 150_000
_SLICE_NS = 200_000_000  # the longest sleep, after which it is seen whether the load point goes on


class ThreadTurn:
    """The turn to take the next request, for clients of one process: only who is inside has it. Once it is stopped nobody is to
    take another one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.next = count().__next__
        self.is_stopped = False

    def __enter__(self) -> object:
        return self._lock.__enter__()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def stop(self) -> None:
        self.is_stopped = True


class ProcessTurn:
    """For clients of several processes: the lock of a file, which holds the number; the system lets go of one whose
    process dies."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("r+b", buffering=0)
        self._shared = mmap.mmap(self._file.fileno(), 16)

    def __enter__(self) -> None:
        self._lock(True)

    def __exit__(self, *_: object) -> None:
        self._lock(False)

    def _lock(self, take: bool) -> None:
        if sys.platform != "win32":  # where such a load is refused
            import fcntl

            fcntl.flock(self._file, fcntl.LOCK_EX if take else fcntl.LOCK_UN)

    def next(self) -> int:
        number = int.from_bytes(self._shared[:8], "little")
        self._shared[:8] = (number + 1).to_bytes(8, "little")
        return number

    def stop(self) -> None:
        self._shared[8] = 1

    @property
    def is_stopped(self) -> bool:
        return bool(self._shared[8])


Turn = ThreadTurn | ProcessTurn


@dataclass
class CpuTime:
    """CPU time of this process, without what its clients spin before requests are due: whoever has the turn counts it."""

    marks: Sequence[int]  # the first requests of the parts that it is known of
    spun_ns: int = 0
    # when it got to each of them, and what it had taken by then, ns
    readings: list[tuple[int, int]] = field(default_factory=list)

    @property
    def now_ns(self) -> int:
        return sum(cpu_ns()) - self.spun_ns

    def note(self, number: int) -> None:
        while len(self.readings) < len(self.marks) and number >= self.marks[len(self.readings)]:
            self.readings.append((time.perf_counter_ns(), self.now_ns))


@dataclass
class Served(Runs):
    """The same of requests, with their numbers and when the client was free for each, ns."""

    numbers: list[int] = field(default_factory=list)
    free: list[int] = field(default_factory=list)


def serve(
    seat: Seat, turn: Turn, due: Sequence[int], at_ns: int, cutoff_ns: int, spent: CpuTime, order: Sequence[int]
) -> Served:
    """Serve requests until there are no more: when each is due is ns of `time.perf_counter_ns`, ascending. From `at_ns` on the
    client is free, and none is begun after `cutoff_ns`. Their shapes are in an order."""
    found, clock, free = Served(), time.perf_counter_ns, at_ns
    listening, push, pop = seat.ranges.listening, seat.ranges.push, seat.ranges.pop
    attributes = seat.ranges.sample["latency"]
    calls, shapes = seat.calls, len(order)
    try:
        while True:
            with turn:
                if turn.is_stopped or (number := turn.next()) >= len(due):
                    break
                spent.note(number)
                if (spun_ns := _wait(due[number], cutoff_ns, turn)) is None:
                    turn.stop()
                    break
                spent.spun_ns += spun_ns
            call, a, b = calls[order[number % shapes]]
            if listening:
                attributes.payload = number
                push(attributes)
            try:
                start = clock()
                kept = call(a, b)
                end = clock()
            finally:
                if listening:
                    pop()
            found.numbers.append(number)
            found.free.append(free)
            found.starts.append(start)
            found.ends.append(end)
            seat.kept, seat.last = kept, order[number % shapes]
            del kept
            free = clock()
    except Exception as error:
        turn.stop()
        found.error = one_line(f"{type(error).__name__}: {error}")
    return found


def _wait(due_ns: int, cutoff_ns: int, turn: Turn) -> int | None:
    """Wait until a request is due: for how long, ns, it spun at the end; None if none is to be begun any more."""
    clock = time.perf_counter_ns
    while (left := due_ns - clock()) > _SPIN_NS:
        time.sleep(min(left - _SPIN_NS, _SLICE_NS) / 1e9)
        if turn.is_stopped:
            return None
    while (now := clock()) < due_ns:
        pass
    return max(left, 0) if now < cutoff_ns else None


def load_clients(
    state: State, mode: str, count: int, own: bool = False, first: int = 0, shapes: Sequence[dict[str, Any]] = ()
) -> LoadClients:
    """Have clients of a mode; those that are there stay. The first one's number among all is `first`; each has inputs of all
    `shapes`, where there are several."""
    if Clients not in state.others:
        opened = state.opened
        requests = size_inputs(opened.path, opened.model, [inputs_from(it) for it in shapes]) or [opened.request]
        state.others[Clients] = Clients(opened, own, first, requests)
    clients: Clients = state.others[Clients]
    clients.add(mode, count)
    return {"threads": clients.natives, "lock": gil_wait_point()}


def load_closed(
    state: State,
    mode: str,
    count: int,
    duration_ns: int,
    least: int,
    order: Sequence[int],
    at_ns: int | None = None,
    board: str | None = None,
) -> LoadRuns:
    """Have clients call for so long, and `least` runs each, and check what each was left with. Where others are in other processes,
    `at_ns` is when to begin and `board` the file that holds clients together. The `order` of shapes comes again and again."""
    board_bytes = bytearray(count + 1) if board is None else _board(Path(board))

    def calling(begin: int) -> Callable[[Seat], Runs]:
        return lambda seat: keep_calling(seat, board_bytes, begin, begin + duration_ns, least, order)

    return _run_clients(state, mode, count, at_ns, calling)[1]


def load_open(
    state: State,
    mode: str,
    count: int,
    due: str,
    cutoff_ns: int,
    marks: Sequence[int],
    order: Sequence[int],
    at_ns: int | None = None,
    turn: str | None = None,
) -> LoadServed:
    """Have clients serve requests, and check what each was left with. They are due (packed) and cut off in ns from the beginning on.
    CPU time is read at the `marks`, requests by number. Where others are in other processes, `at_ns` is when to begin and `turn` the
    file by which clients take turns."""
    offsets = unpack(due)
    shared: Turn = ThreadTurn() if turn is None else ProcessTurn(Path(turn))
    spent = CpuTime(marks)

    def serving(begin: int) -> Callable[[Seat], Served]:
        moments = (offsets + begin).tolist()
        return lambda seat: serve(seat, shared, moments, begin, begin + cutoff_ns, spent, order)

    served, answer = _run_clients(state, mode, count, at_ns, serving)
    spent.note(offsets.size)  # what it did not get to, as others did
    answer["cpu_ns"] -= spent.spun_ns
    numbers, free = ([pack(getattr(it, key)) for it in served] for key in ("numbers", "free"))
    return {**answer, "numbers": numbers, "free": free, "readings": spent.readings}


def _run_clients(
    state: State, mode: str, count: int, at_ns: int | None, make_call: Callable[[int], Callable[[Seat], R]]
) -> tuple[list[R], LoadRuns]:
    """Have each client do something in its thread, all from the same moment on: what they give, and the answer. `make_call` is given that
    moment, and gives what is done with what a client has."""
    clients: Clients = state.others[Clients]
    begin = time.perf_counter_ns() + _LEAD_NS if at_ns is None else at_ns
    call, seats = make_call(begin), clients.seats[mode][:count]
    with no_garbage_collection():
        before = sum(cpu_ns()), time.perf_counter_ns()
        asked: list[Future[R]] = [seat.thread.submit(call, seat) for seat in seats]
        found = [it.result() for it in asked]
        end, after = time.perf_counter_ns(), sum(cpu_ns())
    used_ns, start = min((it.begun for it in found if it.begun is not None), default=before)
    return found, {
        "at_ns": begin,
        "starts": [pack(it.starts) for it in found],
        "ends": [pack(it.ends) for it in found],
        "error": next((it.error for it in found if it.error is not None), None),
        "differs": _differs(state, [seat for seat, it in zip(seats, found, strict=True) if it.ends]),
        "cpu_ns": after - used_ns,
        "wall_ns": end - start,
    }


def _differs(state: State, seats: Sequence[Seat]) -> str | None:
    """What is wrong with what clients were left with, in words; None where it is what a plain run of their inputs gives."""
    request = state.opened.request
    for seat in seats:
        wrong = seat.differs(request.rtol, request.atol)
        if wrong is not None:
            return f"client {seat.number + 1}: {wrong}{tensors.random_nodes_note(state.opened.path)}"
    return None


def _board(path: Path) -> MutableSequence[int]:
    with path.open("r+b", buffering=0) as file:
        shared: MutableSequence[int] = mmap.mmap(file.fileno(), path.stat().st_size)  # type: ignore[assignment]
        return shared
