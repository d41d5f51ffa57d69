"""What a case needs of a machine in a cluster, where a suite is spread over one: cards, and resources by their names. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from ortbench.core.ep_names import NVIDIA_EPS, SHORT_NAMES
from ortbench.core.errors import BadInput
from ortbench.plan.option_types import AMOUNTS, WHOLE
from ortbench.plan.options import RUNS, declared, not_negative, option
from ortbench.plan.plan import Plan

# A cluster hides all cards from their processes but those that a case was given. Others can see them all, so that a case has
# its machine to itself.
_ON_GIVEN_CARDS = {*NVIDIA_EPS, "MIGraphXExecutionProvider", "ROCMExecutionProvider"}
_COUNTED_OTHERWISE = {"CPU": "a case has all of its machine's, or one beside its cards", "GPU": "that is num-gpus"}


def _resources(amounts: dict[str, float], option: str) -> None:
    for name in amounts.keys() & _COUNTED_OTHERWISE.keys():
        raise BadInput(f"{option} {name}: {_COUNTED_OTHERWISE[name]}; leave it out", option)


@dataclass(frozen=True)
class Needs:
    """What a suite says of the machines that its cases can be on."""

    # cards that a case has to itself; None for one where its EP runs on one, else none
    gpus: int | None = option(
        "num-gpus", "N", "Cards that the case has to itself.", RUNS, kind=WHOLE, check=not_negative, commands=("suite",)
    )
    # of the cluster, and how much of each a case takes
    resources: dict[str, float] = option(
        "resources", "NAME=N", "What it takes of the cluster's resources.", RUNS, kind=AMOUNTS, default={},
        check=_resources, commands=("suite",),
    )  # fmt: skip


NEEDS = {it.flag: it for it in declared(Needs).values()}


@dataclass(frozen=True)
class Demand:
    """What a case takes of a machine."""

    gpus: int = 0  # cards; with none it takes every CPU, so that nothing else runs beside it
    resources: dict[str, float] = field(default_factory=dict)  # others by name
    pythons: frozenset[str] = frozenset()  # interpreters that the machine must have

    def __str__(self) -> str:
        """In words."""
        cards = [] if not self.gpus else ["a GPU" if self.gpus == 1 else f"{self.gpus} GPUs"]
        named = [f"{amount:g} {name}" for name, amount in sorted(self.resources.items())]
        return ", ".join([*cards, *named, *sorted(self.pythons)]) or "a CPU"


def demand_of(needs: Needs, plans: tuple[Plan, ...]) -> Demand:
    """What a case takes that has these plans."""
    pythons = frozenset(python for plan in plans if (python := plan.target.python) is not None)
    on_cards = any(SHORT_NAMES.get(it.ep, it.ep) in _ON_GIVEN_CARDS for plan in plans for it in plan.targets)
    return Demand(int(on_cards) if needs.gpus is None else needs.gpus, needs.resources, pythons)
