"""The figures of a loop: each step's time, how it grows, and what is copied in it. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from statistics import median

from ortbench.modes import STEP, TOTAL, WHOLE_LOOP
from ortbench.result import Case, Result
from ortbench.stats import summarise, t_quantile

_TELLING = 0.02  # so much of a step's time must the loop's growth make up to be told


def summarise_steps(case: Case, count: int) -> None:
    """Put the figures of a case into it that follow from the times of its steps.

    Args:
        case: of a loop; its total is there.
        count: steps of a loop.
    """
    case.phases[WHOLE_LOOP] = case.phases[TOTAL]
    case.phases.setdefault(STEP, None)
    samples = case.samples_ns.get(STEP)
    if samples:
        case.phases[STEP] = summarise(samples, [size for _, size, _ in case.blocks[STEP]])
        case.steps_ns = [round(median(samples[number::count])) for number in range(count)]


def slope_ns(steps_ns: Sequence[int], first: bool) -> float | None:
    """By how much a step takes longer than the one before it, ns: the least-squares line through the medians.

    Args:
        steps_ns: by step.
        first: the first step has a shape of its own, and is left out.

    Returns:
        None where there are fewer than three steps, and where it cannot be told from none (two-sided t test, 95 %).
    """
    values = steps_ns[1:] if first else steps_ns
    n = len(values)
    if n < 3:
        return None
    middle, mean = (n - 1) / 2, sum(values) / n
    spread = sum((number - middle) ** 2 for number in range(n))
    each = sum((number - middle) * (value - mean) for number, value in enumerate(values)) / spread
    left = sum((value - mean - each * (number - middle)) ** 2 for number, value in enumerate(values))
    error = math.sqrt(left / (n - 2) / spread)
    return each if abs(each) > t_quantile(n - 2) * error else None


def growth_ns(steps_ns: Sequence[int], first: bool) -> float | None:
    """The `slope_ns` that is worth telling: None too where all steps together make up less than 2 % of the last one."""
    each = slope_ns(steps_ns, first)
    return each if each is not None and abs(each) * len(steps_ns) > _TELLING * steps_ns[-1] else None


def steps_per_s(case: Case, count: int) -> float | None:
    """How many steps are done a second, by the median of the whole loop."""
    whole = case.median(TOTAL)
    return None if not whole else count * 1e9 / whole


def law(values: Sequence[int], first: bool) -> tuple[int, int] | None:
    """Of numbers by step: that of step 0, and what each step adds to it; None where it is no straight line.

    Args:
        values: by step, at least one.
        first: the first step has a shape of its own, and is left out.
    """
    used = values[1:] if first and len(values) > 1 else values
    differences = {after - before for before, after in pairwise(used)}
    if len(differences) > 1:
        return None
    each = differences.pop() if differences else 0
    return used[0] - each * (len(values) - len(used)), each


def is_first_apart(result: Result) -> bool:
    """Whether the first step has a shape of its own."""
    return result.loop is not None and bool(result.loop["first"])
