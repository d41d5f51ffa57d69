"""The numbers by which the noise of a machine is read, and by which it is said what noise leaves of a claim; each with its source."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar

N = TypeVar("N", int, float)


def _number(value: N, source: str) -> N:
    number: N = field(default=value, metadata={"source": source})
    return number


@dataclass(frozen=True)
class Policy:
    """Shares are of 1; `Policy.__dataclass_fields__` has the source of each number."""

    # What is read
    reading_ns: int = _number(1_000_000_000, "the system counts CPU time in ticks of 10 ms: 1 % of a reading")
    shortest_reading: float = _number(0.5, "of a reading: of less a tick would be more than 2 %")
    most_readings: int = _number(600, "ten minutes of them; of longer measurements one in several is kept")
    most_blocks: int = _number(20_000, "1 MB of a result file, of seven numbers a block")
    most_threads: int = _number(16, "reports/harness-cost.txt: so many take 80 µs a block, 0.4 % of it")
    ran: float = _number(0.01, "of a block: a thread that ran for less was woken, and did no part of the work")
    clock_cores: int = _number(4, "the highest clock is kept, and a worker moves between cores")
    quiet_s: int = _number(2, "two readings in a row: one may fall between two bursts")

    # When a block has waited, and when a machine is busy
    waited: float = _number(
        0.02, "of a block: on two quiet cores runs wait up to 2 % for the system's own work (the page on noise)"
    )
    waited_ns: int = _number(100_000, "as much as the readings of a block take themselves (reports/harness-cost.txt)")
    others: float = _number(
        0.08,
        "of the cores: the page on noise counts noise in 296 of 296 runs beside 10 % or more, and in 0 of 160 quiet ones",
    )
    some: float = _number(
        0.02, "of the cores: twice what a quiet system does itself; others who use less make no block wait"
    )
    waiting_blocks: float = _number(0.1, "of all blocks: the same count as of `others`")
    fewest_blocks: int = _number(2, "one block that waits is chance")
    waiting_time: float = _number(
        0.08, "of all blocks: a load of more threads than cores waits 5 % for its own threads (the page on noise)"
    )
    stolen: float = _number(
        0.05,
        "of the cores: chosen below `others`, as a guest sees only a part of what it lost; not counted on a machine",
    )
    stopped: float = _number(0.02, "of the time: a group is stopped for whole periods of 100 ms, one in 5 s")

    # What can be claimed on a busy machine
    chance: float = _number(0.025, "one end of a 95 % interval, as of all claims")
    beside_cpu: float = _number(
        1.25, "for caches, memory bandwidth and clocks: chosen; no conclusion of reports/busy.md was wrong with it"
    )
    least_kept: float = _number(0.01, "of its time, of what has next to none: keeps a quotient finite")
    alike: float = _number(1.1, "the end of an interval of no difference: chosen, twice the usual margin of 5 %")
    most_hit: float = _number(0.4, "of samples: below a half, so that samples without a wait have the median")
    clear: float = _number(
        1.1, "how much better one is beside samples that waited: chosen, with the counts of the page on noise"
    )


POLICY = Policy()
