"""Which mode is faster, or the fastest, and whether that is because ONNX Runtime copies the arrays of a run with CPU tensors. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

from ortbench.analysis.intervals import ABOVE, BELOW, MARGIN, OPEN, SAME, Verdict, at_most, ratio_of, verdict_of
from ortbench.analysis.noise import supports_speedup
from ortbench.core.stats import Value
from ortbench.model.kinds import kind_of
from ortbench.model.modes import CPU, DEVICE, LATENCY, MODES, is_rate, mode_of
from ortbench.model.result import OK, Case, Result

Claim = Literal["faster", "slower", "same", "open", "few-samples", "noise"]  # verdicts of facts
FASTER: Claim = "faster"
SLOWER: Claim = "slower"
ALIKE: Claim = "same"
UNCERTAIN: Claim = "open"
UNKNOWN: Claim = "few-samples"
NOISY: Claim = "noise"
_CLAIMS: dict[Verdict, Claim] = {ABOVE: FASTER, BELOW: SLOWER, SAME: ALIKE, OPEN: UNCERTAIN}


def claim(speedup: Value | None, margin: float = MARGIN) -> Claim:
    """What a speedup (above 1 is faster) says beyond doubt, by more than a margin; `UNKNOWN` without an interval."""
    if speedup is None or speedup.ci95 is None:
        return UNKNOWN
    return _CLAIMS[verdict_of(speedup.ci95, 1 + margin)]


def claim_of(case: Case) -> Claim:
    """What the speedup of a mode over `cpu-tensors` says, by more than `MARGIN`; `NOISY` where noise of the machine may have made it."""
    return NOISY if case.noisy else claim(case.speedup)


def claim_between(result: Result, base: Case, case: Case, speedup: Value | None) -> Claim:
    """What the speedup of a case over another one of a result says; `NOISY` where noise of the machine may have made it."""
    return claim(speedup) if supports_speedup(result, base, case, speedup) else NOISY


def may_be_faster(speedup: Value | None) -> bool:
    """Whether an interval leaves open that something is faster by more than the margin."""
    return speedup is not None and speedup.ci95 is not None and at_most(speedup.ci95, 1 + MARGIN) is None


def is_faster(case: Case) -> bool:
    """Whether a mode is faster than `cpu-tensors` for certain."""
    return claim_of(case) == FASTER


class Fastest(NamedTuple):
    """The mode with the shortest inference among some, and what may be said of it."""

    case: Case
    speedup: Value  # over `cpu-tensors`
    claim: Claim  # against `cpu-tensors`
    ties: tuple[str, ...] = ()  # other modes that are the same
    rivals: tuple[str, ...] = ()  # other modes of which it cannot be told whether they are slower

    @property
    def mode(self) -> str:
        return self.case.mode

    @property
    def is_faster(self) -> bool:
        """Whether it is faster than `cpu-tensors` for certain."""
        return is_faster(self.case)


def fastest(result: Result, on_device: bool | None = None) -> Fastest | None:
    """The fastest mode besides `cpu-tensors`; None where none was compared with it.

    Those that are faster beyond doubt come before a greater ratio. How often an inference is done says nothing about how long
    one takes, so modes of several in a call do not count.

    Args:
        result: of a run, a loop, a chain, or of one shape of a sweep.
        on_device: only modes whose tensors stay on the device, or only those that take new inputs and return outputs in each
            inference; None for all.
    """
    cases = compared_modes(result, on_device)
    if not cases:
        return None
    best = max(cases, key=lambda case: (is_faster(case), _value(case)))
    assert best.speedup is not None
    return Fastest(best, best.speedup, claim_of(best), *_ties(result, best, cases))


def compared_modes(result: Result, on_device: bool | None = None) -> list[Case]:
    """The modes whose inferences were compared with those of `cpu-tensors`, see `fastest`."""
    timed = [it for it in result.at_point() if it.mode != CPU and it.status == OK and not is_rate(it.mode, LATENCY)]
    return [it for it in timed if it.speedup and on_device in (None, mode_of(it.mode).on_device)]


def speedup_between(base: Case, case: Case) -> Value | None:
    """How many times as fast as another mode a mode is; without paired blocks between the ends of their speedups, if they have any."""
    if (found := ratio_of(base, case)) is not None:
        return found
    before, after = base.median(LATENCY), case.median(LATENCY)
    if before is None or not after:
        return None
    one, other = (None if it.speedup is None else it.speedup.ci95 for it in (case, base))
    return Value(before / after, None if one is None or other is None else (one[0] / other[1], one[1] / other[0]))


def part_saved(speedup: float) -> float:
    """The part of a latency that goes where something is so many times as fast; below 0 where it is slower."""
    return 1 - 1 / speedup


# Of what seems to be copies: where a mode that copies as much is without more than this of it, they are not most of it.
_HALF = 0.5


def other_work(result: Result, copies_ns: float) -> float | None:
    """By how much longer, at least, `cpu-tensors` takes than `device-tensors`, ns, which copies as much: other work of `session.run`, or
    slower copies. None where that is not most of the `copies_ns` by which it takes longer than without copies."""
    cpu, bound = result.case(CPU), result.case(DEVICE)
    if cpu is None or bound is None or bound.speedup is None:
        return None
    low = bound.speedup.value if bound.speedup.ci95 is None else bound.speedup.ci95[0]
    least = (cpu.median(LATENCY) or 0.0) * part_saved(low)
    return least if least > _HALF * copies_ns else None


def _value(case: Case) -> float:
    return case.speedup.value if case.speedup is not None else 0.0


def _ties(result: Result, best: Case, cases: Iterable[Case]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    said = [(it.mode, claim_between(result, it, best, speedup_between(it, best))) for it in cases if it is not best]
    ties = tuple(mode for mode, found in said if found in (ALIKE, SLOWER))
    return ties, tuple(mode for mode, found in said if mode not in ties and found != FASTER)


# What becomes of the arrays of a run with CPU tensors
#
# Where inputs and outputs belong in a device's own memory, ONNX Runtime has to copy them there and back in every run. Where
# they belong in HOST_ACCESSIBLE memory because the EP has no other, it may copy them, or hand them on as they are; that shows
# in the times alone.


HANDED_ON, COPIED, UNCLEAR = "handed on", "copied", "unclear"

# By how much longer than without copies a run takes, as a share of what copies take: below the first it has none, from the
# second on it has some. What a run costs besides (the outputs that it allocates, say) may lie between.
_FEW, _MANY = 0.25, 0.5
_CALL_NS = 20_000  # a run with arrays costs some µs more than a bound one: copies that take no more would not stand out


class Handing(NamedTuple):
    verdict: str  # one of the three above
    # with_arrays, without: what a run takes with arrays, and with tensors that are where they belong, ns
    with_arrays: float
    without: float
    copies: float  # what copying in and out takes, ns
    proved: bool  # zero-copy is proved of tensors that are where they belong


def is_only_host_accessible(result: Result) -> bool:
    """Whether the EP's device has HOST_ACCESSIBLE memory alone."""
    memory = result.target["memory"]
    return memory["default"] is None and memory["host_accessible"] is not None


def handing_on(result: Result, mode: str = CPU) -> Handing | None:
    """What became of the arrays of a mode with CPU tensors; None where the question does not arise or was not measured."""
    if not is_only_host_accessible(result):
        return None
    case, rest, copies = result.case(mode), result.case(mode_of(mode).without_copies), _copies_ns(result)
    if case is None or rest is None or copies is None or case.status != OK or rest.status != OK:
        return None
    ours, theirs = case.stats(LATENCY), rest.stats(LATENCY)
    if ours is None or theirs is None:
        return None
    extra, noise = ours.median - theirs.median, ours.mad + theirs.mad
    if extra < _FEW * copies and copies >= 2 * noise:
        verdict = HANDED_ON
    elif extra >= max(_MANY * copies, 2 * noise, _CALL_NS):
        verdict = COPIED
    else:
        verdict = UNCLEAR
    shared = [
        proof for case in result.cases if case.status == OK and (proof := case.checks.get("zero_copy")) is not None
    ]
    proved = bool(shared) and all(proof["verdict"] == "passed" for proof in shared)
    return Handing(verdict, ours.median, theirs.median, copies, proved)


def shows_copies(result: Result, mode: str) -> bool:
    """Whether what a mode with CPU tensors takes longer than without copies shows them."""
    found = handing_on(result, mode)
    return found is not None and found.verdict == COPIED


def _copies_ns(result: Result) -> float | None:
    """What copying everything in and out takes: of mode `device-tensors`, or once, of `device-resident`; None if neither is known."""
    device, resident = result.case(DEVICE), result.case(MODES[CPU].without_copies)
    if device is not None and device.status == OK:
        timed = device.copy_ns()
        if timed is not None:
            return timed
    if resident is None or resident.status != OK:
        return None
    there, back = resident.value("once_h2d"), resident.value("once_d2h")
    return None if there is None or back is None else int(there + back)


def is_on_host(result: Result) -> bool:
    """Whether the EP, of a chain that of each stage, computes in host memory, so that nothing crosses a link."""
    sessions = result.part["stages"] if kind_of(result.kind).of_stages else [result.target]
    return all(it["memory"]["kind"] == "host" for it in sessions)


def keeps_on_host(result: Result) -> bool:
    """Whether the tensors that a mode keeps are in memory that the host reads and writes."""
    return is_on_host(result) or is_only_host_accessible(result)


def residency_condition(result: Result) -> str:
    """What has to hold for the modes that keep tensors on the device."""
    kind = kind_of(result.kind)
    return kind.on_host_needs if keeps_on_host(result) else kind.on_device_needs


def replaceable_tensors(result: Result) -> str:
    """What the modes have that can replace each other, behind "with"."""
    return kind_of(result.kind).takes
