"""From two plans and a load to two results: levels of both sides in turns, round by round, until a judge knows enough.

In each round a level has a block on both sides, one right after the other, in an order shuffled from the seed. A block of a level
at a rate is a stretch of requests that are due at the same moments on both sides; its first requests come to callers that have
just been woken, and do not count. The side that has not its turn is paused.
"""

from __future__ import annotations

import copy
import math
import random
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ortbench.analysis.loads.levels import CONCURRENCY, At
from ortbench.analysis.loads.load_levels import Taken, burst_block, stretch_block
from ortbench.measure.clocks import locked_clocks
from ortbench.measure.environment import environment
from ortbench.measure.gpus import Watch
from ortbench.measure.held_outputs import hold_outputs
from ortbench.measure.load import ALONE_ROUNDS, FEWEST_CYCLES, KEEP_EVERY_S, SHORTEST_BLOCK_NS
from ortbench.measure.load_due import Due
from ortbench.measure.load_left import Left
from ortbench.measure.load_side import LoadSide
from ortbench.measure.side import Side
from ortbench.model.result import Result
from ortbench.model.schema import LoadBlock, Stopped
from ortbench.plan.load_plan import LoadPlan
from ortbench.plan.plan import Observer

_ROUNDS = 32  # that a level's time is to be enough for, unless its blocks must be longer
_LONGEST_BLOCK_S = 0.25  # of a closed loop: more short blocks tell more than fewer long ones
_SKIPPED = 3  # requests at the beginning of a stretch
_PATIENCE_S = 1.0  # how much longer than it is meant to last a stretch may last, at least


class Judge(Protocol):
    """Looks at blocks as they come and says of which levels more are wanted: see `ortbench.gate.live_load.LiveLoadGate`."""

    @property
    def takes(self) -> int:
        """How many rounds a verdict takes, at least."""

    def least_runs(self, mode: str, place: At) -> int:
        """How many runs a block takes."""

    def add(self, side: int, mode: str, place: At, block: LoadBlock) -> None:
        """Take a block into account."""

    def wants(self, mode: str, place: At, rounds: int) -> bool:
        """Whether more rounds of a level are of use."""


@dataclass
class _Turn:
    """A level that is measured: what is taken of it on each side, how long a block is, and how far it is."""

    mode: str
    place: At
    taken: tuple[Taken, ...]
    block_s: float
    rounds: int = 0


class LoadInTurns:
    """Puts a load on several sides.

    Args:
        sides: not open yet; all must open.
        load: checked.
        judge: says when enough is known.
        observer: told what happens.
        meanwhile: called once while the first model is loaded.
        after_open: given the results so far when every model is open; what it raises ends the load.
    """

    def __init__(
        self,
        sides: Sequence[Side],
        load: LoadPlan,
        judge: Judge,
        observer: Observer | None,
        meanwhile: Callable[[], None],
        after_open: Callable[[Sequence[Result]], None] | None = None,
    ) -> None:
        self._load, self._judge = load, judge
        self._observer = observer = observer or Observer()
        self._meanwhile, self._after_open = meanwhile, after_open
        plan = sides[0].plan
        self._due = Due(load, plan.inputs.seed)
        self._level_s = self._due.level_s
        self._sides = [LoadSide(side, load, self._level_s, observer) for side in sides]
        self._random = random.Random(plan.inputs.seed)
        self._turns: list[_Turn] = []
        self._kept_at = time.monotonic()
        self._began_ns: int | None = None
        levels = len(plan.modes) * (len(load.closed) + len(self._due.rates))
        self._left = Left(len(sides) * (len(plan.modes) + 1), len(sides) * levels * self._level_s, observer.left)
        for side in sides:
            side.while_waiting = self._while_waiting
        self.interrupted = False

    @property
    def taken(self) -> list[list[Taken]]:
        """What was taken of each level, by side, in the order of the results."""
        return [side.taken for side in self._sides]

    def run(self) -> list[Result]:
        """Measure; after Ctrl-C or a lost worker the results are what there is of them.

        Raises:
            BadInput, BenchmarkFailed, NotComparable: before anything could be measured.
        """
        sides = [it.side for it in self._sides]
        why: Stopped = {"reason": "interrupted"}
        try:
            self._open()
            with ExitStack() as stack:
                stack.enter_context(locked_clocks([(side.plan, side.result) for side in sides]))
                watch = stack.enter_context(closing(Watch()))
                for it in self._sides:
                    stack.enter_context(it.watched(watch))
                why = self._measure()
            for side in sides:
                with self._awake(side):
                    side.release()
        except KeyboardInterrupt:
            if not all(side.is_open for side in sides):
                raise
            self.interrupted = True
        finally:
            took = None if self._began_ns is None else time.perf_counter_ns() - self._began_ns
            for it in self._sides:
                it.close()
        for it in self._sides:
            it.end(why, took)
        return [side.result for side in sides]

    def _while_waiting(self) -> None:
        self._left.tell()
        for it in self._sides:
            it.look()

    @contextmanager
    def _awake(self, side: Side) -> Iterator[None]:
        """One side works, all others are paused."""
        side.resume()
        try:
            yield
        finally:
            side.pause()

    # Before the first block

    def _open(self) -> None:
        machine, run_id = environment(), uuid.uuid4().hex
        for number, it in enumerate(self._sides):
            self._observer.stage(f"loading {Path(it.side.plan.model).name} ({it.side.name})")
            self._left.tell()
            it.side.start()
            with self._awake(it.side):
                if number == 0:
                    it.side.meanwhile(self._meanwhile)
                it.open(copy.deepcopy(machine), run_id)
        sides = [it.side for it in self._sides]
        if self._after_open is not None:
            self._after_open([side.result for side in sides])
        hold_outputs(sides, self._awake, must_match=True)

    def _measure(self) -> Stopped:
        for it in self._sides:
            with self._awake(it.side):
                it.prepare(self._due.rates)
        self._keep()
        self._turns = list(self._common())
        if not self._turns:
            return {"reason": "nothing_left", "per": "load point"}
        self._began_ns = time.perf_counter_ns()
        self._left.begin_measuring(sum(self._time_s(turn) for turn in self._turns))
        self._observer.stage("measuring")
        self._rounds()
        for it in self._sides:
            with self._awake(it.side):
                for mode in it.side.modes:
                    self._observer.stage(f"checking outputs and the fence of {mode} ({it.side.name})")
                    it.side.finish(mode)
        decided = all(not self._wanted(turn) for turn in self._turns)
        return {"reason": "verdict"} if decided else {"reason": "completed", "per": "load point"}

    def _common(self) -> Iterator[_Turn]:
        """The levels that all sides can be measured at."""
        keys = [{(it.mode, it.key): it for it in side.taken} for side in self._sides]
        for (mode, key), first in keys[0].items():
            taken = (first, *(other[mode, key] for other in keys[1:] if (mode, key) in other))
            if len(taken) == len(keys) and self._usable(taken):
                place = At(*key)
                yield _Turn(mode, place, taken, self._block_s(mode, place))

    def _usable(self, taken: Sequence[Taken]) -> bool:
        return all(side.usable(it) for side, it in zip(self._sides, taken, strict=True))

    def _block_s(self, mode: str, place: At) -> float:
        """How long a block of a level is: so that its time is enough for `_ROUNDS`, or as long as its figures need at least."""
        least, fair_s = self._judge.least_runs(mode, place), self._level_s / _ROUNDS
        if place.kind == CONCURRENCY:
            run_s = max(side.one_run_ns(mode) for side in self._sides) / 1e9
            needed_s = max(SHORTEST_BLOCK_NS / 1e9, FEWEST_CYCLES * run_s * place.value, least * run_s)
            return max(needed_s, min(fair_s, _LONGEST_BLOCK_S))
        block_s = max(fair_s, (least + _SKIPPED) / place.value)
        longest_s = self._due.longest_s(place.value)
        return block_s if longest_s is None else min(block_s, longest_s)

    # Rounds

    def _time_s(self, turn: _Turn) -> float:
        """About how long the rounds of a level take that are still to come, if it is not decided before."""
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
                self._alone(number)
            self._random.shuffle(turns)
            for turn in turns:
                if self._usable(turn.taken):
                    self._round(turn, number)
                    self._left.begin_measuring(sum(self._time_s(it) for it in self._turns if self._goes_on(it)))
                if time.monotonic() - self._kept_at > KEEP_EVERY_S:
                    self._keep()
            number += 1

    def _alone(self, number: int) -> None:
        """A block of one caller alone of each mode and side."""
        for mode in dict.fromkeys(turn.mode for turn in self._turns):
            for it in self._shuffled():
                with self._awake(it.side):
                    it.alone(mode, number)

    def _shuffled(self) -> list[LoadSide]:
        return self._random.sample(self._sides, len(self._sides))

    def _round(self, turn: _Turn, number: int) -> None:
        """A block of a level on each side."""
        for it in self._shuffled():
            side = self._sides.index(it)
            with self._awake(it.side):
                block = self._block(it, turn, turn.taken[side], number)
            if block is not None:
                self._judge.add(side, turn.mode, turn.place, block)
            if not self._usable(turn.taken):
                self._keep()
                return
        turn.rounds += 1

    def _block(self, side: LoadSide, turn: _Turn, taken: Taken, number: int) -> LoadBlock | None:
        if not taken.is_open:
            burst = side.block(taken, round(turn.block_s * 1e9), number)
            return None if burst is None else burst_block(burst)
        due = self._due.moments(turn.place.value, turn.block_s, number)
        patience_s = max(turn.block_s, _PATIENCE_S, 10 * side.one_run_ns(turn.mode) / 1e9)
        found = side.stretch(taken, due, turn.block_s + patience_s, number, skip=_SKIPPED)
        return None if found is None else stretch_block(found)

    def _keep(self) -> None:
        for it in self._sides:
            it.keep()
        self._kept_at = time.monotonic()
