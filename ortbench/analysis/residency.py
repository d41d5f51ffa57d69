"""Whether ONNX Runtime copies the arrays of a run with CPU tensors, where the EP's memory is one that the host reaches. Pure.

Where inputs and outputs belong in a device's own memory, ONNX Runtime has to copy them there and back in every run. Where
they belong in HOST_ACCESSIBLE memory because the EP has no other, it may copy them, or hand them on as they are; that shows
in the times alone.
"""

from __future__ import annotations

from typing import NamedTuple

from ortbench.model.kinds import kind_of
from ortbench.model.modes import CPU, DEVICE, LATENCY, MODES, mode_of
from ortbench.model.result import OK, Case, Result

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
    shared = [it for case in result.cases if case.status == OK and (it := case.checks.get("zero_copy")) is not None]
    proved = bool(shared) and all(it["verdict"] == "passed" for it in shared)
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
    return None if resident is None or resident.status != OK else once_ns(resident)


def once_ns(case: Case) -> int | None:
    """What copying everything in and out once takes, of `device-resident`; None where it was not timed."""
    there, back = case.value("once_h2d"), case.value("once_d2h")
    return None if there is None or back is None else int(there + back)


def is_on_host(result: Result) -> bool:
    """Whether the EP, of a chain that of each stage, computes in host memory, so that nothing crosses a link."""
    sessions = result.part["stages"] if kind_of(result.kind).of_stages else [result.target]
    return all(it["memory"]["kind"] == "host" for it in sessions)


def stays_in_place(result: Result) -> bool:
    """Whether the tensors that a mode keeps are in memory that the host reads and writes."""
    return is_on_host(result) or is_only_host_accessible(result)


def needs(result: Result) -> str:
    """What has to hold for the modes that keep tensors on the device."""
    kind = kind_of(result.kind)
    return kind.in_place_needs if stays_in_place(result) else kind.on_device_needs


def takes(result: Result) -> str:
    """What the modes have that can replace each other, behind "with"."""
    return kind_of(result.kind).takes
