"""Requests of a load: have clients, have them call in a closed or an open loop, let them go."""

from __future__ import annotations

import mmap
import time
from collections.abc import Callable, MutableSequence, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ortbench.core.int_codec import pack, unpack
from ortbench.plan.target import inputs_from
from ortbench.worker.inputs import model_file
from ortbench.worker.load.calling import ProcessTurn, Runs, Served, ThreadTurn, Turn, keep_calling, serve
from ortbench.worker.load.clients import Clients, Seat, waiting_place
from ortbench.worker.soak import sized
from ortbench.worker.timing import cpu_ns, no_garbage_collection

if TYPE_CHECKING:
    from ortbench.model import protocol
    from ortbench.worker.state import State

_LEAD_NS = 5_000_000  # from when threads are asked to when they begin
R = TypeVar("R", bound=Runs)


def load_clients(
    state: State, mode: str, count: int, own: bool = False, first: int = 0, shapes: Sequence[dict[str, Any]] = ()
) -> protocol.LoadClients:
    """Have clients of a mode; those that are there stay. The first one's number among all is `first`; each has inputs of all
    `shapes`, where there are several."""
    if state.clients is None:
        opened = state.opened
        requests = sized(opened.path, opened.model, [inputs_from(it) for it in shapes]) or [opened.request]
        state.clients = Clients(opened, own, first, requests)
    state.clients.add(mode, count)
    return {"threads": state.clients.natives, "lock": waiting_place()}


def load_closed(
    state: State,
    mode: str,
    count: int,
    duration_ns: int,
    least: int,
    at_ns: int | None = None,
    board: str | None = None,
    order: Sequence[int] = (0,),
) -> protocol.LoadRuns:
    """Have clients call for a while, and check what each was left with.

    Args:
        mode, count: of those that are there, so many.
        duration_ns: for so long, and `least` runs each.
        at_ns, board: when to begin, and the file that holds clients together, where others are in other processes.
        order: of the shapes of inferences, again and again; see `ortbench.plan.soak_plan.begun_by`.
    """
    places = bytearray(count + 1) if board is None else _board(Path(board))

    def calling(begin: int) -> Callable[[Seat, int], Runs]:
        return lambda seat, number: keep_calling(seat, number, places, begin, begin + duration_ns, least, order)

    return _together(state, mode, count, at_ns, calling)[1]


def load_open(
    state: State,
    mode: str,
    count: int,
    due: str,
    cutoff_ns: int,
    at_ns: int | None = None,
    turn: str | None = None,
    order: Sequence[int] = (0,),
) -> protocol.LoadServed:
    """Have clients serve requests, and check what each was left with.

    Args:
        mode, count: of those that are there, so many.
        due: packed, ns from the beginning on.
        cutoff_ns: from the beginning on; no request is begun after that.
        at_ns, turn: when to begin, and the file by which clients take turns, where others are in other processes.
        order: of the shapes of requests, again and again.
    """
    offsets = unpack(due)
    shared: Turn = ThreadTurn() if turn is None else ProcessTurn(Path(turn))

    def serving(begin: int) -> Callable[[Seat, int], Served]:
        moments = (offsets + begin).tolist()
        return lambda seat, _: serve(seat, shared, moments, begin, begin + cutoff_ns, order)

    served, answer = _together(state, mode, count, at_ns, serving)
    return {**answer, "numbers": [pack(it.numbers) for it in served], "free": [pack(it.free) for it in served]}


def load_end(state: State) -> dict[str, object]:
    if state.clients is not None:
        state.clients.close()
        state.clients = None
    return {}


def _together(
    state: State, mode: str, count: int, at_ns: int | None, make_call: Callable[[int], Callable[[Seat, int], R]]
) -> tuple[list[R], protocol.LoadRuns]:
    """Have each client do something in its thread, all from the same moment on: what they give, and the answer.

    `make_call` is given that moment, and gives what is done: with what a client has, and its number among all.
    """
    clients = state.clients
    assert clients is not None, "no clients were prepared"
    begin = time.perf_counter_ns() + _LEAD_NS if at_ns is None else at_ns
    call, seats = make_call(begin), clients.seats(mode, count)
    with no_garbage_collection():
        before, start = sum(cpu_ns()), time.perf_counter_ns()
        asked: list[Future[R]] = [
            clients.thread(it).submit(call, seat, clients.first + it) for it, seat in enumerate(seats)
        ]
        found = [it.result() for it in asked]
        end, after = time.perf_counter_ns(), sum(cpu_ns())
    runs = [(seat.modes[0], len(it.ends)) for seat, it in zip(seats, found, strict=True)]
    return found, {
        "steps": [pack(mode.take_times(count) or ()) for mode, count in runs],
        "step_starts": [pack(mode.take_starts(count)) for mode, count in runs],
        "at_ns": begin,
        "starts": [pack(it.starts) for it in found],
        "ends": [pack(it.ends) for it in found],
        "error": next((it.error for it in found if it.error is not None), None),
        "differs": _differs(state, [seat for seat, it in zip(seats, found, strict=True) if it.ends]),
        "cpu_ns": after - before,
        "wall_ns": end - start,
    }


def _differs(state: State, seats: Sequence[Seat]) -> str | None:
    """What is wrong with what clients were left with, in words; None where it is what a plain run of their inputs gives."""
    request = state.opened.request
    for seat in seats:
        wrong = seat.differs(request.rtol, request.atol)
        if wrong is not None:
            return f"client {seat.number + 1}: {wrong}{model_file.sentence(state.opened.path)}"
    return None


def _board(path: Path) -> MutableSequence[int]:
    with path.open("r+b", buffering=0) as file:
        shared: MutableSequence[int] = mmap.mmap(file.fileno(), path.stat().st_size)  # type: ignore[assignment]
        return shared
