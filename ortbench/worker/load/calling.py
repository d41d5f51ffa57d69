"""What clients do in a closed loop and in an open one.

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

import sys
import threading
import time
from collections.abc import MutableSequence
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING

from ortbench.core.errors import one_line
from ortbench.plan.soak_plan import begun_by

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ortbench.worker.load.clients import Seat


# An EP may serve clients so unfairly that some get no run: how much longer than they measure others call for them.
_PATIENCE_NS, _PATIENCE = 10_000_000_000, 10
_NEAR_NS = 500_000  # before a moment that is waited for: from there on the wait is in short steps


@dataclass
class Runs:
    """The runs of a client: when they started and ended, ns; `error`: what ended it, in words."""

    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    error: str | None = None


def keep_calling(
    seat: Seat,
    number: int,
    board: MutableSequence[int],
    at_ns: int,
    until_ns: int,
    least: int,
    order: Sequence[int] = (0,),
) -> Runs:
    """Call until every client on the board has called for long enough, each `least` times and until `until_ns`, in an order of shapes.

    The board has a byte for each client, all 0 at the beginning, and a last one for whoever fails.
    """
    found, clock, count = Runs(), time.perf_counter_ns, len(board) - 1
    latest_ns = until_ns + max(_PATIENCE_NS, _PATIENCE * (until_ns - at_ns))
    add_start, add_end = found.starts.append, found.ends.append
    listening, push, pop = seat.ranges.listening, seat.ranges.push, seat.ranges.pop
    attributes = seat.ranges.sample["latency"]
    calls, shapes = seat.calls, begun_by(seat.number, order)
    following = cycle([calls[shape] for shape in shapes])
    wait_until(at_ns)
    try:
        while not board[count]:
            call, a, b = next(following)
            if listening:
                attributes.payload = len(found.ends)
                push(attributes)
            try:
                start = clock()
                kept = call(a, b)
                end = clock()
            finally:
                if listening:
                    pop()
            add_start(start)
            add_end(end)
            if end >= until_ns and len(found.ends) >= least:
                board[number] = 1
                if all(board[:count]) or end >= latest_ns:
                    seat.kept, seat.last = kept, shapes[(len(found.ends) - 1) % len(shapes)]
                    break
            del kept  # what a run returned is freed outside the clock
    except Exception as error:
        board[count] = 1
        found.error = one_line(f"{type(error).__name__}: {error}")
    return found


def wait_until(at_ns: int) -> None:
    """Wait for a moment of `time.perf_counter_ns`, and let others have the GIL meanwhile."""
    while (left := at_ns - time.perf_counter_ns()) > 0:
        time.sleep((left - _NEAR_NS) / 1e9 if left > _NEAR_NS else 0)


# Before a moment: a sleep ends late by less, and nobody waits longer for the GIL, which it holds.
_SPIN_NS = 150_000
_SLICE_NS = 200_000_000  # the longest sleep, after which it is seen whether the level goes on


class ThreadTurn:
    """The turn to take the next request, for clients of one process: only who is inside has it. Once it is stopped nobody is to
    take another one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._next = 0
        self.stopped = False

    def __enter__(self) -> object:
        return self._lock.__enter__()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def next(self) -> int:
        """The number of the next request, which is then taken."""
        self._next += 1
        return self._next - 1

    def stop(self) -> None:
        self.stopped = True


class ProcessTurn:
    """For clients of several processes: the lock of a file, which holds the number; the system lets go of one whose
    process dies."""

    def __init__(self, path: Path) -> None:
        import mmap

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
    def stopped(self) -> bool:
        return bool(self._shared[8])


Turn = ThreadTurn | ProcessTurn


@dataclass
class Served(Runs):
    """The same of requests, with their numbers and when the client was free for each, ns."""

    numbers: list[int] = field(default_factory=list)
    free: list[int] = field(default_factory=list)


def serve(
    seat: Seat, turn: Turn, due: Sequence[int], at_ns: int, cutoff_ns: int, order: Sequence[int] = (0,)
) -> Served:
    """Serve requests until there are no more: when each is due is ns of `time.perf_counter_ns`, ascending. From `at_ns` on the
    client is free, and none is begun after `cutoff_ns`. Their shapes are in an order."""
    found, clock, count, free = Served(), time.perf_counter_ns, len(due), at_ns
    listening, push, pop = seat.ranges.listening, seat.ranges.push, seat.ranges.pop
    attributes = seat.ranges.sample["latency"]
    calls, shapes = seat.calls, len(order)
    try:
        while True:
            with turn:
                if turn.stopped or (number := turn.next()) >= count:
                    break
                if not _wait(due[number], cutoff_ns, turn):
                    turn.stop()
                    break
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


def _wait(due_ns: int, cutoff_ns: int, turn: Turn) -> bool:
    """Wait until a request is due; False if none is to be begun any more."""
    clock = time.perf_counter_ns
    while (left := due_ns - clock()) > _SPIN_NS:
        time.sleep(min(left - _SPIN_NS, _SLICE_NS) / 1e9)
        if turn.stopped:
            return False
    while (now := clock()) < due_ns:
        pass
    return now < cutoff_ns
