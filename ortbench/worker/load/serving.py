"""An open loop: requests are due at moments that were made beforehand, and callers serve them in their order.

Callers take turns as leader and followers (Schmidt and others, Leader/Followers, 2000): the one that has the turn waits for
the next moment by itself, hands on the turn and runs. So nothing lies between the moment at which a request is due and
its run if a caller is free: no queue between threads, and nobody to be woken by somebody else.
"""

from __future__ import annotations

import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ortbench.core.errors import one_line

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from ortbench.worker.load.callers import Seat

_SPIN_NS = (
    150_000  # before a moment: a sleep ends late by less, and nobody waits longer for Python's lock, which it holds
)
_SLICE_NS = 200_000_000  # the longest sleep, after which it is seen whether the level goes on


class Turn(Protocol):
    """The turn to take the next request: only who is inside has it."""

    def __enter__(self) -> object: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> object: ...

    def next(self) -> int:
        """The number of the next request, which is then taken."""

    def stop(self) -> None:
        """Nobody is to take another one."""

    @property
    def stopped(self) -> bool:
        """Whether somebody said so."""


class ThreadTurn:
    """For callers of one process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._next = 0
        self.stopped = False

    def __enter__(self) -> object:
        return self._lock.__enter__()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def next(self) -> int:
        self._next += 1
        return self._next - 1

    def stop(self) -> None:
        self.stopped = True


class ProcessTurn:
    """For callers of several processes: the lock of a file, which holds the number; the system lets go of one whose process dies.

    Args:
        path: of the file: 16 bytes, all 0 at the beginning.
    """

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


@dataclass
class Served:
    """What a caller served: numbers of requests, when it was free for each, started and ended it, ns; `error`: what ended it."""

    numbers: list[int] = field(default_factory=list)
    free: list[int] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    error: str | None = None


def serve(seat: Seat, turn: Turn, due: Sequence[int], at_ns: int, cutoff_ns: int) -> Served:
    """Serve requests until there are no more.

    Args:
        seat: of the caller.
        turn: shared by all callers.
        due: when each request is due, ns of `time.perf_counter_ns`, ascending.
        at_ns: when the level begins: from then on the caller is free.
        cutoff_ns: no request is begun after that.
    """
    found, clock, count, free = Served(), time.perf_counter_ns, len(due), at_ns
    listening, push, pop = seat.ranges.listening, seat.ranges.push, seat.ranges.pop
    attributes = seat.ranges.sample["latency"]
    call, a, b = seat.call
    try:
        while True:
            with turn:
                if turn.stopped or (number := turn.next()) >= count:
                    break
                if not _wait(due[number], cutoff_ns, turn):
                    turn.stop()
                    break
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
            seat.kept = kept
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
