"""A machine whose noise is data: what it tells stands in the place of what the system does (`ortbench.measure.noise.Source`)."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Collection, Mapping, Sequence

from ortbench.measure import noise
from ortbench.measure.noise import Counters, Waits

VARIABLE = "ORTBENCH_TESTS_NOISE"  # what a command's machine does: the arguments of `Machine`, as JSON


class Machine:
    """A machine that does nothing else, unless it is told to.

    Args:
        cores, limit: that there are, and how many cores' worth of time a group may take.
        others: how many cores others use up to each reading of half a second or more, one after the other; the last one from then on.
        waits: for how long the worker waits for a CPU in a block, as a share of its time, by the block's number from 0; of all others
            ``"all"``.
        threads: how many of the worker's run in each block.
        stolen, throttled: how many cores' worth of time the hypervisor takes, and a limit.
    """

    def __init__(
        self,
        cores: int = 2,
        limit: float | None = None,
        others: Sequence[float] = (0.0,),
        waits: Mapping[str, float] | None = None,
        threads: int = 1,
        stolen: float = 0.0,
        throttled: float = 0.0,
    ) -> None:
        self.cores, self.limit = cores, limit
        self._others, self._waits, self._threads = list(others), dict(waits or {}), threads
        self._stolen, self._throttled = stolen, throttled
        self._blocks = self._begun_ns = self._rested_ns = 0
        self._last: Counters | None = None

    def waits(self, pids: Sequence[int], begin: bool) -> Waits:
        """By the script."""
        at = time.perf_counter_ns()
        if begin:
            self._begun_ns = at
            return Waits(at, 0, 0, dict.fromkeys(range(self._threads), (0, 0, 0)))
        took = at - self._begun_ns
        share = self._waits.get(str(self._blocks), self._waits.get("all", 0.0))
        self._blocks += 1
        each = took, round(share * took / self._threads), 1
        return Waits(at, 0, 0, dict.fromkeys(range(self._threads), each))

    def counters(self, pids: Collection[int]) -> Counters:
        """By the script."""
        at = time.perf_counter_ns() + self._rested_ns
        before = self._last
        if before is None:
            self._last = Counters(at, 0.0, 0, 0.0, 0, 0)
            return self._last
        passed = at - before.at_ns
        others = self._others.pop(0) if len(self._others) > 1 and passed > 5e8 else self._others[0]
        self._last = Counters(
            at, before.used_ns + others * passed, 0, (before.stolen_ns or 0) + self._stolen * passed, 0,
            (before.throttled_ns or 0) + round(self._throttled * passed),
        )  # fmt: skip
        return self._last

    def rest(self, seconds: float) -> None:
        """At once."""
        self._rested_ns += round(seconds * 1e9)


def take_place() -> None:
    """Be the machine of all that is measured from now on, as the environment says."""
    made = Machine(**json.loads(os.environ.get(VARIABLE, "{}")))
    noise.system = lambda: made
