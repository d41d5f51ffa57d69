"""``--spin``: the same runs once more, with threads that sleep where they would spin. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ortbench.modes import CPU_TIME, TOTAL
from ortbench.plan import NO_SPIN, Plan
from ortbench.result import Result
from ortbench.stats import FEWEST, Stats

_LONGEST_S = 1.0  # per mode: CPU time needs no more


def without_spin(plan: Plan, modes: Sequence[str]) -> Plan:
    """A short plan that differs in that and times whole inferences alone.

    Args:
        plan: of the measurement.
        modes: that were measured in it.
    """
    loop = replace(plan.loop, duration_s=min(plan.loop.duration_s, _LONGEST_S), phases=(TOTAL,), in_order=False)
    target = replace(plan.target, session_config={**plan.target.session_config, **NO_SPIN})
    return replace(plan, target=target, modes=tuple(modes), loop=loop, nodes=False, measure_copies=False, spin=False)


def take_spin(result: Result, still: Result) -> None:
    """Put into a result what its modes take where threads do not spin, and warn of those of which that is not known.

    Args:
        result: of the measurement.
        still: of the plan `without_spin`.
    """
    for case in result.cases:
        other, found = next((it for it in still.cases if it.mode == case.mode), None), still.case(case.mode)
        total, spent = (None, None) if found is None else (found.median(TOTAL), found.phases.get(CPU_TIME))
        if found is not None and found.host is not None and total is not None and spent is not None:
            case.spin = {**found.host, "total_ns": total, "cpu_time_ci95_ns": _interval(spent)}
        elif other is not None:
            result.warn(NOT_MEASURED, f"--spin gave nothing of {case.mode}: {other.reason or 'it was interrupted'}")


def _interval(spent: Stats) -> list[int] | None:
    """Of the CPU time of blocks; a few of them are no measure of their noise."""
    return [*spent.ci95_ns] if spent.n >= FEWEST else None


NOT_MEASURED = "spin-not-measured"  # the code of the warning
