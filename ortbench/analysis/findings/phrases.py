"""What several findings say in the same way. Pure."""

from __future__ import annotations

from ortbench.core import units
from ortbench.core.stats import Value
from ortbench.model.modes import LATENCY
from ortbench.model.result import OK, Case, Result


def times(speedup: Value | float) -> str:
    """A speedup: ``4.09×``."""
    return units.times(speedup.value, speedup.ci95) if isinstance(speedup, Value) else units.times(speedup)


def quickest(result: Result) -> tuple[Case, float] | None:
    """The case with the shortest latency of those that are ok, and that latency, ns; None where nothing was measured."""
    timed = [(case, ns) for case in result.cases if case.status == OK and (ns := case.median(LATENCY))]
    return min(timed, key=lambda it: it[1], default=None)
