"""A load on several configurations: load points of both in turns, round by round, until a judge knows enough.

In each round a load point has a block on both configurations, one right after the other, in an order shuffled from the seed. A
block at a rate is a stretch of requests that are due at the same moments on both; its first requests come to callers that have
just been woken, and do not count.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from ortbench.analysis.loads.levels import CONCURRENCY, At
from ortbench.analysis.loads.load_levels import Burst, Taken, burst_block, stretch_block
from ortbench.measure.load import ALONE_ROUNDS, FEWEST_CYCLES, SHORTEST_BLOCK_NS, LoadExperiment
from ortbench.measure.load_side import LoadSide
from ortbench.measure.side import Side
from ortbench.model.result import Result
from ortbench.model.schema import LoadBlock, Stopped
from ortbench.plan.load_plan import LoadPlan
from ortbench.plan.plan import Observer

_ROUNDS = 32  # that a load point's time is to be enough for, unless its blocks must be longer
_LONGEST_BLOCK_S = 0.25  # of a closed loop: more short blocks tell more than fewer long ones


class Judge(Protocol):
    """Looks at blocks as they come and says of which load points more are wanted: see `ortbench.gate.live_load.LiveLoadGate`."""

    @property
    def takes(self) -> int:
        """How many rounds a verdict takes, at least."""

    def least_runs(self, mode: str, place: At) -> int:
        """How many runs a block takes."""

    def add(self, side: int, mode: str, place: At, block: LoadBlock) -> None:
        """Take a block into account."""

    def wants(self, mode: str, place: At, rounds: int) -> bool:
        """Whether more rounds of a load point are of use."""


@dataclass
class _Turn:
    """A load point that is measured: what is taken of it on each configuration, how long a block is, and how far it is."""

    mode: str
    place: At
    taken: tuple[Taken, ...]
    block_s: float
    rounds: int = 0


class LoadInTurns(LoadExperiment):
    """The load of several configurations."""

    patience_s = 1.0
    skipped = 3

    def __init__(
        self,
        sides: Sequence[Side],
        load: LoadPlan,
        judge: Judge,
        observer: Observer | None,
        meanwhile: Callable[[], None],
        after_open: Callable[[Sequence[Result]], None] | None = None,
    ) -> None:
        super().__init__(sides, load, observer, meanwhile, after_open)
        self._judge = judge
        self._turns: list[_Turn] = []

    @property
    def taken(self) -> list[list[Taken]]:
        """What was taken of each load point, by configuration, in the order of the results."""
        return [it.taken for it in self._loads]

    def _lacking(self) -> str | None:
        self._turns = list(self._common())
        return None if self._turns else "load point"

    def _time_levels(self) -> Stopped:
        self._tell_to_come(sum(self._time_s(turn) for turn in self._turns))
        self._observer.stage("measuring")
        self._rounds()
        decided = all(not self._wanted(turn) for turn in self._turns)
        return {"reason": "verdict"} if decided else {"reason": "completed", "per": "load point"}

    def _common(self) -> Iterator[_Turn]:
        """The load points that all configurations can be measured at."""
        keys = [{(it.mode, it.key): it for it in side.taken} for side in self._loads]
        for (mode, key), first in keys[0].items():
            taken = (first, *(other[mode, key] for other in keys[1:] if (mode, key) in other))
            if len(taken) == len(keys) and self._usable(taken):
                place = At(*key)
                yield _Turn(mode, place, taken, self._block_s(mode, place))

    def _usable(self, taken: Sequence[Taken]) -> bool:
        return all(side.usable(it) for side, it in zip(self._loads, taken, strict=True))

    def _block_s(self, mode: str, place: At) -> float:
        """How long a block of a load point is: so that there are `_ROUNDS`, or as long as its figures need at least."""
        least, fair_s = self._judge.least_runs(mode, place), self._level_s / _ROUNDS
        if place.kind == CONCURRENCY:
            run_s = max(it.one_run_ns(mode) for it in self._loads) / 1e9
            needed_s = max(SHORTEST_BLOCK_NS / 1e9, FEWEST_CYCLES * run_s * place.value, least * run_s)
            return max(needed_s, min(fair_s, _LONGEST_BLOCK_S))
        block_s = max(fair_s, (least + self.skipped) / place.value)
        longest_s = self._due.longest_s(place.value)
        return block_s if longest_s is None else min(block_s, longest_s)

    # Rounds

    def _time_s(self, turn: _Turn) -> float:
        """About how long the rounds of a load point take that are still to come, if it is not decided before."""
        most = max(self._judge.takes, math.ceil(self._level_s / turn.block_s))
        return max(0, most - turn.rounds) * turn.block_s * len(self._sides)

    def _wanted(self, turn: _Turn) -> bool:
        return self._judge.wants(turn.mode, turn.place, turn.rounds)

    def _goes_on(self, turn: _Turn) -> bool:
        if not self._usable(turn.taken):
            return False
        is_time = turn.rounds < self._judge.takes or turn.rounds * turn.block_s < self._level_s
        return is_time and self._wanted(turn)

    def _rounds(self) -> None:
        number = 0
        while turns := [turn for turn in self._turns if self._goes_on(turn)]:
            if number < ALONE_ROUNDS:
                self._all_alone(number)
            self._random.shuffle(turns)
            for turn in turns:
                if self._usable(turn.taken):
                    self._round(turn, number)
                    self._tell_to_come(sum(self._time_s(it) for it in self._turns if self._goes_on(it)))
                self._keep_now_and_then()
            number += 1

    def _all_alone(self, number: int) -> None:
        """A block of one caller alone of each mode and side."""
        for mode in dict.fromkeys(turn.mode for turn in self._turns):
            for it in self._shuffled():
                self._alone(it, mode, number)

    def _shuffled(self) -> list[LoadSide]:
        return self._random.sample(self._loads, len(self._loads))

    def _round(self, turn: _Turn, number: int) -> None:
        """A block of a load point on each configuration."""
        for it in self._shuffled():
            side = self._loads.index(it)
            found = self._block(it, turn.taken[side], turn.block_s, number, repeat=number)
            block = None
            if found is not None:
                block = burst_block(found) if isinstance(found, Burst) else stretch_block(found)
            if block is not None:
                self._judge.add(side, turn.mode, turn.place, block)
            if not self._usable(turn.taken):
                self._keep()
                return
        turn.rounds += 1
