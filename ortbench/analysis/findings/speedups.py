"""The two speedups, never mixed: of modes that can replace each other, and of those whose tensors stay on the device. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from operator import itemgetter

from ortbench.analysis.comparing.claims import (
    ALIKE,
    BY_MARGIN,
    FASTER,
    MARGIN,
    NOISY,
    SLOWER,
    UNKNOWN,
    Claim,
    Fastest,
    claim_between,
    claim_of,
    compared,
    fastest,
    over,
    seems_faster,
)
from ortbench.analysis.comparing.pairs import PAIRS, TOO_FEW
from ortbench.analysis.findings.finding import Finding, Weight, merged
from ortbench.analysis.findings.node_advice import are
from ortbench.analysis.findings.phrases import times, times_as_fast, within
from ortbench.analysis.findings.program import again, how_to_write, inside
from ortbench.analysis.nodes.handing_on import is_only_host_accessible
from ortbench.analysis.noise import cannot_tell, made_by_noise, more_rounds
from ortbench.core.resampling import FEW
from ortbench.core.safe_text import listed
from ortbench.core.units import digits, duration
from ortbench.model.kinds import KINDS, Kind
from ortbench.model.modes import CPU, HOST_ACCESSIBLE, LATENCY, mode_of
from ortbench.model.result import Case, Result


def is_on_host(result: Result) -> bool:
    """Whether the EP, of a chain that of each stage, computes in host memory, so that nothing crosses a link."""
    sessions = result.part["stages"] if KINDS[result.kind].of_stages else [result.target]
    return all(it["memory"]["kind"] == "host" for it in sessions)


def stays_in_place(result: Result) -> bool:
    """Whether the tensors that a mode keeps are in memory that the host reads and writes."""
    return is_on_host(result) or is_only_host_accessible(result)


def condition(result: Result, mode: str) -> str:
    """What a mode needs that `cpu-tensors` does not, behind a figure; nothing for a mode that can replace it anywhere."""
    return f" if {needs(result)}" if mode_of(mode).on_device else ""


def needs(result: Result) -> str:
    """What has to hold for the modes that keep tensors on the device."""
    kind = kind_of(result)
    return kind.in_place_needs if stays_in_place(result) else kind.on_device_needs


def takes(result: Result, mode: str = "") -> str:
    """What the modes have that can replace each other, or one of them, behind "with"."""
    kind = kind_of(result)
    in_place = mode == HOST_ACCESSIBLE and not kind.counts_crossings
    return f"{kind.takes}{', whose writing and reading in place is not timed' * in_place}"


def kind_of(result: Result) -> Kind:
    """The kind whose words a result has: a loop's where it generates."""
    return KINDS[result.kind]


def kept_tensors(result: Result) -> str:
    """What a figure of such a mode is called."""
    return "Tensors in place" if stays_in_place(result) else "Tensors on the device"


def speedup_findings(result: Result, evidence: str = "", told: str | None = None) -> list[Finding]:
    """The two speedups, never mixed: first the fastest of the modes that can replace each other, then what keeping tensors on the
    device brings, against `cpu-tensors` and that one.

    Args:
        result: whose modes were compared with `cpu-tensors`.
        evidence: what else there is to say of tensors on the device.
        told: a mode of which another finding says that it is no faster, where it is not.
    """
    cases = compared(result)
    best, kept = fastest(result, on_device=False), fastest(result, on_device=True)
    if cases and all(claim_of(it) in (ALIKE, SLOWER) for it in cases):
        return [_none_faster(result, cases)]
    if best is not None and kept is not None and best.claim == kept.claim and best.claim in (UNKNOWN, NOISY):
        return [_unsure_both(result, best, kept)]
    found = [] if best is None else [_replacement(result, best)]
    if kept is None or (kept.mode == told and kept.claim in (ALIKE, SLOWER)):
        return found
    return [*found, _kept(result, kept, best, evidence)]


def _unsure_both(result: Result, best: Fastest, kept: Fastest) -> Finding:
    """That nobody can tell whether either is faster than `cpu-tensors`."""
    said = (
        f"{best.mode} is {times_as_fast(best.speedup, CPU)} with {takes(result, best.mode)}, {kept.mode} {times(kept.speedup)}"
        f"{within(kept.speedup.ci95, digits)}{condition(result, kept.mode)}"
    )
    if best.claim == UNKNOWN:
        return Finding(said, TOO_FEW, more_rounds(result, PAIRS), Weight.ANSWER, "unclear")
    what = cannot_tell(f"how {best.mode} and {kept.mode} compare with {CPU}")
    return Finding(what, _beside_noise(result, said, [best.case, kept.case]), "", Weight.ANSWER, "unclear")


def _none_faster(result: Result, cases: Sequence[Case]) -> Finding:
    """That no mode is faster than `cpu-tensors`; of several that are all alike, how long they take."""
    if (longer := _to_tell(result, cases)) is not None:
        return longer
    base = result.median(CPU, LATENCY)
    medians = [ns for ns in (base, *(it.median(LATENCY) for it in cases)) if ns is not None]
    near = bool(medians) and max(medians) <= (1 + MARGIN) * min(medians)
    if near and all(map(_is_close, cases)) and len(cases) > 1:
        names = listed([CPU, *(it.mode for it in cases)])
        what, evidence = (
            f"The median latencies of the {len(cases) + 1} modes are the same within {MARGIN:.0%}",
            f"{names} take {duration(min(medians))} to {duration(max(medians))}",
        )
    else:
        what, evidence = f"No mode is {BY_MARGIN} faster than {CPU}", _figures(cases)
    return Finding(what, evidence, "" if is_on_host(result) else inside(result), Weight.ANSWER)


def _to_tell(result: Result, cases: Sequence[Case]) -> Finding | None:
    """That intervals reach so far that a mode may be much faster, and what tells more; None where they do not, or time was not the end."""
    tops = {it.mode: it.speedup.ci95[1] for it in cases if it.speedup and it.speedup.ci95}
    stopped, wide = result.stopped, [mode for mode, top in tops.items() if top > 1 + MARGIN]
    if max(tops.values(), default=0.0) <= _FAR or stopped is None or stopped["reason"] != "duration":
        return None
    seconds = math.ceil(_TIMES_LONGER * stopped.get("value", 1.0))
    # Of several processes each is one observation of the interval.
    few = FEW <= max(len(it.first_rounds) for it in cases) < MORE_PROCESSES
    more = ("--processes", str(MORE_PROCESSES)) if few else ("--duration", f"{seconds}s")
    what = f"It cannot be told whether {listed(wide)} {are(len(wide))} faster than {CPU}"
    return Finding(what, _figures(cases), again(result, *more), Weight.ANSWER, "unclear")


_FAR, _TIMES_LONGER = 1.1, 4  # from where on an interval leaves much open; as long makes it half as wide
MORE_PROCESSES = 15  # whose figures have half the interval of those of five


def _is_close(case: Case) -> bool:
    """Whether a mode is as fast as `cpu-tensors` for certain, within `MARGIN`."""
    ends = None if case.speedup is None else case.speedup.ci95
    return claim_of(case) == ALIKE and ends is not None and ends[0] * (1 + MARGIN) >= 1 and ends[1] <= 1 + MARGIN


def _is_slower(case: Case) -> bool:
    ends = None if case.speedup is None else case.speedup.ci95
    return not case.noisy and ends is not None and ends[1] < 1


def _figures(cases: Iterable[Case]) -> str:
    """How many times as fast as `cpu-tensors` modes are; of the slower ones that they are."""
    known = [(_is_slower(it), it.mode, it.speedup) for it in cases if it.speedup is not None]
    said = (
        f"{mode} {'is slower, ' * slower}{times(of)}{within(of.ci95, digits)}"
        for slower, mode, of in sorted(known, key=itemgetter(0))
    )
    return "; ".join(said)


def claims_text(claims: Iterable[tuple[str, Claim]]) -> str:
    """What is said of modes compared with `cpu-tensors`: ``a is slower; b and c do not differ measurably``."""
    return "; ".join(f"{names} {_CLAIMS[found][many > 1]}" for names, many, found in merged(claims))


_CLAIMS = {
    FASTER: ("is faster", "are faster"),
    SLOWER: ("is slower", "are slower"),
    ALIKE: ("does not differ measurably", "do not differ measurably"),
    UNKNOWN: ("has too few blocks to tell", "have too few blocks to tell"),
    NOISY: ("differs by less than noise can make here", "differ by less than noise can make here"),
}


def _replacement(result: Result, best: Fastest) -> Finding:
    """The fastest of the modes that take new inputs and return outputs in each unit of work."""
    what = f"{best.mode} is {times_as_fast(best.speedup, CPU)} with {takes(result, best.mode)}"
    if best.claim in (UNKNOWN, NOISY):
        return unsure(result, best.case, what)
    if best.claim != FASTER:
        what = f"No mode with {takes(result)} is {BY_MARGIN} faster than {CPU}"
        cases = compared(result, on_device=False)
        return _to_tell(result, cases) or Finding(what, _figures(cases), weight=Weight.ANSWER)
    alike = f"; {listed(best.ties)} {are(len(best.ties))} not measurably slower" if best.ties else ""
    program = how_to_write(result, best.mode)
    return Finding(what, f"{_instead(result, best.case)}{alike}", program, Weight.ANSWER, "good")


def _kept(result: Result, kept: Fastest, best: Fastest | None, more: str) -> Finding:
    """What keeping tensors on the device brings."""
    needs = condition(result, kept.mode)
    if kept.claim in (UNKNOWN, NOISY):
        return unsure(result, kept.case, f"{kept.mode} is {times_as_fast(kept.speedup, CPU)},{needs}")
    if kept.claim != FASTER:
        what = f"{kept.mode} is not {BY_MARGIN} faster than {CPU}, even{needs}"
        return Finding(what, times_as_fast(kept.speedup, CPU), weight=Weight.ANSWER)
    said, on_top = on_device(result, kept, best)
    took = _instead(result, kept.case)
    if not on_top and best is not None and (more_times := over(best.case, kept.case)) is not None:
        three = ((it, result.median(it, LATENCY)) for it in (kept.mode, best.mode, CPU))
        took = ", ".join(f"{mode} {duration(ns)}" for mode, ns in three if ns is not None)
        took = f"{times_as_fast(more_times, best.mode)}; {took}"
    evidence = "; ".join(filter(None, (took, more)))
    if not on_top:
        return Finding(f"{kept.mode} is {said}", evidence, weight=Weight.COST)
    return Finding(f"{kept.mode} is {said},{needs}", evidence, how_to_write(result, kept.mode), Weight.ANSWER, "good")


def on_device(result: Result, kept: Fastest, best: Fastest | None) -> tuple[str, bool]:
    """How many times as fast a mode is whose tensors stay on the device, against `cpu-tensors` and the best mode that can replace
    that; whether it is the faster one."""
    both = f"{times(kept.speedup)} as fast as {CPU}"
    more = None if best is None or best.claim != FASTER else over(best.case, kept.case)
    if best is None or more is None:
        return f"{both}{within(kept.speedup.ci95, digits)}", True
    verdict = claim_between(result, best.case, kept.case, more, MARGIN)
    if verdict != NOISY and seems_faster(more, MARGIN):
        return f"{both} and {times(more)} as fast as {best.mode}", True
    return f"{both} but {'slower' if verdict == SLOWER else f'not {BY_MARGIN} faster'} than {best.mode}", False


def _instead(result: Result, case: Case) -> str:
    """The latency of a mode, and that of `cpu-tensors`."""
    ours, theirs = case.median(LATENCY), result.median(CPU, LATENCY)
    return "" if ours is None or theirs is None else f"{duration(ours)} instead of {duration(theirs)}"


def _word(case: Case) -> str:
    return "slower" if case.speedup is not None and case.speedup.value < 1 else "faster"


def _beside_noise(result: Result, said: str, cases: Sequence[Case]) -> str:
    """What is said of cases that noise left undecided, and what it can have made of it."""
    base = result.case(CPU)
    compared_with = [] if base is None else [base]
    return said if result.noise is None else f"{said}; {made_by_noise(result.noise, [*cases, *compared_with])}"


def unsure(result: Result, case: Case, what: str) -> Finding:
    """That nobody can tell whether a mode is faster than `cpu-tensors`, of which its figures say `what`."""
    if case.noisy:
        return Finding(
            cannot_tell(f"whether {case.mode} is {_word(case)} than {CPU}"),
            _beside_noise(result, what, [case]),
            "",
            Weight.ANSWER,
            "unclear",
        )
    return Finding(what, TOO_FEW, more_rounds(result, PAIRS), Weight.ANSWER, "unclear")
