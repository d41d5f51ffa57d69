"""What the worker answers, request by request: the keys of its JSON, for the side that asks and the side that answers; and the timeline that is made
of it: when what happened, in stages, blocks and samples.

Requests are documented in `ortbench.worker`. Durations are integer nanoseconds; times are on the clock of
`time.perf_counter_ns`, which both processes share.
"""

import base64
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

from ortbench.core.eps import Distribution
from ortbench.model import schema
from ortbench.model.schema import NotRequired

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Moments = NDArray[np.int64]


Stage = tuple[str, int, int]  # name, start and duration; from JSON it is a list


class LoadedEp(TypedDict):
    """The EP that was loaded, and what is to be said of it."""

    ep: str
    library: str | None
    version: str | None
    notes: list[schema.Warned]


class OpenedEp(LoadedEp):
    """A loaded EP, its device and memory, and what it runs with."""

    device: schema.Device
    memory: schema.Memory
    runtime: schema.Runtime


class Opened(OpenedEp):
    """``open``: the model and its session; ``ep_options``: those that were given, as the EP calls them; ``eps``: where
    several EPs beside the CPU EP have nodes, all that have, else empty; ``unsupported``: why no mode can be measured, or
    None."""

    ep_options: dict[str, str]
    eps: list[schema.EpOfSession]
    placement: schema.Placement
    unsupported: str | None
    inputs: list[schema.Tensor]
    outputs: list[schema.Tensor]
    guessed_dims: dict[str, int]  # the sizes of dimensions of which nobody said anything
    expected: "OutputComparison | None"  # the outputs beside the expected ones, where there are some
    session_ns: int
    engine_cache: schema.EngineCache | None
    first_inference_ns: int
    stages: list[Stage]


class Prepared(TypedDict):
    """``prepare``: a mode that is set up and warm; ``estimates_ns``: about what a call of each phase takes."""

    bytes_in: int | None
    bytes_out: int | None
    sync: schema.CaseSync
    zero_copy: schema.ZeroCopy | None
    external: schema.External | None
    graph: schema.Graph | None
    places: schema.TensorMemories
    pipeline: schema.Depth | None
    inferences_per_sample: int | None
    estimates_ns: dict[str, float | None]
    stages: list[Stage]
    step_bytes: NotRequired[schema.LoopBytes]
    stage_bytes: NotRequired[dict[str, schema.StageBytes]]


class CpuTime(TypedDict):
    """What the samples of a block took: CPU time of all threads of the worker, and time by the clock."""

    user_ns: int
    system_ns: int
    wall_ns: int


class Pace(TypedDict):
    """Of calls that began at set moments: CPU time from one to the next in all, ns, and how many had to wait for the one before."""

    cpu_ns: int
    missed: int


class Samples(TypedDict):
    """``block`` and ``bandwidth_block``: samples, and what the block took in all; of loops and chains
    also the times of their steps or stages. Where a sample's call returns before its sync, ``enqueues`` is when; ``cpu``
    and ``counts`` (what the system counted, by metric) are of blocks of ``latency``, ``paced`` of blocks of paced calls."""

    samples: list[int]
    start_ns: int
    spent_ns: int
    steps: NotRequired[list[int]]
    enqueues: NotRequired[list[int]]
    cpu: NotRequired[CpuTime]
    counts: NotRequired[dict[str, int]]
    paced: NotRequired[Pace]
    reading: NotRequired[schema.ProcessReading]  # ``time_stream``: what the worker's process holds then


class TracedSamples(Samples):
    """``block`` for a timeline: also when the call of each sample began, and how long it took; of loops when each step began."""

    starts_ns: list[int]
    calls_ns: list[int]
    step_starts_ns: list[int]


class Saved(TypedDict):
    """``save_inputs``, ``save_outputs``: whether they could be."""

    saved: bool


class Held(TypedDict):
    """``compare_saved_outputs``, ``bandwidth_add``, ``bandwidth_finish``: what differs, in words, or None."""

    differs: str | None


class OutputComparison(Held):
    """``compare_saved_outputs``: also the largest difference beyond the tolerances by the output's largest value, None where nobody can tell;
    the tolerance that ``accepts`` the first; and how far each output is from the other."""

    relative: float | None
    accepts: str | None
    distances: list[schema.OutputDistance]


class Finished(Held):
    """``finish``: the outputs after the timed runs, the copies that are made only once, and the syncs, as phase and
    kind, that have come to return before the device is done."""

    once: schema.Once | None
    early: list[str]


class NodeEvent(TypedDict):
    """One of ONNX Runtime's own events: see `NodeEvent`."""

    name: str
    op: str
    ep: str
    start_ns: int
    duration_ns: int
    run: int
    thread: int
    args: dict[str, Any]  # whatever else ONNX Runtime recorded


class Recorded(TypedDict):
    """``profile``: start and duration of each profiled run, and what was recorded of the nodes."""

    runs: list[tuple[int, int]]
    nodes: list[NodeEvent]


class ProfiledNodes(TypedDict):
    """``nodes``: what is found, and for a timeline the last of the runs."""

    found: schema.Nodes
    profile: Recorded | None


class Captured(TypedDict):
    """``capture``: whether a profiler listens."""

    listening: bool


class StepTimes(TypedDict):
    """``time_steps``: inferences, each as its steps."""

    inferences: list[list[Stage]]


# What the commands that only look print, or print as JSON


class Streams(TypedDict):
    """Whether an EP's device offers streams, else why not."""

    offered: bool
    why: str | None


class EpDevice(TypedDict):
    """A device of an EP; ``modes``: each with None, or why it cannot be done there."""

    hardware: schema.Device
    memory: schema.Memory
    streams: Streams
    modes: dict[str, str | None]


class ListedEp(TypedDict):
    """An EP; ``problem``: why it does not load, or None; ``missing``: the shared library that it lacks, where that is why."""

    name: str
    library: str | None
    version: str | None
    package: str | None
    problem: str | None
    missing: str | None
    devices: list[EpDevice]


class Ability(TypedDict):
    """Something that not every ONNX Runtime can do: what, in words, the first version that can, and whether this one can."""

    what: str
    since: str
    there: bool


# Many whole numbers as a short text: JSON would take ten times as long. NumPy is loaded when needed.


def pack(numbers: "Sequence[int] | NDArray[np.int64]") -> str:
    """Whole numbers of 64 bits, shape (n,), as base64 of their little-endian bytes."""
    import numpy as np

    return base64.b64encode(np.asarray(numbers, dtype="<i8").tobytes()).decode()


def unpack(text: str) -> "NDArray[np.int64]":
    """The inverse of `pack`: shape (n,), int64."""
    import numpy as np

    return np.frombuffer(base64.b64decode(text), dtype="<i8").astype(np.int64)


# The machine and its packages


class Packages(TypedDict):
    """Where ``import onnxruntime`` finds the module, every package on the search path that brings one, and numpy's version."""

    module: str | None
    distributions: list[Distribution]
    numpy: str | None


class Memory(TypedDict):
    """Main memory, bytes."""

    total: int
    available: int


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

    starts_ns: "Sequence[int] | Moments"
    ends_ns: "Sequence[int] | Moments"
    numbers: "Sequence[int] | Moments"


@dataclass(frozen=True)
class LoadBlock:
    # mode, name, round: which; the name says the level
    mode: str
    name: str
    round: int
    start_ns: int
    duration_ns: int
    runs: Sequence[ClientRuns]  # of each client
    due_ns: "Sequence[int] | Moments" = ()  # when each request was due; empty where clients set the pace

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
    def from_event(cls, event: NodeEvent) -> "Node":
        """From the fields of `NodeEvent`."""
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
