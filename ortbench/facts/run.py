"""The facts of single inferences: copies, the two speedups, the other modes, how modes were checked; and all facts of a result, by its kind, with
what people see of them. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from statistics import median

from ortbench.analysis.advice import Finding, again, carried_out, how_to_write, inside, lever, loop_command
from ortbench.analysis.derive import STILL, cpu_time_ns, may_spin
from ortbench.analysis.feedback_pairs import suggest_loop
from ortbench.analysis.intervals import ENDED_BY_TIME, MARGIN, PAIRS, by_round
from ortbench.analysis.noise import more_rounds, supports_within
from ortbench.analysis.speedups import (
    ALIKE,
    COPIED,
    FASTER,
    NOISY,
    SLOWER,
    UNCERTAIN,
    UNCLEAR,
    UNKNOWN,
    Fastest,
    claim,
    claim_between,
    claim_of,
    compared_modes,
    fastest,
    handing_on,
    is_on_host,
    may_be_faster,
    other_work,
    part_saved,
    replaceable_tensors,
    residency_condition,
    speedup_between,
)
from ortbench.core.features import part_of
from ortbench.core.stats import FEW, Value, percentile
from ortbench.facts import (
    Fact,
    Quantity,
    Values,
    certificate_facts,
    doubt_facts,
    engine_facts,
    host_facts,
    latency,
    node_facts,
    noise_facts,
    ns,
    per_s,
    placement_facts,
    record,
    share,
    thread_facts,
    times,
)
from ortbench.facts.sentences import in_order, phrase, sentence_of
from ortbench.model.kinds import kind_of
from ortbench.model.modes import (
    COPY_SHARE,
    COPY_TIME,
    CPU,
    HIDDEN_SHARE,
    HOST_ACCESSIBLE,
    LATENCY,
    MISSED_STARTS,
    MODES,
    PACED,
    PACED_CPU_TIME,
    PACED_RATIO,
    PER_ITEM,
    PIPELINE_SPEEDUP,
    STEP,
    THROUGHPUT,
    mode_of,
)
from ortbench.model.result import OK, RUN, Case, Result


def run_facts(result: Result) -> Iterator[Fact]:
    if is_on_host(result):
        yield from _latency(result)
    else:
        yield from _arrays(result)
        yield from copy_facts(result)
    yield from pace_facts(result)
    yield from speedup_facts(result)
    yield from _pipeline(result)
    yield from _checks(result)
    yield from _step(result)


def _latency(result: Result) -> Iterator[Fact]:
    """What an inference takes where nothing crosses a link, and the next thing to try."""
    case = result.case(CPU)
    if case is not None and case.status == OK and case.stats(LATENCY) is not None:
        rate = per_s(case.value(THROUGHPUT) or 0)
        yield Fact("latency", "known", CPU, {"latency": latency(case), "rate": rate}, lever(result))


def _arrays(result: Result) -> Iterator[Fact]:
    """Whether ONNX Runtime copies arrays at all, of an EP whose memory the host reaches."""
    found = handing_on(result)
    if found is not None and found.verdict not in (COPIED, UNCLEAR):
        values: Values = {
            "ep": result.target["ep"],
            "with": ns(found.with_arrays),
            "without": ns(found.without),
            "copies": ns(found.copies),
        }
        yield Fact("arrays", "in-place" if found.proved else "passed", CPU, values)


def copy_share(result: Result) -> float | None:
    """Which share of the latency of `cpu-tensors` is copies: 0 where they cannot be measured, None where nobody can tell."""
    cpu, resident = _with_and_without_copies(result)
    copied = None if cpu is None or resident is None else cpu.value(COPY_SHARE)
    if copied is None or resident is None or resident.noisy:
        return None
    found = claim(resident.speedup, 0)
    return None if found == UNKNOWN else copied if found == FASTER else 0.0


def copy_facts(result: Result) -> Iterator[Fact]:
    copied = copy_share(result)
    cpu, resident = _with_and_without_copies(result)
    if copied is None or cpu is None or resident is None:
        return
    copies, total = cpu.value(COPY_TIME), cpu.median(LATENCY)
    if not copied and may_be_faster(resident.speedup):
        return  # which the speedups say
    if not copied or copies is None or not total:
        yield Fact("copies", "none", CPU, {"latency": latency(cpu)})
        return
    ends = None if resident.speedup is None else resident.speedup.ci95
    interval = None if ends is None else (total * part_saved(ends[0]), total * part_saved(ends[1]))
    mixed = resident.is_read_back or other_work(result, copies) is not None
    values: Values = {
        "share": share(copies / total, derived=True),
        "copies": ns(copies, interval, derived=True),
        "latency": ns(total),
    }
    yield Fact("copies", "mixed" if mixed else "measured", CPU, values)


def _with_and_without_copies(result: Result) -> tuple[Case | None, Case | None]:
    """The mode that all are compared with, and the one whose latency is this one's without its copies."""
    return result.case(CPU), result.case(MODES[CPU].without_copies)


def _pipeline(result: Result) -> Iterator[Fact]:
    for case in filter(None, (result.case(it.name) for it in MODES.values() if it.figure == PER_ITEM)):
        if case.pipeline is None or case.value(THROUGHPUT) is None:
            continue
        values: Values = {"rate": per_s(case.value(THROUGHPUT) or 0), "depth": case.pipeline["depth"]}
        hidden = case.metrics.get(HIDDEN_SHARE)
        if isinstance(hidden, Value) and hidden.ci95 is not None:
            values["hidden"] = share(hidden.value, derived=True)._replace(ci95=hidden.ci95)
        like, against = result.case(mode_of(case.mode).like), case.metrics.get(PIPELINE_SPEEDUP)
        if like is None or not isinstance(against, Value):
            continue
        verdict = claim_between(result, like, case, against)
        values |= {"speedup": times(against), "base": like.mode}
        yield Fact(
            "pipeline", verdict, case.mode, values, how_to_write(result, case.mode) if verdict == "faster" else ""
        )


# Inferences, or steps of a loop, that begin at set moments

# From which share of a core on threads burn CPU time while they wait, and what waking up takes at most, ns.
_BURNT, _WAKING_NS = 0.05, 200_000
_PACED_STARTS, _MOST = 4, 0.5  # of a block, at least; the share of missed ones from which on a mode does not keep up


def pace_facts(result: Result, case: Case | None = None) -> Iterator[Fact]:
    """How long the mode that is told takes where one begins at set moments, compared with back to back, and what CPU time goes meanwhile."""
    if case is None:
        best = fastest(result)
        case = best.case if best is not None and best.is_faster else result.case(CPU)
    every_ns = result.setup.get("every_ns")
    if case is None or every_ns is None:
        return
    paced, found = case.stats(PACED), case.metrics.get(PACED_RATIO)
    if paced is None or not isinstance(found, Value):
        return
    what = STEP if STEP in case.blocks else "inference"
    stat = next((it for it in ("p99", "p95") if percentile(paced, it) is not None), "max")
    values: Values = {"what": what, "every": ns(every_ns), "ratio": times(found)}
    if (missed := case.stats(MISSED_STARTS)) and missed.mean > 0:
        verdict = "most" if missed.mean > _MOST else "some"
        yield Fact("missed-starts", verdict, case.mode, {**values, "missed": share(missed.mean)})
    values |= {
        "paced": ns(paced.median, paced.ci95), "stat": stat, "tail": ns(getattr(paced, stat)), "back_to_back": ns(paced.median / found.value),
    }  # fmt: skip
    opposite = {FASTER: SLOWER, SLOWER: FASTER}
    verdict = str(opposite.get(claim(found), claim(found)))  # a ratio of times
    after, before = by_round(case, PACED), by_round(case, STEP if what == STEP else LATENCY)
    shown = {number: median(after[number]) > median(before[number]) for number in after.keys() & before.keys()}
    if verdict != UNKNOWN and not supports_within(result, case, (found.ci95 or (1.0,))[0], shown):
        verdict = NOISY
    longer_s = math.ceil(PAIRS * max(2.0, _PACED_STARTS * every_ns / 1e9))
    longer = again(result, "--duration", f"{longer_s}s") if verdict in (UNCERTAIN, UNKNOWN) else ""
    yield Fact("pace", verdict, case.mode, values, longer)
    yield from _burnt(result, case, what, every_ns, paced.median)


def _burnt(result: Result, case: Case, what: str, every_ns: int, paced_ns: float) -> Iterator[Fact]:
    """That threads spin until the next one begins, which takes more CPU time than it can take itself."""
    spent, alone = case.stats(PACED_CPU_TIME), case.value("step_cpu_time") if what == STEP else cpu_time_ns(case)
    if spent is None or alone is None or not may_spin(result):
        return
    if spent.ci95[0] > alone + paced_ns + _WAKING_NS + _BURNT * every_ns:
        values: Values = {
            "what": what, "every": ns(every_ns), "cpu": ns(spent.mean), "cores": Quantity(spent.mean / every_ns, "1"), "back_to_back": ns(alone),
        }  # fmt: skip
        yield Fact("paced-cpu", "burns", case.mode, values, again(result, *STILL))


def _checks(result: Result) -> Iterator[Fact]:
    """What was checked of a mode and could not be verified; what could is in the table of checks."""
    for case in result.cases:
        for name in ("zero_copy", "external", "graph"):
            check = case.checks.get(name)
            if case.status == OK and check is not None and case.median(LATENCY) is not None:
                verdict = "verified" if check["verdict"] == "passed" else "not-verified"
                yield Fact(name.replace("_", "-"), verdict, case.mode, {"how": str(check.get("how"))})


def _step(result: Result) -> Iterator[Fact]:
    """That the model looks like a step of a loop, whose state other commands feed back."""
    found = suggest_loop(result.model["inputs"], result.model["outputs"], partial(loop_command, carried_out(result)))
    if found is not None and found["sure"]:
        feedback = [" → ".join(it) for it in found["patterns"]]
        yield Fact("step-of-a-loop", "likely", "", {"feedback": feedback}, found["command"])


# The two speedups, never mixed: of modes that can replace each other, and of those whose tensors stay on the device


_FAR, _TIMES_LONGER = 1.1, 4  # from where on an interval leaves much open; as long makes it half as wide
_NOT_TIMED = ", written and read in place (not timed)"
_LITTLE = 1.05  # a gain that is at most so is not worth another program, whatever it is
_LONGER = "5s"  # of each mode, where a run ended when processes agreed, or did not
MORE_PROCESSES = 15  # whose figures have half the interval of those of five


def speedup_facts(result: Result) -> Iterator[Fact]:
    """First the fastest of the modes that can replace each other, then what keeping tensors on the device brings, against `cpu-tensors`
    and that one."""
    cases = compared_modes(result)
    if cases and all(claim_of(it) in (ALIKE, SLOWER, UNCERTAIN) for it in cases):
        yield _none_faster(result, cases)
        return
    best, kept = fastest(result, on_device=False), fastest(result, on_device=True)
    if best is not None:
        yield _replacement(result, best)
    if kept is not None:
        yield _residency(result, kept, best)


def _none_faster(result: Result, cases: Sequence[Case]) -> Fact:
    """That no mode is faster than `cpu-tensors`, that all are the same, or that the intervals are too wide to tell."""
    tops = [it.speedup.ci95[1] for it in cases if it.speedup is not None and it.speedup.ci95 is not None]
    values: Values = {"margin": Quantity(MARGIN * 100, "%"), "most": times(max(tops, default=1.0))}
    if any(may_be_faster(it.speedup) for it in cases):
        if len(tops) == len(cases) and max(tops) <= _LITTLE:
            return Fact("modes", "little", "", values, "" if is_on_host(result) else inside(result))
        return Fact("modes", "open", "", values, _to_tell(result, cases))
    medians = [ns_ for it in (result.case(CPU), *cases) if it is not None and (ns_ := it.median(LATENCY)) is not None]
    if len(cases) > 1 and all(claim_of(it) == ALIKE for it in cases) and max(medians) <= (1 + MARGIN) * min(medians):
        return Fact("modes", "same", "", {**values, "least": ns(min(medians)), "longest": ns(max(medians))})
    return Fact("modes", "none-faster", "", values, "" if is_on_host(result) else inside(result))


def _to_tell(result: Result, cases: Sequence[Case]) -> str:
    """The command that tells more; none where time was not the end, or where little is open and the run was no short one."""
    reason = None if result.stopped is None else result.stopped["reason"]
    if result.stopped is None or reason not in ENDED_BY_TIME:
        return ""
    if all(it.speedup is None or it.speedup.ci95 is None or it.speedup.ci95[1] <= _FAR for it in cases):
        return "" if reason == "duration" else again(result, "--duration", _LONGER)
    # Of several processes each is one observation of the interval.
    if FEW <= max(len(it.first_rounds) for it in cases) < MORE_PROCESSES:
        return again(result, "--processes", str(MORE_PROCESSES))
    return again(result, "--duration", f"{math.ceil(_TIMES_LONGER * result.stopped.get('value', 1.0))}s")


def _values(result: Result, found: Fastest) -> Values:
    return {
        "speedup": times(found.speedup),
        "latency": latency(found.case),
        "base_latency": latency(result.case(CPU)),
        "takes": replaceable_tensors(result)
        + (_NOT_TIMED if found.mode == HOST_ACCESSIBLE and not kind_of(result.kind).counts_crossings else ""),
        "needs": residency_condition(result),
    }


def _replacement(result: Result, best: Fastest) -> Fact:
    """The fastest of the modes that take new inputs and return outputs in each unit of work."""
    if best.claim != FASTER:
        return _not_faster(result, "replacement", best, compared_modes(result, on_device=False))
    values = _values(result, best)
    if best.ties or best.rivals:
        values["ties"] = best.rivals or best.ties
    verdict = "faster-open" if best.rivals else "tied" if best.ties else "faster"
    return Fact("replacement", verdict, best.mode, values, how_to_write(result, best.mode))


def _not_faster(result: Result, code: str, found: Fastest, cases: Sequence[Case]) -> Fact:
    """That none of some cases is faster than `cpu-tensors`, or that nobody can tell."""
    values = _values(result, found)
    if found.claim in (UNKNOWN, NOISY):
        rounds = more_rounds(result, PAIRS) if found.claim == UNKNOWN else ""
        return Fact(code, found.claim, found.mode, values, rounds)
    if any(may_be_faster(it.speedup) for it in cases):
        return Fact(code, "open", found.mode, values, _to_tell(result, cases))
    return Fact(code, "none", found.mode, values)


def _residency(result: Result, kept: Fastest, best: Fastest | None) -> Fact:
    """What keeping tensors on the device brings."""
    if kept.claim != FASTER:
        return _not_faster(result, "residency", kept, [kept.case])
    values, program = _values(result, kept), how_to_write(result, kept.mode)
    more = None if best is None or best.claim != FASTER else speedup_between(best.case, kept.case)
    if best is None or more is None:
        return Fact("residency", "faster", kept.mode, values, program)
    values |= {"other": best.mode, "on_top": times(more)}
    verdict = residency_verdict(result, kept, best, more)
    return Fact("residency", verdict, kept.mode, values, program if verdict == "faster-on-top" else "")


def residency_verdict(result: Result, kept: Fastest, best: Fastest, more: Value) -> str:
    """What tensors on the device bring on top of the best mode that can replace `cpu-tensors`."""
    found = claim_between(result, best.case, kept.case, more)
    if found == FASTER:
        return "faster-on-top"
    is_open = found in (NOISY, UNKNOWN) or (found != SLOWER and may_be_faster(more))
    return "open-to-other" if is_open else "no-faster-than-other"


Rule = Callable[[Result], Iterator[Fact]]

_EACH: tuple[Rule, ...] = (
    thread_facts,
    noise_facts,
    doubt_facts,
    placement_facts,
    node_facts,
    lambda result: iter(certificate_facts([result])),
)


def _kind_rules(kind: str) -> tuple[Rule, ...]:
    """The rules of a kind's own figures."""
    of_feature = part_of(kind, "facts", "kind_facts")
    return (of_feature,) if of_feature else (run_facts, host_facts) if kind == RUN else ()


def put_findings(result: Result) -> None:
    """Put the facts of a result into it, as its file has them."""
    result.findings = [record(it) for it in facts_of(result)] if _kind_rules(result.kind) else None


def facts_of(result: Result) -> list[Fact]:
    """What a result says, the weightiest first; of one in which nothing was measured what is known all the same."""
    rules: tuple[Rule, ...] = (engine_facts, node_facts)
    if any(case.median(LATENCY) is not None for case in result.cases):
        rules = (*_EACH, *_kind_rules(result.kind), engine_facts)
    return in_order([fact for rule in rules for fact in rule(result)])


def headline(result: Result) -> str:
    """What there is to say first: the sentence of the weightiest fact."""
    facts = [it for it in facts_of(result) if it.code != "busy-machine"]
    if facts:
        return phrase(facts[0])
    return "No finding" if any(case.metrics for case in result.cases) else "Nothing was measured"


def placement_of(result: Result) -> list[Fact]:
    """Where nodes are and what Memcpy nodes copy, of a result beside others."""
    fallbacks = (it for it in node_facts(result) if it.code == "cpu-fallback")
    return in_order([*placement_facts(result), *fallbacks])


def repeated_warnings(facts: Sequence[Fact]) -> set[str]:
    """The codes of warnings of which facts say as much."""
    return {sentence_of(it).warning for it in facts}


def findings_of(facts: Sequence[Fact]) -> list[Finding]:
    """Facts with their sentences, for reports."""
    return [Finding(phrase(it), it.next, sentence_of(it).weight, sentence_of(it).tone) for it in facts]
