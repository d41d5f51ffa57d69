"""Whether mode `host-accessible` really copies nothing: the evidence, and a verdict that prefers doubt to a claim."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from ortbench import schema
from ortbench.modes import TOTAL
from ortbench.units import duration

if TYPE_CHECKING:
    from ortbench.worker.modes.base import Mode
    from ortbench.worker.modes.host_accessible import HostAccessibleMode

_ROUNDS = 11
_BURST_NS = 2_000_000
_USED = "bound addresses are used"

Call = Callable[[], object]


@dataclass(frozen=True)
class ZeroCopy:
    """The verdict.

    Attributes:
        proved: nothing is copied.
        how: it was found.
        addresses: runs use the addresses that were bound.
    """

    proved: bool
    how: str
    addresses: bool = True

    def to_dict(self) -> schema.ZeroCopy:
        """For the result file."""
        return {"proved": self.proved, "how": self.how, "addresses": self.addresses}


def prove_zero_copy(
    mode: HostAccessibleMode,
    resident: Mode | None,
    on_host: bool,
    clock: Callable[[], int] = time.perf_counter_ns,
    copies: tuple[Call, Call] | None = None,
) -> ZeroCopy:
    """Prove, or fail to prove, that runs of `mode` copy no input and no output.

    The addresses must be those that were bound. That does not exclude a copy inside the EP, so a run must also not
    take longer than with the same tensors resident on the device, by as much as the copies would take.

    Args:
        mode: set up, with at least one run done.
        resident: the same model with device tensors; None on an EP that computes in host memory.
        on_host: the EP computes in host memory.
        copies: the upload and the download that runs must not hold; None for those of everything that is copied.
    """
    if not mode.same_addresses():
        return ZeroCopy(False, "the outputs are not at the addresses that were bound", addresses=False)
    if on_host:
        return ZeroCopy(True, "the EP computes in host memory, at the addresses that were bound")
    assert resident is not None
    took = sum(_copies_ns(copies or resident.once(), clock))
    ours, theirs = _alternate(mode, resident, clock)
    extra = min(ours) - min(theirs)
    noise = (median(ours) - min(ours)) + (median(theirs) - min(theirs))
    return verdict(extra, took, noise, _used(mode))


def _used(mode: HostAccessibleMode) -> str:
    if mode.refused is None:
        return _USED
    said = mode.refused.removesuffix(".")
    return f"{_USED}, for outputs as device memory since HOST_ACCESSIBLE outputs fail here: {said}"


def verdict(extra_ns: float, copies_ns: float, noise_ns: float, used: str = _USED) -> ZeroCopy:
    """What the times say.

    Args:
        extra_ns: how much longer a run takes than with device-resident tensors.
        copies_ns: what one upload and one download take.
        noise_ns: how far apart repeated runs are.
        used: what is known of the addresses.
    """
    sign = "+" if extra_ns >= 0 else ""
    compared = f"a run takes {sign}{duration(extra_ns)} against device-resident, copying takes {duration(copies_ns)}"
    if extra_ns >= copies_ns / 4:
        return ZeroCopy(False, f"{used}, but {compared}")
    if copies_ns < 2 * noise_ns:
        return ZeroCopy(False, f"{used}, but a copy would not show in the noise: {compared}")
    return ZeroCopy(True, f"{used}; {compared}")


def prove_alone(
    mode: HostAccessibleMode,
    copies: tuple[Call, Call],
    seen: str,
    clock: Callable[[], int] = time.perf_counter_ns,
) -> ZeroCopy:
    """Prove, or fail to prove, the same where the EP has no other memory that a run's time could be compared with.

    The addresses must be those that were bound. That does not exclude a copy inside the EP; a run does that takes less
    time than copying just the inputs, or just the outputs, would.

    Args:
        mode: set up, with at least one run done.
        copies: an upload and a download of what is bound.
        seen: what is known of writing in place.
    """
    if not mode.same_addresses():
        return ZeroCopy(False, "the outputs are not at the addresses that were bound", addresses=False)
    # The least of each: a run with a copy in it takes at least as long as that copy at its best.
    before = _copies_ns(copies, clock)
    runs = _alternate(mode, mode, clock)
    after = _copies_ns(copies, clock)
    upload, download = (min(pair) for pair in zip(before, after, strict=True))
    return alone(min(map(min, runs)), upload, download, f"{_used(mode)} and {seen}")


def alone(run_ns: float, upload_ns: float, download_ns: float, used: str) -> ZeroCopy:
    """What the time of a run says that nothing can be compared with.

    Args:
        run_ns: what a run takes.
        upload_ns, download_ns: what copies of all inputs and of all outputs take.
        used: what is known of the addresses.
    """
    both = upload_ns + download_ns
    # What takes next to nothing beside the other copy is none that would matter.
    least = min((ns for ns in (upload_ns, download_ns) if ns >= both / 4), default=0.0)
    times = f"a run takes {duration(run_ns)}, copying in {duration(upload_ns)}, copying out {duration(download_ns)}"
    if run_ns < least:
        return ZeroCopy(True, f"{used}; {times}")
    return ZeroCopy(
        False,
        f"{used}, but a copy inside the EP cannot be excluded: {times}, and there is no other memory to compare it with",
    )


def all_of(found: Sequence[ZeroCopy]) -> ZeroCopy:
    """The verdict on several parts of a session: one that is not proved counts for all."""
    decisive = [part for part in found if not part.proved] or found
    how = "; ".join(part.how for part in decisive)
    return ZeroCopy(all(part.proved for part in found), how, all(part.addresses for part in found))


def _copies_ns(copies: tuple[Call, Call] | None, clock: Callable[[], int]) -> tuple[int, int]:
    """What an upload and a download take, ns."""
    assert copies is not None
    times = []
    for _ in range(5):
        start = clock()
        copies[0]()
        between = clock()
        copies[1]()
        times.append((between - start, clock() - between))
    return min(up for up, _ in times), min(down for _, down in times)


def _alternate(mode: HostAccessibleMode, resident: Mode, clock: Callable[[], int]) -> tuple[list[float], list[float]]:
    """Per-run times of both modes, ns, in alternating bursts."""
    sides: list[list[float]] = [[], []]
    calls = [mode.phases()[TOTAL], resident.phases()[TOTAL]]
    call, a, b = calls[0]
    start = clock()
    call(a, b)
    burst = max(1, min(100, int(_BURST_NS / max(clock() - start, 1))))
    for _ in range(_ROUNDS):
        for side, (call, a, b) in zip(sides, calls, strict=True):
            call(a, b)  # the first after a switch is not counted
            start = clock()
            for _ in range(burst):
                call(a, b)
            side.append((clock() - start) / burst)
    return sides[0], sides[1]
