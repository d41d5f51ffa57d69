"""When what happened: stages, blocks and samples, for a timeline."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ortbench.model.protocol import NodeEvent

    Moments = NDArray[np.int64]


@dataclass(frozen=True)
class Span:
    """Something that took its time, in ns."""

    name: str
    start_ns: int
    duration_ns: int
    args: dict[str, Any] = field(default_factory=dict)

    @property
    def end_ns(self) -> int:
        return self.start_ns + self.duration_ns


class TimedBlock(NamedTuple):
    mode: str
    phase: str
    round: int
    dropped: int  # iterations before the first sample, which are not recorded
    first: int  # index of its first sample among those of the phase
    n: int  # samples
    start_ns: int
    duration_ns: int
    # starts_ns, samples_ns: when the call of each sample began and how long it took; empty where they are left out
    starts_ns: Sequence[int]
    samples_ns: Sequence[int]
    # step_starts_ns, steps_ns: of loops the same of the steps in them, one loop after the other; else empty
    step_starts_ns: Sequence[int] = ()
    steps_ns: Sequence[int] = ()

    @property
    def size(self) -> int:
        return self.n + len(self.steps_ns)


class ClientRuns(NamedTuple):
    """The runs of a client in a block of a load: when each started and ended, and its number, of requests that of the request."""

    starts_ns: Sequence[int] | Moments
    ends_ns: Sequence[int] | Moments
    numbers: Sequence[int] | Moments


@dataclass(frozen=True)
class LoadBlock:
    # mode, name, round: which; the name says the level
    mode: str
    name: str
    round: int
    start_ns: int
    duration_ns: int
    runs: Sequence[ClientRuns]  # of each client
    due_ns: Sequence[int] | Moments = ()  # when each request was due; empty where clients set the pace

    @property
    def size(self) -> int:
        return len(self.due_ns) + sum(len(it.starts_ns) for it in self.runs)


class Failure(NamedTuple):
    mode: str
    at_ns: int
    reason: str


class Node(NamedTuple):
    """One of ONNX Runtime's own events: a node of the graph, in a profiled run."""

    span: Span
    ep: str
    thread: int

    @classmethod
    def from_event(cls, event: NodeEvent) -> Node:
        """From the fields of `ortbench.model.protocol.NodeEvent`."""
        recorded = event["args"]
        args = {
            "node": event["name"],
            "ep": event["ep"],
            "run": event["run"] + 1,
            "inputs": _shapes(recorded.get("input_type_shape")),
            "outputs": _shapes(recorded.get("output_type_shape")),
            "input_bytes": _count(recorded.get("activation_size")),
            "weight_bytes": _count(recorded.get("parameter_size")),
            "output_bytes": _count(recorded.get("output_size")),
        }
        known = {key: value for key, value in args.items() if value is not None}
        span = Span(event["op"], event["start_ns"], event["duration_ns"], known)
        return cls(span, event["ep"], event["thread"])


def _shapes(recorded: Any) -> str | None:
    """``[{"float": [1, 3]}]`` as ``float 1x3``; None where nothing of the kind was recorded."""
    if not isinstance(recorded, list):
        return None
    tensors = [(dtype, shape) for tensor in recorded if isinstance(tensor, dict) for dtype, shape in tensor.items()]
    return ", ".join(f"{dtype} {'x'.join(map(str, shape))}".strip() for dtype, shape in tensors) or None


def _count(recorded: Any) -> int | None:
    return int(recorded) if str(recorded).isdecimal() else None


@dataclass
class Timeline:
    """What happened when on one side of a run; it grows while the run goes on."""

    stages: list[Span] = field(default_factory=list)  # loading, preparing and so on, with their parts
    blocks: list[TimedBlock] = field(default_factory=list)  # in the order measured
    load: list[LoadBlock] = field(default_factory=list)  # blocks of levels of load, in the order measured
    failures: list[Failure] = field(default_factory=list)  # of modes
    # by mode, the iterations of a pass of their own, each with its steps one after the other
    close_ups: dict[str, list[list[Span]]] = field(default_factory=dict)
    # profiled_runs, nodes: of a session with ONNX Runtime's profiler, and what it recorded
    profiled_runs: list[Span] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)  # what the trace lacks, in words

    def keep_rounds(self, keeps: Callable[[int], bool]) -> None:
        """Leave out blocks of other rounds than those that it keeps, whose samples are left out too."""
        firsts: dict[tuple[str, str], int] = {}
        blocks = []
        for block in filter(lambda it: keeps(it.round), self.blocks):
            first = firsts.get((block.mode, block.phase), 0)
            blocks.append(block._replace(first=first))
            firsts[block.mode, block.phase] = first + block.n
        self.blocks[:] = blocks
