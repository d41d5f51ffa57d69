"""The search for the best settings: which configurations to measure next, by what was found of those before. Pure.

A full grid grows with every setting; most settings do not interact. So the search goes from one configuration, the incumbent, to
those that differ from it in one setting, and to those of `joined` settings that belong together; the fastest of them is the next
incumbent, at once where it is faster for certain, else when all were tried, until none is faster. A value that was at most `MARGIN`
faster than the incumbent is not tried again beside others, unless one of the settings that it interacts with has changed since. Under
load there are two incumbents: the one with the lowest p99, and within the SLO the one that takes the least CPU time.

In each round of a race every configuration that is left has one block. One is dropped for a goal as soon as the sequential test of
`ortbench.analysis.intervals` says that it is worse than the one that leads (Even-Dar, Mannor & Mansour, Journal of Machine
Learning Research 7 (2006) 1079, with that test in the place of a bound on means). The best one is dropped only where one of its
tests against the others errs. These share `alpha`, so it is ever dropped with at most that probability, whichever leads and however
often one looks.

Under load that many rounds would take too long: a p99 takes hundreds of requests. There the race is by successive halving (Karnin, Koren
and Somekh, ICML 2013): rounds become longer as fewer are left, and what is left is measured for as long as a p99 takes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import zip_longest
from statistics import median
from typing import TYPE_CHECKING

from ortbench.analysis.intervals import (
    ABOVE,
    BELOW,
    SAME,
    Interval,
    MedianRatio,
    fewest,
    median_ratio,
    verdict_of,
)
from ortbench.features.tune.model import FIRST, GOALS, LOAD_GOALS, Configuration, Ratio, Tried, configuration
from ortbench.model.modes import CPU_TIME, LATENCY

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

ALPHA = 0.05  # the chance that the best of the configurations that are measured is dropped, for each goal, over the whole search
TOGETHER = 12  # configurations whose sessions are open at the same time
MARGIN = 0.01  # within which two configurations are called the same, so that no more blocks of them are needed
_SPARE = 1.5  # times as many rounds as prove something where all say the same
FINALISTS = 3  # of the fastest, that are measured once more with the first one and the best for other goals
LOAD_FINALISTS = 5  # under load, all together
LOAD_MARGIN = 0.03  # the same as `MARGIN` of a p99


def _product(base: Interval | None, found: Ratio) -> Interval | None:
    """Where a configuration lies against the first: its ends against the base of a race, times those of the base."""
    if base is None or found["low"] is None or found["high"] is None:
        return None
    return base[0] * found["low"], base[1] * found["high"]


class Search:
    """Says what to measure next.

    Args:
        values: of each setting the values to try besides the one that the search begins with, in the order to try them.
        is_idle: whether a setting does nothing beside the others of a configuration.
        interacting: the settings whose effects depend on each other.
        joined: what goes with a value of a setting, as values of others, any number of such: it is tried alone and with each.
        has_room: whether the machine has room for what a configuration asks for.
        is_loaded: whether it is a search under load.
    """

    def __init__(
        self,
        values: Mapping[str, Sequence[str]],
        is_idle: Callable[[Mapping[str, str], str], bool] = lambda settings, name: False,
        joined: Callable[[str, str], Sequence[Mapping[str, str]]] = lambda name, value: (),
        interacting: Collection[str] = (),
        has_room: Callable[[Mapping[str, str]], bool] = lambda settings: True,
        is_loaded: bool = False,
    ) -> None:
        self._values, self._is_idle, self._joined, self._interacting = values, is_idle, joined, interacting
        self._has_room, self._is_loaded, self._margin = has_room, is_loaded, LOAD_MARGIN if is_loaded else MARGIN
        goals = LOAD_GOALS if is_loaded else GOALS
        self.incumbents: dict[str, Configuration] = dict.fromkeys(goals if is_loaded else goals[:1], FIRST)
        self.races: list[list[Tried]] = []
        self._known: dict[Configuration, dict[str, float]] = {FIRST: dict.fromkeys(goals, 1.0)}  # against the first
        self._ends: dict[Configuration, dict[str, Interval | None]] = {FIRST: dict.fromkeys(goals, (1.0, 1.0))}
        self._left: dict[Configuration, set[str]] = {FIRST: {*goals}}  # the goals for which each can be the best
        self.memory: dict[Configuration, int] = {}  # of their workers, bytes
        self._failed: set[Configuration] = set()
        self._ruled_out: set[tuple[str, str, Configuration]] = set()  # beside what

    @property
    def alpha(self) -> float:
        """Of the next race: all of them together have `ALPHA`."""
        number = len(self.races) + 1
        return ALPHA / (number * (number + 1))

    @property
    def tried_configurations(self) -> list[Configuration]:
        return [*self._known, *self._failed]

    @property
    def main_goal(self) -> str:
        return next(iter(self.incumbents))

    @property
    def incumbent(self) -> Configuration:
        return self.incumbents[self.main_goal]

    @property
    def base(self) -> Configuration:
        """With what a race compares: the incumbent; under load, where a ratio of ratios would be mostly noise, the first."""
        return FIRST if self._is_loaded else self.incumbent

    def candidates(self) -> list[Configuration]:
        """What is to be measured with the base, which comes first; nothing but that where the search is over."""
        near = (it for base in dict.fromkeys(self.incumbents.values()) for it in self._neighbours(base))
        found = dict.fromkeys(it for it in near if it not in self._known and it not in self._failed)
        found.pop(self.base, None)
        return [self.base, *found]

    def _neighbours(self, base: Configuration) -> list[Configuration]:
        """A value of each setting, then another one of each: where time is short, all settings have been tried."""
        now = dict(base)
        found: list[list[Configuration]] = []
        for name, values in self._values.items():
            rest = {key: value for key, value in now.items() if key != name}
            of_setting = [self._canonical(rest)] if name in now else []
            for value in values:
                if (name, value, self._interacting_values(name, now)) not in self._ruled_out:
                    of_setting.append(self._canonical({**rest, name: value}))
                of_setting += [self._canonical({**rest, name: value, **also}) for also in self._joined(name, value)]
            found.append([it for it in of_setting if self._has_room(dict(it))])
        return [it for of_all in zip_longest(*found) for it in of_all if it is not None]

    def _canonical(self, settings: Mapping[str, str]) -> Configuration:
        """A configuration without settings that do nothing beside the others."""
        known = (name for name in self._values if name in settings)
        return tuple((name, settings[name]) for name in known if not self._is_idle(settings, name))

    def every(self) -> list[Configuration]:
        """The whole grid, each configuration once."""
        found: list[dict[str, str]] = [{}]
        for name, values in self._values.items():
            found = [{**it, **more} for it in found for more in ({}, *({name: value} for value in values))]
        return [it for it in dict.fromkeys(map(self._canonical, found)) if self._has_room(dict(it))]

    def tell(self, race: Sequence[Tried]) -> None:
        """Take what a race found into account; its first is the base."""
        self.races.append(list(race))
        base, certain = configuration(race[0]), set()
        for tried in race:
            made = configuration(tried)
            self._left[made] = {*tried["left"]} - ({CPU_TIME} if tried.get("violates") else set())
            if tried["memory"] is not None:
                self.memory[made] = tried["memory"]
            if tried["failed"] is not None:
                self._failed.add(made)
            elif made != base and tried["ratios"]:
                known = {
                    goal: found["ratio"] * self._known[base].get(goal, 1) for goal, found in tried["ratios"].items()
                }
                self._known[made] = known
                self._ends[made] = {
                    goal: _product(self._ends[base].get(goal), ratio) for goal, ratio in tried["ratios"].items()
                }
                of_main = tried["ratios"][self.main_goal]
                ends = (of_main["low"], of_main["high"])
                changed = [it for it in made if it not in base]
                if len(changed) == 1 and verdict_of(ends, 1 / (1 + MARGIN), 0) == ABOVE:
                    self._ruled_out.add((*changed[0], self._interacting_values(changed[0][0], dict(base))))
                if verdict_of(ends, 1 + MARGIN) == BELOW:
                    certain.add(made)
        is_over = len(self.candidates()) == 1
        for goal, incumbent in self.incumbents.items():
            best = self._best(goal, self._known)
            is_less = best is not None and (
                goal not in self._left[incumbent]
                or self._known[best][goal] * (1 + self._margin) < self._known[incumbent][goal]
            )
            if best is not None and is_less and (best in certain or is_over):
                self.incumbents[goal] = best

    def _best(self, goal: str, among: Collection[Configuration]) -> Configuration | None:
        """The one with least of something, of those that can be the best for it; None where none can."""
        there = [it for it in among if it not in self._failed and goal in self._left[it]]
        return min(there, key=lambda it: self._known[it].get(goal, math.inf), default=None)

    def _interacting_values(self, name: str, settings: Mapping[str, str]) -> Configuration:
        """The values that decide what a setting does."""
        others = [it for it in self._interacting if it != name and it in settings] if name in self._interacting else []
        return tuple((it, settings[it]) for it in others)

    def finalists(self) -> list[Configuration]:
        """What is measured once more, side by side: the first, the fastest ones, the best for CPU time, and for memory. Beside what sets
        several things the one of them that does most, as the others may do nothing."""
        known = [it for it in self._known if it not in self._failed]

        def best(goal: str, of: Sequence[Configuration]) -> Configuration:
            return min(of, key=lambda it: self._known[it].get(goal, 1.0), default=FIRST)

        def alone(goal: str, of: Configuration) -> Configuration:
            return best(goal, [it for it in known if len(it) == 1 and it[0] in of])

        fastest, cheapest = sorted(known, key=lambda it: self._known[it][LATENCY])[:FINALISTS], best(CPU_TIME, known)
        # A setting that may take less CPU time than what seems to take least: short races tell that badly.
        rivals = [it for it in known if len(it) == 1 and it[0] not in cheapest and self._may_be_below(it, cheapest)]
        least = min(self.memory.keys() & set(known), key=lambda it: self.memory[it], default=FIRST)
        both = (fastest[0], alone(LATENCY, fastest[0]), cheapest, alone(CPU_TIME, cheapest))
        rival = best(CPU_TIME, rivals)
        return list(dict.fromkeys([FIRST, *both, *fastest, least, rival]))

    def finalists_under_load(self) -> list[Configuration]:
        """What is measured under load for as long as a p99 takes: the first, the best for each goal, beside each that sets several things the
        one of them that does most, as the others may do nothing, and the next best ones."""
        found, others = [FIRST], dict(self._known)
        for _ in range(2):
            for goal in self.incumbents:
                best = self._best(goal, others)
                alone = self._best(goal, [it for it in self._known if len(it) == 1 and it[0] in (best or ())])
                found += filter(None, (best, alone))
            others = {it: known for it, known in others.items() if it not in found}
        return list(dict.fromkeys(found))[:LOAD_FINALISTS]

    def _may_be_below(self, one: Configuration, other: Configuration) -> bool:
        """Whether a configuration may take less CPU time than another one, by where its races leave it."""
        ends = self._ends[one].get(CPU_TIME)
        return verdict_of(ends, self._known[other].get(CPU_TIME, 1.0), 0) != ABOVE

    def against_first(self, of: Configuration) -> dict[str, tuple[float, Interval | None]]:
        """The figures of a configuration divided by those of the first, and between what ends they lie, by goal; none where it failed."""
        if of in self._failed:
            return {}
        return {goal: (ratio, self._ends[of][goal]) for goal, ratio in self._known[of].items()}

    @property
    def failures(self) -> dict[Configuration, str]:
        """What could not be measured, and why."""
        return {configuration(it): it["failed"] for race in self.races for it in race if it["failed"] is not None}


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

    def needs_more(self, name: str) -> bool:
        """Whether more blocks of a configuration are of use."""
        return any(name in self._left[goal] for goal in self._open)

    def candidates(self, goal: str) -> list[str]:
        """The configurations that can be the best for a goal."""
        return list(self._left[goal])

    def leader(self, goal: str) -> str | None:
        """The one with the least median figure of those that are left; None before there are figures."""
        known = {name: figures for name in self._left[goal] if (figures := self._figures[goal, name])}
        return min(known, key=lambda name: median(known[name].values()), default=None)

    def ratio(self, goal: str, over: str, under: str) -> MedianRatio | None:
        """The median ratio of two configurations in the rounds that both have; None without any."""
        one, other = self._figures[goal, over], self._figures[goal, under]
        ratios = [one[number] / other[number] for number in one.keys() & other.keys()]
        return median_ratio(ratios, self._alpha) if ratios else None


def _is_same(found: MedianRatio | None) -> bool:
    return found is not None and verdict_of((found.low, found.high), 1 + MARGIN) == SAME


_TAIL = 0.1  # the share of the requests that stand for a tail of which few are known
_CPU_REACH = 1.25  # times the least CPU time, which few requests tell, that a configuration has which may take least


def tail_of(latencies: NDArray[np.int64]) -> float:
    """The geometric mean of the slowest tenth of some latencies, ns: of few requests it tells more than a p99, of which one slow one decides."""
    import numpy as np

    slowest = np.sort(latencies)[-max(1, math.ceil(_TAIL * latencies.size)) :]
    return float(np.exp(np.log(np.maximum(slowest, 1)).mean()))


class Halving:
    """Takes the figures of configurations after each round, and for each goal keeps the better half of those that are left.

    Args:
        names: of the configurations; the first is what others are compared with, and stays.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._names = [*names]
        self._left = {goal: [*names] for goal in LOAD_GOALS}
        self._seen: dict[str, list[Mapping[str, float]]] = {
            name: [] for name in names
        }  # by all requests after each round
        self.violating: set[str] = set()  # the SLO, for certain

    def look(self, figures: Mapping[str, Mapping[str, float]], violating: Collection[str] = ()) -> None:
        """After a round: drop what is worse by the figures of all requests so far, by goal, and what failed, which has none here; for CPU time
        also what is `violating` the SLO."""
        self.violating |= {*violating}
        for name, found in figures.items():
            self._seen[name].append(found)
        for goal, left in self._left.items():
            there = [it for it in left if it in figures and not (goal == CPU_TIME and it in self.violating)]
            there.sort(key=lambda it: figures[it][goal])
            kept = there[: math.ceil(len(there) / 2)]
            near = _CPU_REACH * figures[kept[0]][goal] if kept and goal == CPU_TIME else math.inf
            self._left[goal] = [it for it in kept if figures[it][goal] <= near]

    def needs_more(self, name: str) -> bool:
        """Whether another round of a configuration is of use."""
        return name == self._names[0] or any(name in left for left in self._left.values())

    def candidates(self, goal: str) -> list[str]:
        """The configurations that can be the best for a goal."""
        return list(self._left[goal])

    def ratio(self, goal: str, over: str, under: str) -> MedianRatio | None:
        """A figure of a configuration to that of another, by the requests of the rounds that both have; None without any."""
        rounds = min(len(self._seen[over]), len(self._seen[under]))
        if not rounds:
            return None
        one, other = (self._seen[it][rounds - 1][goal] for it in (over, under))
        return MedianRatio(one / other, None, None, rounds)
