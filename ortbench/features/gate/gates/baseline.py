"""A candidate against its baseline: of an earlier run, figure by figure, or live, in turns. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ortbench.analysis.comparison import compare_series
from ortbench.analysis.derive import DEVICE, HOST, KEY, computes_on_host, why_unknown
from ortbench.analysis.intervals import PARTS, at_most
from ortbench.analysis.load_points import FEWEST_BLOCKS, is_full
from ortbench.analysis.load_points import STATISTICS as LOAD_STATISTICS
from ortbench.analysis.noise import more_rounds
from ortbench.analysis.series import (
    Key,
    Selection,
    Series,
    in_common,
    point_text,
    series,
    sizes_at,
    sort_keys,
    what_lacks,
)
from ortbench.core.errors import BadInput, BenchmarkFailed, NotComparable
from ortbench.facts import Fact, Values
from ortbench.facts.sentences import FAILED, PASSED, UNCLEAR, Check, check_by, phrase
from ortbench.features.gate.gates import (
    ALPHA,
    RatioTest,
    SequentialTests,
    check_name,
    name_at,
    own_ratio_tests,
    ratio_of,
    regression_tests,
)
from ortbench.features.gate.gates.checks import (
    check_facts,
    check_ratio_test,
    status_fact,
    with_remedy,
    without_doubtful,
)
from ortbench.features.gate.plan import Limits
from ortbench.model.kinds import kind_of
from ortbench.model.metric_names import MetricName
from ortbench.model.metrics import LATENCY, Figure, known_or_plain
from ortbench.model.modes import DEVICE_MEMORY, ENQUEUE, HOST_MEMORY, INFERENCE, THROUGHPUT, Work
from ortbench.model.result import FAILED as MODE_FAILED
from ortbench.model.result import NOT_MEASURED, OK, UNSUPPORTED, Case, Result

_MEMORY = {DEVICE_MEMORY: DEVICE, HOST_MEMORY: HOST}


def check_stored(result: Result, baseline: Result, limits: Limits) -> list[Check]:
    """The candidate against an earlier run, with the noise that both recorded; `BadInput` where they share nothing."""
    lost = check_lost(result, baseline, limits)
    checks = [*lost, *check_metrics(limits.metrics or (None,), result, baseline, limits, bool(lost))]
    return list(dict.fromkeys(without_doubtful(checks, result, baseline)))  # two metrics can mean one figure


def check_metrics(
    metrics: Sequence[MetricName | None], result: Result, baseline: Result, limits: Limits, are_lost: bool = False
) -> list[Check]:
    """The checks of metrics, or of those by which the kind is gated (None); `BadInput` for one that both have not, unless it may be
    of nothing but lost modes or points."""
    checks = []
    for metric in metrics:
        if metric is not None:
            refuse_statistic(metric, result.kind)
        found = [*_of_metric(metric, result, baseline, limits)]
        if not found and not are_lost:
            raise BadInput(_why_none(metric, result, baseline), "--metric")
        checks += found
    return checks


def refuse_statistic(metric: MetricName, kind: str) -> None:
    """Refuse a statistic of the latency that blocks of load points do not have."""
    known = [it for it in LOAD_STATISTICS if it != THROUGHPUT]
    if kind_of(kind).axes and metric.metric == LATENCY and metric.statistic not in known:
        raise BadInput(f"--metric {metric.text}: latency of load points has {', '.join(known)}", "--metric")


def check_lost(result: Result, baseline: Result, limits: Limits) -> list[Check]:
    """What the baseline has and the candidate, which was asked for it too, has not: modes, and whole points."""
    lost = [
        case
        for case in result.cases
        if case.status not in (OK, NOT_MEASURED)
        and limits.covers(case.mode)
        and baseline.case(case.mode, case.point) is not None
    ]
    found = []
    for case in lost:
        point = tuple(case.point.items())
        gone = [it for it in result.cases if it.point == case.point]
        whole = bool(point) and all(it.status != OK and it.reason == case.reason for it in gone)
        name, what = (point_text(point) if whole else name_at(it, point) for it in (f"mode {case.mode}", case.mode))
        facts = (status_fact(case, what), Fact("check-lost", "lost", case.mode))
        found.append(check_by(name, FAILED, *facts, mode=None if whole else case.mode, point=case.point))
    return list(dict.fromkeys(found))


def shared_series(
    metric: MetricName | None, result: Result, baseline: Result, limits: Limits
) -> list[tuple[Series, Series]]:
    """The figures that a metric is of (None: those by which the kind is gated) and that both have: the baseline's first."""
    modes = (metric.mode,) if metric is not None and metric.mode else limits.modes
    only = Selection(modes, (metric,) if metric is not None else ())
    of = in_common((baseline, result), lambda view: view.gated)
    theirs, ours = (series(it, of, only) for it in (baseline, result))
    if metric is not None and metric.best:
        return [*_best(theirs, ours)]
    both = sort_keys(theirs.keys() & ours.keys())
    alike = (key for key in both if sizes_at(result, key.point) == sizes_at(baseline, key.point))
    return [(theirs[key], ours[key]) for key in alike]


def _best(theirs: dict[Key, Series], ours: dict[Key, Series]) -> Iterator[tuple[Series, Series]]:
    """Of every mode the point that gets most done, which may be another one in each result."""
    for mode in dict.fromkeys(key.mode for key in sort_keys(theirs.keys() | ours.keys())):
        found = [[it for key, it in of.items() if key.mode == mode] for of in (theirs, ours)]
        if all(found):
            base, one = (max(of, key=lambda it: it.value) for of in found)
            yield base, one


def _of_metric(metric: MetricName | None, result: Result, baseline: Result, limits: Limits) -> Iterator[Check]:
    for base, one in shared_series(metric, result, baseline, limits):
        best: tuple[Fact, ...] = ()
        if metric is not None and metric.best:
            values: Values = {"point": point_text(one.key.point), "other": point_text(base.key.point)}
            best = (Fact("check-points", "best", one.key.mode, values),)
        yield _check(one, base, limits, *best)
    if metric is not None and metric.metric in _MEMORY:
        yield from _without_memory(metric, result, baseline, limits)


def _check(one: Series, base: Series, limits: Limits, *best: Fact) -> Check:
    assert limits.max_regression is not None
    most, key = 1 + limits.max_regression, one.key
    if key.figure.metric == LATENCY:  # which stands for a whole loop or chain
        key = key._replace(figure=key.figure._replace(metric=one.case.whole))
    name = f"best: {check_name(key._replace(point=()))}" if best else check_name(key)
    found = compare_series(base, one)
    more: dict[str, Any] = {"metric": ".".join(filter(None, key.figure)), "mode": key.mode, "point": dict(key.point)}
    if found is None:
        verdict, fact = queue_fact(name, key, one.case, base.case)
        return check_by(name, verdict, *best, fact, limit=most, **more)
    low, high = (None, None) if found.exact else (found.low, found.high)
    values: Values = {
        "what": name, "value": _figure_text(one, found.value), "base": _figure_text(base, found.base), "ratio": ratio_of(found.ratio, low, high),
        "limit": f"{most:.4g}",
    }  # fmt: skip
    said = "exact" if found.exact else "ratio"
    if found.ends is None:
        said = _lacking(one, base, values)
    verdict = {True: PASSED, False: FAILED, None: UNCLEAR}[at_most(found.ends, most)]
    fact = Fact("check-stored", said, key.mode, values)
    return check_by(name, verdict, *best, fact, ratio=found.ratio, low=low, high=high, limit=most, **more)


def _figure_text(series: Series, value: float) -> str:
    """A figure and, where it is below the least that ratios tell apart, as what it counts in them."""
    text, least = series.text(value), series.key.metric.unit.least
    return text if value >= least else f"{text} (counts as {series.text(least)})"


def queue_fact(name: str, key: Key, one: Case, base: Case) -> tuple[str, Fact]:
    """The verdict on load points of which requests come too fast for one, and who that is."""
    ours, theirs = is_full(one), is_full(base)
    who = "both" if ours and theirs else "candidate" if ours else "baseline"
    verdict = UNCLEAR if ours and theirs else FAILED if ours else PASSED
    return verdict, Fact("check-queue", who, key.mode, {"what": name, "figure": key.metric.title})


def _lacking(one: Series, base: Series, values: Values) -> str:
    """What there is too little of for an interval, with what gives more."""
    if one.has_load_blocks:
        values["needed"] = FEWEST_BLOCKS
        return "few-load-blocks"
    both = {"the baseline": base, "the candidate": one}
    short = [who for who, it in both.items() if (it.blocks or it.key.figure.statistic) and len(it.blocks) < PARTS]
    if one.case.load_blocks is not None or not short:
        return "no-interval"
    lacking = both[short[0]]
    values |= {"configuration": short[0], "blocks": len(lacking.blocks), "needed": PARTS}
    values["how"] = more_rounds(lacking.result, PARTS)
    return "few-blocks"


def _without_memory(metric: MetricName, result: Result, baseline: Result, limits: Limits) -> Iterator[Check]:
    """What there is to say of memory that is not known, or that there is none of."""
    assert limits.max_regression is not None
    owner, most = _MEMORY[metric.metric], 1 + limits.max_regression
    wanted = (
        case
        for case in result.cases
        if case.status == OK
        and metric.mode in (None, case.mode)
        and metric.matches_point(case.point)
        and limits.covers(metric.mode or case.mode)
    )
    pairs = [(one, base) for one in wanted if (base := baseline.case(one.mode, one.point)) is not None]
    if not any(KEY in one.own and KEY in base.own for one, base in pairs):
        return
    for one, base in pairs:
        unknown = [(who, it) for who, it in (("candidate", one), ("baseline", base)) if it.value(metric.metric) is None]
        if not unknown:
            continue
        name = check_name(Key(one.mode, tuple(one.point.items()), Figure(metric.metric, metric.statistic)))
        is_none = owner == DEVICE and computes_on_host(one) and computes_on_host(base)
        who, case = ("", one) if is_none else unknown[0]
        values: Values = {
            "what": name,
            "configuration": who,
            "why": why_unknown(case, owner),
            "limit": f"{most:.4g}",
        }
        fact = Fact("check-memory", "none-either" if is_none else "unknown-of", one.mode, values)
        verdict = PASSED if is_none else UNCLEAR
        yield check_by(name, verdict, fact, limit=most, metric=metric.metric, mode=one.mode, point=one.point)


def _why_none(metric: MetricName | None, result: Result, baseline: Result) -> str:
    if metric is not None:
        return f"--metric {metric.text}: {what_lacks(metric, (baseline, result))}"
    mine, theirs = ({tuple(case.point.items()) for case in it.cases} for it in (result, baseline))
    if mine.isdisjoint(theirs):
        return "the results have no point in common: measure the candidate at the baseline's points"
    return f"--metric {LATENCY}: not measured in both results"


# Live gates: in turns until every ratio test is decided or the budget is spent
#
# They are sequential tests of a driver (`ortbench.measure.progress.SequentialTest`), whose configurations are the candidate and, where
# there is one, the baseline.


class Gate(SequentialTests):
    """What live gates share: ratio tests of candidate and baseline, and of the candidate's own modes."""

    def __init__(
        self, limits: Limits, regressions: Sequence[RatioTest], own: Sequence[RatioTest] = (), alpha: float = ALPHA
    ) -> None:
        self._limits, self._regressions, self._own = limits, regressions, own
        super().__init__([*regressions, *own], alpha)

    def regressions(self, checks: Sequence[Check]) -> set[str]:
        """The names of the checks that found the candidate slower than the baseline."""
        return {check.name for check in checks if check.verdict == FAILED} & {it.name for it in self._regressions}


class LiveGate(Gate):
    """Decides while blocks come in of `modes`, and of a second side where there is a baseline.

    Raises `BadInput` for a metric that blocks do not have, or a limit that a loop or a chain has not.
    """

    def __init__(
        self, limits: Limits, modes: Sequence[str], has_baseline: bool, work: Work = INFERENCE, alpha: float = ALPHA
    ) -> None:
        regressions = regression_tests(limits, modes, work) if has_baseline else []
        super().__init__(limits, regressions, own_ratio_tests(limits, work), alpha)

    def least_runs(self, mode: str, point: tuple[str, float]) -> int:
        return 1

    @staticmethod
    def check_inputs(results: Sequence[Result]) -> None:
        """Refuse (`NotComparable`) two models that take other inputs; one takes others only where that was asked for. `BenchmarkFailed`:
        one can be measured in no mode."""
        for number, result in enumerate(results):
            if all(case.status == UNSUPPORTED for case in result.cases):
                configuration = "baseline" if number else "candidate"
                raise BenchmarkFailed(f"the {configuration} cannot be measured: {result.cases[0].reason}")
        takes = [
            {it["name"]: (it["type"], it.get("tensors", it["shape"])) for it in result.model["inputs"]}
            for result in results
        ]
        if takes[0] != takes[-1] and results[0].model["sha256"] != results[-1].model["sha256"]:
            own, base = (", ".join(f"{name} {kind} {shape}" for name, (kind, shape) in it.items()) for it in takes)
            of_stages = kind_of(results[0].kind).of_stages
            set_by = "the chains' files set" if of_stages else "--shape, --dim and --sequence-tensors set"
            differ = f"the candidate takes {own}, the baseline {base}"
            raise NotComparable(f"the inputs differ: {differ} ({set_by} them, --force compares them anyway)")

    def checks(self, results: Sequence[Result]) -> list[Check]:
        """The verdicts, of a run that is over; `BenchmarkFailed` where nothing could be compared."""
        candidate, *baselines = results
        limits = self._limits
        checks = [check for baseline in baselines for check in check_lost(candidate, baseline, limits)]
        measured = [it for it in self._regressions if all(result.case(it.over.mode) for result in results)]
        never = {it: why for it in measured if (why := _why_not_timed(results, it)) is not None}
        compared = [it for it in measured if it not in never]
        checks += [with_remedy(self.check(ratio_test), candidate, self.needed_rounds) for ratio_test in compared]
        if compared:  # what was asked for is not passed over in silence
            checks += [
                test.unclear(Fact("check-ratio", why, test.mode, {"what": test.what, "phase": ENQUEUE}))
                for test, why in never.items()
                if test.over.phase == ENQUEUE
            ]
        has_failed = any(case.status == MODE_FAILED for result in results for case in result.cases)
        if self._regressions and not compared and not checks and not has_failed:
            reasons = [f"{case.mode}: {case.reason}" for case in candidate.cases if case.reason]
            reasons += [
                phrase(Fact("check-ratio", why, "", {"what": test.over.mode, "phase": test.over.phase}))
                for test, why in never.items()
            ]
            raise BenchmarkFailed(f"nothing could be compared: {'; '.join(reasons)}")
        one_number = [it for it in limits.metrics if not known_or_plain(it.metric).sampled]
        for baseline in baselines:
            checks += check_metrics(one_number, candidate, baseline, limits)
        checks = without_doubtful(checks, candidate, *baselines)
        checks += check_facts(candidate, limits)
        return checks + [check_ratio_test(candidate, self, ratio_test) for ratio_test in self._own]


def _why_not_timed(results: Sequence[Result], ratio_test: RatioTest) -> str | None:
    """What makes that a ratio test is of something that no side has; None for one that is of what was timed."""
    cases = [case for result in results if (case := result.case(ratio_test.over.mode)) is not None]
    phase = ratio_test.over.phase
    if all(case.copies_nothing(phase) for case in cases):
        return "copies-nothing"
    if phase == ENQUEUE and not any(phase in case.samples for case in cases):
        return "not-apart"
    return None
