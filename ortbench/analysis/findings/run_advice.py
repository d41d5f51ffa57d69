"""What the figures of a run mean, from the result alone: copies, the two speedups, the other modes, how zero-copy was checked."""

from __future__ import annotations

import math
from functools import partial

from ortbench.analysis.comparing.claims import (
    BY_MARGIN,
    FASTER,
    MARGIN,
    NOISY,
    SLOWER,
    UNKNOWN,
    claim_between,
    claim_of,
    compared,
    fastest,
    is_faster,
    other_work,
    over,
    part_saved,
    seems_faster,
)
from ortbench.analysis.comparing.pairs import TOO_FEW
from ortbench.analysis.feedback_pairs import suggested
from ortbench.analysis.findings.finding import Command, Finding, Weight, merged
from ortbench.analysis.findings.phrases import NOTHING, quickest, times, times_as_fast, within
from ortbench.analysis.findings.program import carried_out, how_to_write, lever, loop_command
from ortbench.analysis.findings.speedups import condition, is_on_host, on_device, speedup_findings, stays_in_place
from ortbench.analysis.nodes.gpu_activity import cupti_findings
from ortbench.analysis.nodes.handing_on import COPIED, HANDED_ON, UNCLEAR, handing_on, is_only_host_accessible, once_ns
from ortbench.analysis.nodes.node_shares import copies_inside
from ortbench.analysis.noise import is_busy
from ortbench.core.safe_text import capitalized, listed, shortened
from ortbench.core.stats import SAMPLES_FOR, Value
from ortbench.core.units import count, digits, duration, durations, rate, share, size
from ortbench.model.modes import (
    COPIES_HIDDEN,
    COPY_SHARE,
    COPY_TIME,
    CPU,
    DEVICE,
    HIDDEN_SHARE,
    HOST_ACCESSIBLE,
    LATENCY,
    MODES,
    PER_ITEM,
    PER_RUN,
    PIPELINE_SPEEDUP,
    THROUGHPUT,
    is_rate,
    mode_of,
)
from ortbench.model.result import OK, Case, Result
from ortbench.model.schema import CaseCheck, LinkShare

_VAGUE = 0.5  # an interval that is wider says nothing about a share


def run_findings(result: Result) -> list[Finding]:
    host = is_on_host(result)
    return [
        *(_latency(result) if host else ()),
        *(_passing_through(result) if is_only_host_accessible(result) else ()),
        *([] if host else _copies(result)),
        *_speedups(result),
        *_slower(result),
        *_pinned(result),
        *_pipeline(result),
        *_bursts(result),
        *([] if host else cupti_findings(result)),
        *_external(result),
        *_graphs(result),
        *([] if host else [*_zero_copy(result), *_link(result)]),
        *_state(result),
    ]


def _state(result: Result) -> list[Finding]:
    """That the model looks like a step of a loop, whose state other commands feed back."""
    model = result.model
    found = suggested(model["inputs"], model["outputs"], partial(loop_command, carried_out(result)))
    if found is None or not found["sure"]:
        return []
    what = f"The model looks like a step of a loop, {listed([' → '.join(it) for it in found['patterns']])}"
    return [Finding(what, "this is one step alone", Command(found["command"]), Weight.COST)]


def run_headline(result: Result) -> str:
    found = quickest(result)
    if found is None:
        return NOTHING
    best, kept = fastest(result, on_device=False), fastest(result, on_device=True)
    said = [f"{best.mode} is {times(best.speedup)} as fast"] if best is not None and best.claim == FASTER else []
    if kept is not None and kept.claim == FASTER and on_device(result, kept, best)[1]:
        is_again = "" if said else "is "
        said.append(
            f"{kept.mode} {is_again}{times(kept.speedup)}{'' if said else ' as fast'}{condition(result, kept.mode)}"
        )
    answer = ", ".join(said)
    if is_on_host(result):
        return _of_host(result, answer, found)
    passed = handing_on(result)
    if passed is not None and passed.verdict == HANDED_ON:
        whose = (
            f"{result.target['ep']} reads arrays in place" if passed.proved else "ONNX Runtime passes arrays through"
        )
        return f"{whose}: {CPU} copies nothing{f'; {answer}' if answer else ''}"
    if hidden := _hides_copies(result):
        return f"An inference takes {duration(result.median(CPU, LATENCY) or 0)} with {CPU}; {hidden} what copies take"
    copied = copy_share(result)
    if copied is None:
        return _of_one(result)
    if copied == 0:
        nothing = f"Copies{where(result)} take no measurable part of the latency of {CPU}"
        return f"{nothing}, {duration(result.median(CPU, LATENCY) or 0)}{f'; {answer}' if answer else ''}"
    unsure = "" if _has_interval(_with_and_without_copies(result)[1]) else f"; {TOO_FEW}"
    return (
        f"Copies{where(result)} take ≈{share(copied)} of the latency of {CPU}{f': {answer}' if answer else ''}{unsure}"
    )


def _of_one(result: Result) -> str:
    """The latency, where nothing is compared; of modes of several inferences in a call alone their rate."""
    cases = [it for it in result.at_point() if it.status == OK and it.median(LATENCY)]
    timed = [it for it in cases if not is_rate(it.mode, LATENCY)]
    case = min(timed or cases, key=lambda it: it.median(LATENCY) or 0)
    if not timed:
        return _completes(case)
    return f"An inference takes {duration(case.median(LATENCY) or 0)} with {case.mode}"


def _completes(case: Case) -> str:
    return f"{case.mode} completes {rate(case.value(THROUGHPUT) or 0)} inferences/s"


def _of_host(result: Result, answer: str, found: tuple[Case, float]) -> str:
    """The latency on an EP that computes in host memory, and what to do about it."""
    ns = result.median(CPU, LATENCY)
    if ns is None:
        return f"An inference takes {duration(found[1])} with {found[0].mode}"
    said = f"An inference takes {duration(ns)} with {CPU}"
    if answer:
        return f"{said}; {answer}"
    none = f"; {NOISY} whether a mode is faster" if any(it.noisy for it in compared(result)) else ""
    none = none or (f"; no mode is {BY_MARGIN} faster" if compared(result) else "")
    return f"{said}{none}"


def where(*results: Result) -> str:
    """Which copies they are that modes make, where there are others."""
    return " of inputs and outputs" if any(map(copies_inside, results)) else ""


# Host memory


def _latency(result: Result) -> list[Finding]:
    """What an inference takes, and the next thing to try: numbers of threads, then which operators take the time."""
    case = result.case(CPU)
    stats = None if case is None else case.stats(LATENCY)
    if case is None or stats is None:
        return []
    tail = f"p99 {duration(stats.p99)}, " if stats.n >= SAMPLES_FOR["p99"] else ""
    evidence = f"{tail}{rate(case.value(THROUGHPUT) or 0)} inferences/s"
    return [
        Finding(
            f"An inference takes {duration(stats.median)} with {CPU} on {result.target['ep']}",
            evidence, lever(result), Weight.ANSWER,
        )
    ]  # fmt: skip


# Copies


def _passing_through(result: Result) -> list[Finding]:
    found, ep = handing_on(result), result.target["ep"]
    if found is None or found.verdict == COPIED:
        return []
    evidence = (
        f"an inference takes {duration(found.with_arrays)} with arrays and {duration(found.without)} with tensors in the EP's "
        f"memory; one copy in and out takes {duration(found.copies)}"
    )
    if found.verdict == UNCLEAR:
        what = f"Whether ONNX Runtime copies the arrays of {CPU} cannot be told from the times"
        return [Finding(what, evidence, weight=Weight.COST, tone="unclear")]
    meaning = f"{CPU} is zero-copy on {ep}" if found.proved else f"{ep} may still copy them itself"
    return [Finding(f"ONNX Runtime passes arrays through without a copy, {meaning}", evidence, weight=Weight.ANSWER)]


def _copies(result: Result) -> list[Finding]:
    copied = copy_share(result)
    if copied is None:
        return []
    cpu, resident = _with_and_without_copies(result)
    copies = None if cpu is None else cpu.value(COPY_TIME)
    total = None if cpu is None else cpu.median(LATENCY)
    said = f"Copies{where(result)} take"
    if copied == 0 or copies is None or total is None:
        return [
            Finding(f"{said} no measurable part of the latency of {CPU}", _resident_is(resident), weight=Weight.ANSWER)
        ]
    unsure = "" if _has_interval(resident) else f"; {TOO_FEW}"
    ends = () if resident is None or resident.speedup is None else resident.speedup.ci95 or ()
    low, high = (total * part_saved(it) for it in ends) if ends else (math.inf, 0.0)
    is_wide = low <= copies <= high and high - low > _WIDE * copies
    of = f" (95% CI {durations((low, high))})" if is_wide else ""
    evidence = (
        f"≈{duration(copies)}{of} of {duration(total)}, the latency less that of {MODES[CPU].without_copies}{unsure}"
    )
    is_read_back = resident is not None and resident.is_read_back
    other = other_work(result, copies)
    evidence += ", which has a read-back in it" if is_read_back else ""
    if other is not None:
        evidence += f"; it is at least {duration(other)} above that of {DEVICE}, which copies as much: other work or slower copies"
    if is_read_back or other is not None:
        said = f"Copies{where(result)}, and what else session.run does, take"
    return [Finding(f"{said} ≈{share(copies / total)} of the latency of {CPU}", evidence, weight=Weight.ANSWER)]


_WIDE = 0.1  # of what copies take, from which on its interval is told


def _resident_is(resident: Case | None) -> str:
    return (
        ""
        if resident is None or resident.speedup is None
        else f"{resident.mode} is {times_as_fast(resident.speedup, CPU)}"
    )


def copy_share(result: Result) -> float | None:
    """Which share of the latency of `cpu-tensors` is copies: 0 where they cannot be measured, None where nobody can tell."""
    cpu, resident = _with_and_without_copies(result)
    copied = None if cpu is None or resident is None else cpu.value(COPY_SHARE)
    if copied is None or resident is None or _hides_copies(result):
        return None
    return copied if seems_faster(resident.speedup) else 0.0


def _hides_copies(result: Result) -> str:
    """Why nobody can tell what copies take: the machine was too busy, or blocks are too few; nothing where one can."""
    cpu, resident = _with_and_without_copies(result)
    if cpu is None or cpu.value(COPY_SHARE) is None or resident is None:
        return ""
    if resident.noisy:
        return NOISY
    return "too few blocks to tell" if claim_of(resident) == UNKNOWN and not is_faster(resident) else ""


def _with_and_without_copies(result: Result) -> tuple[Case | None, Case | None]:
    """The mode that all are compared with, and the one whose latency is this one's without its copies."""
    return result.case(CPU), result.case(MODES[CPU].without_copies)


def _has_interval(case: Case | None) -> bool:
    """Whether noise was told from what a mode gains over `cpu-tensors`."""
    return case is not None and case.speedup is not None and case.speedup.ci95 is not None


# The two speedups


def _speedups(result: Result) -> list[Finding]:
    told = MODES[CPU].without_copies if copy_share(result) == 0 else None  # the copies say of it what there is to say
    return [*speedup_findings(result, told=told), *_break_even(result)]


def _break_even(result: Result) -> list[Finding]:
    """From which inference on one copy in and out has paid off; nothing where a mode that can replace `cpu-tensors` is as fast."""
    cpu, resident = _with_and_without_copies(result)
    once = None if resident is None else once_ns(resident)
    kept = fastest(result, on_device=True)
    if cpu is None or resident is None or kept is None or not once or claim_of(resident) != FASTER:
        return []
    if not on_device(result, kept, fastest(result, on_device=False))[1]:
        return []
    saved, total, ends = cpu.value(COPY_TIME) or 0, cpu.median(LATENCY) or 0, resident.speedup and resident.speedup.ci95
    sure = saved if not ends else min(saved, total * part_saved(ends[0]))  # by the lower end of the speedup
    if sure <= 0:
        return []
    # One inference with both copies is `device-tensors`: where that was measured and is not faster, the first does not pay.
    one = result.case(DEVICE)
    least = 2 if one is not None and one.speedup is not None and not is_faster(one) else 1
    first = max(least, math.floor((once + MARGIN * total) / sure) + 1)  # what is less than the margin is no gain
    what = f"{resident.mode} pays off from inference {first} on at the latest"
    evidence = (
        f"copying in before the first inference and out after the last takes {duration(once)} (timed once), "
        f"in each inference of {CPU} ≈{duration(saved)}"
    )
    return [Finding(what, evidence, weight=Weight.COST)]


_SLOWER = 0.9  # times as fast, from which down a mode that saves copies, or their time, is told of
_OVER_LINK = "; kernels may fetch host memory over the link each time that they read it"


def _slower(result: Result) -> list[Finding]:
    """The modes that are to be faster than another one, without its copies or with pinned memory, and are slower."""
    found = []
    for case in result.at_point():
        mode = mode_of(case.mode)
        base = result.case(mode.like if mode.pinned else CPU)
        if case.status != OK or base is None or not (mode.pinned or mode.only):
            continue
        theirs, ours = base.median(LATENCY), case.median(LATENCY)
        speedup, verdict = case.speedup, claim_of(case)
        if base.mode != CPU:
            speedup = over(base, case)
            verdict = claim_between(result, base, case, speedup)
        if verdict != SLOWER or speedup is None or speedup.value > _SLOWER or theirs is None or ours is None:
            continue
        why = _OVER_LINK if case.mode == HOST_ACCESSIBLE and not stays_in_place(result) else ""
        found.append(
            Finding(
                f"{case.mode} is slower: {times_as_fast(speedup, base.mode)}",
                f"{duration(ours)} instead of {duration(theirs)}{why}",
                f"prefer {base.mode} to {case.mode} for this model and these shapes",
                tone="bad",
            )
        )
    return found


# Modes with several inferences in a call, pinned memory


def _of_figure(result: Result, figure: str) -> list[Case]:
    """The modes with a figure of a kind that are ok and were measured."""
    found = [case for name, mode in MODES.items() if mode.figure == figure and (case := result.case(name))]
    return [case for case in found if case.value(THROUGHPUT) is not None]


def _pipeline(result: Result) -> list[Finding]:
    found = []
    for case in _of_figure(result, PER_ITEM):
        if case.pipeline is None:
            continue
        what, pays = _completes(case), False
        if isinstance(against := case.metrics.get(PIPELINE_SPEEDUP), Value):
            like = mode_of(case.mode).like
            verdict = claim_between(result, result.case(like) or case, case, against, MARGIN)
            sure = f"; {NOISY} whether that is so" if verdict == NOISY else ""
            what, pays = f"{what}, {times_as_fast(against, like)}{sure}", verdict == FASTER
        evidence = f"{case.pipeline['depth']} in flight{_hidden(case)}; this is throughput, not latency"
        if case.pipeline["distinct"] == 1:
            evidence += "; all inferences had the same inputs, so mixed-up outputs would not show"
        found.append(Finding(what, evidence, how_to_write(result, case.mode) if pays else ""))
    return found


def _hidden(case: Case) -> str:
    part, hidden_ns, copies_ns = case.metrics.get(HIDDEN_SHARE), case.value(COPIES_HIDDEN), case.value(COPY_TIME)
    if not isinstance(part, Value) or part.ci95 is None or hidden_ns is None or copies_ns is None:
        return ""
    low, high = part.ci95
    if high - low > _VAGUE:
        return f", too much noise to tell which share of the copies ({duration(copies_ns)} per inference) overlaps inference"
    return f", ≈{share(part.value)}{within((low, high), share)} of the copies overlaps inference, ≈{duration(hidden_ns)} of {duration(copies_ns)}"


def _bursts(result: Result) -> list[Finding]:
    found = []
    for case in _of_figure(result, PER_RUN):
        what = f"{_completes(case)}{condition(result, case.mode)}"
        evidence = f"one synchronization per {case.inferences_per_sample} inferences"
        waited = result.case(like := mode_of(case.mode).like)
        if waited is not None and (per_s := waited.value(THROUGHPUT)) is not None:
            evidence += f", where {like} with one per inference completes {rate(per_s)}"
        found.append(Finding(what, f"{evidence}; this is throughput, not latency", weight=Weight.COST))
    return found


def _pinned(result: Result) -> list[Finding]:
    found = []
    for mode in MODES.values():
        both = (result.case(mode.like), result.case(mode.name)) if mode.pinned and mode.times_copies else ()
        taken, pinned = [None if case is None else case.copy_ns() for case in both] or (None, None)
        if taken is not None and pinned is not None:
            what = f"Copies from and to pinned memory take {duration(pinned)}, from and to pageable memory {duration(taken)}"
            pays = pinned * (1 + MARGIN) <= taken
            found.append(
                Finding(
                    what,
                    f"pinned is {times(taken / max(pinned, 1))} as fast",
                    how_to_write(result, mode.name) if pays else "",
                )
            )
    return found


# How modes were checked


def _checked(result: Result, name: str) -> list[tuple[str, CaseCheck]]:
    """What was verified under a name, with the mode."""
    return [(case.mode, it) for case in result.cases if case.status == OK and (it := case.checks.get(name)) is not None]


def _verified(passed: bool) -> tuple[str, Weight, str]:
    return ("", Weight.DETAIL, "") if passed else ("not ", Weight.COST, "unclear")


def _zero_copy(result: Result) -> list[Finding]:
    found = []
    for mode, it in _checked(result, "zero_copy"):
        if result.median(mode, LATENCY) is not None:
            no, weight, tone = _verified(it["verdict"] == "passed")
            found.append(Finding(f"{mode} is {no}verified as zero-copy", str(it.get("how")), weight=weight, tone=tone))
    return found


def _external(result: Result) -> list[Finding]:
    checks = (
        (mode, (it["library"], it["place"], it["how"], it["verdict"])) for mode, it in _checked(result, "external")
    )
    found = []
    for modes, _, (library, place, how, verdict) in merged(checks):
        no, weight, tone = _verified(verdict == "passed")
        what = f"Inputs in {library}'s memory ({place}) are {no}verified as bound without a copy in {modes}"
        found.append(Finding(what, str(how), weight=weight, tone=tone))
    return found


def _graphs(result: Result) -> list[Finding]:
    checks = _checked(result, "graph")
    if not checks:
        return []
    modes = ", ".join(mode for mode, _ in checks)
    unverified = merged((mode, str(it["how"])) for mode, it in checks if it["verdict"] != "passed")
    return [
        Finding(f"{count(len(checks), 'mode')} replayed captured graphs", f"{modes}; the others ran without", weight=Weight.DETAIL),
        *(
            Finding(f"Replays are not verified to read new inputs in {modes}", how, weight=Weight.COST, tone="unclear")
            for modes, _, how in unverified
        ),
    ]  # fmt: skip


# The link

_KNOWN = 1.5  # times its lower end, at most, the upper end of what copies take of which a rate is told
_STALE = 1.2  # copies this much faster than a bandwidth curve's say that it no longer holds


def _link(result: Result) -> list[Finding]:
    """How near to the link's limit the copies are, where a bandwidth curve says what that is."""
    if result.link is None:
        return []
    shares = [item for of_mode in result.link.get("shares", {}).values() for item in of_mode.items()]
    if _hides_copies(result) or not _are_known(result):
        shares = [(way, it) for way, it in shares if way != "both"]
    said = merged((_copied(way, it), _reach(it, "≈" if way == "both" else "")) for way, it in shares)
    if not said:
        return []
    stale = not is_busy(result) and any(it["of_sweep"] > _STALE for _, it in shares)
    text = "; ".join(f"{what} {reach}" for what, _, reach in said)
    evidence = (
        f"compared with single copies of that size and with the peak of the bandwidth curve in {shortened(result.link['from'])}, "
        f"measured on {result.link['created'][:10]}"
    )
    again_ = "measure the bandwidth curve again, copies are faster than it: ortbench bandwidth" if stale else ""
    return [Finding(capitalized(text), evidence, again_, Weight.DETAIL)]


def _are_known(result: Result) -> bool:
    """Whether the interval of what copies inside an inference take is narrow enough for a rate of them."""
    resident = result.case(MODES[CPU].without_copies)
    ends = None if resident is None or resident.speedup is None else resident.speedup.ci95
    return ends is None or (ends[0] > 1 and part_saved(ends[1]) < _KNOWN * part_saved(ends[0]))


def _copied(way: str, share: LinkShare) -> str:
    """Which copies, and how much they copy: one tensor's bytes, or those of several."""
    if way == "both":
        return f"copies inside an inference with {CPU} (and what else session.run does)"
    amount = size(share["bytes"])
    return f"{way.upper()} copies of {amount if share['copies'] == 1 else _in_all(share['copies'], amount)}"


def _in_all(copies: int, amount: str) -> str:
    return f"{copies} tensors, {amount} in all,"


def _reach(share: LinkShare, mark: str) -> str:
    """The rate of copies and its shares; `mark` stands before what was derived."""
    rate = f"{mark}{digits(share['bytes'] / share['took_ns'])} GB/s"
    curve, peak = (f"{mark}{it:.0%}" if it >= 0.005 else "less than 1%" for it in (share["of_sweep"], share["of_peak"]))
    return f"run at {rate} ({curve} of the bandwidth curve, {peak} of the link's peak)"
