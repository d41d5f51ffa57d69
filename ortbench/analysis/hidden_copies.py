"""What the figures of mode `pipelined` say: how much of its copy time is hidden. Pure."""

from __future__ import annotations

from ortbench.model.modes import COPIES_HIDDEN, HIDDEN_SHARE, LATENCY
from ortbench.model.result import Case


def put_hidden(case: Case) -> None:
    """Put into a case what a pipeline does not have to wait for of its copies; nothing where that is not known.

    One item after the other would take the sum of its phases, each timed on its own with the device idle. In the pipeline
    an item takes `latency`. What is missing was hidden: it went on while something else did, another item's inference or,
    where the device copies both ways at a time, another copy. ::

        hidden = (h2d + inference + d2h - latency) / (h2d + d2h)

    All four are medians of mode `pipelined` itself, in ns, so the result is derived and not measured. What the copies take
    from the inference that they run beside (bandwidth of memory, say) counts against it: it is what the pipeline saves.
    It cannot be below 0 or above 1; where noise puts it there it is cut off. The ends of its interval are with all medians at
    those ends of their own 95 % intervals that make it least, and most.
    """
    copies = case.copy_ns()
    found = [case.stats(phase) for phase in ("h2d", "inference", "d2h") if not case.copies_nothing(phase)]
    phases, total = [item for item in found if item is not None], case.stats(LATENCY)
    if copies is None or copies <= 0 or len(phases) < len(found) or total is None:
        return
    saved = sum(item.median for item in phases) - total.median
    least = sum(item.ci95[0] for item in phases) - total.ci95[1]
    most = sum(item.ci95[1] for item in phases) - total.ci95[0]
    case.put(COPIES_HIDDEN, min(max(saved, 0), copies), derived=True)
    share, *ends = (round(min(max(part / copies, 0.0), 1.0), 4) for part in (saved, least, most))
    case.put(HIDDEN_SHARE, share, ends, derived=True)
