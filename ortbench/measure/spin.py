"""``--spin``: the same runs once more, with threads that sleep where they would spin. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ortbench.analysis.host import cpu_time_ns, put_spin_share
from ortbench.core.stats import FEWEST, Stats
from ortbench.model.modes import CPU_CORES, CPU_SYSTEM, CPU_TIME, CPU_USER, LATENCY, NO_SPIN
from ortbench.model.result import Result
from ortbench.plan.plan import NO_SPIN as SETTINGS
from ortbench.plan.plan import Plan

_LONGEST_S = 1.0  # per mode: CPU time needs no more


def without_spin(plan: Plan, modes: Sequence[str]) -> Plan:
    """A short plan that differs in that and times whole inferences alone.

    Args:
        plan: of the measurement.
        modes: that were measured in it.
    """
    loop = replace(plan.loop, duration_s=min(plan.loop.duration_s, _LONGEST_S), phases=(LATENCY,), in_order=False)
    target = replace(plan.target, session_config={**plan.target.session_config, **SETTINGS})
    return replace(plan, target=target, modes=tuple(modes), loop=loop, nodes=False, measure_copies=False, spin=False)


def take_spin(result: Result, still: Result) -> None:
    """Put into a result what its modes take where threads do not spin, and warn of those of which that is not known.

    Args:
        result: of the measurement.
        still: of the plan `without_spin`.
    """
    for case in result.cases:
        other, found = next((it for it in still.cases if it.mode == case.mode), None), still.case(case.mode)
        total, spent = (None, None) if found is None else (found.median(LATENCY), found.stats(CPU_TIME))
        if found is not None and total is not None and spent is not None and (each := cpu_time_ns(found)) is not None:
            case.put(f"{LATENCY}_{NO_SPIN}", total)
            case.put(f"{CPU_TIME}_{NO_SPIN}", each, _interval(spent))
            for key in (CPU_USER, CPU_SYSTEM, CPU_CORES):
                case.put(f"{key}_{NO_SPIN}", found.value(key))
            put_spin_share(case)
        elif other is not None:
            result.warn(NOT_MEASURED, f"--spin gave nothing of {case.mode}: {other.reason or 'it was interrupted'}")


def _interval(spent: Stats) -> list[float] | None:
    """Of the CPU time of blocks; a few of them are no measure of their noise."""
    return [*spent.ci95] if spent.n >= FEWEST else None


NOT_MEASURED = "spin-not-measured"  # the code of the warning
