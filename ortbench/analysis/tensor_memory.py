"""Inputs and outputs that are not where a mode is thought to have them, and what they would cost there. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from ortbench.analysis.findings.finding import Finding, Weight
from ortbench.core.safe_text import capitalized, first_of, listed, shortened
from ortbench.core.units import duration, size
from ortbench.model.metrics import METRICS
from ortbench.model.modes import DEVICE, MODES, mode_of
from ortbench.model.result import OK, Case, Result
from ortbench.model.schema import TensorPlace

HOST = "host memory"
OF_SESSION = "the session's memory info"  # why a tensor is where it is
_REACH = 4  # how far from the size of a copy its rate still holds
_MOST = 3  # names in a finding
_MOST_FINDINGS = 5

Side = Literal["inputs", "outputs"]
SIDES: tuple[Side, ...] = ("inputs", "outputs")


@dataclass(frozen=True)
class Held:
    """Inputs, or outputs, that some modes have in the same memory for the same reason."""

    side: Side  # which of the two they are
    names: tuple[str, ...]  # of them, in the model's order
    modes: tuple[str, ...]  # that have them there
    # memory, why: in words
    memory: str
    why: str
    usual: bool  # it is the memory that these modes are about


def held(result: Result) -> list[Held]:
    """Where every input and output was, in the model's order: what is alike in all modes is said together."""
    cases = [case for case in result.at_point() if case.status == OK and case.places is not None]
    found: dict[tuple[Side, tuple[Held, ...]], list[str]] = {}
    for side in SIDES:
        for tensor in result.model[side]:
            places = [(case.mode, it) for case in cases for it in _sides(case, side) if it["name"] == tensor["name"]]
            found.setdefault((side, _alike(side, places)), []).append(tensor["name"])
    return [
        Held(side, tuple(names), it.modes, it.memory, it.why, it.usual)
        for (side, items), names in found.items()
        for it in items
    ]


def _sides(case: Case, side: Side) -> list[TensorPlace]:
    return [] if case.places is None else case.places[side]


def _alike(side: Side, places: Sequence[tuple[str, TensorPlace]]) -> tuple[Held, ...]:
    """The places of one tensor, without its name."""
    modes: dict[tuple[str, str, bool], list[str]] = {}
    for mode, it in places:
        modes.setdefault((it["memory"], it["why"], it["usual"]), []).append(mode)
    return tuple(Held(side, (), tuple(of), *key) for key, of in modes.items())


def elsewhere_findings(result: Result) -> list[Finding]:
    """Which tensors are not in the memory that a mode is about, why, and what it would cost to have them there."""
    found = [it for it in held(result) if not it.usual]
    if len(found) > 1 and len({(it.side, it.modes) for it in found}) == 1 and all(it.memory == HOST for it in found):
        return [_together(result, found)]
    said = [_finding(result, it) for it in found[:_MOST_FINDINGS]]
    more = sum(len(it.names) for it in found[_MOST_FINDINGS:])
    rest = Finding(f"{more} more tensors are elsewhere too", "places in result.json has them", weight=Weight.DETAIL)
    return [*said, rest] if more else said


def _together(result: Result, found: Sequence[Held]) -> Finding:
    """Of inputs, or outputs, that are in host memory in the same modes, for several reasons."""
    first = found[0]
    every = Held(first.side, tuple(name for it in found for name in it.names), first.modes, HOST, "", False)
    reasons = first_of([f"{_listed(it.names)} ({_why(it)})" for it in found], _MOST_FINDINGS)
    what = f"{capitalized(first.side)} {reasons} are bound in {_called(HOST)}, not on the device{_where(result, first)}"
    evidence = f"on the device each would cost another copy per inference{_cost(result, every)}"
    return Finding(what, evidence, weight=Weight.COST)


def _called(memory: str) -> str:
    return f"pageable {memory}" if memory == HOST else memory


def _why(it: Held) -> str:
    return f"{it.why} says so" if it.why == OF_SESSION else it.why


def _where(result: Result, it: Held) -> str:
    """The modes, where those are not all that bind tensors."""
    bound = [case.mode for case in result.at_point() if case.status == OK and not mode_of(case.mode).of_cpu_tensors]
    return "" if list(it.modes) == bound else f" (in {listed(it.modes)})"


def _finding(result: Result, it: Held) -> Finding:
    where = _where(result, it)
    said = capitalized(f"{named(it)} {'is' if len(it.names) == 1 else 'are'} bound in {_called(it.memory)}")
    if it.memory != HOST:
        return Finding(f"{said}{where}", it.why, weight=Weight.COST)
    each = "it" if len(it.names) == 1 else "each"
    evidence = f"{_why(it)}; on the device {each} would cost another copy per inference{_cost(result, it)}"
    return Finding(f"{said}, not on the device{where}", evidence, weight=Weight.COST)


def named(it: Held) -> str:
    """The tensors, the first few of many."""
    return f"{it.side.removesuffix('s') if len(it.names) == 1 else it.side} {_listed(it.names)}"


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _MOST
    return listed([*map(shortened, names[:_MOST]), *([f"{more} more"] if more > 0 else [])])


def _cost(result: Result, it: Held) -> str:
    """What the copies of such tensors to where their mode would have them take by the rate of timed ones, if that is known.

    ONNX Runtime copies an input that is bound on the device back to the host, and an output to the device.
    """
    back = it.side == "inputs"
    sizes, rate = _sizes(result, it.side, it.names), _rate(result, back)
    if sizes is None or rate is None or not all(rate.least <= count <= rate.most for count in sizes):
        return ""
    way = "d2h" if back else "h2d"
    return f", ≈{duration(sum(sizes) * rate.ns_per_byte)} ({size(sum(sizes))} at the rate of {METRICS[way].title} in {rate.mode})"


class _Rate(NamedTuple):
    """How fast the copies of a mode were one way, and from which to which size of a tensor that may be said of others."""

    mode: str
    ns_per_byte: float
    least: float
    most: float


def _rate(result: Result, back: bool) -> _Rate | None:
    """The rate of timed copies from the device, or to it: those of `device-tensors`, else those made once."""
    side: Side = "outputs" if back else "inputs"
    for mode in (DEVICE, *(name for name in MODES if name != DEVICE)):
        case = result.case(mode)
        took = None if case is None else _took_ns(case, "d2h" if back else "h2d")
        if case is None or not took or mode_of(mode).pinned or mode_of(mode).is_rate:
            continue
        sizes = _sizes(result, side, [it["name"] for it in _sides(case, side) if it["usual"]])
        if sizes and sum(sizes):
            mean = sum(sizes) / len(sizes)
            return _Rate(mode, took / sum(sizes), mean / _REACH, mean * _REACH)
    return None


def _took_ns(case: Case, way: Literal["h2d", "d2h"]) -> float | None:
    """What a mode's copies one way take, ns: in every run, or once."""
    timed = case.median(way)
    return case.value(f"once_{way}") if timed is None else timed


def _sizes(result: Result, side: Side, names: Sequence[str]) -> list[int] | None:
    """The bytes of tensors; None where one is not known."""
    known = {tensor["name"]: tensor["bytes"] for tensor in result.model[side]}
    sizes = [known[name] for name in names]
    return None if None in sizes else [count for count in sizes if count is not None]
