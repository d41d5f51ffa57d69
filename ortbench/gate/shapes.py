"""Which shapes of a sweep a metric is of: ``batch=8``, ``batch=8,sequence=32``, a set of real inputs, or the best. Pure."""

from __future__ import annotations

from typing import NamedTuple

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
