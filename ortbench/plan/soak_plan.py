"""What a soak is asked to be: inferences for long, of one shape or of several, while memory is read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ortbench.model.unit_of_work import Part
from ortbench.plan.option_types import WHOLE
from ortbench.plan.options import INPUT, MEASURED, at_least, one_of, option
from ortbench.plan.target import Inputs

RANDOM, CYCLE = ORDERS = "random", "cycle"
MAX_SHAPES = 1024


class Shape(NamedTuple):
    """One of the shapes: what to call it, and its inputs."""

    name: str
    inputs: Inputs


@dataclass(frozen=True)
class Soak(Part):
    """Inferences of one shape, or of a `stream` of shapes in an order.

    Attributes:
        order: of the shapes.
        reopen: after so many inferences the session is closed and opened again; None for never.
        stream: empty where all inferences have the shape of the plan's inputs.
    """

    folder = "soak"

    order: str = option(
        "shape-order", "ORDER", f"Run the shapes in this order: {' or '.join(ORDERS)}.", INPUT, default=RANDOM,
        check=one_of(ORDERS), commands=("soak",), common=("soak",), suite=False, only_live=True,
    )  # fmt: skip
    reopen: int | None = option(
        "reopen", "N", "Close the session after every N inferences and open it again.", MEASURED, kind=WHOLE,
        check=at_least(1, "at least one inference lies between"), commands=("soak",), common=("soak",), suite=False, only_live=True,
    )  # fmt: skip
    stream: tuple[Shape, ...] = ()
