"""Which machine of a cluster a case goes to. Pure.

A case with cards has those to itself, and one CPU. A case without any takes all CPUs of its machine, so that neither another
case nor other work that counts its CPUs runs beside it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ortbench.suite.needs import Demand

CPU, GPU = "CPU", "GPU"


class Unusable(Exception):
    """There is no cluster, or a machine of it that cases cannot be carried out on, with the reason."""


@dataclass(frozen=True)
class Place:
    """A machine of the cluster.

    Attributes:
        id: that the cluster knows it by.
        name: for people.
        address: of it.
        amounts: of its resources.
        packages: name and version of every package beside ortbench.
        pythons: those of the interpreters that it has, of those that the suite asks for.
    """

    id: str
    name: str
    address: str
    amounts: Mapping[str, float]
    packages: Sequence[str] = ()
    pythons: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def packages_of(self, python: str) -> Sequence[str]:
        """Those of an interpreter's environment."""
        return self.pythons.get(python, ())

    def takes(self, demand: Demand) -> dict[str, float] | None:
        """How much a case takes of the machine's resources; None where it cannot be on it."""
        cpus = self.amounts.get(CPU, 0)
        taken = {CPU: 1 if demand.gpus else cpus, **demand.resources}
        if demand.gpus:
            taken[GPU] = demand.gpus
        enough = all(amount <= self.amounts.get(name, 0) for name, amount in taken.items())
        return taken if cpus >= 1 and enough and demand.pythons <= self.pythons.keys() else None


def name_of(machine: Mapping[str, Any]) -> str:
    """What a machine is called, of which Ray says this: by the name that it was given, else by its host's."""
    name, address = machine.get("NodeName"), machine["NodeManagerAddress"]
    return str(name if name and name != address else machine.get("NodeManagerHostname") or address)


def place_of(machine: Mapping[str, Any], facts: Mapping[str, Any], version: str) -> Place:
    """A machine that says what it has.

    Args:
        machine: what Ray says of it.
        facts: what is on it: its ``version`` of ortbench, None without, its ``packages`` and ``pythons``.
        version: that it must have.

    Raises:
        Unusable: it has another one.
    """
    if facts["version"] != version:
        there = "has no ortbench" if facts["version"] is None else f"has ortbench {facts['version']}"
        raise Unusable(f"{name_of(machine)} {there}, and here is {version}: install the same on every machine")
    id_, amounts = machine["NodeID"], machine["Resources"]
    return Place(id_, name_of(machine), machine["NodeManagerAddress"], amounts, facts["packages"], facts["pythons"])


def able(demand: Demand, places: Iterable[Place]) -> list[Place]:
    """The machines that a case can be on."""
    return [place for place in places if place.takes(demand) is not None]


def why_none(demand: Demand, places: Iterable[Place]) -> str:
    """Why a case can be on none of these machines, in a sentence."""
    found = [f"{place.name}: {_amounts(place)}" for place in places if place.amounts.get(CPU, 0) >= 1]
    return f"no machine of the cluster has {demand}; {'; '.join(found) or 'none has a CPU for cases'}"


def _amounts(place: Place) -> str:
    told = {name: amount for name, amount in place.amounts.items() if name in (CPU, GPU) or _is_named(name)}
    return ", ".join(f"{amount:g} {name}" for name, amount in sorted(told.items()))


def _is_named(resource: str) -> bool:
    """Whether somebody gave the resource its name; the cluster counts some for itself."""
    return not resource.startswith("node:") and resource not in ("memory", "object_store_memory")


class Occupancy:
    """What cases take of machines at the moment."""

    def __init__(self) -> None:
        self._taken: dict[str, list[Mapping[str, float]]] = {}

    def take(self, place: Place, demand: Demand) -> dict[str, float]:
        """A case is on a machine now; how much it takes of it."""
        taken = place.takes(demand)
        assert taken is not None
        self._taken.setdefault(place.id, []).append(taken)
        return taken

    def leave(self, place: Place, taken: Mapping[str, float]) -> None:
        """A case is not on it any more."""
        self._taken[place.id].remove(taken)

    def free(self, demand: Demand, places: Sequence[Place], avoid: Collection[str]) -> Place | None:
        """The machine that a case goes to now, the one with fewest cases; None where it has to wait.

        Args:
            demand: of the case.
            places: that there are.
            avoid: ids of those where it was lost, which take it only where no other machine can.
        """
        found = able(demand, places)
        others = [place for place in found if place.id not in avoid]
        ready = [place for place in others or found if self._has_room(place, demand)]
        return min(ready, key=lambda place: len(self._taken.get(place.id, ())), default=None)

    def _has_room(self, place: Place, demand: Demand) -> bool:
        here = self._taken.get(place.id, [])
        return all(
            amount + sum(taken.get(name, 0) for taken in here) <= place.amounts.get(name, 0)
            for name, amount in (place.takes(demand) or {}).items()
        )
