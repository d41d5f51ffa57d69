"""What the host takes for a block of samples: until calls return, and CPU time of the whole worker."""

from __future__ import annotations

import os
import sys
from time import perf_counter_ns
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ortbench.model.protocol import CpuTime
    from ortbench.worker.modes.base import Split


def cpu_ns() -> tuple[int, int]:
    """CPU time of all threads of this process so far, ns: user and system.

    Linux and macOS count it in microseconds, Windows in ticks of some 16 ms. Linux adds what a thread has run in its
    time slice at the end of that, so a short block has a few milliseconds too much or too little: the sum over many blocks
    is right.
    """
    if sys.platform == "win32":
        spent = os.times()
        return round(spent.user * 1e9), round(spent.system * 1e9)
    import resource  # which Windows has not

    usage = resource.getrusage(resource.RUSAGE_SELF)
    return round(usage.ru_utime * 1e9), round(usage.ru_stime * 1e9)


def counts() -> dict[str, int]:
    """What the system has counted of this process so far, by metric; nothing on Windows, which does not tell."""
    if sys.platform == "win32":
        return {}
    import resource

    usage = resource.getrusage(resource.RUSAGE_SELF)
    return {"page_faults": usage.ru_minflt + usage.ru_majflt, "involuntary_switches": usage.ru_nivcsw}


class HostTime:
    """Taken beside the samples of a block by `ortbench.worker.timing.time_block`.

    Args:
        split: of the phase whose samples they are: its call and the wait for its end. None where the call is the wait.

    Attributes:
        submits: of each sample the time until the call returned, ns; empty without a `split`.
        cpu: of all of them.
        counts: what the system counted meanwhile.
    """

    def __init__(self, split: Split | None = None) -> None:
        self.split = split
        self.submits: list[int] = []
        self.cpu: CpuTime = {"user_ns": 0, "system_ns": 0, "wall_ns": 0}
        self.counts: dict[str, int] = {}

    def begin(self) -> None:
        """Right before the first sample."""
        self._counted = counts()
        self._start = *cpu_ns(), perf_counter_ns()

    def end(self) -> None:
        """Right after the last one."""
        end, (user, system) = perf_counter_ns(), cpu_ns()
        began = self._start
        self.cpu = {"user_ns": user - began[0], "system_ns": system - began[1], "wall_ns": end - began[2]}
        self.counts = {key: count - self._counted[key] for key, count in counts().items()}
