"""What is to be done for a sweep of a suite: its shapes, what the best has to keep, and its gate's limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ortbench.gate.contests import own_contests
from ortbench.gate.limits import SLO as OF_LOADS
from ortbench.gate.limits import Limits, limits_of
from ortbench.model.slo import Slo
from ortbench.plan.options import SWEPT, Given, make
from ortbench.plan.plan_builder import asked_modes, weighing
from ortbench.plan.sweep_plan import IN_SUITES, Shape, Swept, shapes_of
from ortbench.suite.layers import OPTIONS

ONLY_SWEEPS = {it.flag for it in IN_SUITES}


@dataclass(frozen=True)
class AskedSweep:
    """A sweep.

    Attributes:
        shapes: at least two.
        slo: what the best of them has to keep, or None.
        limits: of its gate, that there is a shape which keeps the SLO among them.
    """

    shapes: Sequence[Shape]
    slo: Slo | None
    limits: Limits


def is_sweep(given: Given) -> bool:
    """Whether options are those of a sweep."""
    return SWEPT in given


def is_for_sweeps(flag: str) -> bool:
    """Whether an option is one of `ortbench sweep`."""
    return flag in ONLY_SWEEPS or flag in ("ep", OF_LOADS.flag) or SWEPT in OPTIONS[flag].commands


def sweep_of(model: str, given: Given, command: tuple[str, ...]) -> AskedSweep:
    """The sweep that options ask for.

    Raises:
        BadInput: they cannot be.
    """
    slo = make(Swept, given).slo
    modes = asked_modes(given) if "mode" in given else ()
    own = {flag: value for flag, value in given.items() if flag != OF_LOADS.flag}
    limits = limits_of(own, "baseline" in given, modes)
    limits = limits if slo is None else replace(limits, slo={slo.statistic: slo.limit_ns})
    own_contests(limits)
    shapes = shapes_of(model, given, command, limits.needed())
    weighed = [replace(it, plan=weighing(it.plan, limits.of_memory)) for it in shapes]
    return AskedSweep(weighed, slo, limits)
