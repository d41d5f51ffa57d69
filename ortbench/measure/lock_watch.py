"""What share of their time callers wait for Python's lock: they are looked at, at random moments, from outside.

`copy_tensors` and the synchronize calls of ONNX Runtime's Python API hold the lock while they wait for the device, a run
lets go of it. A caller whose run is done needs it back, and waits while another one copies. No clock of the callers shows
that wait, because it ends inside the call. But Linux tells of every thread in which system call it sleeps and at which
address, and threads that wait for the lock sleep at one that is known (`ortbench.worker.load.callers`). Who looks at random
moments sees a caller waiting in the share of looks that is the share of its time: moments of a Poisson process see time
averages (Wolff, Operations Research 30 (1982) 223), also of what goes in step. The looks are taken by this process, which does
not need the worker's lock for them. Where the system does not tell (not Linux, or it may not be asked), nothing is known.
"""

from __future__ import annotations

import os
import random
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Self

_EVERY_S = 0.004  # mean time between looks
_NEAR = 256  # bytes around the address that belong to the lock: it has more than one place to sleep at
_LONGEST = 512


class LockWatch:
    """Looks at threads while a block lasts; use it as a context manager.

    Args:
        pid: of the worker.
        threads: the system's numbers of the callers' threads.
        place: system call and address, see `ortbench.worker.load.callers.waiting_place`; None where they are not known.
        seed: of the moments.
    """

    def __init__(self, pid: int, threads: Sequence[int], place: Sequence[int] | None, seed: int) -> None:
        self._place = place
        self._random = random.Random(seed)
        self._end = threading.Event()
        self._looks: list[tuple[int, int]] = []
        self._files: list[int] = []
        if place is not None:
            with suppress(OSError):
                self._files = [os.open(f"/proc/{pid}/task/{thread}/syscall", os.O_RDONLY) for thread in threads]
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        if self._files:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        if self._files:
            self._thread.join()
        for file in self._files:
            os.close(file)

    def seen(self, start_ns: int, end_ns: int) -> tuple[int, int] | None:
        """How many callers were waiting, and how many were looked at, between two moments of `time.perf_counter_ns`; None
        where nobody looked."""
        waiting = [count for at, count in self._looks if start_ns <= at < end_ns]
        return (sum(waiting), len(waiting) * len(self._files)) if waiting else None

    def _watch(self) -> None:
        if sys.platform == "win32":  # there is no such file to look at
            return
        with suppress(OSError):  # the worker has ended, or may not be looked at
            while not self._end.wait(self._random.expovariate(1 / _EVERY_S)):
                at = time.perf_counter_ns()
                self._looks.append((at, sum(self._waits(os.pread(file, _LONGEST, 0)) for file in self._files)))

    def _waits(self, text: bytes) -> bool:
        """Whether a thread waits for the lock, by what the system says of it: such as ``202 0x7f051f74e6f0 0x89 …``."""
        assert self._place is not None
        number, _, rest = text.partition(b" ")
        address, _, _ = rest.partition(b" ")
        if not number.isdigit() or not address.startswith(b"0x"):
            return False  # it runs
        return int(number) == self._place[0] and abs(int(address, 16) - self._place[1]) < _NEAR
