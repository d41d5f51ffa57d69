"""Which shapes of a sweep a metric is of: ``batch=8``, ``batch=8,sequence=32``, a set of real inputs, or the best. Pure."""

from __future__ import annotations

from typing import NamedTuple

from ortbench.errors import BadInput
from ortbench.modes import LOAD
from ortbench.result import Point

BEST = "best"
ITEMS = "items_per_s"  # a statistic that only shapes with items have


class Shapes(NamedTuple):
    """Those with these sizes, or of this name.

    Attributes:
        text: sizes of dimensions with commas between them, or a name.
    """

    text: str

    @property
    def are_best(self) -> bool:
        """Whether it is whichever shape is the best."""
        return self.text == BEST

    def fit(self, point: Point) -> bool:
        """Whether a shape is one of them."""
        if self.text in (point.name, point.data):
            return True
        sizes = [part.partition("=")[::2] for part in self.text.split(",")]
        return all(size.isdecimal() and point.shape.get(name) == int(size) for name, size in sizes)


def shapes_at(place: str, stat: str, text: str, option: str) -> Shapes:
    """What stands behind the @ of a metric that is of no load.

    Args:
        place: that.
        stat: the metric's statistic.
        text: the whole metric, for messages.
        option: that it was given by.

    Raises:
        BadInput: it is a level of a load, or says nothing.
    """
    from ortbench.analysis.levels import CONCURRENCY, RATE  # brings numpy, and help needs none

    if place.partition("=")[0] in (CONCURRENCY, RATE):
        raise BadInput(f"{option} {text!r}: only {LOAD} has levels, as in {LOAD}.p99@rate=30", option)
    if not place:
        raise BadInput(f"{option} {text!r}: @ names a shape of a sweep, as in total@batch=8", option)
    if place == BEST and stat != ITEMS:
        reason = f"@{BEST} can be another shape on each side, which only {ITEMS} says something of: {ITEMS}@{BEST}"
        raise BadInput(f"{option} {text!r}: {reason}", option)
    return Shapes(place)
