"""A closed loop: each caller starts the next inference when the last is done, until all have done so for long enough.

Nobody stops before everybody has a run that ended after the end of the measured time: what is taken into account of a
caller ends with the first such run of its own, and until then all the others are busy too. Callers in several processes
are held together by a board, a byte for each and one more, which all of them see.
"""

from __future__ import annotations

import time
from collections.abc import MutableSequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ortbench.core.errors import one_line

if TYPE_CHECKING:
    from ortbench.worker.load.callers import Seat

# An EP may serve callers so unfairly that some get no run: how much longer than they measure others call for them.
_PATIENCE_NS, _PATIENCE = 10_000_000_000, 10
_NEAR_NS = 500_000  # before a moment that is waited for: from there on the wait is in short steps


@dataclass
class Runs:
    """The runs of a caller: when they started and ended, ns; `error`: what ended it, in words."""

    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    error: str | None = None


def keep_calling(seat: Seat, number: int, board: MutableSequence[int], at_ns: int, until_ns: int, least: int) -> Runs:
    """Call until every caller on the board has called for long enough.

    Args:
        seat: of the caller.
        number: of the caller, its place on the board, whose last place is for whoever fails.
        board: bytes, shape (callers + 1,), all 0 at the beginning.
        at_ns, until_ns: when all begin, and until when they measure.
        least: runs of each caller.
    """
    found, clock, count = Runs(), time.perf_counter_ns, len(board) - 1
    latest_ns = until_ns + max(_PATIENCE_NS, _PATIENCE * (until_ns - at_ns))
    add_start, add_end = found.starts.append, found.ends.append
    listening, push, pop = seat.ranges.listening, seat.ranges.push, seat.ranges.pop
    attributes = seat.ranges.sample["latency"]
    call, a, b = seat.call
    wait_until(at_ns)
    try:
        while not board[count]:
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
                    seat.kept = kept
                    break
            del kept  # what a run returned is freed outside the clock
    except Exception as error:
        board[count] = 1
        found.error = one_line(f"{type(error).__name__}: {error}")
    return found


def wait_until(at_ns: int) -> None:
    """Wait for a moment of `time.perf_counter_ns`, and let others have Python's lock meanwhile."""
    while (left := at_ns - time.perf_counter_ns()) > 0:
        time.sleep((left - _NEAR_NS) / 1e9 if left > _NEAR_NS else 0)
