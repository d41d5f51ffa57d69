"""Streams of shapes."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Final, NamedTuple

from ortbench.model.schema import Order
from ortbench.plan.options import INPUT, option
from ortbench.plan.target import Inputs

RANDOM: Final = "random"
CYCLE: Final = "cycle"
ORDERS: tuple[Order, ...] = RANDOM, CYCLE
_APART = 257  # places of an order between clients


class Shape(NamedTuple):
    name: str
    inputs: Inputs


@dataclass(frozen=True)
class Stream:
    """Inferences that have `shapes` in an `order`; a load also has each shape apart."""

    order: Order = option(
        "shape-order", "ORDER", f"Run the shapes in this order: {' or '.join(ORDERS)}.", INPUT, default=RANDOM,
        choices=ORDERS, commands=(), is_in_suites=False,
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
