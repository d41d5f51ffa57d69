"""A service level objective: the most that a statistic of a run's time may be, as ``p99=20ms``. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import NamedTuple

from ortbench.core.errors import BadInput
from ortbench.core.stats import SAMPLES_FOR, Stats
from ortbench.core.units import duration

LATENCY = "latency"  # the median of it
# The median has two names: that of the column, and that which loads have for it.
FIELDS = {
    LATENCY: "median", "p50": "median", "mean": "mean", "p90": "p90", "p95": "p95", "p99": "p99", "max": "max",
}  # fmt: skip
SAMPLES_NEEDED: Mapping[str, int] = {"p90": 10, **SAMPLES_FOR}
_UNITS = {"ns": 1, "us": 1e3, "µs": 1e3, "ms": 1e6, "s": 1e9}


class Slo(NamedTuple):
    """The most that a statistic may be."""

    statistic: str  # ``latency`` or ``p50`` (the median), ``mean``, ``p90``, ``p95``, ``p99`` or ``max``
    limit_ns: int  # in ns

    def value_ns(self, stats: Stats) -> int | None:
        """The statistic, ns; None where there are too few samples for it."""
        if stats.n < SAMPLES_NEEDED.get(self.statistic, 1):
            return None
        value: int = getattr(stats, FIELDS[self.statistic])
        return value

    @property
    def is_median(self) -> bool:
        """Whether it is of the median, which has an interval."""
        return FIELDS[self.statistic] == FIELDS[LATENCY]

    def __str__(self) -> str:
        return f"{self.statistic} ≤ {duration(self.limit_ns)}"


def parse_limits(text: str, option: str, statistics: Collection[str]) -> dict[str, int]:
    """``p99=20ms`` or ``p99=20ms,mean=5ms`` as ns by statistic, at least one; `BadInput` where it is not of that
    form."""
    found: dict[str, int] = {}
    for part in text.split(","):
        name, equals, limit = (it.strip() for it in part.partition("="))
        if not equals:
            raise BadInput(f"{option} {part.strip()!r}: write it as STAT=TIME, such as p99=20ms", option)
        if name not in statistics:
            reason = f"there is no such statistic; choose from {', '.join(statistics)}"
            raise BadInput(f"{option} {name!r}: {reason}", option)
        if name in found:
            raise BadInput(f"{option} {name}: was given twice; give it once", option)
        time = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) ?(ns|us|µs|ms|s)", limit)
        ns = float(time[1]) * _UNITS[time[2]] if time else 0.0
        if not 1 <= ns < 1e15:
            raise BadInput(f"{option} {name}={limit}: write a time above zero such as 20ms, 500us or 1s", option)
        found[name] = round(ns)
    return found


_P50 = "p50"
STATISTICS = (_P50, "mean", "p95", "p99", "max")  # of the latency at a point


def parse_slo(text: str, option: str) -> dict[str, int]:
    """``p99=20ms`` or ``p99=20ms,mean=5ms`` as ns by statistic; ``latency`` is the median, as of a sweep; `BadInput`: no statistic,
    or no time."""
    found = parse_limits(text, option, (LATENCY, *STATISTICS))
    return {_P50 if name == LATENCY else name: limit for name, limit in found.items()}
