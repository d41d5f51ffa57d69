"""What a gate checks of a load: speedups at numbers of clients, SLOs. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ortbench.analysis.load_points import CPU as CPU_METRICS
from ortbench.analysis.load_points import FEWEST_BLOCKS, P50, by_name, is_full, latency_of
from ortbench.analysis.series import PERCENTILES, Key, Point, block_figure_of, is_of, point_text
from ortbench.core.errors import BadInput, BenchmarkFailed
from ortbench.core.features import candidates
from ortbench.core.safe_text import join_words
from ortbench.facts import Fact, Values, ns
from ortbench.facts.sentences import FAILED, PASSED, UNCLEAR, Check, check_by
from ortbench.features.gate.gates import (
    BASELINE,
    CANDIDATE,
    RatioTest,
    Stream,
    check_name,
    fewest_samples,
    name_at,
    ratio_of,
    verdict_on,
)
from ortbench.features.gate.gates.baseline import Gate, check_lost, queue_fact, refuse_statistic
from ortbench.features.gate.gates.checks import check_alone, check_facts, refuse_limits, refuse_others, without_doubtful
from ortbench.features.gate.plan import Limits
from ortbench.features.load.analysis import (
    LoadPoint,
    bounds_of,
    is_measured,
    lack_of_requests,
    limit_text,
    load_cases,
    load_point_of,
    meets,
    searched_rates,
    slo_cases,
    slo_limits,
    times_over,
    undecided_statistics,
)
from ortbench.features.load.facts import search_fact
from ortbench.features.load.model import KIND
from ortbench.features.load.plan import AUTO, UNDER_LOAD, LoadPlan, load_in, load_of
from ortbench.model.kinds import CONCURRENCY, RATE
from ortbench.model.metrics import Figure
from ortbench.model.modes import CPU, LATENCY, SLO_RATE, THROUGHPUT
from ortbench.model.result import FAILED as CASE_FAILED
from ortbench.model.result import Case, Result
from ortbench.plan.baseline import baseline_of
from ortbench.plan.options import LOAD, RawOptions, options_of
from ortbench.plan.plan import Plan, check


def mode_checks(result: Result, limits: Limits) -> Iterator[Check]:
    """How many times the throughput of `cpu-tensors` modes have, at every number of clients that both were measured with."""
    for mode, least in limits.min_speedup.items():
        points = [case.point for case in result.cases if case.mode == mode and CONCURRENCY.name in case.point]
        pairs = [(one, base) for it in points if (one := result.case(mode, it)) and (base := result.case(CPU, it))]
        if not pairs:
            reason = f"needs {mode} and {CPU} with the same numbers of clients, which were not measured"
            raise BadInput(f"--min-speedup {mode}: {reason}", "--min-speedup")
        yield from (_speedup(one, base, least) for one, base in pairs)


def _speedup(one: Case, base: Case, least: float) -> Check:
    found = times_over(base, one)
    low, high = found.ci95 or (None, None)
    point = tuple(one.point.items())
    values: Values = {
        "what": name_at(one.mode, point), "ratio": ratio_of(found.value, low, high), "limit": f"{least:.4g}", "needed": FEWEST_BLOCKS,
    }  # fmt: skip
    return check_by(
        name_at(f"{one.mode} speedup", point),
        verdict_on(low, high, least, at_most=False),
        Fact("check-speedup", "few-blocks" if low is None else "known", one.mode, values),
        ratio=found.value,
        low=low,
        high=high,
        limit=least,
        metric="speedup",
        mode=one.mode,
        point=one.point,
    )


def slo_checks(result: Result, limits: Limits) -> Iterator[Check]:
    """What a load must keep to; `BadInput` where it has no point."""
    if (searched := searched_rates(result)) and slo_limits(result) == limits.slo:
        for mode, found in searched.items():
            if limits.covers(mode):  # other rates that were tried on the way need not keep it
                fact = search_fact(result, mode, found, limits.slo)
                verdict = PASSED if found is not None else UNCLEAR if fact.verdict == "open" else FAILED
                yield check_by(f"SLO of {mode}", verdict, fact, metric=SLO_RATE, mode=mode)
        return
    cases = [case for case in slo_cases(result) if limits.covers(case.mode)]
    if not cases:
        raise BadInput("--slo: the result has no load point", "--slo")
    yield from (_keeps(case, stat, most) for case in cases for stat, most in limits.slo.items())


def _keeps(case: Case, stat: str, most: int) -> Check:
    """Whether a load point keeps an SLO for certain: of the largest latency by itself, of others with 95 % confidence."""
    name = name_at(f"SLO of {case.mode} {stat}", tuple(case.point.items()))
    is_met, within = meets(case, {stat: most}), bounds_of(case, stat)
    values: Values = {
        "stat": stat, "what": f"{case.mode} {load_point_of(case).phrase}", "value": ns(by_name(latency_of(case), stat)), "limit": limit_text(most),
        "why": lack_of_requests(case, stat),
    }  # fmt: skip
    if within is not None:
        ends = {"low": within["low"], "high": within["high"]}
        values |= {end: ns(value) for end, value in ends.items() if value is not None}
    if is_full(case):
        said = "queue"
    elif within is None:
        said = "old"
    elif undecided_statistics(case, {stat: most}):
        said = "few-requests"
    elif stat == "max":
        said = "largest"
    else:
        said = {True: "met", False: "violated", None: "open" if "low" in values else "open-below"}[is_met]
    metric = f"{LATENCY}.{'median' if stat == P50 else stat}"
    verdict = {True: PASSED, False: FAILED, None: UNCLEAR}[is_met]
    fact = Fact("check-slo", said, case.mode, values)
    return check_by(name, verdict, fact, metric=metric, mode=case.mode, point=case.point)


# Live gates, in which a block of a load point is paired with that of the same round of the baseline

_FEWEST_RUNS = 20  # of a block at a rate: neighbours wait together, so that a few say little
_FEWEST_CPU_RUNS = 5  # the same of one that only CPU time is compared of
_METRICS = (LATENCY, THROUGHPUT, *CPU_METRICS)  # that blocks of load points have


class LiveLoadGate(Gate):
    """Decides while blocks come in of load points that are to be measured; `BadInput` for a metric of none of them."""

    def __init__(self, limits: Limits, points: Sequence[tuple[str, LoadPoint]]) -> None:
        self._ratio_tests: dict[Key, RatioTest] = {}
        if limits.max_regression is not None:
            most = 1 + limits.max_regression
            self._ratio_tests = {key: _ratio_test(key, most) for key in _compared_keys(points, limits)}
        self._has_rates = any(point.kind == RATE.name for _, point in points)
        super().__init__(limits, [*self._ratio_tests.values()])

    def least_runs(self, mode: str, point: tuple[str, float]) -> int:
        figures = [key.figure for key, _ in self._tests_of_point(mode, point)]
        needed = max((fewest_samples(it.statistic) for it in figures if it.statistic in PERCENTILES), default=1)
        of_cpu = bool(figures) and all(it.metric in CPU_METRICS for it in figures)
        return max(needed, _FEWEST_CPU_RUNS if of_cpu else _FEWEST_RUNS) if point[0] == RATE.name else needed

    def add(
        self,
        configuration: int,
        mode: str,
        phase: str,
        round: int,
        samples: Sequence[float],
        point: tuple[str, float] | None = None,
    ) -> None:
        for key, ratio_test in self._tests_of_point(mode, point):
            if phase == block_figure_of(key.figure):
                super().add(configuration, mode, ratio_test.over.phase, round, _costs(key, samples))

    def _tests_of_point(self, mode: str, point: tuple[str, float] | None) -> Iterator[tuple[Key, RatioTest]]:
        assert point is not None
        return (it for it in self._ratio_tests.items() if it[0].mode == mode and it[0].point == _point(*point))

    def needs_more(self, mode: str, point: tuple[str, float] | None = None, rounds: int = 0) -> bool:
        """Those of ratio tests until they are decided; where a limit is of the candidate's load point itself always, because its interval
        may not be looked at again and again; else as many as a verdict takes."""
        own = [ratio_test for _, ratio_test in self._tests_of_point(mode, point)]
        is_rate = point is not None and point[0] == RATE.name
        if (self._limits.slo and (is_rate or not self._has_rates)) or (self._limits.min_speedup and not is_rate):
            return True
        return self.is_open(own) if own else rounds < self.needed_rounds

    def checks(self, results: Sequence[Result]) -> list[Check]:
        """The verdicts on a load that is over; `BenchmarkFailed` with nothing to compare, `BadInput` for a limit of no point."""
        candidate, *others = results
        if not others:
            return check_alone(candidate, self._limits)
        (baseline,) = others
        checks = check_lost(candidate, baseline, self._limits)
        known = [self._check(*it, candidate, baseline) for it in self._ratio_tests.items()]
        checks += [check for check in known if check is not None]
        checks = without_doubtful(checks, candidate, baseline)
        statuses = [it.status for result in results for it in result.cases]
        if self._ratio_tests and not checks and CASE_FAILED not in statuses:
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
        check = self.check(ratio_test)
        if key.figure.metric == LATENCY and (is_full(one) or is_full(base)):
            verdict, fact = queue_fact(ratio_test.name, key, one, base)
            return ratio_test.unclear().with_fact(fact, verdict=verdict)
        if check.low is not None or check.rounds is None:
            return check
        fact = Fact("check-rounds", "needed", key.mode, {"needed": self.needed_rounds})
        return check.and_fact(fact)


def live_plans(given: RawOptions, limits: Limits, typed: tuple[str, ...], is_in_turns: bool) -> tuple[Plan, ...]:
    """The plans of a live gate under load, none without ``--load``; `BadInput` for options that a load has not, or that exclude each
    other."""
    if UNDER_LOAD.flag not in given:
        for option in options_of(LoadPlan):
            if option.texts.panel == LOAD and option.flag in given:
                reason = f"is of a load: add {UNDER_LOAD.name}, or name a result of 'ortbench load'"
                raise BadInput(f"{option.name} {reason}", option.name)
        return ()
    if given.get("why"):
        raise BadInput("--why explains single inferences, not a load", "--why")
    if any(it in given for it in candidates()):
        raise BadInput(f"{UNDER_LOAD.name} puts a load on one model: name it with --model", UNDER_LOAD.name)
    refuse_others(KIND.key, given)
    plan = load_of(given["model"], given, typed, limits.needed_modes(), is_live=True)
    plans = (plan, baseline_of(plan, given)) if is_in_turns else (plan,)
    for plan in plans:
        check(plan)
    check_live(limits, plans)
    return plans


def check_live(limits: Limits, plans: Sequence[Plan]) -> None:
    """Refuse limits that a live gate of a load has not, before anything is started."""
    load = load_in(plans[0])
    if limits.of_memory:
        raise BadInput("limits of memory are for single inferences: gate memory without --load")
    refuse_limits(KIND.key, limits)
    if limits.min_speedup and not load.client_counts:
        raise BadInput("--min-speedup compares throughput by clients: give a --concurrency too", "--min-speedup")
    if len(plans) > 1 and load.rate == AUTO:
        raise BadInput("--rate auto: candidate and baseline are compared at the same rates: give the rates", "--rate")
    live_gate(limits, plans)


def live_gate(limits: Limits, plans: Sequence[Plan]) -> LiveLoadGate:
    """The gate of the load points that are known before: a search comes upon its rates."""
    load = load_in(plans[0])
    clients = (LoadPoint(CONCURRENCY.name, it) for it in load.client_counts)
    points = [*clients, *(LoadPoint(RATE.name, it) for it in load.rates)]
    return LiveLoadGate(limits, [(mode, it) for mode in plans[0].modes for it in points])


def _costs(key: Key, figures: Sequence[float]) -> list[float]:
    """A figure of blocks as what is better where it is less: inferences a second as the time of one, ns."""
    return [round(1e9 / max(it, 1e-9)) if key.figure.metric == THROUGHPUT else it for it in figures]


def _point(axis: str, value: float) -> Point:
    return ((axis, int(value) if axis == CONCURRENCY.name else value),)


def _compared_keys(load_points: Sequence[tuple[str, LoadPoint]], limits: Limits) -> list[Key]:
    """What is compared with the baseline, each once; `BadInput` for a metric of no load point."""
    points = [(mode, _point(*load_point)) for mode, load_point in load_points]
    if not limits.metrics:
        covered = [(mode, point) for mode, point in points if limits.covers(mode)]
        return [Key(mode, point, it) for mode, point in covered for it in KIND.view(dict(point)).gated]
    found: dict[Key, None] = {}  # two metrics can mean one figure
    for metric in limits.metrics:
        if metric.metric not in _METRICS:
            reason = f"blocks of load points have {join_words(_METRICS)}; compare stored results for others"
            raise BadInput(f"--metric {metric.text}: {reason}", "--metric")
        refuse_statistic(metric, KIND.key)
        own = [(mode, point) for mode, point in points if is_of(metric, dict(point))]
        own = [it for it in own if metric.mode == it[0] or (metric.mode is None and limits.covers(it[0]))]
        if not own:
            there = ", ".join(dict.fromkeys(point_text(point) for _, point in points)) or "none"
            reason = f"no such load point is to be measured; there are {there}"
            raise BadInput(f"--metric {metric.text}: {reason}", "--metric")
        found.update(dict.fromkeys(Key(*it, Figure(metric.metric, metric.statistic)) for it in own))
    return list(found)


def _ratio_test(key: Key, most: float) -> RatioTest:
    name, figure = check_name(key), ".".join(filter(None, key.figure))
    over, under = (Stream(configuration, key.mode, name, "median") for configuration in (CANDIDATE, BASELINE))
    slower = ", as time per inference" if key.figure.metric == THROUGHPUT else ""
    what = f"{name}{slower}, candidate to baseline"
    return RatioTest(name, over, under, most, True, what, metric=figure, mode=key.mode, point=key.point)
