"""Speaks with Ray, the only module that does: gives cases to machines, and tells what becomes of them.

It is a process beside the command. Ray prints much, and ends the process that it is in where it loses its cluster; what was
measured and the command are not to suffer from either.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import socket
import sys
import tempfile
import threading
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import GetTimeoutError, RayError, RayTaskError, TaskCancelledError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from ortbench import __version__
from ortbench.errors import BenchmarkFailed, one_line
from ortbench.jobs.cluster import machine
from ortbench.jobs.cluster.orders import (
    Done,
    Failed,
    Finished,
    Joined,
    Joining,
    Lost,
    Order,
    Refused,
    Remark,
    Started,
    Work,
)
from ortbench.jobs.cluster.parcels import Parcel, parcels_of
from ortbench.jobs.cluster.places import CPU, GPU, Occupancy, Place, able, why_none

_PART = 64 << 20  # bytes of a file that are put into Ray's object store at a time
_TICK_S = 0.5
_LOOK_S = 5.0  # how often it looks which machines there are
_ANSWER_S = 90.0  # how long a machine may take to say what it has; its first process has to start
_TIDY_S = 10.0
_REACH_S = 10.0
_CHANCES = 3  # how often a case may be lost before it is given up


def main() -> None:
    """Carry out what standard input says, and say on standard output what becomes of it."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what Ray prints is not an answer
    joining: Joining = pickle.load(sys.stdin.buffer)

    def tell(answer: Any) -> None:
        pickle.dump(answer, answers)
        answers.flush()

    # Machines look for modules in the current folder first, which may have some that are called like their packages.
    with tempfile.TemporaryDirectory() as nowhere, contextlib.chdir(nowhere):
        _serve(joining, tell)


def _serve(joining: Joining, tell: Callable[[Any], None]) -> None:
    """Connect, and carry cases out until there are no more or the command says so."""
    try:
        _connect(joining.address)
        cluster = _Cluster(joining, tell)
        cluster.look(strictly=True)
    except _Unusable as error:
        tell(Refused(str(error)))
        return
    tell(Joined(list(cluster.places.values())))
    try:
        works: list[Work] = pickle.load(sys.stdin.buffer)
        threading.Thread(target=cluster.stop_at_end, args=(sys.stdin.fileno(),), daemon=True).start()
        cluster.carry_out(works)
        tell(Finished())
    except (EOFError, BrokenPipeError):  # the command has ended before it has said what to do
        pass
    finally:
        ray.shutdown()


class _Unusable(Exception):
    """There is no cluster, or none that cases can be carried out on."""


def _connect(address: str) -> None:
    """Connect to a cluster.

    Raises:
        _Unusable: with the reason.
    """
    if ":" in address:
        host, port = address.rpartition("/")[2].rsplit(":", 1)
        try:
            socket.create_connection((host.strip("[]"), int(port)), _REACH_S).close()
        except (OSError, ValueError) as error:  # which Ray would try again for minutes
            raise _Unusable(f"cannot be reached: {one_line(error)}") from None
    try:
        ray.init(address=address, log_to_driver=False, configure_logging=False)
    except Exception as error:
        raise _Unusable(one_line(error)) from None


def _on(place_id: str) -> NodeAffinitySchedulingStrategy:
    return NodeAffinitySchedulingStrategy(place_id, soft=False)


@ray.remote(max_retries=0)  # the command retries, elsewhere
def _carry_out(order: Order) -> Done:
    cards = ray.get_runtime_context().get_accelerator_ids().get(GPU, [])
    return machine.carry_out(order, ray.get, [str(card) for card in cards])


def _look_function() -> Callable[..., dict[str, Any]]:
    """A function that needs no ortbench on the machine: one inside another goes there as it is, not by its name."""

    def look(wanted: str, base: str, pythons: tuple[str, ...]) -> dict[str, Any]:
        try:
            from ortbench import __version__ as version
        except ImportError:
            return {"version": None}
        if version != wanted:
            return {"version": version}
        from ortbench.jobs.cluster.machine import facts

        return {"version": version, **facts(base, pythons)}

    return look


@dataclass
class _Case:
    """A case that is not done.

    Attributes:
        work: it.
        parcels: its files.
        lost_on: ids of the machines with which it was lost.
    """

    work: Work
    parcels: tuple[Parcel, ...]
    lost_on: list[str] = field(default_factory=list)

    @property
    def id(self) -> str:
        return self.work.job.case.id


@dataclass(frozen=True)
class _Running:
    case: _Case
    place: Place
    taken: dict[str, float]


class _Cluster:
    """The machines, and what is on them.

    Args:
        joining: what was asked for.
        tell: says something to the command.

    Attributes:
        places: machines that cases can be on, by their ids.
    """

    def __init__(self, joining: Joining, tell: Callable[[Any], None]) -> None:
        self._joining, self._tell = joining, tell
        self._suite = uuid.uuid4().hex[:12]
        self._occupancy = Occupancy()
        self._running: dict[Any, _Running] = {}
        self._parts: dict[str, list[Any]] = {}
        self._refused: set[str] = set()
        self._used: set[str] = set()
        self._stopped = threading.Event()
        self.places: dict[str, Place] = {}

    def stop_at_end(self, commands: int) -> None:
        """Stop as soon as the command has nothing more to say, which it says by closing the pipe or ending."""
        os.read(commands, 1)  # not by Python's file, which a thread may not hold when the process ends
        self._stopped.set()

    # Machines

    def look(self, strictly: bool = False) -> None:
        """See which machines there are now, and what is on those that are new.

        Args:
            strictly: one with another ortbench is an error, not just left out.

        Raises:
            _Unusable: there is no machine, or with `strictly` one cannot be used.
        """
        alive = {node["NodeID"]: node for node in ray.nodes() if node["Alive"]}  # type: ignore[no-untyped-call]
        self.places = {id_: place for id_, place in self.places.items() if id_ in alive}
        new = {
            id_: node
            for id_, node in alive.items()
            if id_ not in {*self.places, *self._refused} and node["Resources"].get(CPU, 0) >= 1
        }
        look = ray.remote(num_cpus=0, max_retries=0)(_look_function())
        asked = {
            id_: look.options(scheduling_strategy=_on(id_)).remote(
                __version__, self._joining.base, self._joining.pythons
            )
            for id_ in new
        }
        for id_, answer in asked.items():
            try:
                self.places[id_] = _place(new[id_], ray.get(answer, timeout=_ANSWER_S))
            except (_Unusable, GetTimeoutError, RayError) as error:
                reason = str(error) if isinstance(error, _Unusable) else f"{_name(new[id_])} does not answer"
                if strictly and isinstance(error, _Unusable):
                    raise
                self._refused.add(id_)
                self._tell(Remark(f"{reason}; it gets no cases"))

    # Cases

    def carry_out(self, works: list[Work]) -> None:
        """Carry cases out, each on a machine that has what it takes and room for it, until all are done or it is stopped."""
        waiting = [case for work in works if (case := self._case(work)) is not None]
        ticks = 0
        while (waiting or self._running) and not self._stopped.is_set():
            waiting = [case for case in waiting if not self._start(case)]
            self._forget_parts(waiting)
            waiting = self._ended() + waiting
            ticks += 1
            if ticks % round(_LOOK_S / _TICK_S) == 0:
                self.look()
        for task in self._running:
            ray.cancel(task, force=True)
        self._tidy()

    def _case(self, work: Work) -> _Case | None:
        try:
            return _Case(work, parcels_of(work.job, self._joining.base))
        except OSError as error:
            self._tell(Failed(work.job.case.id, one_line(f"{type(error).__name__}: {error}")))
            return None

    def _start(self, case: _Case) -> bool:
        """Give a case to a machine; False where it has to wait for one."""
        demand = case.work.job.demand
        if not able(demand, self.places.values()):
            self._tell(Failed(case.id, why_none(demand, self.places.values())))
            return True
        place = self._occupancy.free(demand, [*self.places.values()], case.lost_on)
        if place is None:
            return False
        try:
            parts = self._put(case)
        except OSError as error:
            self._tell(Failed(case.id, one_line(f"{type(error).__name__}: {error}")))
            return True
        taken = self._occupancy.take(place, demand)
        self._used.add(place.id)
        joining = self._joining
        order = Order(
            case.work, case.parcels, parts, self._suite, place, demand.resources, joining.base, joining.commit
        )
        task = _carry_out.options(
            name=f"ortbench {case.id}",
            num_cpus=taken[CPU],
            num_gpus=demand.gpus,
            resources=demand.resources,
            scheduling_strategy=_on(place.id),
        ).remote(order)
        self._running[task] = _Running(case, place, taken)
        self._tell(Started(case.id, place.name))
        return True

    def _put(self, case: _Case) -> dict[str, list[Any]]:
        """Put the content of a case's files into Ray's object store, unless it is there, from which each machine takes it once.

        Raises:
            OSError: a file cannot be read.
        """
        found = {}
        for piece in (piece for parcel in case.parcels for piece in parcel.pieces):
            if piece.sha256 not in self._parts:
                with Path(piece.source).open("rb") as file:
                    self._parts[piece.sha256] = [ray.put(part) for part in iter(lambda: file.read(_PART), b"")]
            found[piece.sha256] = self._parts[piece.sha256]
        return found

    def _forget_parts(self, waiting: list[_Case]) -> None:
        """Let the object store have the room again of files that no case needs any more."""
        cases = [*waiting, *(running.case for running in self._running.values())]
        needed = {piece.sha256 for case in cases for parcel in case.parcels for piece in parcel.pieces}
        self._parts = {digest: parts for digest, parts in self._parts.items() if digest in needed}

    def _ended(self) -> list[_Case]:
        """Wait a moment for cases to end, and tell what became of them; those that were lost and get another chance."""
        if not self._running:
            self._stopped.wait(_TICK_S)
            return []
        ready, _ = ray.wait([*self._running], num_returns=1, timeout=_TICK_S)
        again = []
        for task in ready:
            running = self._running.pop(task)
            self._occupancy.leave(running.place, running.taken)
            if not self._concluded(task, running):
                again.append(running.case)
        return again

    def _concluded(self, task: Any, running: _Running) -> bool:
        """Tell what became of a case; False where it was lost and gets another chance."""
        case, place = running.case, running.place
        try:
            self._tell(ray.get(task))
        except TaskCancelledError:
            pass
        except RayTaskError as error:
            cause = error.cause
            text = str(cause) if isinstance(cause, BenchmarkFailed) else f"{type(cause).__name__}: {cause}"
            self._tell(Failed(case.id, f"on {place.name}: {one_line(text)}"))
        except RayError as error:
            case.lost_on.append(place.id)
            if len(case.lost_on) >= _CHANCES:
                reason = f"was lost {_CHANCES} times, last with {place.name} ({type(error).__name__})"
                self._tell(Failed(case.id, reason))
                return True
            self._tell(Lost(case.id, place.name))
            self.look()
            return False
        return True

    def _tidy(self) -> None:
        """Remove what the suite has left on machines that are still there."""
        tidy = ray.remote(num_cpus=0, max_retries=0)(machine.tidy)
        with suppress(RayError):
            used = [place for place in self.places if place in self._used]
            tasks = [tidy.options(scheduling_strategy=_on(place)).remote(self._suite, place) for place in used]
            ray.wait(tasks, num_returns=len(tasks), timeout=_TIDY_S) if tasks else None


def _name(node: dict[str, Any]) -> str:
    """What a machine is called: by the name that it was given, else by its host's."""
    name, address = node.get("NodeName"), node["NodeManagerAddress"]
    return str(name if name and name != address else node.get("NodeManagerHostname") or address)


def _place(node: dict[str, Any], facts: dict[str, Any]) -> Place:
    """A machine that says what it has.

    Raises:
        _Unusable: it has not this version of ortbench.
    """
    name, version = _name(node), facts["version"]
    if version != __version__:
        there = "has no ortbench" if version is None else f"has ortbench {version}"
        raise _Unusable(f"{name} {there}, and here is {__version__}: install the same on every machine")
    address = node["NodeManagerAddress"]
    return Place(node["NodeID"], name, address, node["Resources"], facts["packages"], facts["pythons"])


if __name__ == "__main__":
    main()
