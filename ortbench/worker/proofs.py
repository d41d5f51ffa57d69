"""Whether a mode computed what it should: a comparison with a tolerance by dtype, over outputs that were poisoned before; and how far
outputs are from those that they are compared with: errors, SQNR, cosine, top-1 agreement. And whether
mode `host-accessible` really copies nothing: the evidence, and a verdict that prefers doubt to a claim.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy import median

from ortbench.analysis.outputs import accepting, how_far
from ortbench.core.errors import NotWritten, WrongOutputs
from ortbench.core.units import duration
from ortbench.model.modes import CPU, LATENCY, MODES
from ortbench.worker.tensors import CHUNK, Array, Value
from ortbench.worker.timing import TimedCall, time_call

if TYPE_CHECKING:
    from ortbench.model import protocol, schema


# (rtol, atol): an element may differ by atol + rtol × |reference|, as in numpy.allclose. Kernels sum in another order
# and in other widths (TF32, fused multiply-add), which costs about half the digits of a dtype; integers are exact.
TOLERANCES = {"float64": (1e-7, 1e-9), "float32": (1e-3, 1e-5), "float16": (1e-2, 1e-3), "bfloat16": (5e-2, 1e-2)}
FLOAT8 = (0.25, 0.1)
_SMALL_INTEGERS = ("int4", "uint4")

EXPECTED = "the expected outputs"
PLAIN = "session.run with CPU tensors"
FIRST = f"the first {PLAIN}"  # what outputs are compared with where none were given


def difference(
    name: str,
    got: Value,
    reference: Value,
    rtol: float | None = None,
    atol: float | None = None,
    source: str | None = None,
) -> str | None:
    """What differs, in words; None if nothing does, to `rtol` and `atol` or else the dtype's own. NaN equals NaN. `source` says
    what the reference is, where the sentence around it does not."""
    as_in = "" if source is None else f" as in {source}"
    if got is None or reference is None or isinstance(got, list) != isinstance(reference, list):
        held = f"output {name} holds {_count_tensors(got)} instead of {_count_tensors(reference)}{as_in}"
        return None if got is reference else held
    if isinstance(got, list):
        if len(got) != len(reference):
            return f"output {name} holds {_count_tensors(got)} instead of {_count_tensors(reference)}{as_in}"
        pairs = enumerate(zip(got, reference, strict=True))
        found = (difference(f"{name}, tensor {number}", *pair, rtol, atol, source) for number, pair in pairs)
        return next(filter(None, found), None)
    if got.shape != reference.shape:
        return f"output {name} has shape {list(got.shape)} instead of {list(reference.shape)}{as_in}"
    if got.dtype != reference.dtype:
        return f"output {name} is {got.dtype} instead of {reference.dtype}{as_in}"
    wrong = _find_wrong(got, reference, rtol, atol)
    if wrong is None:
        return None
    count, at = wrong
    index = "[" + ", ".join(str(int(index)) for index in at) + "]"
    from_source = "" if source is None else f" from {source}"
    pair = got[at], reference[at]
    got_text, wanted_text = map(str, pair) if _is_exact(got) else _format_different(*pair)
    return f"{count} of {got.size} values of output {name} differ{from_source}, first at {index}: {got_text} instead of {wanted_text}"


def _is_exact(array: Array) -> bool:
    return array.dtype.kind in "Oiub" or array.dtype.name in _SMALL_INTEGERS


def _find_wrong(
    got: Array, reference: Array, rtol: float | None, atol: float | None
) -> tuple[int, tuple[Any, ...]] | None:
    """How many values differ, to `rtol` and `atol` or else the dtype's own, and where the first one does; None where none do."""
    if _is_exact(got):
        return _find_unequal(got, reference)
    limits = TOLERANCES.get(got.dtype.name, FLOAT8)
    return _find_distant(got, reference, limits[0] if rtol is None else rtol, limits[1] if atol is None else atol)


def _count_tensors(value: Value) -> str:
    if value is None:
        return "nothing"
    return f"{len(value)} tensor(s)" if isinstance(value, list) else "a tensor"


def _format_different(one: float, other: float) -> tuple[str, str]:
    """Two floats that differ, with 4 significant digits or as many as it takes to tell them apart."""
    texts = ((f"{float(one):.{digits}g}", f"{float(other):.{digits}g}") for digits in range(4, 18))
    return next((it for it in texts if it[0] != it[1]), (str(one), str(other)))


def _find_unequal(got: Array, reference: Array) -> tuple[int, tuple[Any, ...]] | None:
    """How many values differ and where the first one does; None where none do."""
    wrong = np.asarray(got != reference)
    if not wrong.any():
        return None
    return int(wrong.sum()), np.unravel_index(int(np.argmax(wrong)), wrong.shape)


def _find_distant(got: Array, reference: Array, rtol: float, atol: float) -> tuple[int, tuple[Any, ...]] | None:
    """The same of floats, to a tolerance."""
    a, b = got.reshape(-1), reference.reshape(-1)
    count, first = 0, -1
    wide = np.float64 if got.dtype == np.float64 else np.float32
    for start in range(0, a.size, CHUNK):
        got_chunk, reference_chunk = a[start : start + CHUNK], b[start : start + CHUNK]
        if np.array_equal(got_chunk.view(np.uint8), reference_chunk.view(np.uint8)):
            continue  # as with most, and found many times sooner
        x, y = got_chunk.astype(wide), reference_chunk.astype(wide)
        with np.errstate(over="ignore", invalid="ignore"):  # what overflows here is not close, and found so
            wrong = ~np.isclose(x, y, rtol=rtol, atol=atol, equal_nan=True)
        wrong_count = int(wrong.sum())
        if wrong_count and first < 0:
            first = start + int(np.argmax(wrong))
        count += wrong_count
    return (count, np.unravel_index(first, got.shape)) if count else None


class Distance(NamedTuple):
    relative: float  # the largest difference by the largest value of the reference
    rtol: float  # the smallest relative tolerance that accepts it, beside the absolute one
    atol: float  # the smallest absolute tolerance that does, beside the relative one


def distance(got: Value, reference: Value, rtol: float | None = None, atol: float | None = None) -> Distance | None:
    """How far apart two arrays are; None where they are no arrays of floats, of other forms, or not finite in the same places."""
    if not isinstance(got, np.ndarray) or not isinstance(reference, np.ndarray):
        return None
    if got.shape != reference.shape or got.dtype != reference.dtype or got.dtype.kind in "Oiub" or not got.size:
        return None
    a, b = got.astype(np.float64).reshape(-1), reference.astype(np.float64).reshape(-1)
    finite = np.isfinite(b)
    if not np.array_equal(np.isfinite(a), finite) or not np.array_equal(a[~finite], b[~finite], equal_nan=True):
        return None
    off, size = np.abs(a[finite] - b[finite]), np.abs(b[finite])
    if not off.size or not size.max():
        return None
    limits = TOLERANCES.get(got.dtype.name, FLOAT8)
    excess = np.maximum(off - (limits[1] if atol is None else atol), 0)
    with np.errstate(divide="ignore"):
        needed = np.divide(excess, size, out=np.zeros_like(excess), where=excess > 0)
    beside = off - size * (limits[0] if rtol is None else rtol)
    return Distance(float(off.max() / size.max()), float(needed.max()), float(max(0.0, beside.max())))


def compare_outputs(
    outputs: Iterable[tuple[str, Value, Value]], rtol: float | None, atol: float | None, are_real: bool = True
) -> protocol.OutputComparison:
    """What differs most, of outputs by name, between what there is and what it is compared with, beyond the tolerances in words, and by
    how much all of them do: each name comes as often as there are inputs, which are real or synthetic."""
    from ortbench.worker.output_errors import OutputErrors  # most runs compare none

    most = -1.0
    comparison: protocol.OutputComparison = {"differs": None, "relative": 0.0, "accepts": None, "distances": []}
    errors: dict[str, OutputErrors] = {}
    for name, got, reference in outputs:
        errors.setdefault(name, OutputErrors(name)).add(got, reference)
        wrong = difference(name, got, reference, rtol, atol)
        if wrong is None:
            continue
        gap = distance(got, reference, rtol, atol)
        share = math.inf if gap is None else gap.relative
        if share > most:
            most = share
            comparison["differs"] = wrong if gap is None else _differ_by(name, got, reference, rtol, atol, gap)
            comparison["accepts"] = None if gap is None else accepting(*gap)
        relative = comparison["relative"]
        comparison["relative"] = None if gap is None or relative is None else max(relative, gap.relative)
    comparison["distances"] = [it.distance(are_real) for it in errors.values()]
    return comparison


def _differ_by(name: str, got: Value, reference: Value, rtol: float | None, atol: float | None, gap: Distance) -> str:
    """How many values differ, and by how much."""
    assert isinstance(got, np.ndarray)
    assert isinstance(reference, np.ndarray)
    wrong = _find_wrong(got, reference, rtol, atol)
    assert wrong is not None
    return f"{wrong[0]} of {got.size} values of output {name} differ by up to {how_far(*gap)}"


def poison(reference: Array) -> Array:
    """An array of the same form that differs from `reference` in every element, to prove that outputs were written."""
    if reference.dtype.kind == "O":
        return np.full_like(reference, "\0ortbench")
    if reference.dtype.kind == "b":
        return np.logical_not(reference, out=np.empty_like(reference))
    flipped: Array = np.invert(np.asarray(reference, order="C").reshape(-1).view(np.uint8))
    return flipped.view(reference.dtype).reshape(reference.shape)


class CheckedMode(Protocol):
    """What is asked of a mode whose outputs are compared; see `ortbench.worker.mode_base.Mode`."""

    trials: tuple[int, ...]

    @property
    def source(self) -> str: ...
    def phases(self) -> dict[str, TimedCall]: ...
    def poison(self) -> None: ...
    def outputs(self) -> list[Value]: ...
    def expected_outputs(self) -> list[tuple[str, Value]]: ...


def check_outputs(mode: CheckedMode, rtol: float | None, atol: float | None) -> list[int]:
    """Run over poisoned outputs and compare what is there the moment the call returns: what each call took, ns. Raises
    `NotWritten`: nothing was written to one; `WrongOutputs`: they differ from the reference."""
    call, a, b = mode.phases()[LATENCY]
    times = []
    for calls in mode.trials:
        mode.poison()
        for _ in range(calls):
            times.append(time_call(call, a, b))
        for got, (name, reference) in zip(mode.outputs(), mode.expected_outputs(), strict=True):
            # A user's wide tolerance must not let an output pass that nothing was written to.
            if isinstance(got, np.ndarray) and got.size and np.array_equal(got, poison(reference)):
                raise NotWritten(f"output {name} was not written")
        wrong = find_difference(mode, rtol, atol)
        if wrong is not None:
            raise WrongOutputs(wrong)
    return times


def find_difference(mode: CheckedMode, rtol: float | None, atol: float | None) -> str | None:
    """What differs between the mode's outputs as they are now and the reference, in words; None if nothing does."""
    for got, (name, reference) in zip(mode.outputs(), mode.expected_outputs(), strict=True):
        wrong = difference(name, got, reference, rtol, atol, mode.source)
        if wrong is not None:
            return wrong
    return None


class TimedMode(Protocol):
    """A mode whose runs are timed; see `ortbench.worker.mode_base.Mode`."""

    def phases(self) -> dict[str, TimedCall]: ...
    def one_time_copies(self) -> tuple[Call, Call] | None: ...


class ZeroCopyMode(TimedMode, Protocol):
    """A mode in memory that host and device reach; see `ortbench.worker.modes.HostAccessibleMode`."""

    binding_error: str | None

    def same_addresses(self) -> bool: ...


_ROUNDS = 11
_BURST_NS = 2_000_000
# A clear answer needs fewer rounds. It is clear where noise is this part of what the copies take, and the difference is
# as small a part, or nearly all of it.
_CLEAR = 1 / 8
_FEWEST = 4
_LONG_NS = 10_000_000  # beside runs so long, what the first one after a switch costs is nothing
_SLOW_NS, _FEWEST_SLOW = 100_000_000, 2
_PATIENCE_NS, _PATIENCE_RUNS = 500_000_000, 6  # after that, noise has the last word
_USED = "the outputs are at the bound addresses"

Call = Callable[[], object]


class ZeroCopy(NamedTuple):
    """The verdict: nothing is copied, how that was found, and whether runs use the addresses that were bound."""

    verified: bool
    evidence: str
    addresses: bool = True

    def to_dict(self) -> schema.ZeroCopy:
        return {"verified": self.verified, "how": self.evidence, "addresses": self.addresses}


def prove_zero_copy(
    mode: ZeroCopyMode,
    resident: TimedMode | None,
    on_host: bool,
    clock: Callable[[], int] = time.perf_counter_ns,
    copies: tuple[Call, Call] | None = None,
) -> ZeroCopy:
    """Prove, or fail to prove, that runs of `mode` copy no input and no output.

    The addresses must be those that were bound. That does not exclude a copy inside the EP, so a run must also not
    take longer than with the same tensors resident on the device, by as much as the copies would take.
    """
    if not mode.same_addresses():
        return ZeroCopy(False, "the outputs are not at the addresses that were bound", addresses=False)
    if on_host:
        return ZeroCopy(True, "the EP computes in host memory, at the addresses that were bound")
    assert resident is not None
    copies_ns = sum(_copies_ns(copies or resident.one_time_copies(), clock))
    extra, noise = _compare_runs(mode, resident, copies_ns, clock)
    return judge_difference(extra, copies_ns, noise, _describe_addresses(mode))


def _describe_addresses(mode: ZeroCopyMode) -> str:
    if mode.binding_error is None:
        return _USED
    reason = mode.binding_error.removesuffix(".")
    return f"{_USED}, bound as device memory since HOST_ACCESSIBLE outputs fail here: {reason}"


def judge_difference(extra_ns: float, copies_ns: float, noise_ns: float, used: str = _USED) -> ZeroCopy:
    """What the times say: how much longer a run takes than with device-resident tensors (`extra_ns`), what one upload and one
    download take, and how far apart repeated runs are."""
    resident = MODES[CPU].without_copies
    longer = f"{duration(extra_ns)} longer than with {resident}"
    less = f"{duration(-extra_ns)} less than with {resident}"
    comparison = f"in a short check before the measurement an inference took {longer if extra_ns > 0 else less}; copies in and out would take {duration(copies_ns)}"
    is_hidden = copies_ns < 2 * noise_ns
    if extra_ns >= copies_ns / 4 and not (is_hidden and extra_ns < noise_ns):
        return ZeroCopy(False, f"{used}, but {comparison}")
    if is_hidden:
        return ZeroCopy(False, f"{used}, but a copy would not show in noise of {duration(noise_ns)}; {comparison}")
    return ZeroCopy(True, f"{used}; {comparison}")


def prove_by_copy_times(
    mode: ZeroCopyMode, copies: tuple[Call, Call], evidence: str, clock: Callable[[], int] = time.perf_counter_ns
) -> ZeroCopy:
    """Prove, or fail to prove, the same where the EP has no other memory that a run's time could be compared with.

    The addresses must be those that were bound. That does not exclude a copy inside the EP; a run does that takes less
    time than copying just the inputs, or just the outputs, would.
    """
    if not mode.same_addresses():
        return ZeroCopy(False, "the outputs are not at the addresses that were bound", addresses=False)
    # The least of each: a run with a copy in it takes at least as long as that copy at its best.
    before = _copies_ns(copies, clock)
    run = _shortest_ns(mode, clock)
    after = _copies_ns(copies, clock)
    upload, download = (min(pair) for pair in zip(before, after, strict=True))
    return judge_run_time(run, upload, download, f"{_describe_addresses(mode)} and {evidence}")


def judge_run_time(run_ns: float, h2d_ns: float, d2h_ns: float, used: str) -> ZeroCopy:
    """What the time of a run says that nothing can be compared with, beside those of copies of all inputs and of all outputs."""
    both_ns = h2d_ns + d2h_ns
    # What takes next to nothing beside the other copy is none that would matter.
    least_ns = min((ns for ns in (h2d_ns, d2h_ns) if ns >= both_ns / 4), default=0.0)
    times = f"in a short check before the measurement an inference took {duration(run_ns)}, copying in {duration(h2d_ns)}, copying out {duration(d2h_ns)}"
    if run_ns < least_ns:
        return ZeroCopy(True, f"{used}; {times}")
    return ZeroCopy(
        False,
        f"{used}, but a copy inside the EP cannot be excluded; {times}, and there is no other memory to compare it with",
    )


def combine_verdicts(verdicts: Sequence[ZeroCopy]) -> ZeroCopy:
    """The verdict on several parts of a session: one that is not proved counts for all."""
    decisive = [part for part in verdicts if not part.verified] or verdicts
    how = "; ".join(part.evidence for part in decisive)
    return ZeroCopy(all(part.verified for part in verdicts), how, all(part.addresses for part in verdicts))


def _copies_ns(copies: tuple[Call, Call] | None, clock: Callable[[], int]) -> tuple[int, int]:
    assert copies is not None
    times = []
    for _ in range(5):
        start = clock()
        copies[0]()
        between = clock()
        copies[1]()
        times.append((between - start, clock() - between))
    return min(up for up, _ in times), min(down for _, down in times)


def _shortest_ns(mode: TimedMode, clock: Callable[[], int]) -> float:
    """The least that a run takes, ns, of as many as there is patience for."""
    call, a, b = mode.phases()[LATENCY]
    begin = clock()
    shortest = math.inf
    for number in range(_ROUNDS * 100):
        start = clock()
        call(a, b)
        shortest = min(shortest, clock() - start)
        if number >= _FEWEST and clock() - begin > _ROUNDS * 2 * _BURST_NS:
            break
    return shortest


def _compare_runs(
    mode: ZeroCopyMode, resident: TimedMode, copies: int, clock: Callable[[], int]
) -> tuple[float, float]:
    """How much longer a run of `mode` takes, and how far apart repeated runs are, ns: from as few as it takes.

    Where noise leaves it open for too long, it is at least what the copies take.
    """
    calls = [mode.phases()[LATENCY], resident.phases()[LATENCY]]
    begin = clock()
    times: list[list[float]] = [[], []]
    for mode_times, (call, a, b) in zip(times, calls, strict=True):
        start = clock()
        call(a, b)
        mode_times.append(clock() - start)
    run = min(map(min, times))
    burst = max(1, min(100, int(_BURST_NS / max(run, 1))))
    if run < _LONG_NS:
        times = [[], []]
    fewest = _FEWEST if run < _SLOW_NS else _FEWEST_SLOW
    while True:
        rounds = len(times[0])
        if rounds >= fewest:
            extra = min(times[0]) - min(times[1])
            noise = sum(median(mode_times) - min(mode_times) for mode_times in times)
            is_clear = noise <= copies * _CLEAR and not copies * _CLEAR < extra < copies * (1 - _CLEAR)
            if is_clear or rounds == _ROUNDS:
                return extra, noise
            if clock() - begin > max(_PATIENCE_NS, 2 * _PATIENCE_RUNS * run):
                return extra, max(noise, copies)
        for mode_times, (call, a, b) in zip(times, calls, strict=True):
            if run < _LONG_NS:
                call(a, b)  # the first after a switch is not counted
            start = clock()
            for _ in range(burst):
                call(a, b)
            mode_times.append((clock() - start) / burst)
