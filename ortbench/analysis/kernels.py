"""Which node launched which kernels of a GPU: CUPTI's records of launches and kernels beside ONNX Runtime's profile of the same runs.

A kernel has the correlation of the call that launched it, and that call lies in the time of a node, on the host's clock. Nothing is
guessed: what was launched outside of all nodes, or by a call that is not recorded, is of none. Pure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from ortbench.analysis.copies import KERNEL, LAUNCH, Activity, Moment, on_our_clock
from ortbench.model.schema import NodeKernels

_ROUNDED_NS = 1000  # a profile has whole microseconds: one node may seem to end so much behind the start of the next


class NodeSpan(NamedTuple):
    name: str
    op: str
    ep: str
    # start_ns, end_ns: on the host's clock; the spans of nodes in a branch or a body are inside that of their node
    start_ns: int
    end_ns: int


class LaunchedKernel(NamedTuple):
    launched_ns: int | None  # on the host's clock; None where CUPTI has no record of it
    began_ns: int  # on the host's clock
    took_ns: int


def launched_kernels(activities: Sequence[Activity], before: Moment, after: Moment) -> list[LaunchedKernel]:
    """The kernels among CUPTI's records, whose clock was read before and after them."""
    launches: dict[int, int] = {}
    for call in activities:
        if call.what == LAUNCH:  # where the runtime calls the driver, both calls have the same correlation
            launches.setdefault(call.correlation, on_our_clock((call.start_ns + call.end_ns) // 2, before, after))
    return [
        LaunchedKernel(
            launches.get(kernel.correlation),
            on_our_clock(kernel.start_ns, before, after),
            kernel.end_ns - kernel.start_ns,
        )
        for kernel in activities
        if kernel.what == KERNEL
    ]


def _innermost(around: Sequence[NodeSpan], at_ns: int) -> tuple[str, str, str] | None:
    """The node that began last of those that ran at a moment; None where another ran at the same time, not inside or around it."""
    if not around or any(_ROUNDED_NS < span.end_ns - at_ns < around[-1].end_ns - at_ns for span in around):
        return None
    return around[-1][:3]


def kernels_by_node(runs: Sequence[Sequence[NodeSpan]], kernels: Sequence[LaunchedKernel]) -> list[NodeKernels]:
    """The kernels that each node launched in an inference, the longest first, and last those of none. Kernels from before the first of
    the runs, of which there is one at least, are not counted."""
    spans = sorted((span for run in runs for span in run), key=lambda span: (span.start_ns, -span.end_ns))
    begin = min((span.start_ns for span in spans), default=0)
    took: dict[tuple[str, str, str] | None, list[int]] = defaultdict(list)
    around: list[NodeSpan] = []  # the innermost last
    number = 0
    for at, _, took_ns in sorted((it for it in kernels if it.began_ns >= begin), key=lambda it: it.launched_ns or 0):
        if at is None:
            took[None].append(took_ns)
            continue
        while number < len(spans) and spans[number].start_ns <= at:
            around = [span for span in around if span.end_ns > spans[number].start_ns]
            around.append(spans[number])
            number += 1
        around = [span for span in around if span.end_ns > at]
        took[_innermost(around, at)].append(took_ns)
    total = sum(map(sum, took.values()))
    order = sorted(took, key=lambda node: (node is None, -sum(took[node])))
    return [
        {
            "name": None if node is None else node[0],
            "op": None if node is None else node[1],
            "ep": None if node is None else node[2],
            "kernels": round(len(took[node]) / len(runs), 2),
            "ns": round(sum(took[node]) / len(runs)),
            "share": round(sum(took[node]) / total, 6) if total else 0.0,
        }
        for node in order
    ]
