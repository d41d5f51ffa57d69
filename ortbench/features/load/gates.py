"""What a gate checks of a load: speedups at numbers of clients, SLOs. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ortbench.analysis.comparing.verdict import quotient
from ortbench.analysis.loads.levels import (
    FEWEST_BLOCKS,
    P50,
    at,
    bounds_of,
    by_name,
    interval,
    is_full,
    latency_of,
    limit_text,
    limited,
    load_cases,
    meets,
    rate_of,
)
from ortbench.analysis.loads.queueing import LEAST
from ortbench.core.errors import BadInput
from ortbench.facts.fact import Fact, Values, ns
from ortbench.features.load.facts.slo import searched
from ortbench.gates.limits import FAILED, PASSED, UNCLEAR, Check, Limits, check_by, ratio_of, verdict_on
from ortbench.gates.ratio_tests import name_at
from ortbench.model.kinds import CONCURRENCY
from ortbench.model.modes import CPU, LATENCY, SLO_RATE, THROUGHPUT
from ortbench.model.result import FAILED as CASE_FAILED
from ortbench.model.result import Case, Result
from ortbench.model.schema import SloRate


def mode_checks(result: Result, limits: Limits) -> Iterator[Check]:
    """How many times the throughput of `cpu-tensors` modes have; blocks of load points have figures alone."""
    for mode, least in limits.min_speedup.items():
        yield from _speedups(result, mode, least)


def _speedups(result: Result, mode: str, least: float) -> list[Check]:
    """How many times the throughput of `cpu-tensors` a mode has, at every number of clients that both were measured with."""
    points = [case.point for case in result.cases if case.mode == mode and CONCURRENCY.name in case.point]
    pairs = [(one, base) for it in points if (one := result.case(mode, it)) and (base := result.case(CPU, it))]
    if not pairs:
        reason = f"needs {mode} and {CPU} with the same numbers of clients, which were not measured"
        raise BadInput(f"--min-speedup {mode}: {reason}", "--min-speedup")
    return [_speedup(one, base, least) for one, base in pairs]


def _speedup(one: Case, base: Case, least: float) -> Check:
    found = quotient(rate_of(one), rate_of(base), interval(one, THROUGHPUT), interval(base, THROUGHPUT))
    low, high = found.ci95 or (None, None)
    point = tuple(one.point.items())
    values: Values = {
        "what": name_at(one.mode, point), "ratio": ratio_of(found.ratio, low, high), "limit": f"{least:.4g}", "needed": FEWEST_BLOCKS,
    }  # fmt: skip
    return check_by(
        name_at(f"{one.mode} speedup", point),
        verdict_on(low, high, least, at_most=False),
        Fact("check-speedup", "few-blocks" if low is None else "known", one.mode, values),
        ratio=found.ratio,
        low=low,
        high=high,
        limit=least,
        metric="speedup",
        mode=one.mode,
        point=one.point,
    )


def slo_checks(result: Result, limits: Limits) -> Iterator[Check]:
    """What a load must keep to; `BadInput` where it has no point."""
    if result.slo is not None and result.slo["found"] and result.slo["asked"] == limits.slo:
        found = result.slo["found"].items()
        yield from (_found(result, mode, it, limits.slo) for mode, it in found if limits.covers(mode))
        return
    cases = [case for case in limited(result) if limits.covers(case.mode)]
    if not cases:
        raise BadInput("--slo: the result has no load point", "--slo")
    yield from (_keeps(case, stat, most) for case in cases for stat, most in limits.slo.items())


def _found(result: Result, mode: str, found: SloRate | None, asked: Mapping[str, int]) -> Check:
    """Whether any rate keeps an SLO that one was looked for: others that were tried on the way need not."""
    name = f"SLO of {mode}"
    fact = searched(result, mode, found, asked)
    verdict = PASSED if found is not None else UNCLEAR if fact.verdict == "open" else FAILED
    return check_by(name, verdict, fact, metric=SLO_RATE, mode=mode)


def _keeps(case: Case, stat: str, most: int) -> Check:
    """Whether a load point keeps an SLO for certain: of the largest latency by itself, of others with 95 % confidence."""
    name = name_at(f"SLO of {case.mode} {stat}", tuple(case.point.items()))
    is_met, within = meets(case, {stat: most}), bounds_of(case, stat)
    values: Values = {
        "stat": stat, "what": f"{case.mode} {at(case).phrase}", "value": ns(by_name(latency_of(case), stat)), "limit": limit_text(most),
        "needed": LEAST.get(stat, 0),
    }  # fmt: skip
    if within is not None:
        ends = {"low": within["low"], "high": within["high"]}
        values |= {end: ns(value) for end, value in ends.items() if value is not None}
    if is_full(case):
        said = "queue"
    elif within is None:
        said = "old"
    elif is_met is None and within["high"] is None:
        said = "few-requests"
    elif stat == "max":
        said = "largest"
    else:
        said = {True: "met", False: "violated", None: "open" if "low" in values else "open-below"}[is_met]
    metric = f"{LATENCY}.{'median' if stat == P50 else stat}"
    verdict = {True: PASSED, False: FAILED, None: UNCLEAR}[is_met]
    fact = Fact("check-slo", said, case.mode, values)
    return check_by(name, verdict, fact, metric=metric, mode=case.mode, point=case.point)


def failed_points(result: Result) -> list[tuple[str, Case]]:
    """The load points that failed, each after what happens there: ``with 4 clients``."""
    return [(at(case).phrase, case) for case in load_cases(result) if case.status == CASE_FAILED]
