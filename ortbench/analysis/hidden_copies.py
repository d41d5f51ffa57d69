"""What the figures of mode `pipelined` say: how much of its copy time is hidden. Pure."""

from __future__ import annotations

from ortbench.modes import TOTAL
from ortbench.result import Case
from ortbench.schema import Hidden

UNKNOWN: Hidden = {"copies_ns": None, "hidden_ns": None, "hidden_share": None, "hidden_ci95": None}


def hidden(case: Case) -> Hidden:
    """What the copies of an item cost on their own, and how much of that a pipeline does not have to wait for.

    One item after the other would take the sum of its phases, each timed on its own with the device idle. In the pipeline
    an item takes `total`. What is missing was hidden: it went on while something else did, another item's inference or,
    where the device copies both ways at a time, another copy. ::

        hidden = (upload + inference + download - total) / (upload + download)

    All four are medians of mode `pipelined` itself, in ns, so the result is derived and not measured. What the copies take
    from the inference that they run beside (bandwidth of memory, say) counts against it: it is what the pipeline saves.
    It cannot be below 0 or above 1; where noise puts it there it is cut off.

    Returns:
        ``copies_ns``, ``hidden_ns`` (integers), ``hidden_share`` (0 to 1, four decimals) and ``hidden_ci95``, its interval
        with all medians at those ends of their own 95 % intervals that make it least, and most. All None where a phase
        was not timed or copies take no time.
    """
    copies = case.copy_ns()
    found = [case.phases[phase] for phase in ("upload", "inference", "download") if not case.copies_nothing(phase)]
    phases, total = [item for item in found if item is not None], case.phases[TOTAL]
    if copies is None or copies <= 0 or len(phases) < len(found) or total is None:
        return {**UNKNOWN}
    saved = sum(item.median_ns for item in phases) - total.median_ns
    least = sum(item.ci95_ns[0] for item in phases) - total.ci95_ns[1]
    most = sum(item.ci95_ns[1] for item in phases) - total.ci95_ns[0]
    return {
        "copies_ns": copies,
        "hidden_ns": min(max(saved, 0), copies),
        "hidden_share": _share(saved, copies),
        "hidden_ci95": [_share(least, copies), _share(most, copies)],
    }


def _share(part: int, whole: int) -> float:
    return round(min(max(part / whole, 0.0), 1.0), 4)
