"""Whether mode `host-accessible` really copies nothing: the evidence, and a verdict that prefers doubt to a claim."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from numpy import median

from ortbench.core.units import duration
from ortbench.model.modes import CPU, LATENCY, MODES
from ortbench.worker.timing import TimedCall

if TYPE_CHECKING:
    from ortbench.model import schema


class TimedMode(Protocol):
    """A mode whose runs are timed; see `ortbench.worker.modes.base.Mode`."""

    def phases(self) -> dict[str, TimedCall]: ...
    def one_time_copies(self) -> tuple[Call, Call] | None: ...


class InPlaceMode(TimedMode, Protocol):
    """A mode in memory that host and device reach; see `ortbench.worker.modes.make.HostAccessibleMode`."""

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
    mode: InPlaceMode,
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


def _describe_addresses(mode: InPlaceMode) -> str:
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
    mode: InPlaceMode, copies: tuple[Call, Call], evidence: str, clock: Callable[[], int] = time.perf_counter_ns
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


def _compare_runs(mode: InPlaceMode, resident: TimedMode, copies: int, clock: Callable[[], int]) -> tuple[float, float]:
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
