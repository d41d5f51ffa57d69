"""The facts of loops and of decoders that generate: tokens, what keeping the state brings, growth and jumps over depth. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from ortbench.analysis.advice import Weight, again, lever
from ortbench.analysis.noise import is_busy, supports_within
from ortbench.analysis.speedups import FASTER, SLOWER, claim_between, fastest, is_on_host, speedup_between
from ortbench.core.stats import Value
from ortbench.facts import Fact, Quantity, Values, bytes_of, host_facts, latency, ns, times
from ortbench.facts.run import pace_facts, residency_verdict, speedup_facts
from ortbench.facts.sentences import Sentence
from ortbench.features.loop.analysis import (
    Jump,
    both_steps,
    depth_of,
    generation_of,
    inside,
    is_first_apart,
    jumps,
    rounds_that_jump,
)
from ortbench.features.loop.model import Generation
from ortbench.model.modes import CPU, LATENCY, RESIDENT, SHARED, STEP, mode_of
from ortbench.model.result import OK, Case, Result

_DETAIL, _COST, _GAIN, _ANSWER, _DOUBT = Weight


def kind_facts(result: Result) -> Iterator[Fact]:
    if (case := told_case(result)) is not None:
        yield from _facts_of(result, case)
    yield from host_facts(result)


def _facts_of(result: Result, case: Case) -> Iterator[Fact]:
    made = generation_of(result)
    if made is not None:
        yield from _tokens(result, case, made)
    elif is_on_host(result) and (rate := case.value("step_throughput")) is not None:
        values: Values = {"rate": Quantity(rate, "steps/s"), "latency": latency(case)}
        has_threads = result.target.get("intra_op_threads") is not None
        yield Fact(
            "steps", "known", case.mode, values, (not has_threads and lever(result)) or _pace_command(result, case)
        )
    yield from pace_facts(result, case)
    yield from speedup_facts(result)
    yield from _one_buffer(result)
    if made is None:
        yield from _beside_state(result)
    yield from _jumps(result)


_USUAL_MS = (32, 100, 1000)  # from one step to the next in programs that wait for what they are given


def _pace_command(result: Result, case: Case) -> str:
    """The command that measures steps at set moments, which leave time between them; what shows the nodes where that was measured."""
    every_ms = next((it for it in _USUAL_MS if it * 1e6 > 2 * (case.median(STEP) or math.inf)), None)
    return (
        lever(result) if every_ms is None or "every_ns" in result.setup else again(result, "--every", f"{every_ms}ms")
    )


def told_case(result: Result) -> Case | None:
    """The mode whose rates are told: the fastest one where the figures say so, else `cpu-tensors`; of those that can replace it unless
    keeping the state on the device makes it faster still."""
    best, kept = fastest(result, on_device=False), fastest(result, on_device=True)
    if best is not None and kept is not None and best.is_faster:
        more = speedup_between(best.case, kept.case)
        if more is None or residency_verdict(result, kept, best, more) != "faster-on-top":
            return best.case
    first = fastest(result)
    if first is not None and first.is_faster:
        return first.case
    timed = [case for case in result.cases if case.status == OK and case.median(LATENCY)]
    return result.case(CPU) or min(timed, key=lambda case: case.median(LATENCY) or 0, default=None)


def _tokens(result: Result, case: Case, made: Generation) -> Iterator[Fact]:
    """What llama-bench prints of a mode, and the first token; what tells more is on a device what takes the time of a step."""
    prefill, decode = (_rate(case, f"{it}_tokens_per_s") for it in ("prefill", "decode"))
    ttft, choosing = case.median("time_to_first_token"), case.value("next_token")
    if prefill is None or decode is None or ttft is None:
        return
    values: Values = {
        "prefill": prefill, "decode": decode, "first_token": ns(ttft), "prompt": made["prompt"], "tokens": made["tokens"],
        "depth": made.get("context", 0),
    }  # fmt: skip
    if choosing is not None:
        values["choosing"] = ns(choosing)
    yield Fact("tokens", "known", case.mode, values, lever(result) if is_on_host(result) else inside(result))


def _rate(case: Case, key: str) -> Quantity | None:
    found = case.metrics.get(key)
    return Quantity(found.value, "tokens/s", found.ci95) if isinstance(found, Value) else None


def _beside_state(result: Result) -> Iterator[Fact]:
    """What is copied in a step though the state stays."""
    resident = result.case(RESIDENT)
    if resident is None or is_on_host(result) or not resident.steps_ns:
        return
    there, back = (_mean(resident.step_copies(it) or 0) for it in ("step_h2d", "step_d2h"))
    if there or back:
        yield Fact("beside-state", "copied", RESIDENT, {"h2d": bytes_of(there), "d2h": bytes_of(back)})


def _mean(value: int | Sequence[int]) -> float:
    return value if isinstance(value, int) else sum(value) / len(value)


def _jumps(result: Result) -> Iterator[Fact]:
    """Where steps take longer or shorter at once, over depth, and what shows why, of the greatest."""
    made, apart = generation_of(result), is_first_apart(result)
    every = [(case, it) for case in result.cases if case.status == OK for it in jumps(case, apart)]
    found = [(case, it) for case, it in every if _is_certain(result, case, it)]
    greatest = max(found, key=lambda it: max(it[1].size.ratio, 1 / it[1].size.ratio), default=None)
    for case, jump in found:
        at, step = ("step", jump.step) if made is None else ("depth", depth_of(made, jump.step))
        size = Quantity(jump.size.ratio, "×", jump.size.ci95)
        values: Values = {"before": ns(jump.before), "after": ns(jump.after), "ratio": size, "at": at, "step": step}
        verdict = "longer" if jump.after > jump.before else "shorter"
        after = (both_steps(result, jump.step) or "ortbench explain jump") if (case, jump) == greatest else ""
        yield Fact("jump", verdict, case.mode, values, after)


def _is_certain(result: Result, case: Case, jump: Jump) -> bool:
    """Whether noise of the machine cannot have made a jump."""
    if not is_busy(result):
        return True
    low, high = jump.size.ci95 or (1.0, 1.0)
    shown = rounds_that_jump(case, is_first_apart(result), jump)
    return supports_within(result, case, max(low, 1 / high), shown)


def _one_buffer(result: Result) -> Iterator[Fact]:
    """What one buffer for past and present brings over two in turns."""
    case, other = result.case(SHARED.name), result.case(mode_of(SHARED.name).like)
    if case is not None and other is not None and (found := speedup_between(other, case)) is not None:
        verdict = claim_between(result, other, case, found)
        if verdict in (FASTER, SLOWER):
            yield Fact("one-buffer", verdict, case.mode, {"other": other.mode, "speedup": times(found)})


SENTENCES = {
    ("steps", "known"): Sentence("A loop takes {latency} (median) with {mode}: {rate} (mean).", "try settings: ortbench tune", _COST, "", "tune", figure=("One loop", "latency")),
    ("tokens", "known"): Sentence("{mode}: prefill {prefill}, decode {decode:ci} (means), first token after {first_token} (median).", "leave the cache on the device: mode shared or device-resident", _ANSWER, "", "loops", figure=("Decode", "decode")),
    ("beside-state", "copied"): Sentence("A step of {mode} still copies {h2d} of inputs and {d2h} of outputs.", "--resident IN for an input that stays the same, --keep OUT for an output that is needed at the end", _COST, "", "loops"),
    ("jump", "longer"): Sentence("Steps of {mode} jump from {before} to {after} at {at} {step}.", "--measure-nodes of both sizes shows which node changes", _GAIN, "", "loops"),
    ("jump", "shorter"): Sentence("Steps of {mode} drop from {before} to {after} at {at} {step}.", "--measure-nodes of both sizes shows which node changes", _GAIN, "", "loops"),
    ("one-buffer", "faster"): Sentence("{mode} (one buffer for past and present) is {speedup:ci} as fast as {other} (two in turns).", "bind one buffer for past and present", _GAIN, "good", "loops"),
    ("one-buffer", "slower"): Sentence("{mode} (one buffer for past and present) is slower than {other} (two in turns): {speedup:ci}.", "keep two buffers", _COST, "", "loops"),
}  # fmt: skip
