"""What is measured once all blocks are: passes over each side, only where an option asks for them, in this order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from ortbench.analysis.memory import failed
from ortbench.measure.energy import measure_energy
from ortbench.measure.follow_up import COPIES_NOT_MEASURED, NODES_FAILED, look_closer, measure_copies, profile_nodes
from ortbench.measure.forecast import Step
from ortbench.measure.memory import learn_forms, weigh_modes
from ortbench.measure.side import Side
from ortbench.measure.spin import NOT_MEASURED as SPIN_NOT_MEASURED
from ortbench.model.modes import CPU_TIME, NO_SPIN
from ortbench.model.result import OK

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Pass:
    """One of them.

    Attributes:
        wanted: whether a side is to have it.
        carry_out: it, on a side; the other argument is told what is going on, in words.
        text: what it begins with, in words; "" where it says that itself.
        step: whose time the forecast counts on for each of its words, if any.
    """

    wanted: Callable[[Side], bool]
    carry_out: Callable[[Side, Tell], None]
    text: str = ""
    step: Step | None = None


def wanted(passes: Iterable[Pass], sides: Sequence[Side]) -> Iterator[tuple[Pass, Side]]:
    """What is to be carried out on which side, one pass after the other; asked when it is its turn."""
    return ((it, side) for it in passes for side in sides if it.wanted(side))


# In the workers that have measured. CUPTI is the last that looks into runs, as it stays in their processes.
IN_WORKERS = (
    Pass(lambda side: side.timeline is not None, look_closer),
    Pass(lambda side: side.plan.energy and bool(side.modes), measure_energy, "measuring the idle draw", "energy"),
    Pass(lambda side: side.plan.measure_copies, lambda side, _: measure_copies(side), "measuring copies with CUPTI"),
    Pass(lambda side: side.plan.memory and bool(side.modes), lambda side, _: learn_forms(side)),
)

# In workers of their own, when those have ended.
APART = (
    Pass(lambda side: side.plan.nodes, lambda side, _: profile_nodes(side), "profiling nodes"),
    Pass(lambda side: side.forms is not None, weigh_modes),
)


def give_up(side: Side) -> None:
    """Say of what was asked of a side and has not come that it was interrupted."""
    plan, result, why = side.plan, side.result, "it was interrupted"
    done = [case for case in result.cases if case.status == OK]
    for case in done:
        if plan.memory and case.memory is None:
            case.memory = failed(why)
        if plan.energy and case.energy is None:
            case.energy = {"unsupported": why}
    for option, code, lacking in (
        ("nodes", NODES_FAILED, plan.nodes and result.nodes is None),
        ("measure-copies", COPIES_NOT_MEASURED, plan.measure_copies and all(case.recorded is None for case in done)),
        ("spin", SPIN_NOT_MEASURED, plan.spin and all(f"{CPU_TIME}_{NO_SPIN}" not in case.metrics for case in done)),
    ):
        if lacking and done and all(warning["code"] != code for warning in result.warnings):
            result.warn(code, f"--{option} gave nothing: {why}")
    side.keep()
