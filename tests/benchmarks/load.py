"""A load that comes and goes on all cores, as other people's jobs do on a shared machine.

python -m tests.benchmarks.load 60
"""

from __future__ import annotations

import multiprocessing
import os
import random
import sys
import threading
import time
from multiprocessing.synchronize import Event
from types import TracebackType

BURST_S = (0.3, 3.0)  # how long a burst lasts, and how long the pause after it, both uniformly distributed


def _burn(on: Event, parent: int) -> None:
    while os.getppid() == parent:  # else the one who switches it off is gone
        if on.wait(1):
            for _ in range(20_000):
                pass


class Load:
    """Bursts of 0.3 to 3 s with pauses of 0.3 to 3 s, one busy process a core, while the block runs.

    Args:
        seed: of the lengths.
    """

    def __init__(self, seed: int = 0) -> None:
        context = multiprocessing.get_context("spawn")
        self._random = random.Random(seed)
        self._on = context.Event()
        self._over = threading.Event()
        self._burners = [
            context.Process(target=_burn, args=(self._on, os.getpid()), daemon=True) for _ in range(os.cpu_count() or 1)
        ]
        self._switch = threading.Thread(target=self._alternate, daemon=True)

    def _alternate(self) -> None:
        while not self._over.wait(self._random.uniform(*BURST_S)):
            if self._on.is_set():
                self._on.clear()
            else:
                self._on.set()

    def __enter__(self) -> Load:
        for burner in self._burners:
            burner.start()
        self._switch.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._over.set()
        self._switch.join()
        for burner in self._burners:
            burner.terminate()
            burner.join()


if __name__ == "__main__":
    with Load():
        time.sleep(float(sys.argv[1]))
