"""What the parts of a suite on a cluster say to each other: the command, the process that speaks with Ray, the machines."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ortbench.jobs.cluster.parcels import Parcel
from ortbench.jobs.cluster.places import Place
from ortbench.suite.job import Job
from ortbench.suite.record import Record

# From the command to the process that speaks with Ray


@dataclass(frozen=True)
class Joining:
    """Which cluster to connect to.

    Attributes:
        address: of it, as it was typed.
        base: the folder that paths are relative to.
        commit: of the checkout that this folder is in, or None.
        pythons: interpreters that machines are to be looked at for.
    """

    address: str
    base: str
    commit: str | None
    pythons: tuple[str, ...]


@dataclass(frozen=True)
class Work:
    """A case to be carried out, with its record so far."""

    job: Job
    record: Record

    @property
    def id(self) -> str:
        """Of the case."""
        return self.job.case.id


# Back from it: first `Joined` or `Refused`, then what becomes of the cases, in the end `Finished`


@dataclass(frozen=True)
class Joined:
    """It is connected to a cluster of these machines."""

    places: list[Place]


@dataclass(frozen=True)
class Refused:
    """There is no cluster, or it cannot be used, with the reason."""

    reason: str


@dataclass(frozen=True)
class Started:
    """A case is on a machine."""

    id: str
    place: str


@dataclass(frozen=True)
class Lost:
    """A case was lost with its machine, or with the process there, and waits for another."""

    id: str
    place: str


@dataclass(frozen=True)
class Failed:
    """A case came to nothing, with the reason."""

    id: str
    reason: str


@dataclass(frozen=True)
class Done:
    """A case was carried out on a machine.

    Attributes:
        id: of the case.
        files: of its folder, by their paths in it.
        remarks: what could not be written there.
    """

    id: str
    files: dict[str, bytes]
    remarks: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Remark:
    """Something to tell."""

    text: str


@dataclass(frozen=True)
class Finished:
    """Nothing is left to do."""


# From there to a machine


@dataclass(frozen=True)
class Order:
    """A case for a machine.

    Attributes:
        work: the case.
        parcels: its files, each with the names that the parts of its content have in Ray's object store, by their digests.
        parts: those names.
        suite: what the folder of this suite is called on every machine.
        place: the machine.
        resources: what the case was given of it.
        joining: what was asked for.
    """

    work: Work
    parcels: tuple[Parcel, ...]
    parts: dict[str, list[Any]]
    suite: str
    place: Place
    resources: dict[str, float]
    joining: Joining


# What can come of it there besides `Done`


class TaskFailed(Exception):
    """A case came to nothing, and would elsewhere."""


class TaskLost(Exception):
    """A case was lost, and can be carried out elsewhere.

    Args:
        how: in a word.
        with_machine: whether its machine was.
    """

    def __init__(self, how: str, with_machine: bool) -> None:
        super().__init__(how)
        self.with_machine = with_machine
