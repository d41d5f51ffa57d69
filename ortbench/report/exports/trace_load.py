"""What a load adds to a timeline: a track for each caller with its runs, and one with when requests were due."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ortbench.model.timeline import LoadBlock, Span

if TYPE_CHECKING:
    from ortbench.report.exports.chrome_trace import Process

DUE = "requests due"


def add_load(process: Process, blocks: Sequence[LoadBlock], most: int) -> int:
    """Add the blocks of a load.

    Args:
        process: the side's.
        blocks: in the order of time.
        most: runs and requests that are shown. Of more each block shows its first ones, the same share of all.

    Returns:
        How many are left out.
    """
    taken = sum(block.size for block in blocks)
    share = min(1.0, most / taken) if taken else 1.0
    left_out = 0
    due = process.track(DUE) if any(len(block.due_ns) for block in blocks) else 0
    callers = [process.track(f"caller {it + 1}") for it in range(max((len(block.runs) for block in blocks), default=0))]
    for block in blocks:
        shown = [int(len(it.starts_ns) * share) for it in block.runs]
        moments = int(len(block.due_ns) * share)
        left_out += block.size - sum(shown) - moments
        for number, at_ns in enumerate(block.due_ns[:moments]):
            process.mark(due, "due", "due", int(at_ns), request=number, level=block.name)
        for caller, count in enumerate(shown):
            _add_runs(process, callers[caller], block, caller, count)
    return left_out


def _add_runs(process: Process, track: int, block: LoadBlock, caller: int, count: int) -> None:
    """A block on the track of a caller, and in it the first of its runs."""
    runs = block.runs[caller]
    args: dict[str, Any] = {"round": block.round, "runs": len(runs.starts_ns)}
    if count < len(runs.starts_ns):
        args["shown"] = count
    process.slice(track, "block", Span(block.name, block.start_ns, block.duration_ns, args))
    for start, end, number in zip(runs.starts_ns[:count], runs.ends_ns[:count], runs.numbers[:count], strict=True):
        about: dict[str, Any] = {"iteration": int(number)}
        if len(block.due_ns):
            about = {"request": int(number), "waited_us": (int(start) - int(block.due_ns[number])) / 1000}
        process.slice(track, "sample", Span(f"{block.mode}/load", int(start), int(end - start), about))
