"""What runs draw, by a counter of energy that was read beside them. Pure.

A counter moves in steps, of up to a tenth of a second. So everything begins and ends at one: between two of them its
difference is what was drawn, and the runs are counted up to the same times. The stretch is cut into parts, whose spread gives
the interval.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from statistics import variance
from typing import Literal

from ortbench.core.stats import t_quantile
from ortbench.features.energy.model import KEY
from ortbench.model.modes import ENERGY
from ortbench.model.result import Case

PARTS = 8  # into which a stretch is cut, where there are as many steps and runs
_FEWEST = 3  # parts that give an interval
_DIGITS = 9  # of seconds and joules, after the point

Readings = Sequence[tuple[int, float]]  # ns, and at how many joules the counter was seen from then on
Part = list[float]  # seconds and joules, after the runs where there are some


def idle_parts(readings: Readings) -> list[Part]:
    """Seconds and joules of the parts of a time without runs; none with fewer than two readings."""
    return [_part_between(one, other) for one, other in _split_readings(readings, PARTS)]


def put_energy(
    case: Case,
    how: Literal["counter", "power", "rapl"],
    of: str,
    readings: Readings,
    start_ns: int,
    ended: Sequence[tuple[int, int]],
    idle: Sequence[Part],
) -> None:
    """Put into a case what an inference draws, or why that is not known.

    `how` and `of` are those of `Energy`. Runs began at `start_ns`, on the clock of the readings; `ended` has how many
    had ended at which times, `idle` the parts of the time without runs beside it.
    """
    during = [it for it in readings if start_ns <= it[0] <= ended[-1][1]]
    count = partial(_count_runs, start_ns=start_ns, ended=ended)
    done = count(during[-1][0]) - count(during[0][0]) if len(during) > 1 else 0.0
    if not done or not idle:
        case.own[KEY] = {"unsupported": f"the energy counter of {of} moved too seldom"}
        return
    pairs = _split_readings(during, min(PARTS, max(1, math.floor(done))))
    parts = [[round(count(b[0]) - count(a[0]), _DIGITS), *_part_between(a, b)] for a, b in pairs]
    runs, seconds, joules = (math.fsum(column) for column in zip(*parts, strict=True))
    idle_w = math.fsum(it[1] for it in idle) / math.fsum(it[0] for it in idle)
    each = (joules - idle_w * seconds) / runs
    ci95 = _interval(each, parts, idle, idle_w)
    surely = each > 0 and (ci95 is None or ci95[0] > 0)
    case.set_metric(ENERGY, each, ci95)
    case.set_metric("power", round(joules / seconds, 3))
    case.set_metric("idle_power", round(idle_w, 3))
    case.set_metric("inferences_per_joule", 1 / each if surely else None)
    case.own[KEY] = {"how": how, "of": of, "start_ns": during[0][0], "parts": parts, "idle": [list(it) for it in idle]}


def _interval(each: float, parts: Sequence[Part], idle: Sequence[Part], idle_w: float) -> list[float] | None:
    """Student's, of what the parts give, with what is not known of the idle draw."""
    fewest = min(len(parts), len(idle))
    if fewest < _FEWEST:
        return None
    apart = variance((joules - idle_w * seconds) / runs for runs, seconds, joules in parts) / len(parts)
    of_idle = variance(joules / seconds for seconds, joules in idle) / len(idle)
    a_run = math.fsum(it[1] for it in parts) / math.fsum(it[0] for it in parts)
    half = t_quantile(fewest - 1) * math.sqrt(apart + of_idle * a_run**2)
    return [each - half, each + half]


def _split_readings(readings: Readings, parts: int) -> list[tuple[tuple[int, float], tuple[int, float]]]:
    """The first and the last reading of each of at most so many parts of about the same length."""
    if len(readings) < 2:
        return []
    times = [at for at, _ in readings]
    begin, length = times[0], times[-1] - times[0]
    ends = dict.fromkeys(bisect_left(times, begin + length * number / parts) for number in range(parts + 1))
    marks = [readings[min(number, len(readings) - 1)] for number in ends]
    return list(pairwise(marks))


def _part_between(one: tuple[int, float], other: tuple[int, float]) -> Part:
    return [round((other[0] - one[0]) / 1e9, _DIGITS), round(other[1] - one[1], _DIGITS)]


def _count_runs(time_ns: int, start_ns: int, ended: Sequence[tuple[int, int]]) -> float:
    """How many runs had been done at a time: between two ends, the share of the time that had passed."""
    after = min(bisect_left(ended, time_ns, key=lambda it: it[1]), len(ended) - 1)
    (n0, t0), (n1, t1) = ended[after - 1] if after else (0, start_ns), ended[after]
    return n0 + (n1 - n0) * (time_ns - t0) / max(t1 - t0, 1)
