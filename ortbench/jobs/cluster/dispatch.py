"""Gives cases to the machines of a cluster, and tells what becomes of them: the process that speaks with Ray, beside the command.

Ray prints much, and ends the process that it is in where it loses its cluster; what was measured and the command are not to
suffer from either.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakValueDictionary

from ortbench.core.errors import BenchmarkFailed, one_line
from ortbench.jobs.cluster.machines import (
    Amounts,
    Joining,
    Order,
    Parcel,
    Place,
    TaskLost,
    Unusable,
    Work,
    able,
    free,
    parcel_of,
    paths_of,
    why_none,
)

if TYPE_CHECKING:  # Ray is for those who use it
    from ortbench.jobs.cluster.rays import Rays

_TICK_S = 0.5
_LOOK_S = 5.0  # how often it looks which machines there are
_CHANCES = 3  # how often a case may be lost before it is given up


@dataclass
class _Case:
    """A case that is not done, with its files, and the ids of the machines with which it was lost."""

    work: Work
    parcels: tuple[Parcel, ...]
    lost_on: list[str] = field(default_factory=list)


class _Running(NamedTuple):
    """A case on a machine, and how much it takes of it."""

    case: _Case
    place: Place
    taken: Amounts


class Dispatch:
    """Machines, and the cases on them.

    What becomes of the cases is told to one of `ortbench.jobs.cluster.spread`: the name of its method, and what it is given.

    Attributes:
        places: the machines that cases can be on, by their ids.
        stopped: set from outside where nothing more is to be begun.
    """

    def __init__(self, rays: Rays, joining: Joining, tell: Callable[..., None]) -> None:
        self._rays, self._joining, self._tell = rays, joining, tell
        self._suite = uuid.uuid4().hex[:12]
        self._running: dict[Any, _Running] = {}
        # As long as a case needs one, so that the object store has its room again.
        self._parcels: WeakValueDictionary[str, Parcel] = WeakValueDictionary()
        self._refused: set[str] = set()
        self._used: set[str] = set()
        self._looked = 0.0
        self.places: dict[str, Place] = {}
        self.stopped = threading.Event()

    def look(self, strictly: bool = False) -> None:
        """See which machines there are now, and what is on those that are new; `Unusable` where one cannot be used, where it
        is to be looked at `strictly`; else it is just left out."""
        there = self._rays.machines()
        self.places = {id_: place for id_, place in self.places.items() if id_ in there}
        new = {id_: it for id_, it in there.items() if id_ not in self.places and id_ not in self._refused}
        for id_, place in self._rays.look_at(new, self._joining).items():
            if isinstance(place, Place):
                self.places[id_] = place
            elif strictly:
                raise place
            else:
                self._refused.add(id_)
                self._tell("remark", f"{place}; it gets no cases")
        self._looked = time.monotonic()

    def carry_out(self, works: Sequence[Work]) -> None:
        """Carry cases out, each on a machine that has what it takes and room for it, until all are done or it is stopped."""
        waiting = [case for work in works if (case := self._case(work)) is not None]
        while (waiting or self._running) and not self.stopped.is_set():
            waiting = [case for case in waiting if not self._start(case)]
            waiting = self._ended() + waiting
            if time.monotonic() - self._looked > _LOOK_S:
                self.look()

    def end(self) -> None:
        self._rays.end(self._running, self._suite, [place for place in self.places if place in self._used])

    def _case(self, work: Work) -> _Case | None:
        try:
            return _Case(work, tuple(map(self._parcel, paths_of(work.job, self._joining.base))))
        except OSError as error:
            self._fail(work, error)
            return None

    def _parcel(self, path: str) -> Parcel:
        parcel = self._parcels.get(path) or parcel_of(path, self._joining.base)
        self._parcels[path] = parcel
        return parcel

    def _start(self, case: _Case) -> bool:
        """Give a case to a machine, or give it up; False where it has to wait for one."""
        work, demand, places = case.work, case.work.job.demand, [*self.places.values()]
        if not able(demand, places):
            self._tell("failed", work.id, why_none(demand, places))
            return True
        taken: dict[str, list[Amounts]] = {}
        for running in self._running.values():
            taken.setdefault(running.place.id, []).append(running.taken)
        place = free(demand, places, taken, case.lost_on)
        if place is None:
            return False
        try:
            for parcel in case.parcels:
                for name, source in parcel.sources.items():
                    parcel.parts[name] = parcel.parts.get(name) or self._rays.put(source)
        except OSError as error:
            self._fail(work, error)
            return True
        takes = place.takes(demand) or {}
        self._used.add(place.id)
        order = Order(work, case.parcels, self._suite, place, self._joining)
        self._running[self._rays.start(order, takes)] = _Running(case, place, takes)
        self._tell("started", work.id, place.name)
        return True

    def _fail(self, work: Work, error: OSError) -> None:
        self._tell("failed", work.id, one_line(f"{type(error).__name__}: {error}"))

    def _ended(self) -> list[_Case]:
        """Wait a moment for cases to end, and tell what became of them; those that were lost and get another chance."""
        if not self._running:
            self.stopped.wait(_TICK_S)
            return []
        ended = [(task, self._running.pop(task)) for task in self._rays.ended(self._running, _TICK_S)]
        return [running.case for task, running in ended if not self._concluded(task, running)]

    def _concluded(self, task: Any, running: _Running) -> bool:
        """Tell what became of a case; False where it was lost and gets another chance."""
        case, place = running.case, running.place
        try:
            self._tell("done", case.work.id, self._rays.outcome(task))
        except BenchmarkFailed as error:
            self._tell("failed", case.work.id, f"on {place.name}: {error}")
        except TaskLost as error:
            case.lost_on.append(place.id)
            if error.with_machine:  # Ray lists it for a while yet
                self._refused.add(place.id)
                self.places.pop(place.id, None)
            if len(case.lost_on) < _CHANCES:
                self._tell("lost", case.work.id, place.name)
                return False
            self._tell("failed", case.work.id, f"was lost {_CHANCES} times, last on {place.name} ({error})")
        return True


def main() -> None:
    """Carry out what standard input says, in pickles: a `Joining`, then the cases. On standard output go the machines, or why
    there are none, then what becomes of the cases."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what Ray prints is not an answer
    joining: Joining = pickle.load(sys.stdin.buffer)

    def tell(*answer: Any) -> None:
        pickle.dump(answer, answers)
        answers.flush()

    # Machines look for modules in the current folder first, which may have some that are called like their packages.
    with tempfile.TemporaryDirectory() as nowhere, contextlib.chdir(nowhere):
        _serve(joining, tell)


def _serve(joining: Joining, tell: Callable[..., None]) -> None:
    """Connect, and carry cases out until there are no more or the command says so."""
    from ortbench.jobs.cluster.rays import Rays

    try:
        dispatch = Dispatch(Rays(joining.address), joining, tell)
        dispatch.look(strictly=True)
    except Unusable as error:
        tell(error)
        return
    try:
        tell(*dispatch.places.values())
        works = pickle.load(sys.stdin.buffer)
        threading.Thread(target=_stop_at_end, args=(dispatch.stopped,), daemon=True).start()
        dispatch.carry_out(works)
    except (EOFError, BrokenPipeError):  # the command has ended
        pass
    finally:
        dispatch.end()


def _stop_at_end(stopped: threading.Event) -> None:
    """Stop as soon as the command has nothing more to say: it closes the pipe, or ends."""
    os.read(sys.stdin.fileno(), 1)  # not by Python's file, which a thread may not hold when the process ends
    stopped.set()


if __name__ == "__main__":
    main()
