"""A close-up: a few inferences of a mode with every step timed on its own.

It is a pass of its own, for a timeline only. The clock is read between the work and its fence, which no sample may have
inside it, so none of these times is a measurement.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from ortbench.worker.modes.base import Mode

ITERATIONS = 8
BUDGET_NS = 1_000_000_000  # a slow model is looked at fewer times


def close_up(
    mode: Mode, most: int = ITERATIONS, budget_ns: int = BUDGET_NS, clock: Callable[[], int] = time.perf_counter_ns
) -> list[list[tuple[str, int, int]]]:
    """Time the steps of some inferences, after one that is not timed.

    Args:
        mode: set up.
        most: inferences to time.
        budget_ns: none is begun once this has been spent, but one is always timed.
        clock: monotonic, ns.

    Returns:
        For each inference the name, start and duration in ns of each step, in order.
    """
    steps = mode.steps()
    for _, call in steps:
        call()
    begun = clock()
    inferences: list[list[tuple[str, int, int]]] = []
    while not inferences or (len(inferences) < most and clock() - begun < budget_ns):
        taken = []
        for name, call in steps:
            start = clock()
            kept = call()
            taken.append((name, start, clock() - start))
            del kept  # freed outside the clock, as in a sample
        inferences.append(taken)
    return inferences
