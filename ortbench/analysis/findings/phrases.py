"""What several findings say in the same way. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ortbench.core import units
from ortbench.core.stats import Value
from ortbench.core.units import ends, ratio
from ortbench.model.modes import LATENCY
from ortbench.model.result import OK, Case, Result

NOTHING = "Nothing was measured"


def within(interval: Sequence[float] | None, text: Callable[[float], str] = ratio) -> str:
    """Where a figure lies, in brackets behind it; empty where that is not known."""
    return "" if interval is None else f" (95% CI {' to '.join(ends(interval, text))})"


def placed(case: Case) -> str:
    """A mode, and its point where it has one: ``cpu-tensors at batch=8``."""
    point = ", ".join(f"{name}={value}" for name, value in case.point.items())
    return f"{case.mode} at {point}" if point else case.mode


def times(speedup: Value | float) -> str:
    """A speedup: ``4.09×``."""
    return units.times(speedup.value, speedup.ci95) if isinstance(speedup, Value) else units.times(speedup)


def quickest(result: Result) -> tuple[Case, float] | None:
    """The case with the shortest latency of those that are ok, and that latency, ns; None where nothing was measured."""
    timed = [(case, ns) for case in result.cases if case.status == OK and (ns := case.median(LATENCY))]
    return min(timed, key=lambda it: it[1], default=None)
