"""What a reader of a load's figures should know: that requests were late, that callers waited for one another, that a level was
cut off."""

from __future__ import annotations

from collections.abc import Sequence

from ortbench.analysis.loads.levels import CONCURRENCY, at, load_cases
from ortbench.analysis.loads.load_levels import LATE_NS, LOCK_MATTERS, Taken
from ortbench.model.modes import GIL_WAIT, LATE_SHARE
from ortbench.model.result import Result
from ortbench.model.schema import PROCESS
from ortbench.plan.load_plan import LoadPlan, callers


def remark(result: Result, load: LoadPlan, taken: Sequence[Taken]) -> None:
    """Warn of it.

    Args:
        result: with its load points.
        load: that was put on.
        taken: what these are of.
    """
    for it in taken:
        _cut_off(result, it)
    waiting: dict[str, tuple[float, str]] = {}
    for case in load_cases(result):
        mode, (kind, value) = case.mode, at(case)
        where = callers(int(value)) if kind == CONCURRENCY else f"{value:g} requests a second"
        if (waited := case.value(GIL_WAIT) or 0) > max(LOCK_MATTERS, waiting.get(mode, (0.0, ""))[0]):
            waiting[mode] = (waited, where)
        if (late := case.value(LATE_SHARE) or 0) > 0.01:
            how = f"later than {LATE_NS / 1e6:g} ms after they were due although a caller was free"
            message = f"{late:.1%} of the requests of {mode} at {where} were issued {how}: the machine was busy"
            result.warn("late-requests", message)
    for mode, (share, where) in waiting.items():
        cure = "" if load.sessions == PROCESS else "; --sessions process measures without that"
        message = f"callers of {mode} waited for Python's lock {share:.0%} of their time at {where}, because copies and Python itself hold it{cure}"
        result.warn("lock-wait", message)


def _cut_off(result: Result, taken: Taken) -> None:
    """More requests came than could be served."""
    if all(it.cutoff_ns is None for it in taken.stretches):
        return
    due, served = (sum(sizes) for sizes in zip(*((it.due.size, it.start.size) for it in taken.stretches), strict=True))
    what = f"of {due} requests at {taken.key[1]:g} a second {served} were served by {taken.mode}"
    result.warn("overload", f"{what}: the level was cut off, and its latencies are lower bounds")
