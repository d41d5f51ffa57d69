"""Live gates: candidate and baseline in turns, until every ratio test is decided or the budget is spent. Pure.

They are sequential tests of a driver (`ortbench.measure.stopping.SequentialTest`), whose configurations are the candidate and, where
there is one, the baseline. A load point's block of one is paired with that of the same round of the other, and the ratios of the pairs go
to the same sequential test as those of single inferences.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ortbench.analysis.comparing.series import PERCENTILES, Key, Point, block_figure_of, is_of, point_text
from ortbench.analysis.loads.levels import CPU, LoadPoint, is_full, is_measured, load_cases
from ortbench.analysis.loads.queueing import own_rate
from ortbench.core.errors import BadInput, BenchmarkFailed, NotComparable
from ortbench.core.safe_text import listed
from ortbench.facts.fact import Fact
from ortbench.facts.sentences import phrase
from ortbench.gates.checks import (
    check_alone,
    check_facts,
    check_ratio_test,
    refuse_limits,
    with_remedy,
    without_doubtful,
)
from ortbench.gates.limits import FAILED as UNFIT
from ortbench.gates.limits import Check, Limits
from ortbench.gates.ratio_tests import (
    BASELINE,
    CANDIDATE,
    RatioTest,
    SequentialTests,
    Stream,
    check_name,
    fewest_samples,
    own_ratio_tests,
    regression_tests,
)
from ortbench.gates.stored import check_lost, check_values, queue_fact, refuse_statistic
from ortbench.model.kinds import CONCURRENCY, RATE, kind_of
from ortbench.model.metrics import LATENCY, Figure
from ortbench.model.modes import ENQUEUE, THROUGHPUT
from ortbench.model.result import FAILED, UNSUPPORTED, Result
from ortbench.model.unit_of_work import INFERENCE, Work
from ortbench.plan.load_plan import AUTO, LoadPlan, read_timestamps


class Gate:
    """What live gates share: ratio tests of candidate and baseline, and of the candidate's own modes."""

    def __init__(self, limits: Limits, regressions: Sequence[RatioTest], own: Sequence[RatioTest] = ()) -> None:
        self._limits, self._regressions, self._own = limits, regressions, own
        self._sequential = SequentialTests([*regressions, *own])
        self.takes = self._sequential.takes

    def so_far(self) -> list[tuple[str, str]]:
        """What is known of each ratio test by now: its name, and the ratio with its interval and limit."""
        return self._sequential.so_far()

    def regressions(self, checks: Sequence[Check]) -> set[str]:
        """The names of the checks that found the candidate slower than the baseline."""
        return {check.name for check in checks if check.verdict == UNFIT} & {it.name for it in self._regressions}


class LiveGate(Gate):
    """Decides while blocks come in of `modes`, and of a second side where there is a baseline.

    Raises `BadInput` for a metric that blocks do not have, or a limit that a loop or a chain has not.
    """

    def __init__(self, limits: Limits, modes: Sequence[str], has_baseline: bool, work: Work = INFERENCE) -> None:
        regressions = regression_tests(limits, modes, work) if has_baseline else []
        super().__init__(limits, regressions, own_ratio_tests(limits, work))

    def add(self, side: int, mode: str, phase: str, round: int, samples: Sequence[float], place: object = None) -> None:
        self._sequential.add(side, mode, phase, round, samples)

    def wants(self, mode: str, place: object = None, rounds: int = 0) -> bool:
        return self._sequential.wants(mode)

    def least_runs(self, mode: str, place: LoadPoint) -> int:
        return 1

    @staticmethod
    def check_inputs(results: Sequence[Result]) -> None:
        """Refuse (`NotComparable`) two models that take other inputs; one takes others only where that was asked for. `BenchmarkFailed`:
        one can be measured in no mode."""
        for number, result in enumerate(results):
            if all(case.status == UNSUPPORTED for case in result.cases):
                side = "baseline" if number else "candidate"
                raise BenchmarkFailed(f"the {side} cannot be measured: {result.cases[0].reason}")
        takes = [
            {it["name"]: (it["type"], it.get("tensors", it["shape"])) for it in result.model["inputs"]}
            for result in results
        ]
        for result, other in zip(results[1:], takes[1:], strict=True):
            if other != takes[0] and result.model["sha256"] != results[0].model["sha256"]:
                pair = [
                    ", ".join(f"{name} {kind} {shape}" for name, (kind, shape) in it.items())
                    for it in (takes[0], other)
                ]
                of_stages = kind_of(results[0].kind).of_stages
                set_by = "the chains' files set" if of_stages else "--shape, --dim and --sequence-tensors set"
                raise NotComparable(
                    f"the inputs differ: the candidate takes {pair[0]}, the baseline {pair[1]} ({set_by} them, --force "
                    "compares them anyway)"
                )

    def checks(self, results: Sequence[Result]) -> list[Check]:
        """The verdicts, of a run that is over; `BenchmarkFailed` where nothing could be compared."""
        candidate, *baselines = results
        limits = self._limits
        checks = [check for baseline in baselines for check in check_lost(candidate, baseline, limits)]
        measured = [it for it in self._regressions if all(result.case(it.over.mode) for result in results)]
        never = {it: why for it in measured if (why := _why_not_timed(results, it)) is not None}
        compared = [it for it in measured if it not in never]
        checks += [
            with_remedy(self._sequential.check(ratio_test), candidate, self._sequential.takes)
            for ratio_test in compared
        ]
        if compared:  # what was asked for is not passed over in silence
            untold = {it: why for it, why in never.items() if it.over.phase == ENQUEUE}
            checks += [
                it.unclear(Fact("check-ratio", why, it.mode, {"what": it.what, "phase": ENQUEUE}))
                for it, why in untold.items()
            ]
        has_failed = any(case.status == FAILED for result in results for case in result.cases)
        if self._regressions and not compared and not checks and not has_failed:
            reasons = [f"{case.mode}: {case.reason}" for case in candidate.cases if case.reason]
            reasons += [
                phrase(Fact("check-ratio", why, "", {"what": it.over.mode, "phase": it.over.phase}))
                for it, why in never.items()
            ]
            raise BenchmarkFailed(f"nothing could be compared: {'; '.join(reasons)}")
        for baseline in baselines:
            checks += check_values(candidate, baseline, limits)
        checks = without_doubtful(checks, candidate, *baselines)
        checks += check_facts(candidate, limits)
        return checks + [check_ratio_test(candidate, self._sequential, ratio_test) for ratio_test in self._own]


def _why_not_timed(results: Sequence[Result], ratio_test: RatioTest) -> str | None:
    """What makes that a ratio test is of something that no side has; None for one that is of what was timed."""
    cases = [case for result in results if (case := result.case(ratio_test.over.mode)) is not None]
    phase = ratio_test.over.phase
    if all(case.copies_nothing(phase) for case in cases):
        return "copies-nothing"
    if phase == ENQUEUE and not any(phase in case.samples for case in cases):
        return "not-apart"
    return None


_FEWEST_RUNS = 20  # of a block at a rate: neighbours wait together, so that a few say little
_FEWEST_CPU_RUNS = 5  # the same of one that only CPU time is compared of
_METRICS = (LATENCY, THROUGHPUT, *CPU)  # that blocks of load points have


class LiveLoadGate(Gate):
    """Decides while blocks come in of load points that are to be measured; `BadInput` for a metric of none of them."""

    def __init__(self, limits: Limits, places: Sequence[tuple[str, LoadPoint]]) -> None:
        self._ratio_tests: dict[Key, RatioTest] = {}
        if limits.max_regression is not None:
            most = 1 + limits.max_regression
            self._ratio_tests = {key: _ratio_test(key, most) for key in _compared(places, limits)}
        self._has_rates = any(place.kind == RATE.name for _, place in places)
        super().__init__(limits, [*self._ratio_tests.values()])

    def least_runs(self, mode: str, place: LoadPoint) -> int:
        figures = [key.figure for key, _ in self._of(mode, place)]
        needed = max((fewest_samples(it.statistic) for it in figures if it.statistic in PERCENTILES), default=1)
        of_cpu = bool(figures) and all(it.metric in CPU for it in figures)
        return max(needed, _FEWEST_CPU_RUNS if of_cpu else _FEWEST_RUNS) if place.kind == RATE.name else needed

    def add(
        self, side: int, mode: str, phase: str, round: int, samples: Sequence[float], place: LoadPoint | None = None
    ) -> None:
        for key, ratio_test in self._of(mode, place):
            if phase == block_figure_of(key.figure):
                self._sequential.add(side, mode, ratio_test.over.phase, round, _costs(key, samples))

    def _of(self, mode: str, place: LoadPoint | None) -> Iterator[tuple[Key, RatioTest]]:
        assert place is not None
        return (it for it in self._ratio_tests.items() if it[0].mode == mode and it[0].point == _point(place))

    def wants(self, mode: str, place: LoadPoint | None = None, rounds: int = 0) -> bool:
        """Those of ratio tests until they are decided; where a limit is of the candidate's level itself always, because its interval
        may not be looked at again and again; else as many as a verdict takes."""
        own = [ratio_test for _, ratio_test in self._of(mode, place)]
        is_rate = place is not None and place.kind == RATE.name
        if (self._limits.slo and (is_rate or not self._has_rates)) or (self._limits.min_speedup and not is_rate):
            return True
        return self._sequential.is_open(own) if own else rounds < self.takes

    def checks(self, results: Sequence[Result]) -> list[Check]:
        """The verdicts on a load that is over; `BenchmarkFailed` with nothing to compare, `BadInput` for a limit of no point."""
        candidate, baseline = results
        checks = check_lost(candidate, baseline, self._limits)
        checks += [
            check
            for key, ratio_test in self._ratio_tests.items()
            if (check := self._check(key, ratio_test, candidate, baseline)) is not None
        ]
        checks = without_doubtful(checks, candidate, baseline)
        statuses = [it.status for result in results for it in result.cases]
        if self._ratio_tests and not checks and FAILED not in statuses:
            reasons = [f"{case.mode}: {case.reason}" for case in candidate.at_point() if case.reason]
            raise BenchmarkFailed(f"nothing could be compared: {'; '.join(reasons)}")
        if not any(map(is_measured, load_cases(candidate))):
            return [*checks, *check_facts(candidate, self._limits)]
        return [*checks, *check_alone(candidate, self._limits)]

    def _check(self, key: Key, ratio_test: RatioTest, candidate: Result, baseline: Result) -> Check | None:
        """What is known of a ratio test; None where one of the two has no such load point, which it says itself."""
        one, base = (result.case(key.mode, dict(key.point)) for result in (candidate, baseline))
        if one is None or base is None:
            return None
        check = self._sequential.check(ratio_test)
        if key.figure.metric == LATENCY and (is_full(one) or is_full(base)):
            verdict, fact = queue_fact(ratio_test.name, key, one, base)
            return ratio_test.unclear().but(fact, verdict=verdict)
        if check.low is not None or check.rounds is None:
            return check
        fact = Fact("check-rounds", "needed", key.mode, {"needed": self.takes})
        return check.and_fact(fact)


def check_live(limits: Limits, modes: Sequence[str], load: LoadPlan, is_in_turns: bool) -> None:
    """Refuse limits that a live gate of a load has not, before anything is started."""
    if limits.of_memory:
        raise BadInput("limits of memory are for single inferences: gate memory without --load")
    refuse_limits("load", limits)
    if limits.min_speedup and not load.closed:
        raise BadInput("--min-speedup compares throughput by clients: give a --concurrency too", "--min-speedup")
    if is_in_turns and load.rate == AUTO:
        raise BadInput("--rate auto: candidate and baseline are compared at the same rates: give the rates", "--rate")
    LiveLoadGate(limits, planned(modes, load))


def planned(modes: Sequence[str], load: LoadPlan) -> list[tuple[str, LoadPoint]]:
    """The modes and load points that a load has, as far as they are known before: a search comes upon its rates."""
    rates = load.rate if isinstance(load.rate, tuple) else ()
    if load.rate is None and load.file is not None:
        rates = (own_rate(read_timestamps(load.file)),)
    places = [*(LoadPoint(CONCURRENCY.name, it) for it in load.closed), *(LoadPoint(RATE.name, it) for it in rates)]
    return [(mode, it) for mode in modes for it in places]


def _costs(key: Key, figures: Sequence[float]) -> list[float]:
    """A figure of blocks as what is better where it is less: inferences a second as the time of one, ns."""
    return [round(1e9 / max(it, 1e-9)) if key.figure.metric == THROUGHPUT else it for it in figures]


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
                own += [Key(mode, point, it) for it in kind_of("load").view(dict(point)).gated if limits.covers(mode)]
            elif metric.mode == mode or (metric.mode is None and limits.covers(mode)):
                own += [Key(mode, point, Figure(metric.metric, metric.statistic))] if is_of(metric, dict(point)) else []
        if metric is not None:
            if metric.metric not in _METRICS:
                reason = f"blocks of load points have {listed(_METRICS)}; compare stored results for others"
                raise BadInput(f"--metric {metric.text}: {reason}", "--metric")
            refuse_statistic(metric, "load")
        if metric is not None and not own:
            there = dict.fromkeys(point_text(_point(place)) for _, place in places)
            reason = f"no such load point is to be measured; there are {', '.join(there) or 'none'}"
            raise BadInput(f"--metric {metric.text}: {reason}", "--metric")
        found.update(dict.fromkeys(own))  # two metrics can mean one figure
    return list(found)


def _ratio_test(key: Key, most: float) -> RatioTest:
    name, figure = check_name(key), ".".join(filter(None, key.figure))
    over, under = (Stream(side, key.mode, name, "median") for side in (CANDIDATE, BASELINE))
    slower = ", as time per inference" if key.figure.metric == THROUGHPUT else ""
    what = f"{name}{slower}, candidate to baseline"
    return RatioTest(name, over, under, most, True, what, metric=figure, mode=key.mode, point=key.point)
