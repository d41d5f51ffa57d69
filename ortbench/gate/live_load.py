"""A live gate of loads: levels of candidate and baseline in turns, until every contest is decided or the time is spent. Pure.

It is the judge of a `ortbench.measure.load_in_turns.LoadInTurns`, whose sides are the candidate and the baseline. A level's block on
one side is paired with that of the same round on the other, and the ratios of the pairs go to the same sequential test as those of a
live gate of single inferences.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ortbench.analysis.levels import RATE, RUNS_PER_S, At, by_statistic, is_measured
from ortbench.analysis.load import level_at
from ortbench.errors import BadInput, BenchmarkFailed
from ortbench.gate.checks import check_facts, check_lost_modes
from ortbench.gate.contests import BASELINE, CANDIDATE, PERCENTILES, Contest, Jury, Stream
from ortbench.gate.limits import DEFAULT_METRIC, UNCLEAR, Check, Limits
from ortbench.gate.limits import FAILED as UNFIT
from ortbench.gate.load import check_load, over_full, refuse_copy_share
from ortbench.gate.load_metrics import Held, held_levels, planned_levels
from ortbench.load_plan import AUTO, LoadPlan
from ortbench.modes import LOAD
from ortbench.result import FAILED, Result
from ortbench.schema import LevelBlock

_FEWEST_RUNS = 20  # of a block at a rate: neighbours wait together, so that a few say little


class LiveLoadGate:
    """Decides while blocks of levels come in.

    Args:
        limits: what the candidate must keep to.
        places: the modes and levels that are to be measured.

    Raises:
        BadInput: a metric that is of no such level.
    """

    def __init__(self, limits: Limits, places: Sequence[tuple[str, At]]) -> None:
        self._limits = limits
        self._contests: dict[Held, Contest] = {}
        if limits.max_regression is not None:
            most = 1 + limits.max_regression
            self._contests = {held: _contest(held, most) for held in held_levels(places, limits, "is to be measured")}
        self._jury = Jury(list(self._contests.values()))

    @property
    def takes(self) -> int:
        """How many rounds a verdict takes, at least."""
        return self._jury.takes

    def least_runs(self, mode: str, place: At) -> int:
        """How many runs a block takes for its figures: a percentile of fewer would be another name for the slowest one, being
        nearer to it than to the next."""
        tails = [PERCENTILES[it.stat] for it in self._contests if it[:2] == (mode, place) and it.stat in PERCENTILES]
        needed = math.ceil(1 + 0.5 / (1 - max(tails)) - 1e-9) if tails else 1
        return max(needed, _FEWEST_RUNS) if place.kind == RATE else needed

    def add(self, side: int, mode: str, place: At, block: LevelBlock) -> None:
        """Take a block of a level into account."""
        for held, contest in self._contests.items():
            if held[:2] == (mode, place):
                value = (
                    1e9 / max(block["runs_per_s"], 1e-9)
                    if held.stat == RUNS_PER_S
                    else by_statistic(block["latency_ns"])[held.stat]
                )
                self._jury.add(side, mode, contest.over.phase, block["round"], [round(value)])

    def wants(self, mode: str, place: At, rounds: int) -> bool:
        """Whether more rounds of a level are of use, as long as there is time.

        Those of contests until they are decided; where a limit is of the candidate's level itself always, because its interval may
        not be looked at again and again; else as many as a verdict takes.
        """
        if self._limits.slo if place.kind == RATE else self._limits.min_speedup:
            return True
        own = [contest for held, contest in self._contests.items() if held[:2] == (mode, place)]
        return any(self._jury.check(it).verdict == UNCLEAR for it in own) if own else rounds < self.takes

    def regressions(self, checks: Sequence[Check]) -> set[str]:
        """The names of the checks that found the candidate slower than the baseline."""
        return {check.name for check in checks if check.verdict == UNFIT} & {held.name for held in self._contests}

    def checks(self, results: Sequence[Result]) -> list[Check]:
        """The verdicts, of a load that is over.

        Raises:
            BenchmarkFailed: nothing could be compared.
            BadInput: a limit for which there is no level.
        """
        candidate, baseline = results
        checks = check_lost_modes(candidate, baseline, self._limits)
        checks += [
            check
            for held, contest in self._contests.items()
            if (check := self._check(held, contest, candidate, baseline)) is not None
        ]
        statuses = [it.status for result in results for it in result.cases]
        statuses += [it["status"] for result in results for it in result.levels]
        if self._contests and not checks and FAILED not in statuses:
            reasons = [f"{case.mode}: {case.reason}" for case in candidate.cases if case.reason]
            raise BenchmarkFailed(f"nothing could be compared: {'; '.join(reasons)}")
        if not any(map(is_measured, candidate.levels)):
            return [*checks, *check_facts(candidate, self._limits)]
        return [*checks, *check_facts(candidate, self._limits), *check_load(candidate, self._limits)]

    def _check(self, held: Held, contest: Contest, candidate: Result, baseline: Result) -> Check | None:
        """What is known of a contest; None where a side has no such level, which it says itself."""
        level, base = (level_at(result, held.mode, held.at) for result in (candidate, baseline))
        if level is None or base is None:
            return None
        over = over_full(held.name, level, base, held.stat, contest.limit)
        if over is not None:
            return over
        check = self._jury.check(contest)
        if check.low is not None or check.rounds is None:
            return check
        text = f"{check.text}; a verdict takes {self.takes} rounds"
        return Check(check.name, check.verdict, text, check.ratio, limit=check.limit, rounds=check.rounds)


def check_live(limits: Limits, modes: Sequence[str], load: LoadPlan, is_contest: bool) -> None:
    """Refuse limits that a live gate of a load has not, before anything is started.

    Args:
        limits: what the candidate must keep to.
        modes: that are to be measured.
        load: that is put on, checked.
        is_contest: whether there is a baseline.

    Raises:
        BadInput: there is one.
    """
    if limits.of_memory:
        raise BadInput("memory is of single inferences: hold it to limits without a load")
    for metric in limits.metrics:
        if metric.phase != LOAD and metric != DEFAULT_METRIC:
            reason = "is of single inferences; of a load write load.p99@rate=30 or load.runs_per_s@concurrency=4"
            raise BadInput(f"--metric {metric.text}: {reason}", "--metric")
    refuse_copy_share(limits)
    if limits.min_speedup and not load.closed:
        raise BadInput("--min-speedup: is of callers: give a --concurrency too", "--min-speedup")
    if is_contest and load.rate == AUTO:
        raise BadInput("--rate auto: sides are held against each other at the same rates: name them", "--rate")
    LiveLoadGate(limits, planned_levels(modes, load))


def _contest(held: Held, most: float) -> Contest:
    phase = f"{held.stat}@{held.at.kind}={held.at.value:g}"
    over, under = (Stream(side, held.mode, phase, "median") for side in (CANDIDATE, BASELINE))
    slower = ", as time a run" if held.stat == RUNS_PER_S else ""
    return Contest(held.name, over, under, most, at_most=True, what=f"{held.name}{slower}, candidate to baseline")
