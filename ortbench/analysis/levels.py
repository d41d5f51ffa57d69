"""The levels of a load: which there are, their figures, and where each may lie. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import stdev
from typing import Literal, NamedTuple

from ortbench import units
from ortbench.result import OK, Result
from ortbench.schema import Latency, Level
from ortbench.stats import Ratio, t_quantile

RUNS_PER_S: Literal["runs_per_s"] = "runs_per_s"
CONCURRENCY, RATE = "concurrency", "rate"  # what a level is of: so many callers, or so many requests a second
LATENCIES: tuple[Literal["p50", "p95", "p99", "mean"], ...] = ("p50", "p95", "p99", "mean")
STATISTICS = (RUNS_PER_S, *LATENCIES)  # that may be compared; the largest of all says nothing that comes again
FEWEST_BLOCKS = 3  # of which an interval is made
FULL = 0.98  # from which busy share of the callers on a queue grows as long as requests come

Interval = tuple[float, float]


class At(NamedTuple):
    """What a level is of: a number of callers (`CONCURRENCY`) or requests a second (`RATE`)."""

    kind: str
    value: float

    @property
    def text(self) -> str:
        """In words: ``4 callers``, ``30 a second``."""
        if self.kind == RATE:
            return f"{rate_text(self.value)} a second"
        return "1 caller" if self.value == 1 else f"{self.value:g} callers"

    @property
    def phrase(self) -> str:
        """After what happens there: ``with 4 callers``, ``at 30 a second``."""
        return f"{'at' if self.kind == RATE else 'with'} {self.text}"


def rate_text(rate: float) -> str:
    """A rate as it was asked for; one that a search came upon with three digits."""
    text = f"{rate:g}"
    return text if len(text.partition(".")[2]) <= 2 else units.digits(rate)


def at(level: Level) -> At:
    """What a level is of."""
    return At(RATE, level["rate"]) if "rate" in level else At(CONCURRENCY, level["concurrency"])


def is_measured(level: Level) -> bool:
    """Whether a level is ok and has its figures."""
    return level["status"] == OK and level["runs_per_s"] is not None and level["latency_ns"] is not None


def modes_of(result: Result) -> list[str]:
    """The modes that levels are of, in the order in which they first come."""
    return list(dict.fromkeys(level["mode"] for level in result.levels))


def measured(result: Result, kind: str, mode: str | None = None) -> list[Level]:
    """The levels that are ok, the lowest first.

    Args:
        result: of a load.
        kind: `CONCURRENCY` or `RATE`.
        mode: of one mode; None for all, one behind the other.
    """
    modes = modes_of(result) if mode is None else [mode]
    found = [it for it in result.levels if is_measured(it) and at(it).kind == kind and it["mode"] in modes]
    return sorted(found, key=lambda it: (modes.index(it["mode"]), at(it).value))


def is_full(level: Level) -> bool:
    """Whether the callers of an open loop were busy all the time: its waits grow with how long it lasts."""
    busy = level.get("utilisation")
    return busy is not None and busy >= FULL


def rate_of(level: Level) -> float:
    """Runs/s of a level that was measured."""
    found = level["runs_per_s"]
    assert found is not None
    return found


def latency_of(level: Level) -> Latency:
    """The latency of a level that was measured."""
    found = level["latency_ns"]
    assert found is not None
    return found


def figure(level: Level, stat: str) -> float:
    """One of `STATISTICS` of a level that was measured: runs/s, or ns."""
    return rate_of(level) if stat == RUNS_PER_S else by_statistic(latency_of(level))[stat]


def block_figures(level: Level, stat: str) -> dict[int, float]:
    """One of `STATISTICS` of each block of a level, by its round."""
    return {
        block["round"]: block["runs_per_s"] if stat == RUNS_PER_S else by_statistic(block["latency_ns"])[stat]
        for block in level.get("blocks", [])
    }


def by_statistic(latency: Latency) -> dict[str, int]:
    """A latency by the names of its statistics, ns."""
    return {name: latency[name] for name in LATENCIES} | {"max": latency["max"]}


def interval(level: Level, stat: str) -> Interval | None:
    """Where a figure of a level lies with 95 %: runs/s as they were recorded, latencies by the spread of the blocks.

    Of blocks the logarithms are averaged (Student's t), so that no end of an interval lies below zero.

    Returns:
        None with fewer than `FEWEST_BLOCKS` blocks, or where nothing was recorded.
    """
    if stat == RUNS_PER_S and level["ci95"] is not None:
        low, high = level["ci95"]
        return low, high
    logs = [math.log(max(value, 1e-9)) for value in block_figures(level, stat).values()]
    if len(logs) < FEWEST_BLOCKS:
        return None
    half = t_quantile(len(logs) - 1) * stdev(logs) / math.sqrt(len(logs))
    middle = figure(level, stat)
    return middle * math.exp(-half), middle * math.exp(half)


def quotient(value: float, base: float, value_in: Interval | None, base_in: Interval | None) -> Ratio:
    """`value` / `base` of two that were measured apart, and where it lies with 95 %; no interval where one of them has none.

    By the method of variance estimates recovery on logarithms (Zou and Donner, Statistics in Medicine 27 (2008) 1693), which
    needs no more of each than its own interval.
    """
    ratio = max(value, 1e-9) / max(base, 1e-9)
    if value_in is None or base_in is None:
        return Ratio(ratio, None)
    up, down = _reach(value, value_in), _reach(base, base_in)
    return Ratio(ratio, (ratio * math.exp(-math.hypot(up[0], down[1])), ratio * math.exp(math.hypot(up[1], down[0]))))


def _reach(value: float, inside: Interval) -> tuple[float, float]:
    """How far an interval reaches below and above its figure, as logarithms."""
    below, above = (math.log(max(end, 1e-9) / max(value, 1e-9)) for end in inside)
    return max(-below, 0.0), max(above, 0.0)


def speed_up(level: Level, levels: Sequence[Level]) -> Ratio | None:
    """How many times the runs/s of one caller a level brings; None without a level of one caller.

    Its interval is over the rounds in which both had a block: what the machine's clock does in a round both have. Of their
    ratios the logarithms are averaged (Student's t). With fewer than `FEWEST_BLOCKS` of them it is from the intervals of both.

    Args:
        level: that was measured, of a closed loop.
        levels: of its mode, the lowest first.
    """
    one = next((it for it in levels if at(it) == At(CONCURRENCY, 1)), None)
    if one is None:
        return None
    if level is one:
        return Ratio(1.0, None)
    apart = quotient(rate_of(level), rate_of(one), interval(level, RUNS_PER_S), interval(one, RUNS_PER_S))
    these, those = block_figures(level, RUNS_PER_S), block_figures(one, RUNS_PER_S)
    logs = [math.log(max(these[number], 1e-9) / max(those[number], 1e-9)) for number in these.keys() & those.keys()]
    if len(logs) < FEWEST_BLOCKS:
        return apart
    reach = math.exp(t_quantile(len(logs) - 1) * stdev(logs) / math.sqrt(len(logs)))
    return Ratio(apart.ratio, (apart.ratio / reach, apart.ratio * reach))


def spread_of(level: Level) -> float | None:
    """By what share the runs/s of a level may be off, to the farther end of its interval."""
    inside = interval(level, RUNS_PER_S)
    middle = rate_of(level)
    return None if inside is None or not middle else max(middle - inside[0], inside[1] - middle) / middle
