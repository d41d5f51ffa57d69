"""Which block comes next, how long it is, when enough is known, and which samples of blocks are kept: pure, without a clock.

Series alternate in short blocks, so that what drifts in the machine hits all alike; a series is a mode of one worker. A
round holds one block of every series, and one of each of its phases where they can be timed one by one, in an order
shuffled from a recorded seed. A phase has blocks of its own because what runs before it would show in it: caches are
cold after a large copy.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from ortbench.analysis.intervals import ROUNDS
from ortbench.core.stats import FEW, median_interval
from ortbench.model.modes import (
    CPU_TIME,
    ENQUEUE,
    LATENCY,
    MISSED_STARTS,
    PACED,
    PACED_CPU_TIME,
    STEP,
    TOKEN_PHASES,
    Work,
    stage_phase,
    taken_in,
)
from ortbench.model.protocol import Samples, TimedBlock, TracedSamples
from ortbench.model.result import Case
from ortbench.model.schema import HostTime, Stopped

PACED_BLOCK_NS = 500_000_000  # so that threads fall asleep, caches cool down and clocks fall as they do in a program
BLOCK_NS = 20_000_000  # short enough to alternate often, long enough that the switch between modes is a small part
MIN_BLOCK, MAX_BLOCK = 3, 1000
LEARNING_ROUNDS = 2  # of the shortest blocks where nothing is known beforehand; the first iterations can be far slower
_FAR_OFF = 2  # times as much as a call took, that a guess is too much
MIN_ROUNDS = ROUNDS  # fewer could not be compared with another run
MAX_SAMPLES = 200_000  # per series: more says nothing new and makes the result file unwieldy


class Series(NamedTuple):
    """What alternates: a mode of one of the configurations."""

    configuration: int
    mode: str


SeriesT = TypeVar("SeriesT", bound=Hashable)
# ns of one iteration by series and phase; None where not known
Estimates = Mapping[SeriesT, Mapping[str, float | None]]


@dataclass(frozen=True)
class Block(Generic[SeriesT]):
    """A request for one block: `drop` iterations of a phase that are not recorded, then `n` that are."""

    round: int
    series: SeriesT
    phase: str
    n: int
    drop: int
    point: tuple[str, float] | None = None  # that it is of: an axis, and the place on it


class BlockSource(Protocol):
    """What says which block comes next."""

    @property
    def end_reason(self) -> Stopped | None:
        """Why no more come, once that is so."""

    @property
    def progress(self) -> float | None:
        """The share that is done, 0 to 1; None where it tells how much is left itself."""

    def next_block(self) -> Block[Any] | None:
        """The next block, or None when there are no more."""

    def add(self, block: Block[Any], samples: Sequence[int], spent_ns: int, waited_ns: int = 0) -> None:
        """Learn from what a block gave."""

    def remove(self, series: Any) -> None:
        """Ask for no more blocks of a series."""


class StopRule(NamedTuple):
    """When to stop.

    Either `iterations` is given: exactly that many samples of each phase. Or the run ends when the 95 % interval of
    every series' median latency is within ± `precision` (a share of the median; None never ends it), or when `duration_ns`
    times the number of series has been spent, or at `most` samples, whichever is first. A precision of 0 is a soak run: the
    duration alone ends it, and who keeps the samples has to thin them (`Thinning`). A series is called `per`. No duration ends it
    before so many `rounds`. With `part_ns` each part lasts so long for each series, what lies between parts not counted, or for `FEW`
    rounds.
    """

    duration_ns: int
    precision: float | None
    iterations: int | None = None
    most: int = MAX_SAMPLES
    per: str = "mode"
    rounds: int = 1
    part_ns: int | None = None


def dropped_count(n: int) -> int:
    """How many iterations at the start of a block of n are run and not recorded: a tenth, at least one.

    The first iterations after a switch of modes run with the other mode's data in the caches.
    """
    return max(1, n // 10)


def block_size(sample_ns: float, phase: str = LATENCY) -> int:
    """Samples per block of a phase whose iteration takes about `sample_ns`."""
    block_ns = PACED_BLOCK_NS if phase == PACED else BLOCK_NS
    return min(MAX_BLOCK, max(MIN_BLOCK, round(block_ns / max(sample_ns, 1.0))))


def round_s(estimates: Estimates[Any]) -> float:
    """About how long a round takes, s; infinite where that is not known."""
    known = [(phase, ns) for phases in estimates.values() for phase, ns in phases.items()]
    if any(ns is None for _, ns in known):
        return math.inf
    return sum(block_size(ns, phase) * ns for phase, ns in known if ns is not None) / 1e9


def equal_estimates(estimates: Estimates[Series]) -> Estimates[Series]:
    """The same estimates, and so the same block size, for a mode on all configurations: those of the slowest; None if one is.

    A ratio of medians of 10 samples on one configuration and of 11 on the other would not be even-handed.
    """
    slowest: dict[tuple[str, str], float | None] = {}
    for series, phases in estimates.items():
        for phase, ns in phases.items():
            other = slowest.get((series.mode, phase), 0.0)
            slowest[series.mode, phase] = None if ns is None or other is None else max(ns, other)
    return {series: {phase: slowest[series.mode, phase] for phase in phases} for series, phases in estimates.items()}


@dataclass
class _Record:
    """The samples of one (series, phase) so far."""

    count: int = 0
    samples: list[int] = field(default_factory=list)  # where a precision is asked for
    sizes: list[int] = field(default_factory=list)


class Schedule(Generic[SeriesT]):
    """Hands out blocks and learns from their samples.

    Args:
        estimates_ns: for each series the phases to time, with a first guess of one iteration in ns from the warm-up, for
            example ``{"cpu-tensors": {"latency": 2e6}}``. Where there was none (None), the first `LEARNING_ROUNDS` are of
            `MIN_BLOCK` samples and tell; they also correct a guess that is `_FAR_OFF`, as noise makes one.
        rule: when to stop.
        seed: of the shuffle.
        after_round: called when every block of a round has been measured; it may `remove` series that need no more.
        even: makes of estimates those that block sizes follow from, where several series are to have the same.
        parts: how many the time is divided into; of each the medians are to be precise.
        between: called between two parts, with the round that comes next; it may `remove` series.
        between_ns: about how long that takes; what is left of the time is divided evenly.
    """

    def __init__(
        self,
        estimates_ns: Estimates[SeriesT],
        rule: StopRule,
        seed: int,
        after_round: Callable[[Schedule[SeriesT]], None] | None = None,
        even: Callable[[Estimates[SeriesT]], Estimates[SeriesT]] = lambda estimates: estimates,
        parts: int = 1,
        between: Callable[[Schedule[SeriesT], int], None] = lambda schedule, number: None,
        between_ns: int = 0,
    ) -> None:
        self._even = even
        self._part, self._parts, self._between, self._between_ns = 1, parts, between, between_ns
        self._part_begins = self._spent_before = 0  # its first round, and what was spent before it
        self._has_waited = False  # for what lies between parts
        self._is_over_time = False  # a part was not precise when its time was up
        self._estimates = {series: dict(phases) for series, phases in estimates_ns.items()}
        self._least_ns: dict[tuple[SeriesT, str], float] = {}  # of an iteration, in the first rounds
        self._size = self._sizes()
        self._rule = rule
        self._random = random.Random(seed)
        self._records = {key: _Record() for key in self._size}
        self._round = 0
        self._pending: list[tuple[SeriesT, str]] = []
        self._spent_ns = dict.fromkeys(estimates_ns, 0)
        self._next_look = 0
        self._after_round = after_round
        self.end_reason: Stopped | None = None

    def _sizes(self) -> dict[tuple[SeriesT, str], int]:
        return {
            (series, phase): MIN_BLOCK if ns is None else block_size(ns, phase)
            for series, phases in self._even(self._estimates).items()
            for phase, ns in phases.items()
        }

    def next_block(self) -> Block[SeriesT] | None:
        """The next block, or None when it is over; then `stopped` says why."""
        while not self._pending:
            if self._after_round is not None and self._round:
                self._after_round(self)
            if self.end_reason is None:
                self.end_reason = self._why_stop()
            if self.end_reason is not None and self._part < self._parts and self._records:
                self._begin_part(self.end_reason)
                continue
            if self.end_reason is not None:
                return None
            if self._round == LEARNING_ROUNDS:
                self._learn()
            self._pending = [key for key in self._records if self._next_size(key) > 0]
            self._random.shuffle(self._pending)
            self._round += 1
        key = self._pending.pop()
        n = self._next_size(key)
        return Block(self._round - 1, *key, n, dropped_count(n))

    def _begin_part(self, stopped: Stopped) -> None:
        self._is_over_time |= stopped["reason"] == "duration"
        self.end_reason = None
        self._part += 1
        self._part_begins, self._next_look = self._round, 0
        for record in self._records.values():
            record.samples.clear()
            record.sizes.clear()
        self._between(self, self._round)
        self._has_waited = True
        self._spent_before = sum(self._spent_ns.values())

    def end(self) -> None:
        """No part follows; called between two parts."""
        self.end_reason, self._parts = {"reason": "completed"}, self._part

    @property
    def _iterations(self) -> int | None:
        """How many samples of each phase there are to be at the end of this part."""
        every = self._rule.iterations
        return None if every is None else -(-every * self._part // self._parts)

    def _next_size(self, key: tuple[SeriesT, str]) -> int:
        if self._iterations is None:
            return self._size[key]
        return min(self._size[key], self._iterations - self._records[key].count)

    def add(self, block: Block[SeriesT], samples: Sequence[int], spent_ns: int, waited_ns: int = 0) -> None:
        """What a block gave: the duration of each recorded iteration, ns, and of the whole block. `waited_ns` is since the block
        before, with all that lay between: of short blocks that is as much as they take themselves, and who asked for a duration
        waits for it."""
        record = self._records[block.series, block.phase]
        record.count += len(samples)
        if self._rule.precision:
            record.samples.extend(samples)
            record.sizes.append(len(samples))
        is_apart = self._has_waited and self._rule.part_ns is not None
        self._spent_ns[block.series] += spent_ns if is_apart else max(spent_ns, waited_ns)
        self._has_waited = False
        if self._round <= LEARNING_ROUNDS:
            # Of the whole block: where a call makes several inferences, a sample is but one of them.
            key, ns = (block.series, block.phase), spent_ns / (block.n + block.drop)
            self._least_ns[key] = min(ns, self._least_ns.get(key, ns))

    def _learn(self) -> None:
        """Sizes by what the first rounds took, where nothing else says so, or something that is far off."""
        for (series, phase), ns in self._least_ns.items():
            known = self._estimates.get(series, {})
            if phase in known and ((guess := known[phase]) is None or guess > _FAR_OFF * ns):
                known[phase] = ns
        self._size = self._sizes()

    def remove(self, series: SeriesT) -> None:
        self._spent_ns.pop(series, None)
        self._estimates.pop(series, None)
        self._records = {key: record for key, record in self._records.items() if key[0] != series}
        self._pending = [key for key in self._pending if key[0] != series]

    @property
    def progress(self) -> float:
        if not self._records:
            return 1.0
        if self._rule.iterations is not None:
            done = min(record.count for record in self._records.values())
            return min(1.0, done / self._rule.iterations)
        return min(1.0, sum(self._spent_ns.values()) / self._budget_ns())

    def _budget_ns(self) -> int:
        each_ns = self._rule.duration_ns if self._rule.part_ns is None else self._rule.part_ns * self._parts
        return max(1, each_ns * len(self._spent_ns))

    def _why_stop(self) -> Stopped | None:
        if not self._records:
            return {"reason": "nothing_left", "per": self._rule.per}
        if self._iterations is not None:
            if all(record.count >= self._iterations for record in self._records.values()):
                return {"reason": "iterations", "value": self._rule.iterations or 0, "per": self._rule.per}
            return None
        spent, rounds, least = sum(self._spent_ns.values()), self._round, 1
        budget = (self._budget_ns() + self._between_ns) * self._part // self._parts - self._between_ns
        if self._rule.part_ns is not None:
            spent, rounds, least = spent - self._spent_before, self._round - self._part_begins, FEW
            budget = self._rule.part_ns * len(self._spent_ns)
        # A whole round comes next: it is left out where it would be more too long than the run is too short without it.
        half = 0.0 if self._rule.precision == 0 else spent / max(1, rounds) / 2
        over: Stopped = {"reason": "duration", "value": self._rule.duration_ns / 1e9, "per": self._rule.per}
        if spent + half >= budget and self._round >= max(self._part_begins + least, self._rule.rounds):
            return over
        totals = [record for (_, phase), record in self._records.items() if phase == LATENCY]
        most = max((record.count for record in totals), default=0)
        if most >= self._rule.most * self._part // self._parts and self._rule.precision != 0:
            return {"reason": "samples", "value": self._rule.most, "per": "mode"}
        # The intervals are looked at again when a tenth more is known: each look sorts all samples.
        parts = self._parts if self._rule.part_ns is None else FEW  # that there are at least
        if self._round < max(self._part_begins + -(-MIN_ROUNDS // parts), self._next_look):
            return None
        self._next_look = math.ceil(self._round * 1.1)
        precision = self._rule.precision
        if precision and totals and all(is_precise(it.samples, it.sizes, precision) for it in totals):
            return over if self._is_over_time else {"reason": "precision", "value": precision}
        return None


class OneByOne(Schedule[SeriesT]):
    """Blocks of one sample, whatever one takes."""

    def _sizes(self) -> dict[tuple[SeriesT, str], int]:
        return {(series, phase): 1 for series, phases in self._estimates.items() for phase in phases}

    def _learn(self) -> None:
        pass


class InOrder(Generic[SeriesT]):
    """One block of each phase of each series, series after series: what is read as a timeline must not be shuffled.

    Without `iterations` as many as fit into `IN_ORDER_NS`, 3 to 20 (3 where no estimate is known).
    """

    IN_ORDER_NS = 1_000_000_000
    FEWEST, MOST = 3, 20

    def __init__(self, estimates_ns: Estimates[SeriesT], iterations: int | None) -> None:
        self._blocks = [
            Block(0, series, phase, iterations or self._fitting(ns), drop=1)
            for series, phases in estimates_ns.items()
            for phase, ns in sorted(phases.items(), key=lambda it: it[0] == LATENCY)  # the whole after its parts
        ]
        self._asked = 0

    @property
    def end_reason(self) -> Stopped | None:
        return {"reason": "completed"} if self._asked == len(self._blocks) else None

    def _fitting(self, sample_ns: float | None) -> int:
        if sample_ns is None:
            return self.FEWEST
        return min(self.MOST, max(self.FEWEST, round(self.IN_ORDER_NS / max(sample_ns, 1.0))))

    def next_block(self) -> Block[SeriesT] | None:
        """The next block, or None when there are no more."""
        if self._asked == len(self._blocks):
            return None
        self._asked += 1
        return self._blocks[self._asked - 1]

    def add(self, block: Block[SeriesT], samples: Sequence[int], spent_ns: int, waited_ns: int = 0) -> None:
        """Nothing is learned from samples: the blocks are fixed."""

    def remove(self, series: SeriesT) -> None:
        rest = [block for block in self._blocks[self._asked :] if block.series != series]
        self._blocks[self._asked :] = rest

    @property
    def progress(self) -> float:
        return self._asked / max(1, len(self._blocks))


def is_precise(samples: Sequence[int], block_sizes: Iterable[int], precision: float) -> bool:
    """Whether the 95 % interval of the median is within ± `precision` of the median."""
    low, high = median_interval(samples, list(block_sizes))
    return high - low <= precision * (high + low)


def streams(answer: Samples, phase: str, runs: int, part: str = STEP) -> dict[str, list[int] | list[float]]:
    """Samples by the name that a result has them under, ns, that of the phase that was timed first."""
    samples: dict[str, list[int] | list[float]] = {phase: answer["samples"]}
    if "paced" in answer:
        count, pace = len(answer["samples"]), answer["paced"]
        return {
            **samples,
            PACED_CPU_TIME: [round(pace["cpu_ns"] / count)],
            MISSED_STARTS: [round(pace["missed"] / count, 6)],
        }
    if "steps" in answer:
        samples[part] = answer["steps"]
    if "enqueues" in answer:
        samples[ENQUEUE] = answer["enqueues"]
    if "cpu" in answer:
        samples[CPU_TIME] = [round((answer["cpu"]["user_ns"] + answer["cpu"]["system_ns"]) / runs)]
    samples |= {key: [round(count / runs, 6)] for key, count in answer.get("counts", {}).items()}
    return samples


def stage_samples(answer: Samples, stages: Sequence[str]) -> dict[str, list[int]]:
    return {
        stage_phase(name): answer["steps"][at :: len(stages)] for at, name in enumerate(stages) if "steps" in answer
    }


def token_samples(answer: Samples, work: Work) -> dict[str, list[int]]:
    """The samples of the first token of a loop that generates and of later ones, ns, by their phases."""
    taken = answer.get("steps", []) if work.tokens else []
    parts = taken[:: work.count], [ns for number, ns in enumerate(taken) if number % work.count]
    return dict(zip(TOKEN_PHASES, parts, strict=True)) if taken else {}


def timed_block(block: Block[Series], answer: TracedSamples, first: int) -> TimedBlock:
    """A block of a timeline, whose first sample has that number among those of its phase."""
    return TimedBlock(
        mode=block.series.mode,
        phase=block.phase,
        round=block.round,
        dropped=block.drop,
        first=first,
        n=block.n,
        start_ns=answer["start_ns"],
        duration_ns=answer["spent_ns"],
        starts_ns=answer["starts_ns"],
        samples_ns=answer["calls_ns"],
        step_starts_ns=answer["step_starts_ns"],
        steps_ns=answer.get("steps", ()),
    )


def add_host_time(case: Case, answer: Samples, runs: int) -> None:
    if "cpu" not in answer:
        return
    so_far = case.host or HostTime(runs=0, wall_ns=0, user_ns=0, system_ns=0)
    spent = answer["cpu"]
    case.host = {
        "runs": so_far["runs"] + runs,
        "wall_ns": so_far["wall_ns"] + spent["wall_ns"],
        "user_ns": so_far["user_ns"] + spent["user_ns"],
        "system_ns": so_far["system_ns"] + spent["system_ns"],
    }


class Thinning:
    """Keeps the blocks of each nth round (`every`). With more than `most` samples of one phase of one mode every other round
    that is kept is left out."""

    def __init__(self, most: int = MAX_SAMPLES) -> None:
        self.every = 1
        self._most = most
        self._taken: dict[int, dict[str, int]] = {}

    def add(self, case: Case, phase: str, cases: Sequence[Case]) -> None:
        """A case has got a block, the last of that phase; `cases` are all that are measured in the same rounds, of all configurations."""
        phases = [phase, *(it for it in taken_in(case.mode, phase) if it in case.blocks)]
        taken = self._taken.setdefault(id(case), {})
        for timed in phases:
            taken[timed] = taken.get(timed, 0) + case.blocks[timed][-1][1]
        if case.blocks[phase][-1][0] % self.every:
            for timed in phases:
                _, n, _ = case.blocks[timed].pop()
                del case.samples[timed][len(case.samples[timed]) - n :]
        elif max(len(case.samples[it]) for it in phases) > self._most:
            self.every *= 2
            self._thin(cases)
        if self.every > 1:
            case.downsampled = {"every": self.every, "taken": dict(taken)}

    def _thin(self, cases: Iterable[Case]) -> None:
        for case in cases:
            for phase, blocks in case.blocks.items():
                kept: list[int | float] = []
                at = 0
                for round_, n, _ in blocks:
                    if round_ % self.every == 0:
                        kept += case.samples[phase][at : at + n]
                    at += n
                case.samples[phase] = kept
                case.blocks[phase] = [block for block in blocks if block[0] % self.every == 0]
            if case.blocks:
                case.downsampled = {"every": self.every, "taken": dict(self._taken.get(id(case), {}))}
