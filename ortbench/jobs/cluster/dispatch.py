"""Gives cases to the machines of a cluster, and tells what becomes of them."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ortbench.core.errors import one_line
from ortbench.jobs.cluster.orders import Failed, Joining, Lost, Order, Remark, Started, TaskFailed, TaskLost, Work
from ortbench.jobs.cluster.parcels import Parcel, parcels_of
from ortbench.jobs.cluster.places import Occupancy, Place, able, why_none

if TYPE_CHECKING:  # Ray is for those who use it
    from ortbench.jobs.cluster.rays import Rays

_TICK_S = 0.5
_LOOK_S = 5.0  # how often it looks which machines there are
_CHANCES = 3  # how often a case may be lost before it is given up


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
    def digests(self) -> set[str]:
        """Of the content of its files."""
        return {piece.sha256 for parcel in self.parcels for piece in parcel.pieces}


@dataclass(frozen=True)
class _Running:
    """A case on a machine, and how much it takes of it."""

    case: _Case
    place: Place
    taken: dict[str, float]


class Dispatch:
    """Machines, and the cases on them.

    Args:
        rays: the cluster.
        joining: what was asked for.
        tell: says something to the command.

    Attributes:
        places: the machines that cases can be on, by their ids.
        stopped: set from outside where nothing more is to be begun.
    """

    def __init__(self, rays: Rays, joining: Joining, tell: Callable[[Any], None]) -> None:
        self._rays, self._joining, self._tell = rays, joining, tell
        self._suite = uuid.uuid4().hex[:12]
        self._occupancy = Occupancy()
        self._running: dict[Any, _Running] = {}
        self._parts: dict[str, list[Any]] = {}
        self._refused: set[str] = set()
        self._used: set[str] = set()
        self._looked = 0.0
        self.places: dict[str, Place] = {}
        self.stopped = threading.Event()

    def look(self, strictly: bool = False) -> None:
        """See which machines there are now, and what is on those that are new.

        Args:
            strictly: one that cannot be used is an error, not just left out.

        Raises:
            Unusable: see `strictly`.
        """
        there = self._rays.machines()
        self.places = {id_: place for id_, place in self.places.items() if id_ in there}
        new = {id_: it for id_, it in there.items() if id_ not in self.places and id_ not in self._refused}
        found = self._rays.look_at(new, self._joining.base, self._joining.pythons)
        for id_, place in found.items():
            if isinstance(place, Place):
                self.places[id_] = place
            elif strictly:
                raise place
            else:
                self._refused.add(id_)
                self._tell(Remark(f"{place}; it gets no cases"))
        self._looked = time.monotonic()

    def carry_out(self, works: Sequence[Work]) -> None:
        """Carry cases out, each on a machine that has what it takes and room for it, until all are done or it is stopped."""
        waiting = [case for work in works if (case := self._case(work)) is not None]
        while (waiting or self._running) and not self.stopped.is_set():
            waiting = [case for case in waiting if not self._start(case)]
            self._forget_parts(waiting)
            waiting = self._ended() + waiting
            if time.monotonic() - self._looked > _LOOK_S:
                self.look()

    def end(self) -> None:
        """Cancel what is running, and leave the cluster as it was."""
        self._rays.end(self._running, self._suite, [place for place in self.places if place in self._used])

    def _case(self, work: Work) -> _Case | None:
        try:
            return _Case(work, parcels_of(work.job, self._joining.base))
        except OSError as error:
            self._fail(work, error)
            return None

    def _start(self, case: _Case) -> bool:
        """Give a case to a machine, or give it up; False where it has to wait for one."""
        work, demand, places = case.work, case.work.job.demand, [*self.places.values()]
        if not able(demand, places):
            self._tell(Failed(work.id, why_none(demand, places)))
            return True
        place = self._occupancy.free(demand, places, case.lost_on)
        if place is None:
            return False
        try:
            parts = self._put(case)
        except OSError as error:
            self._fail(work, error)
            return True
        taken = self._occupancy.take(place, demand)
        self._used.add(place.id)
        order = Order(work, case.parcels, parts, self._suite, place, demand.resources, self._joining)
        self._running[self._rays.start(order, taken)] = _Running(case, place, taken)
        self._tell(Started(work.id, place.name))
        return True

    def _fail(self, work: Work, error: OSError) -> None:
        self._tell(Failed(work.id, one_line(f"{type(error).__name__}: {error}")))

    def _put(self, case: _Case) -> dict[str, list[Any]]:
        """The parts of a case's files in the object store; each is put there once.

        Raises:
            OSError: a file cannot be read.
        """
        for piece in (piece for parcel in case.parcels for piece in parcel.pieces):
            if piece.sha256 not in self._parts:
                self._parts[piece.sha256] = self._rays.put(piece.source)
        return {digest: self._parts[digest] for digest in case.digests}

    def _forget_parts(self, waiting: Sequence[_Case]) -> None:
        """Let the object store have the room again of files that no case needs any more."""
        cases = [*waiting, *(running.case for running in self._running.values())]
        needed = {digest for case in cases for digest in case.digests}
        self._parts = {digest: parts for digest, parts in self._parts.items() if digest in needed}

    def _ended(self) -> list[_Case]:
        """Wait a moment for cases to end, and tell what became of them; those that were lost and get another chance."""
        if not self._running:
            self.stopped.wait(_TICK_S)
            return []
        again = []
        for task in self._rays.ended(self._running, _TICK_S):
            running = self._running.pop(task)
            self._occupancy.leave(running.place, running.taken)
            if not self._concluded(task, running):
                again.append(running.case)
        return again

    def _concluded(self, task: Any, running: _Running) -> bool:
        """Tell what became of a case; False where it was lost and gets another chance."""
        case, place = running.case, running.place
        try:
            self._tell(self._rays.outcome(task))
        except TaskFailed as error:
            self._tell(Failed(case.work.id, f"on {place.name}: {error}"))
        except TaskLost as error:
            case.lost_on.append(place.id)
            if error.with_machine:  # Ray lists it for a while yet
                self._refused.add(place.id)
                self.places.pop(place.id, None)
            if len(case.lost_on) < _CHANCES:
                self._tell(Lost(case.work.id, place.name))
                return False
            self._tell(Failed(case.work.id, f"was lost {_CHANCES} times, last on {place.name} ({error})"))
        return True
