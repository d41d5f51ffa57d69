"""What finished results show by themselves: modes that work, nodes on the CPU, memory, speedups, copies, SLOs, outputs. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ortbench.analysis.comparing.pairs import remedy
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
    meets,
    rate_of,
)
from ortbench.analysis.loads.queueing import LEAST
from ortbench.analysis.memory import DEVICE, computes_on_host, figure, why_unknown
from ortbench.analysis.nodes.handing_on import HANDED_ON, handing_on
from ortbench.analysis.outputs import doubt, told_of, worst
from ortbench.analysis.shapes import point_as_result
from ortbench.core import units
from ortbench.core.ep_names import CPU_EP
from ortbench.core.errors import BadInput
from ortbench.core.features import part_of
from ortbench.facts.findings import shown
from ortbench.facts.slo import searched
from ortbench.gates.contests import CANDIDATE, RatioTest, SequentialTests, fill, named, own_contests, refuse_copy_share
from ortbench.gates.limits import CONFIDENCE, FAILED, PASSED, UNCLEAR, Check, Limits, between, verdict_on
from ortbench.model.kinds import CONCURRENCY, LOAD, kind_of, kinds
from ortbench.model.metrics import LATENCY, metric
from ortbench.model.modes import CPU, DEVICE_MEMORY, HOST_MEMORY, MEMORY_SIDES, SLO_RATE, THROUGHPUT
from ortbench.model.result import FAILED as CASE_FAILED
from ortbench.model.result import OK, Case, Result, work_of
from ortbench.model.schema import SloRate
from ortbench.plan.options import RawOptions
from ortbench.plan.registry import limits_of_kinds

NODES = "cpu nodes"  # the check of those that fall back to the CPU
_METRIC = dict(zip(MEMORY_SIDES, (DEVICE_MEMORY, HOST_MEMORY), strict=True))


def check_alone(result: Result, limits: Limits) -> list[Check]:
    """Everything that needs no baseline; `BadInput` for a mode that a limit needs and a limit that there is not."""
    refuse_limits(result.kind, limits)
    return [*check_facts(result, limits), *_check_modes(result, limits), *check_slo(result, limits)]


def refuse_limits(kind: str, limits: Limits) -> None:
    known = kind_of(kind)
    if limits.slo and "slo" not in known.checks:
        raise BadInput("--slo is a limit of a load or a sweep: 'ortbench load' makes a result to check", "--slo")
    for flag in limits.own:
        if flag not in known.checks:
            of_kind, _ = limits_of_kinds()[flag]
            reason = f"is of {kind_of(of_kind).noun}: 'ortbench {of_kind}' makes a result to check"
            raise BadInput(f"--{flag} {reason}", f"--{flag}")
    refuse_copy_share(limits, kind, known.noun)


def refuse_unchecked(kind: str, given: RawOptions) -> None:
    """Refuse limits that need no baseline, before results of a kind are measured that cannot be checked for them."""
    known = kind_of(kind)
    for flag in dict.fromkeys(flag for it in kinds().values() for flag in it.checks):
        if flag in given and flag not in known.checks:
            raise BadInput(f"--{flag}: {known.noun} is checked for {', '.join(known.checks)} only", f"--{flag}")


# Facts, which need no statistics


def check_facts(result: Result, limits: Limits) -> list[Check]:
    """Modes that must work, nodes that may stay on the CPU, memory, which must have been measured (`BadInput`)."""
    checks = [_check_mode(result, mode) for mode in limits.require_modes]
    if limits.max_cpu_nodes is not None:
        checks.append(_check_nodes(result, limits.max_cpu_nodes))
    of_kind = part_of(result.kind, "gates", "checks", lambda *_: [])
    return [*checks, *_check_memory(result, limits), *of_kind(result, limits), *check_outputs(result, limits)]


def _check_mode(result: Result, mode: str) -> Check:
    """Whether a mode works: of a load with one client alone, else at every point at which it was tried."""
    cases = [case for case in result.cases if case.mode == mode]
    cases = [case for case in cases if not case.point] or cases
    broken = next((case for case in cases if case.status != OK), None)
    if broken is not None:
        at = named(broken.mode, tuple(broken.point.items()))
        return Check(f"mode {mode}", FAILED, f"{at} {became(broken)}", mode=mode)
    text = f"mode {mode} works" if cases else f"mode {mode} was not measured"
    return Check(f"mode {mode}", PASSED if cases else FAILED, text, mode=mode)


def became(case: Case) -> str:
    status = case.status if case.status == CASE_FAILED else f"is {case.status}"
    return f"{status}: {case.reason}" if case.reason else status


def _check_nodes(result: Result, most: int) -> Check:
    if result.placement["nodes"] is None:
        return Check(NODES, UNCLEAR, "where nodes run is not known for this model and EP")
    if result.target["ep"] == CPU_EP:
        return Check(NODES, PASSED, f"no node falls back on {CPU_EP}, so this cannot fail")
    operators = result.placement["cpu_operators"]
    count = sum(operators.values())
    listed = f" ({', '.join(operators)})" if operators else ""
    text = f"{'1 node falls' if count == 1 else f'{count} nodes fall'} back to the CPU{listed}, must be at most {most}"
    return Check(NODES, PASSED if count <= most else FAILED, text)


def _check_memory(result: Result, limits: Limits) -> Iterator[Check]:
    for side, most in limits.most_memory.items():
        if most is None:
            continue
        cases = [case for case in result.cases if case.status == OK and limits.held(case.mode)]
        if not any(case.memory is not None for case in cases):
            option = f"--max-{side}-memory"
            raise BadInput(f"{option}: the result has no memory; measure it with --measure-memory", option)
        yield from (_memory(case, side, most) for case in cases if case.memory is not None or not case.point)


def _memory(case: Case, side: str, most: int) -> Check:
    name = named(f"{case.mode} {side} memory", tuple(case.point.items()))
    at_most = f"must be at most {units.size(most)}"
    found = figure(case, side)
    if side == DEVICE and computes_on_host(case):
        verdict, said = PASSED, f"none, {why_unknown(case, side)}; {at_most}"
    elif found is None:
        verdict, said = UNCLEAR, f"{why_unknown(case, side)}; {at_most}"
    else:
        verdict, said = PASSED if found <= most else FAILED, f"{units.size(found)}, {at_most}"
    return Check(name, verdict, f"{name}: {said}", metric=_METRIC[side], mode=case.mode, point=case.point)


# Modes compared with each other


def _check_modes(result: Result, limits: Limits) -> Iterator[Check]:
    if kind_of(result.kind).axes:  # load points, whose blocks have figures alone
        for mode, least in limits.min_speedup.items():
            yield from _speedups(result, mode, least)
        return
    # That a shape did not run is a failure of the benchmark.
    shapes = [(tuple(it.point.items()), point_as_result(result, it)) for it in result.shapes if it.inputs]
    for point, one in shapes if result.axes else [((), result)]:
        contests = own_contests(limits, work_of(result), point)
        jury = SequentialTests(contests)
        fill(jury, CANDIDATE, one.cases)
        yield from (check_contest(one, jury, contest) for contest in contests)


def check_contest(result: Result, jury: SequentialTests, contest: RatioTest) -> Check:
    """A contest of the candidate's own modes, which must have been asked for (`BadInput`); one that does not work fails it."""
    is_share = contest.metric == "copy_share"
    plain = replace(contest.unclear(""), verdict=PASSED, limit=None)
    if is_share and result.target["memory"]["kind"] == "host":
        return replace(plain, text=f"{result.target['ep']} computes in host memory: nothing is copied")
    if is_share and (handed := handing_on(result)) is not None and handed.verdict == HANDED_ON:
        return replace(plain, text="ONNX Runtime passes arrays through without a copy with CPU tensors")
    for mode in (contest.over.mode, contest.under.mode):
        case = next((case for case in result.cases if case.mode == mode), None)
        if case is None:
            measured = ", ".join(case.mode for case in result.cases)
            raise BadInput(f"{contest.name}: needs mode {mode}, which was not measured; measured: {measured}")
        if case.status != OK:
            text = f"{contest.what}: {mode} {became(case)}"
            return replace(contest.unclear(text), verdict=FAILED)
    check = jury.check(contest)
    return with_remedy(_as_share(check) if is_share else check, result, jury.takes)


def with_remedy(check: Check, result: Result, takes: int) -> Check:
    """The check of a contest; of one with too few rounds for a verdict also how many it takes and what gives them."""
    if check.rounds is None or check.low is not None:
        return check
    return replace(check, text=f"{check.text}; a verdict takes {takes} rounds: {remedy(result, takes)}")


def _as_share(check: Check) -> Check:
    assert check.limit is not None
    most = units.share(1 - check.limit, 1)
    if check.ratio is None:
        text = f"copies of cpu-tensors: not measured, must be at most {most} of latency"
        return replace(check, verdict=UNCLEAR, text=text, limit=1 - check.limit)
    share = f"≈{units.share(max(0.0, 1 - check.ratio), 1)} of latency"
    if check.low is not None and check.high is not None:
        least, most_ = (units.share(max(0.0, 1 - end), 1) for end in (check.high, check.low))
        share += f" (sequential test: {CONFIDENCE} {least} to {most_}, {check.rounds} rounds)"
    doubt = f"; {check.doubt}" if check.doubt else ""
    text = f"copies of cpu-tensors: {share}, must be at most {most}{doubt}"
    low, high = (None if it is None else 1 - it for it in (check.high, check.low))
    return replace(check, text=text, ratio=1 - check.ratio, low=low, high=high, limit=1 - check.limit)


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
    verdict, where = verdict_on(low, high, least, at_most=False), between(low, high, few_blocks())
    point = tuple(one.point.items())
    text = f"throughput of {named(one.mode, point)} to that of cpu-tensors: ratio {units.ratio(found.ratio, 3)} ({where}), must be at least {least:.4g}"
    name = named(f"{one.mode} speedup", point)
    return Check(name, verdict, text, found.ratio, low, high, least, metric="speedup", mode=one.mode, point=one.point)


FULL = "requests come as fast as they are served or faster"


def check_slo(result: Result, limits: Limits) -> Iterator[Check]:
    """What a load or a sweep must keep to; `BadInput` where the load has no point."""
    if not limits.slo:
        return
    yield from (_OF_KIND.get(result.kind) or part_of(result.kind, "gates", "slo_checks"))(result, limits)


def few_blocks() -> str:
    return f"fewer than {FEWEST_BLOCKS} blocks, so no interval; a longer --duration gives more"


# Loads


def _of_load(result: Result, limits: Limits) -> Iterator[Check]:
    if result.slo is not None and result.slo["found"] and result.slo["asked"] == limits.slo:
        found = result.slo["found"].items()
        yield from (_found(result, mode, it, limits.slo) for mode, it in found if limits.held(mode))
        return
    cases = [case for case in limited(result) if limits.held(case.mode)]
    if not cases:
        raise BadInput("--slo: the result has no load point", "--slo")
    yield from (_keeps(case, stat, most) for case in cases for stat, most in limits.slo.items())


def _found(result: Result, mode: str, found: SloRate | None, asked: Mapping[str, int]) -> Check:
    """Whether any rate keeps an SLO that one was looked for: others that were tried on the way need not."""
    name = f"SLO of {mode}"
    fact = searched(result, mode, found, asked)
    verdict = PASSED if found is not None else UNCLEAR if fact.verdict == "open" else FAILED
    return Check(name, verdict, shown([fact])[0].what, metric=SLO_RATE, mode=mode)


def _keeps(case: Case, stat: str, most: int) -> Check:
    """Whether a load point keeps an SLO for certain: of the largest latency by itself, of others with 95 % confidence."""
    name = named(f"SLO of {case.mode} {stat}", tuple(case.point.items()))
    limit = f"must be at most {limit_text(most)}"
    value, told = units.duration(by_name(latency_of(case), stat)), meets(case, {stat: most})
    verdict, said = UNCLEAR if told is None else PASSED if told else FAILED, value
    within = bounds_of(case, stat)
    if is_full(case):
        said = f"{FULL}, so the queue grows as long as they come"
    elif within is None:
        said = f"{value} (the result is of an older ortbench; measure again)"
    elif told is None and within["high"] is None:
        said = f"{value} (too few requests, {stat} takes {LEAST[stat]} or more; a longer --duration gives more)"
    elif stat != "max":
        low, high = (None if it is None else units.duration(it) for it in (within["low"], within["high"]))
        known = f"at most {high}" if told or low is None else f"at least {low}" if told is False else f"{low} to {high}"
        more = "; a longer --duration narrows it" if told is None else ""
        said = f"{value} ({known} with 95% confidence{more})"
    separator = ";" if is_full(case) else ","
    metric = f"{LATENCY}.{'median' if stat == P50 else stat}"
    text = f"{stat} of {case.mode} {at(case).phrase}: {said}{separator} {limit}"
    return Check(name, verdict, text, metric=metric, mode=case.mode, point=case.point)


_OF_KIND: dict[str, Callable[[Result, Limits], Iterator[Check]]] = {LOAD.key: _of_load}


# Outputs


def check_outputs(result: Result, limits: Limits) -> Iterator[Check]:
    """How far the outputs of a candidate moved; `BadInput` where they were compared with none."""
    for key, limit in limits.outputs.items():
        if not result.outputs:
            reason = "the outputs were compared with none: give a --baseline-model with the same inputs, or --expect"
            raise BadInput(f"--limit {key}: {reason}", "--limit")
        yield _check_output(key, limit, result)


def _check_output(key: str, limit: float, result: Result) -> Check:
    assert result.outputs is not None
    it = metric(key)
    found = worst([one for compared in result.outputs for one in compared["distances"]]).get(key.partition(".")[2])
    at_most = it.better == "lower"
    bound = f"must be at {'most' if at_most else 'least'} {it.unit.text(limit)}"
    if found is None or found == -math.inf:
        differing = (
            f"the outputs are not {told_of(one)}: {one['differs']}" for one in result.outputs if one["differs"]
        )
        wrong = next(differing, "no output has it")
        return Check(key, FAILED if found is not None else UNCLEAR, f"{key}: {wrong}; {bound}", metric=key)
    passed = found <= limit if at_most else found >= limit
    said = "no output moved" if found == math.inf else it.unit.text(found)
    return Check(key, PASSED if passed else FAILED, f"{key}: {said}, {bound}", metric=key)


def without_doubtful(checks: Sequence[Check], *results: Result) -> list[Check]:
    """Checks of a candidate and its baseline, of which nothing is told where the figures of either are doubtful."""
    if not any(map(doubt, results)):
        return [*checks]
    why = "not judged, as the outputs differ by a lower precision"
    untold: dict[str, Any] = {"verdict": UNCLEAR, **dict.fromkeys(("ratio", "low", "high", "rounds", "doubt"))}
    return [it if it.limit is None else replace(it, text=f"{it.name}: {why}", **untold) for it in checks]
