"""Requests of a load: have callers, have them call in a closed or an open loop, let them go."""

from __future__ import annotations

import mmap
import time
from collections.abc import Callable, MutableSequence, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from ortbench.core.int_codec import pack, unpack
from ortbench.worker.host_time import cpu_ns
from ortbench.worker.load.callers import Callers, Seat
from ortbench.worker.load.closed import Runs, keep_calling
from ortbench.worker.load.lock import waiting_place
from ortbench.worker.load.serving import ProcessTurn, ThreadTurn, Turn, serve
from ortbench.worker.proofs import random_nodes
from ortbench.worker.timing import no_garbage_collection

if TYPE_CHECKING:
    from ortbench.model import protocol
    from ortbench.worker.state import State

_LEAD_NS = 5_000_000  # from when threads are asked to when they begin
T = TypeVar("T")


def load_callers(state: State, mode: str, count: int, own: bool = False, first: int = 0) -> protocol.LoadCallers:
    """Have callers of a mode; those that are there stay. The first one's number among all is `first`."""
    if state.callers is None:
        state.callers = Callers(state.opened, own, first)
    state.callers.add(mode, count)
    return {"threads": state.callers.natives, "lock": waiting_place()}


def load_closed(
    state: State,
    mode: str,
    count: int,
    duration_ns: int,
    least: int,
    at_ns: int | None = None,
    board: str | None = None,
) -> protocol.LoadRuns:
    """Have callers call for a while, and check what each was left with.

    Args:
        mode, count: of those that are there, so many.
        duration_ns: for so long, and `least` runs each.
        at_ns, board: when to begin, and the file that holds callers together, where others are in other processes.
    """
    callers = _callers(state)
    begin = time.perf_counter_ns() + _LEAD_NS if at_ns is None else at_ns
    places = bytearray(count + 1) if board is None else _board(Path(board))

    def call(seat: Seat, number: int) -> Runs:
        return keep_calling(seat, callers.first + number, places, begin, begin + duration_ns, least)

    runs, cpu, wall = _together(callers, mode, count, call)
    return {
        "at_ns": begin,
        "starts": [pack(it.starts) for it in runs],
        "ends": [pack(it.ends) for it in runs],
        "error": next((it.error for it in runs if it.error is not None), None),
        "differs": _differs(state, mode, [bool(it.ends) for it in runs]),
        "cpu_ns": cpu,
        "wall_ns": wall,
    }


def load_open(
    state: State, mode: str, count: int, due: str, cutoff_ns: int, at_ns: int | None = None, turn: str | None = None
) -> protocol.LoadServed:
    """Have callers serve requests, and check what each was left with.

    Args:
        mode, count: of those that are there, so many.
        due: packed, ns from the beginning on.
        cutoff_ns: from the beginning on; no request is begun after that.
        at_ns, turn: when to begin, and the file by which callers take turns, where others are in other processes.
    """
    callers = _callers(state)
    offsets = unpack(due)
    shared: Turn = ThreadTurn() if turn is None else ProcessTurn(Path(turn))
    begin = time.perf_counter_ns() + _LEAD_NS if at_ns is None else at_ns
    moments = (offsets + begin).tolist()
    served, cpu, wall = _together(
        callers, mode, count, lambda seat, _: serve(seat, shared, moments, begin, begin + cutoff_ns)
    )
    return {
        "at_ns": begin,
        "numbers": [pack(it.numbers) for it in served],
        "free": [pack(it.free) for it in served],
        "starts": [pack(it.starts) for it in served],
        "ends": [pack(it.ends) for it in served],
        "error": next((it.error for it in served if it.error is not None), None),
        "differs": _differs(state, mode, [bool(it.ends) for it in served]),
        "cpu_ns": cpu,
        "wall_ns": wall,
    }


def load_end(state: State) -> dict[str, object]:
    """Let the callers go, and their threads, sessions and buffers."""
    if state.callers is not None:
        state.callers.close()
        state.callers = None
    return {}


def _callers(state: State) -> Callers:
    assert state.callers is not None, "no caller was asked for"
    return state.callers


def _together(callers: Callers, mode: str, count: int, call: Callable[[Seat, int], T]) -> tuple[list[T], int, int]:
    """Have each caller do something in its thread: what they give, CPU time of the process and time by the clock, ns."""
    seats = callers.seats(mode, count)
    with no_garbage_collection():
        before, start = sum(cpu_ns()), time.perf_counter_ns()
        asked: list[Future[T]] = [callers.thread(it).submit(call, seats[it], it) for it in range(count)]
        found = [it.result() for it in asked]
        end, after = time.perf_counter_ns(), sum(cpu_ns())
    return found, after - before, end - start


def _differs(state: State, mode: str, ran: Sequence[bool]) -> str | None:
    """What is wrong with what those callers were left with that ran, in words; None where it is what a plain run of their
    inputs gives."""
    request = state.opened.request
    callers = _callers(state)
    for number, seat in enumerate(callers.seats(mode, len(ran))):
        wrong = seat.differs(request.rtol, request.atol) if ran[number] else None
        if wrong is not None:
            return f"caller {callers.first + number + 1}: {wrong}{random_nodes.sentence(state.opened.path)}"
    return None


def _board(path: Path) -> MutableSequence[int]:
    with path.open("r+b", buffering=0) as file:
        shared: MutableSequence[int] = mmap.mmap(file.fileno(), path.stat().st_size)  # type: ignore[assignment]
        return shared
