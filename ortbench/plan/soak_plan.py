"""What a soak is asked to be: inferences for long, while memory is read. And streams of shapes, which a load can have too."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Final, NamedTuple

from ortbench.model.schema import Order
from ortbench.model.unit_of_work import Part
from ortbench.plan.option_types import FLAG, WHOLE
from ortbench.plan.options import INPUT, MEASURED, Option, at_least, one_of, option
from ortbench.plan.target import Inputs

RANDOM: Final = "random"
CYCLE: Final = "cycle"
ORDERS: tuple[Order, ...] = RANDOM, CYCLE
MAX_SHAPES = {"soak": 1024, "load": 64}  # each client of a load has inputs and outputs of its own
ARENA = "arena"  # what --try can be
_APART = 257  # places of an order between clients
# What makes a bench of a suite a soak.
SOAKED = Option("soak", "", "Inferences for long, while memory is read.", MEASURED, FLAG, commands=())


class Shape(NamedTuple):
    name: str
    inputs: Inputs


@dataclass(frozen=True)
class Stream:
    """Inferences that have `shapes` in an `order`; a load also has each shape apart."""

    order: Order = option(
        "shape-order", "ORDER", f"Run the shapes in this order: {' or '.join(ORDERS)}.", INPUT, default=RANDOM,
        check=one_of(ORDERS), commands=("soak", "load"), common=("soak",), suite=False,
        per={"load": {"help": f"Mix the shapes of lists in one load, in this order: {' or '.join(ORDERS)}.", "default": None}},
    )  # fmt: skip
    shapes: tuple[Shape, ...] = ()

    def numbers(self, seed: int) -> Iterator[int]:
        """Shapes by their numbers, as they come, without an end."""
        count = len(self.shapes)
        if self.order == CYCLE:
            return cycle(range(count))
        chance = random.Random(seed)
        return iter(lambda: chance.randrange(count), None)


def begun_by(client: int, order: Sequence[int]) -> Sequence[int]:
    """The order in which one of several clients goes through shapes, again and again: all have the same, and begin elsewhere."""
    at = _APART * client % len(order)
    return [*order[at:], *order[:at]]


@dataclass(frozen=True)
class Soak(Part):
    """A soak; with `reopen` the session is closed after so many inferences and opened again, `tried` is what is soaked beside it."""

    folder = "soak"

    tried: str | None = option(
        "try", "WHAT", f"Compare with configurations that may need less memory: {ARENA}.", MEASURED, check=one_of((ARENA,)),
        commands=("soak",), suite=False, python=False, only_live=True,
    )  # fmt: skip

    reopen: int | None = option(
        "reopen", "N", "Close the session after every N inferences and open it again.", MEASURED, kind=WHOLE,
        check=at_least(1, "at least one inference lies between"), commands=("soak", "gate"), common=("soak",), only_live=True,
    )  # fmt: skip
