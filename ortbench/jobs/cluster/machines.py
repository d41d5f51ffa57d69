"""Which machine of a cluster a case goes to, and what goes there: the case, as it is there, with the files that it needs. These are
known by their content, so that each goes to a machine once.

A case with cards has those to itself, and one CPU. A case without any takes all CPUs of its machine, so that neither another
case nor other work that counts its CPUs runs beside it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from ortbench.core.files import sha256
from ortbench.jobs.fingerprint import Put, with_files
from ortbench.suite.job import Job
from ortbench.suite.layers import Demand
from ortbench.suite.record import Record

CPU, GPU = "CPU", "GPU"
_OWN_AMOUNTS = ("memory", "object_store_memory")
Amounts = Mapping[str, float]  # of resources, by their names


class Unusable(Exception):
    """There is no cluster, or a machine of it that cases cannot be carried out on, with the reason."""


@dataclass(frozen=True)
class Place:
    id: str  # that the cluster knows it by
    name: str  # for people
    address: str
    amounts: Amounts
    packages: Sequence[str] = ()  # name and version of every package beside ortbench
    pythons: Mapping[str, Sequence[str]] = field(default_factory=dict)  # packages of the interpreters that it has

    def packages_of(self, python: str) -> Sequence[str]:
        return self.pythons.get(python, ())

    def takes(self, demand: Demand) -> Amounts | None:
        """How much a case takes of the machine's resources; None where it cannot be on it."""
        cpus = self.amounts.get(CPU, 0)
        taken = {CPU: 1 if demand.gpus else cpus, **demand.resources}
        if demand.gpus:
            taken[GPU] = demand.gpus
        enough = all(amount <= self.amounts.get(name, 0) for name, amount in taken.items())
        return taken if cpus >= 1 and enough and demand.pythons <= self.pythons.keys() else None

    def has_room(self, demand: Demand, taken: Sequence[Amounts]) -> bool:
        """Whether a case that can be on it can be so now, beside those that take this."""
        return all(
            amount + sum(it.get(name, 0) for it in taken) <= self.amounts.get(name, 0)
            for name, amount in (self.takes(demand) or {}).items()
        )


def name_of(machine: Mapping[str, Any]) -> str:
    """What a machine is called, of which Ray says this: by the name that it was given, else by its host's."""
    name, address = machine.get("NodeName"), machine["NodeManagerAddress"]
    return str(name if name and name != address else machine.get("NodeManagerHostname") or address)


def place_of(machine: Mapping[str, Any], facts: Mapping[str, Any], version: str) -> Place:
    """A machine, of which Ray says this, and it itself its ``version`` of ortbench, ``packages`` and ``pythons``; `Unusable`
    where it has another version than this one, or none."""
    if facts["version"] != version:
        there = "has no ortbench" if facts["version"] is None else f"has ortbench {facts['version']}"
        raise Unusable(f"{name_of(machine)} {there}, and here is {version}: install the same on every machine")
    id_, amounts = machine["NodeID"], machine["Resources"]
    return Place(id_, name_of(machine), machine["NodeManagerAddress"], amounts, facts["packages"], facts["pythons"])


def able(demand: Demand, places: Iterable[Place]) -> list[Place]:
    return [place for place in places if place.takes(demand) is not None]


def why_none(demand: Demand, places: Iterable[Place]) -> str:
    found = []
    for place in places:
        if place.amounts.get(CPU, 0) >= 1:
            # The cluster counts some resources for itself; others somebody gave their names.
            own = sorted(it for it in place.amounts if not it.startswith("node:") and it not in _OWN_AMOUNTS)
            found.append(f"{place.name}: {', '.join(f'{place.amounts[it]:g} {it}' for it in own)}")
    return f"no machine of the cluster has {demand}; {'; '.join(found) or 'none has a CPU for cases'}"


def free(
    demand: Demand, places: Iterable[Place], taken: Mapping[str, Sequence[Amounts]], avoid: Collection[str]
) -> Place | None:
    """The machine that a case goes to now, the one with fewest cases; None where it has to wait.

    `taken` is how much each case that is on a machine takes of it, by the machine's id; those of the ids to `avoid`, where the
    case was lost, take it only where no other machine can.
    """
    found = able(demand, places)
    others = [place for place in found if place.id not in avoid]
    ready = [place for place in others or found if place.has_room(demand, taken.get(place.id, ()))]
    return min(ready, key=lambda place: len(taken.get(place.id, ())), default=None)


class Joining(NamedTuple):
    """Which cluster to connect to."""

    address: str  # as it was typed
    base: str  # the folder that paths are relative to
    commit: str | None  # of the checkout that this folder is in
    pythons: tuple[str, ...]  # interpreters that machines are to be looked at for


class Work(NamedTuple):
    """A case to be carried out, with its record so far."""

    job: Job
    record: Record

    @property
    def id(self) -> str:
        return self.job.case.id


@dataclass(eq=False)
class Parcel:
    """A file with what belongs beside it, or a folder."""

    path: str  # as the job names it
    top: str  # the name of the file in the parcel; of a folder its own name
    sources: dict[str, str]  # of its files, by their paths in the parcel, with slashes, where they come from
    # the same of the parts of their contents by their names in Ray's object store, once they are there
    parts: dict[str, list[Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        listed = "".join(f"{sha256(Path(source))} {name}\n" for name, source in self.sources.items())
        self.id = hashlib.sha256(listed.encode()).hexdigest()

    def place(self, folder: Path) -> str:
        return str(folder / self.id / self.top)


class Order(NamedTuple):
    """A case for a machine; the suite's folder there is called `suite`."""

    work: Work
    parcels: tuple[Parcel, ...]
    suite: str
    place: Place
    joining: Joining


class Done(NamedTuple):
    """What comes back: the files of the case's folder, by their paths in it, and what could not be written there."""

    files: dict[str, bytes]
    remarks: list[str]


class TaskLost(Exception):
    """A case was lost, alone or with its machine, and can be carried out elsewhere; how, in a word."""

    def __init__(self, how: str, with_machine: bool) -> None:
        super().__init__(how)
        self.with_machine = with_machine


def paths_of(job: Job, base: str) -> list[str]:
    """The files and folders that a job names, as it names them, as far as they are there."""
    paths: dict[str, None] = {}

    def collected(path: str) -> str:
        paths[path] = None
        return path

    moved(job, collected)
    return [path for path in paths if Path(base, path).exists()]


def moved(job: Job, to: Put, python: Put = str) -> Job:
    """A job whose files, and the interpreters that it names, are elsewhere; results call a model as it was called before."""

    def plan_there(plan: Any) -> Any:
        return with_files(replace(plan, called=plan.called or str(Path(plan.model))), to, python)

    return replace(
        job,
        plans=tuple(map(plan_there, job.plans)),
        shapes=tuple(replace(it, plan=plan_there(it.plan)) for it in job.shapes),
        load=job.load if job.load is None or job.load.file is None else replace(job.load, arrivals=to(job.load.file)),
        baseline=None if job.baseline is None else Path(to(str(job.baseline))),
    )


def parcel_of(path: str, base: str) -> Parcel:
    """The parcel of a file, with the files beside it that it names if it is a model, or of a folder."""
    place = Path(base, path)
    if place.is_dir():
        inner = {PurePosixPath(place.name, *it.relative_to(place).parts): it for it in sorted(place.rglob("*"))}
    else:
        inner = {PurePosixPath(name): place.parent / name for name in (place.name, *sorted(_beside(place)))}
    return Parcel(path, place.name, {str(name): str(it.absolute()) for name, it in inner.items() if it.is_file()})


def _beside(model: Path) -> set[str]:
    """The files that a model has part of itself in, as it names them: tensors, and an EP's compiled part."""
    if model.suffix != ".onnx":
        return set()
    import onnx

    with suppress(Exception):  # what is no model has none, and the worker says so
        return {name for name in _named(onnx.load(model, load_external_data=False)) if _is_inside(model, name)}
    return set()


def _is_inside(model: Path, name: str) -> bool:
    place = PurePosixPath(name)
    return bool(name) and not place.is_absolute() and ".." not in place.parts and (model.parent / name).is_file()


def _named(message: Any) -> Iterator[str]:
    """The files that a message of ONNX's format names, wherever in it: a model, or what one is made of."""
    if hasattr(message, "external_data"):
        yield from (entry.value for entry in message.external_data if entry.key == "location")
        return
    if getattr(message, "op_type", "") == "EPContext":
        with suppress(UnicodeDecodeError):  # the compiled part itself
            yield from (it.s.decode() for it in message.attribute if it.name == "ep_cache_context")
    for about, value in message.ListFields():
        if about.message_type is not None:
            for inner in [value] if hasattr(value, "ListFields") else value:
                yield from _named(inner)
