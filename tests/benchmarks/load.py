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
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.synchronize import Event

BURST_S = (0.3, 3.0)  # how long a burst lasts, and how long the pause after it, both uniformly distributed


def _burn(on: Event, parent: int) -> None:
    while os.getppid() == parent:  # else the one who switches it off is gone
        if on.wait(1):
            for _ in range(20_000):
                pass


@contextmanager
def load(seed: int = 0) -> Iterator[None]:
    """Bursts of 0.3 to 3 s with pauses of 0.3 to 3 s, one busy process a core, while the block runs."""
    context = multiprocessing.get_context("spawn")
    lengths, on, over = random.Random(seed), context.Event(), threading.Event()

    def alternate() -> None:
        while not over.wait(lengths.uniform(*BURST_S)):
            (on.clear if on.is_set() else on.set)()

    burners = [context.Process(target=_burn, args=(on, os.getpid()), daemon=True) for _ in range(os.cpu_count() or 1)]
    switch = threading.Thread(target=alternate, daemon=True)
    for burner in burners:
        burner.start()
    switch.start()
    try:
        yield
    finally:
        over.set()
        switch.join()
        for burner in burners:
            burner.terminate()
            burner.join()


if __name__ == "__main__":
    with load():
        time.sleep(float(sys.argv[1]))
