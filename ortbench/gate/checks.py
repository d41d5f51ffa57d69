"""What finished results show: everything that a gate checks once there is nothing left to measure."""

from __future__ import annotations

from dataclasses import replace

from ortbench import units
from ortbench.analysis.compare import Spread, stored_ratio
from ortbench.analysis.enough import lack, remedy
from ortbench.analysis.handing_on import HANDED_ON, handing_on
from ortbench.analysis.pairs import blocks
from ortbench.analysis.placed import nodes_stay
from ortbench.errors import BadInput
from ortbench.gate.contests import (
    CANDIDATE,
    COPY_SHARE,
    Contest,
    Jury,
    contest_name,
    fill,
    own_contests,
    refuse_shapes,
)
from ortbench.gate.limits import DEFAULT_METRIC, FAILED, PASSED, UNCLEAR, Check, Limits, Metric
from ortbench.gate.load import check_load, check_load_regressions
from ortbench.gate.memory import check_memory, check_memory_regressions
from ortbench.modes import ALL_MODES, LOAD, MEMORY, stage_in
from ortbench.result import OK, Case, Result, work_of
from ortbench.work import Work


def check_alone(result: Result, limits: Limits) -> list[Check]:
    """Everything that needs no baseline.

    Raises:
        BadInput: a mode that a limit needs was not measured, or a limit that a loop or a chain has not.
    """
    if result.load is not None:
        return [*check_facts(result, limits), *check_load(result, limits)]
    refuse_slo(limits)
    contests = own_contests(limits, work_of(result))
    jury = Jury(contests)
    fill(jury, CANDIDATE, result)
    return [*check_facts(result, limits), *(check_contest(result, jury, contest) for contest in contests)]


def refuse_slo(limits: Limits) -> None:
    """Refuse an SLO of what is no load.

    Raises:
        BadInput: there is one.
    """
    if limits.slo:
        raise BadInput("--slo is of requests at a rate, which a load has; 'ortbench load --rate' makes them", "--slo")


def check_facts(result: Result, limits: Limits) -> list[Check]:
    """What needs no statistics: modes that must work, nodes that may stay on the CPU, memory.

    Raises:
        BadInput: a limit of memory, and it was not measured.
    """
    checks = []
    for mode in limits.require_modes:
        case = next((case for case in result.cases if case.mode == mode), None)
        verdict = PASSED if case is not None and case.status == OK else FAILED
        text = f"{mode} was not asked for" if case is None else f"{mode} is {case.status}" + _because(case.reason)
        checks.append(Check(f"mode {mode}", verdict, text))
    if limits.max_cpu_nodes is not None:
        checks.append(_check_nodes(result, limits.max_cpu_nodes))
    return [*checks, *check_memory(result, limits)]


def check_contest(result: Result, jury: Jury, contest: Contest) -> Check:
    """A contest between the candidate's own modes: one that does not work fails it.

    Raises:
        BadInput: a mode was not asked for.
    """
    if contest.name == COPY_SHARE and result.target["memory"]["kind"] == "host":
        return Check(contest.name, PASSED, f"{result.target['ep']} computes in host memory: nothing is copied")
    handed = handing_on(result) if contest.name == COPY_SHARE else None
    if handed is not None and handed.verdict == HANDED_ON:
        return Check(
            contest.name, PASSED, "ONNX Runtime hands arrays on as they are: nothing is copied with CPU tensors"
        )
    for mode in (contest.over.mode, contest.under.mode):
        case = next((case for case in result.cases if case.mode == mode), None)
        if case is None:
            measured = ", ".join(case.mode for case in result.cases)
            raise BadInput(f"{contest.name}: needs mode {mode}, which was not measured; measured: {measured}")
        if case.status != OK:
            text = f"{contest.what}: {mode} is {case.status}{_because(case.reason)}"
            return Check(contest.name, FAILED, text, limit=contest.limit)
    check = jury.check(contest)
    return with_remedy(_as_share(check) if contest.name == COPY_SHARE else check, result, jury.takes)


def with_remedy(check: Check, result: Result, takes: int) -> Check:
    """The check of a contest; where it has too few rounds, also how many a verdict takes and what gives them.

    Args:
        check: of a contest.
        result: of the candidate.
        takes: rounds that a verdict takes, see `Jury.takes`.
    """
    if check.rounds is None or check.low is not None:
        return check
    return replace(check, text=f"{check.text}; a verdict takes {takes} rounds: {remedy(result, takes)}")


def _because(reason: str | None) -> str:
    return f": {reason}" if reason else ""


def _check_nodes(result: Result, most: int) -> Check:
    if result.placement["nodes"] is None:
        return Check("cpu nodes", UNCLEAR, "where nodes run is not known for this model and EP")
    operators = result.placement["cpu_operators"]
    count = sum(operators.values())
    listed = f" ({', '.join(operators)})" if operators else ""
    text = f"{nodes_stay(count)} on the CPU{listed}, at most {most}"
    return Check("cpu nodes", PASSED if count <= most else FAILED, text)


def _as_share(check: Check) -> Check:
    """The contest of the copy share in words of shares."""
    assert check.limit is not None
    most = 1 - check.limit
    if check.ratio is None:
        text = f"copies in a run with CPU tensors: was not measured, at most {units.share(most, 1)}"
        return Check(check.name, UNCLEAR, text)
    share = f"≈{units.share(max(0.0, 1 - check.ratio), 1)}"
    if check.low is not None and check.high is not None:
        low, high = (units.share(max(0.0, 1 - end), 1) for end in (check.high, check.low))
        share += f" ({low} to {high}, {check.rounds} rounds)"
    text = f"copies in a run with CPU tensors: {share}, at most {units.share(most, 1)}"
    return Check(check.name, check.verdict, text, check.ratio, check.low, check.high, check.limit, check.rounds)


def check_stored(result: Result, baseline: Result, limits: Limits) -> list[Check]:
    """The candidate against a baseline of an earlier run, with the noise that both recorded.

    Raises:
        BadInput: nothing that both have.
    """
    if limits.max_regression is None:
        return []
    lost = check_lost_modes(result, baseline, limits)
    checks = list(lost)
    are_loads = result.load is not None and baseline.load is not None
    if are_loads:
        checks += check_load_regressions(result, baseline, limits)
    for metric in () if are_loads and limits.metrics == (DEFAULT_METRIC,) else limits.metrics:
        refuse_shapes(metric)
        if metric.phase == MEMORY or (are_loads and metric.phase == LOAD):
            continue
        found = stored_checks(metric, result, baseline, limits)
        if not found and not lost:
            raise BadInput(f"--metric {metric.text}: {_why_none(metric, work_of(result).shared(work_of(baseline)))}")
        checks += found
    return [*checks, *check_memory_regressions(result, baseline, limits)]


def stored_checks(metric: Metric, result: Result, baseline: Result, limits: Limits) -> list[Check]:
    """What a metric of a time comes to in the modes that both have; none where there is nothing that both have."""
    found = []
    for mode in [metric.mode] if metric.mode else filter(limits.held, ALL_MODES):
        one, other = result.case(mode), baseline.case(mode)
        spread = stored_ratio(other, one, metric.phase, metric.stat) if one and other else None
        if one and other and spread is not None:
            figures = f"{units.duration(spread.value_ns)} against {units.duration(spread.base_ns)}"
            lacking = lacking_blocks((result, one), (baseline, other), metric.phase)
            found.append(check_ratio(contest_name(mode, metric, one.whole), figures, spread, limits, lacking))
    return found


def lacking_blocks(candidate: tuple[Result, Case], baseline: tuple[Result, Case], phase: str) -> str:
    """What both sides have too few blocks of for an interval, and what gives more; "" where they have enough."""
    (result, one), (base, other) = candidate, baseline
    lacking = (
        lack("the baseline", base, len(blocks(other, phase))),
        lack("the candidate", result, len(blocks(one, phase))),
    )
    return "; ".join(filter(None, lacking))


def _why_none(metric: Metric, both: Work) -> str:
    """Why results have nothing of a metric; of a stage also which there are."""
    if metric.phase == LOAD:
        return "is of loads, and one of the results is none; 'ortbench load' makes them"
    if stage_in(metric.phase) is None or both.stages is None:
        return "not measured in both results"
    return f"there is no such stage in both; there are {', '.join(both.stages) or 'none'}"


def check_lost_modes(result: Result, baseline: Result, limits: Limits) -> list[Check]:
    """Modes that the baseline has and the candidate, which was asked for them too, has not."""
    return [
        Check(f"mode {case.mode}", FAILED, f"{case.mode} is {case.status}{_because(case.reason)}; the baseline has it")
        for case in result.cases
        if case.status != OK and limits.held(case.mode) and baseline.case(case.mode) is not None
    ]


def check_ratio(name: str, figures: str, found: Spread, limits: Limits, lacking: str) -> Check:
    """A ratio of two runs against the limit of a regression.

    Args:
        name: what is held against the baseline.
        figures: of both sides, in words.
        found: candidate over baseline, above 1 is slower.
        limits: with that of a regression.
        lacking: what there is too little of for an interval, if so.
    """
    assert limits.max_regression is not None
    most, verdict, where = 1 + limits.max_regression, UNCLEAR, lacking
    if found.low is not None and found.high is not None:
        verdict = FAILED if found.low > most else PASSED if found.high < most else UNCLEAR
        where = f"{units.ratio(found.low, 3)} to {units.ratio(found.high, 3)} with the noise of both runs"
    text = f"{name}: {figures}, ×{units.ratio(found.ratio, 3)} ({where}), must be at most ×{most:.4g}"
    return Check(name, verdict, text, found.ratio, found.low, found.high, most)
