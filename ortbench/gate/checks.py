"""What finished results show by themselves: modes that work, nodes on the CPU, memory, speedups, the share of copies. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ortbench.analysis.comparing.enough import remedy
from ortbench.analysis.loads.levels import interval, quotient, rate_of
from ortbench.analysis.memory import DEVICE, computes_on_host, figure, why_unknown
from ortbench.analysis.nodes.handing_on import HANDED_ON, handing_on
from ortbench.analysis.nodes.placed import nodes_stay
from ortbench.analysis.sweep import point_as_result
from ortbench.core import units
from ortbench.core.errors import BadInput
from ortbench.gate.contests import CANDIDATE, Contest, Jury, fill, named, own_contests
from ortbench.gate.limits import FAILED, PASSED, UNCLEAR, Check, Limits
from ortbench.gate.slo import check_slo, few_blocks
from ortbench.model.kinds import CONCURRENCY, KINDS
from ortbench.model.modes import CPU, DEVICE_MEMORY, HOST_MEMORY, MEMORY_SIDES, THROUGHPUT
from ortbench.model.result import OK, Case, Result, work_of

_METRIC = dict(zip(MEMORY_SIDES, (DEVICE_MEMORY, HOST_MEMORY), strict=True))


def check_alone(result: Result, limits: Limits) -> list[Check]:
    """Everything that needs no baseline.

    Raises `BadInput` where a mode that a limit needs was not measured, or this kind of measurement has no such limit.
    """
    refuse_limits(result.kind, limits)
    return [*check_facts(result, limits), *_check_modes(result, limits), *check_slo(result, limits)]


def refuse_limits(kind: str, limits: Limits) -> None:
    """Refuse limits that a kind of measurement has not."""
    known = KINDS[kind]
    if limits.slo and "slo" not in known.checks:
        raise BadInput("--slo is of requests at a rate, which a load has; 'ortbench load --rate' makes them", "--slo")
    if limits.max_copy_share is not None and "max-copy-share" not in known.checks:
        reason = f"is of single inferences; of {known.noun} say --min-speedup device-resident=X"
        raise BadInput(f"--max-copy-share {reason}", "--max-copy-share")


# Facts, which need no statistics


def check_facts(result: Result, limits: Limits) -> list[Check]:
    """Modes that must work, nodes that may stay on the CPU, memory, which must have been measured (`BadInput`)."""
    checks = [_check_mode(result, mode) for mode in limits.require_modes]
    if limits.max_cpu_nodes is not None:
        checks.append(_check_nodes(result, limits.max_cpu_nodes))
    return [*checks, *_check_memory(result, limits)]


def _check_mode(result: Result, mode: str) -> Check:
    """Whether a mode works: of a load with one client alone, else at every point at which it was tried."""
    cases = [case for case in result.cases if case.mode == mode]
    cases = [case for case in cases if not case.point] or cases
    broken = next((case for case in cases if case.status != OK), None)
    if broken is not None:
        return Check(f"mode {mode}", FAILED, f"{_at(broken)} is {broken.status}{because(broken.reason)}", mode=mode)
    text = f"{mode} is {OK}" if cases else f"{mode} was not asked for"
    return Check(f"mode {mode}", PASSED if cases else FAILED, text, mode=mode)


def _at(case: Case) -> str:
    return named(case.mode, tuple(case.point.items()))


def because(reason: str | None) -> str:
    """A reason behind what it explains."""
    return f": {reason}" if reason else ""


def _check_nodes(result: Result, most: int) -> Check:
    if result.placement["nodes"] is None:
        return Check("cpu nodes", UNCLEAR, "where nodes run is not known for this model and EP")
    operators = result.placement["cpu_operators"]
    count = sum(operators.values())
    listed = f" ({', '.join(operators)})" if operators else ""
    text = f"{nodes_stay(count)} on the CPU{listed}, at most {most}"
    return Check("cpu nodes", PASSED if count <= most else FAILED, text)


def _check_memory(result: Result, limits: Limits) -> Iterator[Check]:
    for side, most in limits.most_memory.items():
        if most is None:
            continue
        cases = [case for case in result.cases if case.status == OK and limits.held(case.mode)]
        if not any(case.memory is not None for case in cases):
            option = f"--max-{side}-memory"
            raise BadInput(f"{option}: the result has no memory; measure it with --memory", option)
        yield from (_memory(case, side, most) for case in cases if case.memory is not None or not case.point)


def _memory(case: Case, side: str, most: int) -> Check:
    name, at_most, found = (
        named(f"{case.mode} {side} memory", tuple(case.point.items())),
        f"at most {units.size(most)}",
        figure(case, side),
    )
    if side == DEVICE and computes_on_host(case):
        verdict, said = PASSED, f"none, {why_unknown(case, side)}; {at_most}"
    elif found is None:
        verdict, said = UNCLEAR, f"{why_unknown(case, side)}; {at_most}"
    else:
        verdict, said = PASSED if found <= most else FAILED, f"{units.size(found)}, {at_most}"
    return Check(name, verdict, f"{name}: {said}", metric=_METRIC[side], mode=case.mode, point=case.point)


# Modes compared with each other


def _check_modes(result: Result, limits: Limits) -> Iterator[Check]:
    """What modes must keep to among themselves, at every point."""
    if KINDS[result.kind].axes:  # load points, whose blocks have figures alone
        for mode, least in limits.min_speedup.items():
            yield from _speedups(result, mode, least)
        return
    # That a shape did not run is a failure of the benchmark.
    shapes = [(tuple(it.point.items()), point_as_result(result, it)) for it in result.shapes if it.inputs]
    for point, one in shapes if result.axes else [((), result)]:
        contests = own_contests(limits, work_of(result), point)
        jury = Jury(contests)
        fill(jury, CANDIDATE, one.cases)
        yield from (check_contest(one, jury, contest) for contest in contests)


def check_contest(result: Result, jury: Jury, contest: Contest) -> Check:
    """A contest between the candidate's own modes, which must have been asked for (`BadInput`): one that does not work
    fails it."""
    is_share = contest.metric == "copy_share"
    plain = replace(contest.unclear(""), verdict=PASSED, limit=None)
    if is_share and result.target["memory"]["kind"] == "host":
        text = f"{result.target['ep']} computes in host memory: nothing is copied"
        return replace(plain, text=text)
    handed = handing_on(result) if is_share else None
    if handed is not None and handed.verdict == HANDED_ON:
        text = "ONNX Runtime hands arrays on as they are: nothing is copied with CPU tensors"
        return replace(plain, text=text)
    for mode in (contest.over.mode, contest.under.mode):
        case = next((case for case in result.cases if case.mode == mode), None)
        if case is None:
            measured = ", ".join(case.mode for case in result.cases)
            raise BadInput(f"{contest.name}: needs mode {mode}, which was not measured; measured: {measured}")
        if case.status != OK:
            text = f"{contest.what}: {mode} is {case.status}{because(case.reason)}"
            return replace(contest.unclear(text), verdict=FAILED)
    check = jury.check(contest)
    return with_remedy(_as_share(check) if is_share else check, result, jury.takes)


def with_remedy(check: Check, result: Result, takes: int) -> Check:
    """The check of a contest; where it has too few of the rounds that a verdict takes, also how many those are and what
    gives them."""
    if check.rounds is None or check.low is not None:
        return check
    return replace(check, text=f"{check.text}; a verdict takes {takes} rounds: {remedy(result, takes)}")


def _as_share(check: Check) -> Check:
    """The contest of the copy share in words of shares."""
    assert check.limit is not None
    most = units.share(1 - check.limit, 1)
    if check.ratio is None:
        text = f"copies in a run with CPU tensors: was not measured, at most {most}"
        return replace(check, verdict=UNCLEAR, text=text, limit=None)
    share = f"≈{units.share(max(0.0, 1 - check.ratio), 1)}"
    if check.low is not None and check.high is not None:
        low, high = (units.share(max(0.0, 1 - end), 1) for end in (check.high, check.low))
        share += f" ({low} to {high}, {check.rounds} rounds)"
    return replace(check, text=f"copies in a run with CPU tensors: {share}, at most {most}")


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
    verdict, where = UNCLEAR, few_blocks()
    if low is not None and high is not None:
        verdict = PASSED if low > least else FAILED if high < least else UNCLEAR
        where = f"{units.ratio(low, 3)} to {units.ratio(high, 3)}"
    point = tuple(one.point.items())
    text = f"{named(one.mode, point)} has as much throughput as cpu-tensors: ×{units.ratio(found.ratio, 3)} ({where}), must be at least ×{least:.4g}"
    return Check(
        named(f"{one.mode} speedup", point),
        verdict,
        text,
        found.ratio,
        low,
        high,
        least,
        metric="speedup",
        mode=one.mode,
        point=one.point,
    )
