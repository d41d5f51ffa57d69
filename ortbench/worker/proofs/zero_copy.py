"""Whether mode `host-accessible` really copies nothing: the evidence, and a verdict that prefers doubt to a claim."""

from __future__ import annotations

import time
from collections.abc import Callable
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
) -> ZeroCopy:
    """Prove, or fail to prove, that runs of `mode` copy no input and no output.

    The addresses must be those that were bound. That does not exclude a copy inside the EP, so a run must also not
    take longer than with the same tensors resident on the device, by as much as the copies would take.

    Args:
        mode: set up, with at least one run done.
        resident: the same model with device tensors; None where there is no device memory.
        on_host: the EP computes in host memory.
    """
    if not mode.same_addresses():
        return ZeroCopy(False, "the outputs are not at the addresses that were bound", addresses=False)
    if on_host:
        return ZeroCopy(True, "the EP computes in host memory, at the addresses that were bound")
    if resident is None:
        return ZeroCopy(False, f"{_used(mode)}, but there is no device memory to compare a run's time with")
    copies = _copies_ns(resident, clock)
    ours, theirs = _alternate(mode, resident, clock)
    extra = min(ours) - min(theirs)
    noise = (median(ours) - min(ours)) + (median(theirs) - min(theirs))
    return verdict(extra, copies, noise, _used(mode))


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


def _copies_ns(resident: Mode, clock: Callable[[], int]) -> int:
    copies = resident.once()
    assert copies is not None
    upload, download = copies
    times = []
    for _ in range(5):
        start = clock()
        upload()
        download()
        times.append(clock() - start)
    return min(times)


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
