"""Which machine of a cluster a case goes to. Pure.

A case with cards has those to itself, and one CPU. A case without any takes all CPUs of its machine, so that neither another
case nor other work that counts its CPUs runs beside it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ortbench.suite.layers import Demand

CPU, GPU = "CPU", "GPU"
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
    """Why a case can be on none of these machines, in a sentence."""
    found = [f"{place.name}: {_amounts(place)}" for place in places if place.amounts.get(CPU, 0) >= 1]
    return f"no machine of the cluster has {demand}; {'; '.join(found) or 'none has a CPU for cases'}"


def _amounts(place: Place) -> str:
    told = {name: amount for name, amount in place.amounts.items() if name in (CPU, GPU) or _is_named(name)}
    return ", ".join(f"{amount:g} {name}" for name, amount in sorted(told.items()))


def _is_named(resource: str) -> bool:
    """Whether somebody gave the resource its name; the cluster counts some for itself."""
    return not resource.startswith("node:") and resource not in ("memory", "object_store_memory")


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
