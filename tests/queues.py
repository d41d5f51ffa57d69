"""What is known of queues: Lindley's recursion, the mean of M/D/1, scripted servers, and whether a record agrees with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from ortbench.features.load.analysis.blocks import OpenLoopBlock

MS = 1_000_000
Moments = npt.NDArray[np.int64]
Services = Sequence[int] | Moments


def lindley(due: Services, service: Services) -> Moments:
    """The wait of each request before one server, first come, first served, ns, of when each is due and how long it takes (Lindley, Proc.
    Cambridge Philosophical Society 48 (1952) 277)."""
    waits = [0]
    for number in range(1, len(due)):
        between = int(due[number]) - int(due[number - 1])
        waits.append(max(0, waits[-1] + int(service[number - 1]) - between))
    return np.array(waits, np.int64)


def md1_wait(service_ns: float, utilisation: float) -> float:
    """The mean wait of Poisson arrivals before one server of constant service time, ns (Pollaczek and Khinchine)."""
    return utilisation * service_ns / (2 * (1 - utilisation))


def steady(service_ns: int) -> Callable[[int], Services]:
    """Service times that are all the same."""
    return lambda count: [service_ns] * count


def served(due: Services, services: Callable[[int], Services]) -> OpenLoopBlock:
    """What an honest generator records of one server."""
    moments, times = np.asarray(due, np.int64), np.asarray(services(len(due)), np.int64)
    start = moments + lindley(moments, times)
    end = start + times
    free = np.concatenate([[0], end[:-1]])
    return OpenLoopBlock(moments, free, start, end, None, 1, cpu_ns=0, wall_ns=int(end[-1]))


def hidden(block: OpenLoopBlock) -> OpenLoopBlock:
    """The same as a generator records it that hides what was late: a request is due when it could begin (coordinated omission)."""
    start, end = block.start, block.end
    return OpenLoopBlock(start, block.free, start, end, None, 1, cpu_ns=0, wall_ns=block.wall_ns)


def disagreements(block: OpenLoopBlock, services: Services, due: Services) -> list[str]:
    """In what the waits of a record differ from those that Lindley's recursion gives, by more than 1 % or 50 µs, of how long the server
    had each request, and when each was asked for, as it was made beforehand."""
    true, found = lindley(due, services), []
    for name, of in (("mean", np.mean), ("p99", lambda it: np.quantile(it, 0.99))):
        measured, computed = float(of(block.waits)), float(of(true))
        if abs(measured - computed) > max(0.01 * computed, 50_000):
            found.append(f"{name} of the wait is {measured:.0f} ns, by Lindley's recursion {computed:.0f} ns")
    return found
