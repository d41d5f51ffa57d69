"""What the figures of a loop mean, from the result alone."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from ortbench.analysis.comparing.claims import (
    ALIKE,
    BY_MARGIN,
    FASTER,
    NOISY,
    UNKNOWN,
    Fastest,
    claim_between,
    fastest,
    over,
)
from ortbench.analysis.findings.finding import Command, Finding, Weight, merged
from ortbench.analysis.findings.phrases import NOTHING, quickest, times, times_as_fast, within
from ortbench.analysis.findings.program import both_steps, lever, step_nodes
from ortbench.analysis.findings.speedups import is_on_host, on_device, speedup_findings
from ortbench.analysis.noise import allows_within, cannot_tell, is_busy
from ortbench.analysis.steps_and_stages import (
    Jump,
    decode_humps,
    depth_of,
    growth_ns,
    is_first_apart,
    jumps,
    law,
    rounds_that_jump,
    warm_steps,
)
from ortbench.core.stats import Value
from ortbench.core.units import duration, rate, share, size
from ortbench.model.modes import CPU, LATENCY, SHARED, mode_of
from ortbench.model.result import OK, Case, Result
from ortbench.model.schema import Generation, Loop

_ENOUGH_STEPS = 3  # so many tell whether steps get longer

RESIDENT = mode_of(CPU).without_copies  # in which the state stays on the device


def loop_findings(result: Result, loop: Loop) -> list[Finding]:
    if result.generation:
        return [
            *_tokens(result, loop),
            *_speedups(result, loop),
            *_shared(result),
            *_growth(result, loop),
            *_jumps(result, loop),
        ]
    return [
        *_rate(result), *_speedups(result, loop), *_shared(result), *_beside_state(result), *_growth(result, loop),
        *_jumps(result, loop), *_first(result, loop),
    ]  # fmt: skip


def loop_headline(result: Result) -> str:
    found = quickest(result)
    if found is None:
        return NOTHING
    if (said := tokens_text(result, _told_of(result, found[0]), short=True)) is not None:
        return said
    best = _best(result)
    if best is not None and best.claim == FASTER:
        state = " with its state on the device" if mode_of(best.mode).on_device and not is_on_host(result) else ""
        return f"{best.mode} runs the loop {times(best.speedup)} as fast as {CPU}{state}"
    same = "" if best is None or best.claim == UNKNOWN else f"; no mode is {BY_MARGIN} faster"
    if best is not None and best.claim == NOISY:
        same = f"; {NOISY} whether {best.mode} is faster"
    return f"{rate(found[0].value('step_throughput') or 0)} steps/s with {found[0].mode}{same}"


def _told_of(result: Result, quickest: Case) -> Case:
    """The mode whose rates are told: the fastest one where the figures say so, else `cpu-tensors`."""
    best = _best(result)
    return best.case if best is not None and best.is_faster else result.case(CPU) or quickest


def _best(result: Result) -> Fastest | None:
    """The fastest mode, but of those that can replace `cpu-tensors` unless keeping the state on the device makes it faster still."""
    best, kept = fastest(result, on_device=False), fastest(result, on_device=True)
    if best is not None and kept is not None and best.is_faster and not on_device(result, kept, best)[1]:
        return best
    return fastest(result)


def tokens_text(result: Result, case: Case, short: bool = False) -> str | None:
    """What llama-bench prints of a mode, in a sentence, and the first token; None of a loop that generates nothing. `short`: without the
    choice of tokens."""
    generation = result.generation
    prefill, decode, choosing = (
        case.value(key) for key in ("prefill_tokens_per_s", "decode_tokens_per_s", "next_token")
    )
    ttft = case.median("time_to_first_token")
    if generation is None or prefill is None or decode is None or ttft is None:
        return None
    depth = f" @ d{context}" if (context := generation.get("context", 0)) else ""
    pp, tg = f"pp{generation['prompt']}{depth}", f"tg{generation['tokens']}{depth}"
    known = case.metrics.get("decode_tokens_per_s")
    ends = known.ci95 if isinstance(known, Value) and not short else None
    lies = "" if ends is None or rate(ends[0]) == rate(ends[1]) else within(ends, rate)
    rates = f"{pp} {rate(prefill)} tokens/s, {tg} {rate(decode)} tokens/s{lies}{decode_text(case, generation)}"
    choice = "" if choosing is None or short else f"; choosing the next token on the host takes {duration(choosing)}"
    return f"{case.mode}: {rates}, first token after {duration(ttft)}{choice}"


def decode_text(case: Case, made: Generation) -> str:
    """Both decode rates of a mode whose times are bimodal, each with its share."""
    found = decode_humps(case)
    if found is None:
        return ""
    each, *both = found
    low, high = (f"{rate(made['batch'] * 1e9 / it.place)} tokens/s in {share(it.share)}" for it in both)
    return f", bimodal: {low} of {each} and {high}"


def _tokens(result: Result, loop: Loop) -> list[Finding]:
    """The rates of the fastest mode, and what tells more: on a device what takes the time of a step."""
    found = quickest(result)
    case = None if found is None else _told_of(result, found[0])
    said = None if case is None else tokens_text(result, case)
    if case is None or said is None:
        return []
    unsure = "unclear" if decode_humps(case) else ""
    next_ = lever(result) if is_on_host(result) else step_nodes(result, loop)
    return [Finding(said, next=next_, weight=Weight.ANSWER, tone=unsure)]


def _rate(result: Result) -> list[Finding]:
    """How fast the loop is where the EP computes in host memory: no state crosses a link, so that is what there is to know."""
    cpu = result.case(CPU)
    per_s = None if cpu is None else cpu.value("step_throughput")
    if cpu is None or per_s is None or not is_on_host(result):
        return []
    whole = duration(cpu.median(LATENCY) or 0)
    return [
        Finding(
            f"{CPU} runs {rate(per_s)} steps/s on {result.target['ep']}",
            f"{whole} per loop",
            lever(result),
            Weight.ANSWER,
        )
    ]


def _speedups(result: Result, loop: Loop) -> list[Finding]:
    """The fastest mode, and what keeping the state on the device brings."""
    kept = fastest(result, on_device=True)
    staying = "" if kept is None else _staying(result, loop, kept)
    return speedup_findings(result, staying)


def _staying(result: Result, loop: Loop, kept: Fastest) -> str:
    """Which state does not cross the link, and what each step copies all the same."""
    cpu = result.case(CPU)
    moved = None if cpu is None else state_bytes(cpu)
    if not moved or is_on_host(result):
        return ""
    average = " on average" if loop["grows"] else ""
    there, back = (_mean(kept.case.step_copies(key)) for key in ("step_h2d", "step_d2h"))
    crossing = " and ".join(f"{size(count)} {way}" for count, way in ((there, "H2D"), (back, "D2H")) if count)
    beside = f"; {crossing} per step cross the link and count as copied" if crossing else ""
    return f"{size(moved)} of state per step{average} stay on the device{beside}"


def _beside_state(result: Result) -> list[Finding]:
    """What is copied in a step though the state stays, and how it could stay too."""
    resident = result.case(RESIDENT)
    if resident is None or is_on_host(result) or not resident.steps_ns:
        return []
    there, back = _mean(resident.step_copies("step_h2d")), _mean(resident.step_copies("step_d2h"))
    ways = [f"{size(count)} {way}" for count, way in ((there, "H2D"), (back, "D2H")) if count]
    if not ways:
        return []
    hints = [
        *(["add --resident IN for an input that is the same in all steps"] if there else []),
        *(["add --keep OUT for an output that the host needs after the last step only"] if back else []),
    ]
    what = f"A step of {RESIDENT} copies {' and '.join(ways)}, of other tensors than the state"
    return [Finding(what, next=", ".join(hints), weight=Weight.COST)]


def state_bytes(case: Case) -> float | None:
    """What is copied both ways in a step because of the state, on average, bytes; None where not known."""
    means = [_mean(value) for value in (case.step_copies("state_h2d"), case.step_copies("state_d2h"))]
    known = [value for value in means if value is not None]
    return sum(known) if len(known) == len(means) else None


def _mean(value: int | Sequence[int] | None) -> float | None:
    return value if value is None or isinstance(value, int) else sum(value) / len(value)


def _growth(result: Result, loop: Loop) -> list[Finding]:
    """By how much a step takes longer with each step, where the state grows, and with which modes it does not."""
    if not loop["grows"]:
        return []
    apart, found, steady = is_first_apart(result), [], []
    for case in result.cases:
        if case.status != OK or not case.steps_ns or len(case.steps_ns) - apart < _ENOUGH_STEPS:
            continue
        leaps = jumps(case, apart)
        certain = all(_is_certain(result, case, it) for it in leaps)
        each = None if leaps else growth_ns(case)
        if each is not None:
            found.append(f"{duration(each)} per step with {case.mode}")
        else:
            steady.append(
                (case.mode, ("it jumps" if certain else "it may jump") if leaps else "no growth can be measured")
            )
    if not found:
        return []
    cpu = result.case(CPU)
    state = None if cpu is None else cpu.step_copies("state_h2d")
    line = law(state, False) if isinstance(state, list) else None
    why = [] if line is None or not line[1] else [f"the state grows by {size(line[1])} per step"]
    rest = [f"with {names} {said}" for names, _, said in merged(steady)]
    warm = max(warm_steps(len(it.steps_ns or ()), apart) for it in result.cases)
    after = f" after the first {'step' if warm == 1 else f'{warm} steps'}" if warm > apart else ""
    return [
        Finding(
            f"Steps get longer over depth{after}, on average by {', '.join(found)}",
            "; ".join([*why, *rest]),
            weight=Weight.COST,
        )
    ]


def _jumps(result: Result, loop: Loop) -> list[Finding]:
    """Where steps take longer or shorter at once, over depth, and what shows why, of the greatest."""
    made, of_place = result.generation, dict[tuple[int, bool], list[tuple[Case, Jump]]]()
    for case in result.cases:
        for it in jumps(case, is_first_apart(result)) if case.status == OK else ():
            of_place.setdefault((it.step, it.after > it.before), []).append((case, it))
    found, certain = list[Finding](), dict[float, tuple[int, int]]()
    for (step, longer), there in sorted(of_place.items()):
        what, place = "The time of a step", f"step {step:,}"
        if made is not None:
            what, place = "Inter-token latency", f"depth {depth_of(made, step):,}"
        sizes = ", ".join(f"from {duration(it.before)} to {duration(it.after)} with {case.mode}" for case, it in there)
        ratios = "; ".join(
            f"{case.mode} {it.size.ratio:.2f}×{within(it.size.ci95, '{:.2f}'.format)}" for case, it in there
        )
        verb = "jump" if longer else "drop"
        if all(_is_certain(result, case, it) for case, it in there):
            certain[max(max(it.size.ratio, 1 / it.size.ratio) for _, it in there)] = len(found), step
            found.append(Finding(f"{what} {verb}s {sizes}, at {place}", ratios, weight=Weight.COST))
        else:
            doubt = cannot_tell(f"whether {what[0].lower()}{what[1:]} {verb}s at {place}")
            found.append(Finding(doubt, f"{sizes}; {ratios}", weight=Weight.COST, tone="unclear"))
    if certain:
        at, step = certain[max(certain)]
        found[at] = found[at]._replace(next=both_steps(result, loop, step) or Command("ortbench explain jump"))
    return found


def _is_certain(result: Result, case: Case, jump: Jump) -> bool:
    """Whether noise of the machine cannot have made a jump."""
    if not is_busy(result):
        return True
    low, high = jump.size.ci95 or (1.0, 1.0)
    shown = rounds_that_jump(case, is_first_apart(result), jump)
    return allows_within(result, case, max(low, 1 / high), shown)


def _first(result: Result, loop: Loop) -> list[Finding]:
    """What the first step takes where it has a shape of its own, beside the median of the later ones."""
    first = loop["first"]
    timed = [(case.mode, case.steps_ns) for case in result.cases if case.status == OK and case.steps_ns]
    if not first or not timed:
        return []
    said = ", ".join(f"{name}={size}" for name, size in first.items())
    whole = ", ".join(f"{duration(ns[0])} with {mode}" for mode, ns in timed)
    later = ", ".join(f"{duration(median(ns[1:]))} with {mode}" for mode, ns in timed if ns[1:])
    evidence = f"a later step {later}" if later else ""
    return [Finding(f"The first step ({said}) takes {whole}", evidence, weight=Weight.DETAIL)]


def _shared(result: Result) -> list[Finding]:
    """What one buffer for past and present brings over two in turns."""
    case, other = result.case(SHARED.name), result.case(mode_of(SHARED.name).like)
    if case is None or other is None or (found := over(other, case)) is None:
        return []
    what = f"{SHARED.name} (one buffer for past and present) and {other.mode} (two in turns)"
    verdict = claim_between(result, other, case, found)
    if verdict in (ALIKE, UNKNOWN, NOISY):
        return [Finding(f"{what}: {NOISY if verdict == NOISY else ALIKE}", weight=Weight.DETAIL)]
    return [
        Finding(
            f"{SHARED.name} is {times_as_fast(found, other.mode)}", "one buffer for past and present, not two in turns"
        )
    ]
