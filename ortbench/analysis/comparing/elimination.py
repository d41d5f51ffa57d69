"""Which of several configurations can still be the best, while their blocks come in: successive elimination. Pure.

In each round every configuration that is left has one block. One is dropped for a goal as soon as the sequential test of
`ortbench.analysis.comparing.sequential` says that it is worse than the one that leads (Even-Dar, Mannor & Mansour, Journal of Machine
Learning Research 7 (2006) 1079, with that test in the place of a bound on means). The best one is dropped only where one of its
tests against the others errs. These share `alpha`, so it is ever dropped with at most that probability, whichever leads and however
often one looks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

from ortbench.analysis.comparing.sequential import Interval, fewest, median_ratio
from ortbench.analysis.comparing.verdict import ABOVE, SAME, verdict_of

MARGIN = 0.01  # within which two configurations are called the same, so that no more blocks of them are needed
_SPARE = 1.5  # times as many rounds as prove something where all say the same


class Elimination:
    """Takes figures of blocks, of which less is better, and drops configurations.

    Args:
        names: of the configurations.
        goals: what they compete for, each for itself; a configuration is wanted as long as it can be the best for one of them.
        alpha: the chance that the best one for a goal is ever dropped.
    """

    def __init__(self, names: Sequence[str], goals: Sequence[str], alpha: float) -> None:
        self._alpha = alpha / max(1, len(names) - 1)
        self._figures: dict[tuple[str, str], dict[int, float]] = {(goal, name): {} for goal in goals for name in names}
        self._left = {goal: list(names) for goal in goals}
        self._open = set(goals) if len(names) > 1 else set[str]()

    def add(self, name: str, goal: str, round: int, figure: float) -> None:
        """Take the figure of a block into account."""
        self._figures[goal, name][round] = max(figure, 1e-9)

    @property
    def rounds(self) -> int:
        """How many rounds give an interval where not all of them say the same."""
        return math.ceil(fewest(self._alpha) * _SPARE)

    def look(self) -> None:
        """After a round: drop what is clearly worse, and close the goals for which nothing is left to decide."""
        for goal in sorted(self._open):
            leader = self.leader(goal)
            if leader is None:
                continue
            found = {name: self.ratio(goal, name, leader) for name in self._left[goal] if name != leader}
            worse = {name for name, it in found.items() if it and verdict_of((it.low, it.high), 1) == ABOVE}
            self._left[goal] = [name for name in self._left[goal] if name not in worse]
            if all(_is_same(it) for name, it in found.items() if name not in worse):
                self._open.discard(goal)

    def wants(self, name: str) -> bool:
        """Whether more blocks of a configuration are of use."""
        return any(name in self._left[goal] for goal in self._open)

    def left(self, goal: str) -> list[str]:
        """The configurations that can be the best for a goal."""
        return list(self._left[goal])

    def leader(self, goal: str) -> str | None:
        """The one with the least median figure of those that are left; None before there are figures."""
        known = {name: figures for name in self._left[goal] if (figures := self._figures[goal, name])}
        return min(known, key=lambda name: median(known[name].values()), default=None)

    def ratio(self, goal: str, over: str, under: str) -> Interval | None:
        """The median ratio of two configurations in the rounds that both have; None without any."""
        one, other = self._figures[goal, over], self._figures[goal, under]
        ratios = [one[number] / other[number] for number in one.keys() & other.keys()]
        return median_ratio(ratios, self._alpha) if ratios else None


def _is_same(found: Interval | None) -> bool:
    return found is not None and verdict_of((found.low, found.high), 1 + MARGIN) == SAME
