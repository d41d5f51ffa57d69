"""The one place where it is decided whether the figures carry the claim that something is faster, or the fastest. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal, NamedTuple

from ortbench.analysis.comparing.pairs import ratio_of
from ortbench.analysis.comparing.verdict import ABOVE, BELOW, MARGIN, OPEN, SAME, Verdict, at_most, verdict_of
from ortbench.analysis.noise import supports_speedup
from ortbench.core.stats import Value
from ortbench.model.modes import CPU, DEVICE, LATENCY, is_rate, mode_of
from ortbench.model.result import OK

if TYPE_CHECKING:
    from ortbench.model.result import Case, Result

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
    cases = compared(result, on_device)
    if not cases:
        return None
    best = max(cases, key=lambda case: (is_faster(case), _value(case)))
    assert best.speedup is not None
    return Fastest(best, best.speedup, claim_of(best), *_ties(result, best, cases))


def compared(result: Result, on_device: bool | None = None) -> list[Case]:
    """The modes whose inferences were compared with those of `cpu-tensors`, see `fastest`."""
    timed = [it for it in result.at_point() if it.mode != CPU and it.status == OK and not is_rate(it.mode, LATENCY)]
    return [it for it in timed if it.speedup and on_device in (None, mode_of(it.mode).on_device)]


def over(base: Case, case: Case) -> Value | None:
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
    said = [(it.mode, claim_between(result, it, best, over(it, best))) for it in cases if it is not best]
    ties = tuple(mode for mode, found in said if found in (ALIKE, SLOWER))
    return ties, tuple(mode for mode, found in said if mode not in ties and found != FASTER)
