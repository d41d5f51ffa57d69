"""A live gate of loads: levels of candidate and baseline in turns, until every contest is decided or the time is spent. Pure.

A level's block on one side is paired with that of the same round on the other, and the ratios of the pairs go to the same
sequential test as those of a live gate of single inferences.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ortbench.analysis.comparing.series import PERCENTILES, Key, Point, is_of, point_text
from ortbench.analysis.loads.levels import LoadPoint, is_full, is_measured, load_cases
from ortbench.analysis.loads.queueing import own_rate
from ortbench.core.errors import BadInput, BenchmarkFailed
from ortbench.gate.checks import check_alone, check_facts, refuse_limits
from ortbench.gate.contests import BASELINE, CANDIDATE, RatioTest, Stream, check_name, fewest_samples
from ortbench.gate.limits import Check, Limits
from ortbench.gate.live import Gate
from ortbench.gate.stored import check_lost, full, refuse_statistic
from ortbench.model.kinds import CONCURRENCY, LOAD, RATE
from ortbench.model.metrics import LATENCY, Figure
from ortbench.model.modes import THROUGHPUT
from ortbench.model.result import FAILED, Result
from ortbench.plan.load_plan import AUTO, LoadPlan, read_timestamps

_FEWEST_RUNS = 20  # of a block at a rate: neighbours wait together, so that a few say little
_METRICS = (LATENCY, THROUGHPUT)  # that blocks of load points have


class LiveLoadGate(Gate):
    """Decides while blocks come in of load points that are to be measured; `BadInput` for a metric of none of them."""

    def __init__(self, limits: Limits, places: Sequence[tuple[str, LoadPoint]]) -> None:
        self._contests: dict[Key, RatioTest] = {}
        if limits.max_regression is not None:
            most = 1 + limits.max_regression
            self._contests = {key: _contest(key, most) for key in _compared(places, limits)}
        super().__init__(limits, [*self._contests.values()])

    def least_runs(self, mode: str, place: LoadPoint) -> int:
        """How many runs a block takes."""
        stats = [key.figure.statistic for key, _ in self._of(mode, place)]
        needed = max((fewest_samples(it) for it in stats if it in PERCENTILES), default=1)
        return max(needed, _FEWEST_RUNS) if place.kind == RATE.name else needed

    def add(
        self, side: int, mode: str, phase: str, round: int, samples: Sequence[float], place: LoadPoint | None = None
    ) -> None:
        for key, contest in self._of(mode, place):
            if phase == (key.figure.statistic or key.figure.metric):
                self._jury.add(side, mode, contest.over.phase, round, _times(key, samples))

    def _of(self, mode: str, place: LoadPoint | None) -> Iterator[tuple[Key, RatioTest]]:
        assert place is not None
        return (it for it in self._contests.items() if it[0].mode == mode and it[0].point == _point(place))

    def so_far(self) -> list[tuple[str, str]]:
        return self._jury.so_far()

    def wants(self, mode: str, place: LoadPoint | None = None, rounds: int = 0) -> bool:
        """Those of contests until they are decided; where a limit is of the candidate's level itself always, because its interval
        may not be looked at again and again; else as many as a verdict takes."""
        own = [contest for _, contest in self._of(mode, place)]
        if self._limits.slo if place is not None and place.kind == RATE.name else self._limits.min_speedup:
            return True
        return self._jury.is_open(own) if own else rounds < self.takes

    def checks(self, results: Sequence[Result]) -> list[Check]:
        """The verdicts on a load that is over; `BenchmarkFailed` with nothing to compare, `BadInput` for a limit of no point."""
        candidate, baseline = results
        checks = check_lost(candidate, baseline, self._limits)
        checks += [
            check
            for key, contest in self._contests.items()
            if (check := self._check(key, contest, candidate, baseline)) is not None
        ]
        statuses = [it.status for result in results for it in result.cases]
        if self._contests and not checks and FAILED not in statuses:
            reasons = [f"{case.mode}: {case.reason}" for case in candidate.at_point() if case.reason]
            raise BenchmarkFailed(f"nothing could be compared: {'; '.join(reasons)}")
        if not any(map(is_measured, load_cases(candidate))):
            return [*checks, *check_facts(candidate, self._limits)]
        return [*checks, *check_alone(candidate, self._limits)]

    def _check(self, key: Key, contest: RatioTest, candidate: Result, baseline: Result) -> Check | None:
        """What is known of a contest; None where one of the two has no such load point, which it says itself."""
        one, base = (result.case(key.mode, dict(key.point)) for result in (candidate, baseline))
        if one is None or base is None:
            return None
        check = self._jury.check(contest)
        if key.figure.metric == LATENCY and (is_full(one) or is_full(base)):
            verdict, text = full(contest.name, key, one, base)
            return replace(contest.unclear(text), verdict=verdict)
        if check.low is not None or check.rounds is None:
            return check
        text = f"{check.text}; a verdict takes {self.takes} rounds"
        return replace(contest.unclear(text), ratio=check.ratio, rounds=check.rounds)


def check_live(limits: Limits, modes: Sequence[str], load: LoadPlan, is_contest: bool) -> None:
    """Refuse limits that a live gate of a load has not, before anything is started."""
    if limits.of_memory:
        raise BadInput("memory is of single inferences: hold it to limits without a load")
    refuse_limits(LOAD.key, limits)
    if limits.min_speedup and not load.closed:
        raise BadInput("--min-speedup: is of callers: give a --concurrency too", "--min-speedup")
    if is_contest and load.rate == AUTO:
        raise BadInput("--rate auto: sides are held against each other at the same rates: name them", "--rate")
    LiveLoadGate(limits, planned(modes, load))


def planned(modes: Sequence[str], load: LoadPlan) -> list[tuple[str, LoadPoint]]:
    """The modes and load points that a load has, as far as they are known before: a search comes upon its rates."""
    rates = load.rate if isinstance(load.rate, tuple) else ()
    if load.rate is None and load.file is not None:
        rates = (own_rate(read_timestamps(load.file)),)
    places = [*(LoadPoint(CONCURRENCY.name, it) for it in load.closed), *(LoadPoint(RATE.name, it) for it in rates)]
    return [(mode, it) for mode in modes for it in places]


def _times(key: Key, figures: Sequence[float]) -> list[int]:
    """A figure of blocks as a time, ns: inferences a second as that of one."""
    return [round(1e9 / max(it, 1e-9) if key.figure.metric == THROUGHPUT else it) for it in figures]


def _point(place: LoadPoint) -> Point:
    return ((place.kind, int(place.value) if place.kind == CONCURRENCY.name else place.value),)


def _compared(places: Sequence[tuple[str, LoadPoint]], limits: Limits) -> list[Key]:
    """What is compared with the baseline, each once; `BadInput` for a metric of no load point."""
    found: dict[Key, None] = {}
    for metric in limits.metrics or (None,):
        own = []
        for mode, place in places:
            point = _point(place)
            if metric is None:
                own += [Key(mode, point, it) for it in LOAD.view(dict(point)).gated if limits.held(mode)]
            elif metric.mode == mode or (metric.mode is None and limits.held(mode)):
                own += [Key(mode, point, Figure(metric.metric, metric.statistic))] if is_of(metric, dict(point)) else []
        if metric is not None:
            if metric.metric not in _METRICS:
                reason = f"blocks of load points have {' and '.join(_METRICS)}; compare stored results for others"
                raise BadInput(f"--metric {metric.text}: {reason}", "--metric")
            refuse_statistic(metric, LOAD.key)
        if metric is not None and not own:
            listed = dict.fromkeys(point_text(_point(place)) for _, place in places)
            reason = f"no such load point is to be measured; there are {', '.join(listed) or 'none'}"
            raise BadInput(f"--metric {metric.text}: {reason}", "--metric")
        found.update(dict.fromkeys(own))  # two metrics can mean one figure
    return list(found)


def _contest(key: Key, most: float) -> RatioTest:
    name, figure = check_name(key), ".".join(filter(None, key.figure))
    over, under = (Stream(side, key.mode, name, "median") for side in (CANDIDATE, BASELINE))
    slower = ", as time per inference" if key.figure.metric == THROUGHPUT else ""
    what = f"{name}{slower}, candidate to baseline"
    return RatioTest(name, over, under, most, True, what, metric=figure, mode=key.mode, point=key.point)
