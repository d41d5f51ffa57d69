"""Parts that do not add up to the whole: the remainder as a part of its own, and why. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from ortbench.analysis.findings.finding import Finding, Weight
from ortbench.analysis.noise import is_busy
from ortbench.core.safe_text import listed
from ortbench.core.stats import FEWEST, Stats, median_interval
from ortbench.core.units import count, duration, durations
from ortbench.model.modes import LATENCY, STAGE, STEP, is_rate, mode_of
from ortbench.model.result import OK, Case, Result, work_of

REMAINDER = "remainder"
_SEEN = 0.005  # of the whole: less is no part that is told
_TELLING, _TELLING_PHASES = 0.05, 0.1  # of the whole, from which on a remainder is told; phases are timed apart from it
_TITLES = {"h2d": "H2D", "inference": "inference", "d2h": "D2H"}


def put_remainder(case: Case, parts: int) -> None:
    """Put into a case what of its latency is in none of its parts: of loops and chains of so many parts measured, one by one, else
    by the medians of phases, which are timed in blocks of their own."""
    if (left := _between(case, parts)) is not None:
        case.put(
            REMAINDER, median(left), median_interval(left, [size for _, size, _ in case.blocks[LATENCY]]), derived=True
        )
    elif (phases := _phases(case)) and (latency := case.median(LATENCY)) is not None:
        case.put(REMAINDER, latency - sum(it.median for it in phases.values()), derived=True)


def _between(case: Case, parts: int) -> list[int] | None:
    """Of each loop or chain what is in none of its parts, ns; None where they were not timed."""
    whole = case.samples.get(LATENCY, [])
    taken = case.samples.get(STEP) or case.samples.get(STAGE)
    if not taken or not whole or len(taken) != len(whole) * parts:
        return None
    return [round(ns - sum(taken[at * parts : (at + 1) * parts])) for at, ns in enumerate(whole)]


def _phases(case: Case) -> dict[str, Stats]:
    """The phases that a latency consists of, where they are timed by themselves; none where one was not."""
    if not mode_of(case.mode).times_copies or is_rate(case.mode, LATENCY):
        return {}
    found = {name: case.stats(name) for name in _TITLES if not case.copies_nothing(name)}
    return {name: it for name, it in found.items() if it is not None} if None not in found.values() else {}


def sum_findings(result: Result) -> list[Finding]:
    """Where parts and the whole are apart, what makes up for it."""
    cases = [case for case in result.at_point() if case.status == OK]
    apart = [(case, parts) for case in cases if (parts := _parts(result, case))]
    work = work_of(result)
    if len(apart) == 1:
        ((case, parts),) = apart
        what = f"A {work.whole} takes {duration(case.median(LATENCY) or 0)} with {case.mode}"
        return [Finding(what, f"{parts}{_because(result)}", weight=Weight.COST)]
    if apart:
        apart = [(case, _parts(result, case, short=True)) for case, _ in apart]
        of_modes = (f"{duration(case.median(LATENCY) or 0)} with {case.mode}, where {parts}" for case, parts in apart)
        median_one = f"the median {work.whole} takes "
        what = f"A program waits for the time of a {work.whole}, not for the sum of its {work.part}s' medians"
        others = f"; with other modes they are less than {_TELLING:.0%} apart" if len(apart) < len(cases) else ""
        return [Finding(what, f"{median_one}{'; '.join(of_modes)}{others}{_because(result)}", weight=Weight.COST)]
    return [it for case in cases if (it := _of_phases(result, case)) is not None]


def _parts(result: Result, case: Case, short: bool = False) -> str:
    """Of a loop or a chain: its usual parts, what lies between them, and parts that took longer than usual; nothing where these add up."""
    whole, between = case.median(LATENCY), case.value(REMAINDER)
    usual: Sequence[float] = case.steps_ns or [stats.median for stats in case.stages.values()]
    if whole is None or between is None or not usual or abs(whole - sum(usual)) < _TELLING * whole:
        return ""
    part = work_of(result).part
    parts = [
        f"{'the medians' if short else f'the medians of {count(len(usual), part)}'} add up to {duration(sum(usual))}"
    ]
    longer = whole - sum(usual) - between
    least = _SEEN * whole
    parts += [f"slow {part}s add {duration(longer)}"] if longer >= least else []
    parts += [f"{duration(between)} lie outside of {part}s"] if between >= least else []
    return listed(parts)


def _of_phases(result: Result, case: Case) -> Finding | None:
    phases, latency = _phases(case), case.stats(LATENCY)
    if not phases or latency is None:
        return None
    ends = [sum(it.ci95[end] for it in phases.values()) for end in (0, 1)]
    total = sum(it.median for it in phases.values())
    left = latency.median - total
    if abs(left) < _TELLING_PHASES * latency.median:
        return None
    named = listed([_TITLES[name] for name in phases])
    if min(it.n for it in (latency, *phases.values())) < FEWEST:
        return None  # which have no 95 % interval
    if latency.ci95[0] <= ends[1] and ends[0] <= latency.ci95[1]:
        if _is_told_apart(case):
            return None  # the interval of its speedup is by rounds that it shares with others, and says more
        sure, of_sum = (f" (95% CI {durations(it)})" for it in (latency.ci95, ends))
        what = f"With {case.mode} {named} add up to {duration(total)}{of_sum}, and the latency is {duration(latency.median)}{sure}"
        why = f"the intervals overlap, so the {duration(abs(left))} between can be noise"
        return Finding(what, f"{why}{_because(result)}", weight=Weight.COST)
    what = f"With {case.mode} a program waits {duration(latency.median)}, the latency, not the {duration(total)} that {named} add up to"
    why = f"{duration(left)} more; each is timed in blocks of its own, so caches and clocks differ"
    if left < 0:
        why = f"{duration(-left)} less: a whole inference waits for the device once, its parts, which are timed apart, more often"
    return Finding(what, f"{why}{_because(result)}", weight=Weight.COST)


def _is_told_apart(case: Case) -> bool:
    """Whether a mode is slower or faster than `cpu-tensors` for certain."""
    ends = None if case.speedup is None else case.speedup.ci95
    return ends is not None and not ends[0] <= 1 <= ends[1]


def _because(result: Result) -> str:
    return "; noise of the busy machine may be the reason" if is_busy(result) else ""
