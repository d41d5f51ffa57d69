"""What the parts of a suite on a cluster say to each other: the command, the process that speaks with Ray, the machines."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from ortbench.jobs.cluster.machines import Place
from ortbench.jobs.cluster.parcels import Parcel
from ortbench.suite.job import Job
from ortbench.suite.record import Record

# From the command to the process that speaks with Ray: a `Joining`, which it answers with the machines or why there are none;
# then the cases.


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
        """Of the case."""
        return self.job.case.id


# Back from it: what becomes of the cases, until each is `Done` or `Failed`.


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
    """A case was carried out: the files of its folder, by their paths in it, and what could not be written there."""

    id: str
    files: dict[str, bytes]
    remarks: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Remark:
    """Something to tell."""

    text: str


# From there to a machine


class Order(NamedTuple):
    """A case for a machine, with its files, which are in Ray's object store; the suite's folder there is called `suite`."""

    work: Work
    parcels: tuple[Parcel, ...]
    suite: str
    place: Place
    joining: Joining


# What can come of it there besides `Done`


class TaskFailed(Exception):
    """A case came to nothing, and would elsewhere."""


class TaskLost(Exception):
    """A case was lost, alone or with its machine, and can be carried out elsewhere; how, in a word."""

    def __init__(self, how: str, with_machine: bool) -> None:
        super().__init__(how)
        self.with_machine = with_machine
