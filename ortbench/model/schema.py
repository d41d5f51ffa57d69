"""The parts of ``result.json``, schema 2: which keys each has, and what they mean.

They are plain dicts, read and written as JSON as they are; these types let mypy know their keys. Durations are integer
nanoseconds, sizes bytes. A key that is `NotRequired` is not in every file of this schema: it came later, or is only there
where there is something to say. What holds them together is `ortbench.model.result.Result`.
"""

from __future__ import annotations

import sys
from typing import Literal, TypedDict

from ortbench.core.eps import is_nvidia

if sys.version_info >= (3, 11):  # noqa: UP036
    from typing import NotRequired as NotRequired
else:
    NotRequired = list  # anything will do: a worker with Python 3.10 asks no annotation

Direction = Literal["h2d", "d2h"]
Order = Literal["random", "cycle"]  # of shapes


class Tool(TypedDict):
    """What wrote the file."""

    name: str
    version: str


class Warned(TypedDict):
    """A warning: a code for programs, a message for people."""

    code: str
    message: str


class Figure(TypedDict):
    """A figure of a finding; ``unit`` is ``ns``, ``B``, ``×`` (a ratio), ``ratio`` (of a check), ``share`` (a part of 1), ``%``, ``dB``, ``1`` (a
    number of something), or a rate: ``inferences/s``, ``items/s``, ``tokens/s``, ``steps/s`` or ``requests/s``."""

    value: float
    unit: str
    ci95: list[float] | None
    derived: bool  # it follows from other figures and was not measured


class Finding(TypedDict):
    """A fact: what a result says, with its figures; docs/actions.md has all codes with their verdicts."""

    code: str
    verdict: str
    mode: str | None
    point: dict[str, int | float | str]
    values: dict[str, Figure | str | int | list[str]]
    next: str | None  # a command to copy


class Stopped(TypedDict):
    """Why a measurement ended, with the number that it went by: a share for ``precision`` and for whether processes agree
    (``agreement``) or do not (``processes``), seconds for ``duration``, counts for ``iterations`` and ``samples``, each ``per``
    something; ``message``: of an error."""

    reason: Literal[
        "precision", "agreement", "processes", "duration", "iterations", "samples", "verdict", "completed", "interrupted",
        "nothing_left", "error",
    ]  # fmt: skip
    value: NotRequired[float]
    per: NotRequired[str]
    message: NotRequired[str]


# Outputs


class OutputDistance(TypedDict):
    """How far an output is from the one that it is compared with, over so many ``inputs`` (absent from older files): largest and mean
    absolute error, signal to quantization noise ratio in dB, cosine similarity, and the share of rows of scores with the same largest
    one, which synthetic inputs do not tell; None where there is none."""

    name: str
    inputs: NotRequired[int]
    max_error: float | None
    mean_error: float | None
    sqnr: float | None
    cosine: float | None
    top1: float | None


class Doubt(TypedDict):
    """That outputs differ by a lower precision which an EP is likely to have chosen: which EP, and what mends it."""

    ep: str
    mends: str


class OutputsCompared(TypedDict):
    """The outputs of a configuration beside those of another one, or the expected ones: ``differs`` says what differs beyond the
    tolerances; ``doubt``: the figures of the result are left out of ratios and gates."""

    against: str
    differs: str | None
    doubt: Doubt | None
    distances: list[OutputDistance]


# The machine


class Cpu(TypedDict):
    """The CPU: its name as the system gives it, its cores, those that the process may run on, those without further hardware threads, and how
    many cores' worth of time its control groups may take; the last two absent where the system does not tell, and without a limit."""

    model: str
    cores: NotRequired[int | None]
    usable_cores: NotRequired[int | None]
    physical_cores: NotRequired[int]
    core_limit: NotRequired[float]


class Gpu(TypedDict, total=False):
    """An NVIDIA GPU by NVML: clocks in MHz, and what its PCI Express link carries at most in a direction. What a card does not tell is
    left out; only `error` where NVML fails."""

    error: str
    name: str
    driver: str
    memory_bytes: int
    sm_mhz: int
    sm_mhz_max: int
    memory_mhz: int
    memory_mhz_max: int
    link_bytes_per_s: float


class GpuState(TypedDict, total=False):
    """What NVML reads of a GPU while it works; what a card does not tell is left out.

    ``reasons`` are NVML's bits for why clocks are what they are.
    """

    sm_mhz: int
    memory_mhz: int
    temperature_c: int
    power_w: float
    reasons: int


class GpuReading(GpuState):
    """The state of GPU number `gpu` at `at_s` seconds after the first reading, `at_ns` on the clock on which blocks begin; ``in_block``:
    while a block lasted, not between two."""

    at_s: float
    gpu: int
    at_ns: NotRequired[int]
    in_block: NotRequired[bool]


class Load(TypedDict):
    """Load averages over 1, 5 and 15 minutes before and after; None where the system has none."""

    start: list[float] | None
    end: list[float] | None


class Node(TypedDict):
    """The machine of a cluster that a case of a suite was on: its name there, its address, and what the case was given of it
    besides CPUs: `card` and `driver` of its GPU as NVML has them, null where it has none of NVIDIA's, and `resources`."""

    name: str
    address: str
    card: str | None
    driver: str | None
    resources: dict[str, float]


class Detectable(TypedDict):
    """The smallest difference that a gate detects in a time nine times of ten, as a share; null where it detects none of up to 25 %. ``derived``: put together
    from shorter stretches."""

    within_s: float
    share: float | None
    derived: bool


class Certificate(TypedDict):
    """How far figures of a machine can be trusted, by a small model on the CPU EP beside itself: `ortbench doctor --certify`.

    ``busy``: whether other processes used the machine in most runs; ``alarms``: of so many ``gates`` of equal code those that failed by a limit of 5 %, in one measurement each; ``most_alarms``: the upper end
    of their rate's 95 % interval; ``planted``: by how much code was made slower, and how many of the ``planted_gates`` ``found`` that;
    ``between_runs``: by how much two of ``runs`` at different times, which were ``span_s`` apart at most, differ with 95 %.
    """

    created: str
    busy: bool
    model_ns: int
    detectable: list[Detectable]
    gates: int
    alarms: int
    most_alarms: float
    planted: float
    planted_gates: int
    found: int
    runs: int
    span_s: float
    between_runs: float


class Machine(TypedDict):
    """The machine and the state that it is in; `git_commit` is that of the current folder, None outside a checkout.

    ``governors``: how many cores each frequency governor has; ``record_env``: the patterns of ``--record-env``; ``variables``: the environment variables that they match;
    ``locked_clocks``: to what ``--lock-clocks`` locked the card's, ``base`` or so many MHz; ``node``: where a suite was spread
    over a cluster, which machine of it this is; ``host_id``: a hash that two results have in common where one machine measured both;
    ``certificate``: what `ortbench doctor --certify` had found out about it.
    """

    os: NotRequired[str]
    machine: NotRequired[str]
    host_id: NotRequired[str]
    cpu: Cpu
    governors: NotRequired[dict[str, int]]
    gpus: list[Gpu]
    load_average: Load
    git_commit: NotRequired[str | None]
    gpu_readings: NotRequired[list[GpuReading]]
    locked_clocks: NotRequired[str | int]
    record_env: NotRequired[list[str]]
    variables: NotRequired[dict[str, str]]
    node: NotRequired[Node]
    certificate: NotRequired[Certificate]


class Runtime(TypedDict):
    """Versions of what the worker runs with; ``packages``: the installed ones of ONNX Runtime and of plugin EPs."""

    onnxruntime: str
    onnxruntime_build: NotRequired[str]
    python: NotRequired[str]
    numpy: NotRequired[str]
    packages: NotRequired[dict[str, str]]


class Environment(Machine, Runtime):
    """What figures depend on besides the model and the session."""


# The model


class Tensor(TypedDict):
    """An input or output.

    ``model_shape`` is as the model states it, a name or None where a dimension is not fixed; ``shape`` and ``bytes`` are
    those of the run, None where it is not a tensor that can be held; ``range`` is that of random values. A sequence has
    ``tensors``, the shapes of its tensors, and their bytes; ``model_shape`` is then that of each. An output that modes bind without a
    shape has ``unshaped``: its size depends on ``values``, it is an ``input``, or has another shape than the model ``declared``.
    """

    name: str
    type: str
    model_shape: list[int | str | None]
    shape: list[int] | None
    bytes: int | None
    range: NotRequired[list[float] | None]
    tensors: NotRequired[list[list[int]]]
    unshaped: NotRequired[str]


class Model(TypedDict):
    """The model's file, and what it takes and gives."""

    path: str
    sha256: str
    inputs: list[Tensor]
    outputs: list[Tensor]


class Items(TypedDict):
    """How many items a run has, such as the pictures of a batch; ``dim``: the dimension whose size that is, None where a
    number was given."""

    count: int
    dim: str | None


# The execution provider


class Device(TypedDict):
    """Hardware: with vendor, ids and metadata where ONNX Runtime has an EP device for it, else with a name and an index;
    ``software``: the renderer that computes on the CPU in its place."""

    type: str
    software: NotRequired[str]
    vendor: NotRequired[str]
    vendor_id: NotRequired[int]
    device_id: NotRequired[int]
    metadata: NotRequired[dict[str, str]]
    name: NotRequired[str]
    index: NotRequired[int | None]


class Memory(TypedDict):
    """An EP's memory: ``kind`` (``ep-device``, ``named-device``, ``host``; ``none`` where there is none to bind), and the
    names of its default and its host-accessible memory."""

    kind: str
    default: str | None
    host_accessible: str | None


class Sync(TypedDict):
    """What ends a sample, what that costs in ns, and how it is known to wait."""

    kind: str
    cost_ns: int
    how: str


CopySync = dict[str, dict[Direction, Sync]]  # what ends copies, by host memory and direction


class Provider(TypedDict):
    """An EP as it was asked for and as it was opened, on which device."""

    ep: str
    ep_requested: NotRequired[str]
    ep_library: NotRequired[str | None]
    ep_version: NotRequired[str | None]
    device: Device
    memory: Memory


class EpOfSession(TypedDict):
    """One of several EPs that have nodes of a session: on which device, with which memory, how many nodes and what share of
    all (0 to 1, four decimals)."""

    ep: str
    ep_version: str | None
    device: Device
    memory: Memory
    nodes: int
    share: float


class Target(Provider):
    """The EP and the session.

    ``policy``: where ONNX Runtime chose the EP, what by (``PREFER_GPU`` …, else null; ``ep`` and ``device`` are what it
    chose, read from the session); ``intra_op_threads`` and ``inter_op_threads``: null for ONNX Runtime's own number;
    ``execution_mode``: ``sequential`` or ``parallel``; ``cpu_mem_arena``, ``mem_pattern``: whether these were on, as they are
    where the key is missing; ``optimized_model``: the file that ONNX Runtime wrote its graph to, or null; ``custom_ops``: libraries and packages whose
    custom operators were registered; ``dynamic_outputs``: ONNX Runtime allocated the outputs of ``device-tensors``,
    ``device-resident`` and ``device-tensors-pinned`` in each run (false: they were bound preallocated); ``external``: the library
    in whose memory the inputs of ``device-tensors`` and ``device-resident`` were, or null; ``cuda_graph``: runs were captured and
    replayed where a case has a ``graph``; ``stream``: what made the stream that the EP's kernels ran on, or null for the
    EP's own; ``run_config``: entries that the run options of every run had; ``python``: the interpreter whose ONNX Runtime it is, as it was named, or null for ortbench's own. ``sync`` is null where no mode has one; a bandwidth curve has
    ``copy_sync`` instead.
    ``eps``: every EP that has nodes, the one with most first, where several beside the CPU EP have.
    """

    policy: NotRequired[str | None]
    eps: NotRequired[list[EpOfSession]]
    sync: Sync | None
    copy_sync: NotRequired[CopySync]
    ep_options: dict[str, str]
    session_config: NotRequired[dict[str, str]]
    intra_op_threads: NotRequired[int | None]
    inter_op_threads: NotRequired[int | None]
    execution_mode: NotRequired[str]
    cpu_mem_arena: NotRequired[bool]
    mem_pattern: NotRequired[bool]
    optimized_model: NotRequired[str | None]
    custom_ops: NotRequired[list[str]]
    opt_level: NotRequired[str]
    dynamic_outputs: NotRequired[bool]
    external: NotRequired[str | None]
    cuda_graph: NotRequired[bool]
    stream: NotRequired[str | None]
    run_config: NotRequired[dict[str, str]]
    python: NotRequired[str | None]


class Crossing(TypedDict):
    """The Memcpy nodes of one direction: how many, and what they copy in a run, None where ONNX Runtime does not say."""

    nodes: int
    bytes: int | None


class Crossings(TypedDict):
    """What Memcpy nodes copy inside the graph."""

    to_host: Crossing
    from_host: Crossing


class CountedCopies(TypedDict):
    """How many Memcpy nodes a run has (None where nobody can tell) and, where it has any, what they copy."""

    memcpy_nodes: int | None
    memcpy: NotRequired[Crossings]


class Placement(CountedCopies):
    """Where nodes were placed: how many on each EP (None where ONNX Runtime does not say), and the operators that stay on
    the CPU where another EP was asked for, with their number."""

    nodes: dict[str, int] | None
    cpu_operators: dict[str, int]


class EngineCache(TypedDict):
    """``--engine-cache``: its path, and whether it was warm, the engine there before."""

    path: str
    warm: bool


class Setup(TypedDict):
    """How the run began. Results of one run, whose blocks alternated, share its ``run_id``; copies alone have no session. ``every_ns``: from
    one paced start to the next."""

    run_id: NotRequired[str]
    session_ns: NotRequired[int]
    engine_cache: NotRequired[EngineCache | None]
    first_inference_ns: NotRequired[int]
    seed: int
    expected_outputs: NotRequired[bool]
    every_ns: NotRequired[int]
    profiler_listens: NotRequired[bool]


class SuggestedLoop(TypedDict):
    """Of ``ortbench inspect``: the loop that a model looks made for: ``feedback`` and the ``patterns`` that stand for it
    ([output, input]), whether names say so (``sure``) or one shape alone, and the ``command`` that measures it."""

    feedback: list[list[str]]
    patterns: list[list[str]]
    sure: bool
    command: str


# A load


class LoadBlock(TypedDict):
    """A part of what was measured at a load point at one go, between blocks of others: how much was completed a second, and
    statistics of the latency, ns (``mean``, ``median``, ``p95``, ``p99``, ``max``). ``cpu_time`` is CPU time by inference, ns, ``cpu_cores`` by wall time; absent of parts of one stretch and in
    older files. Blocks of one ``round`` were measured near each other, of both sides of a live gate too."""

    round: int
    n: int
    throughput: float
    latency: dict[str, int]
    cpu_time: NotRequired[int]
    cpu_cores: NotRequired[float]


class LatencyBounds(TypedDict):
    """Between what a statistic of the latency of a load point lies, ns, each with 95 % confidence; null where its requests are too few
    to tell. Neighbours that wait together are worth fewer ``requests`` than there are."""

    low: int | None
    high: int | None
    requests: int


class Axis(TypedDict):
    """What cases differ in: ``values`` are those that their points have under ``name``, in order; ``unit`` is "" for names."""

    name: str
    unit: str
    values: list[int | float | str]


class ProcessReading(TypedDict):
    """What a process holds: bytes of its resident set and of ``private`` memory, which is none of files that it maps (elsewhere than
    on Linux: none that it shares); open ``handles``; ``threads``. Null where the system does not tell."""

    resident: int | None
    private: int | None
    handles: int | None
    threads: int | None


# The parts of a case


class StageBytes(TypedDict):
    """What a stage copies to and from the device; null where it is not known."""

    bytes_h2d: int | None
    bytes_d2h: int | None


class LoopBytes(TypedDict):
    """What a mode copies in a step of a loop, to and from the device: because of the state, and in all. A list by step where
    it grows; null where it is not known."""

    state_h2d: int | list[int] | None
    state_d2h: int | list[int] | None
    step_h2d: int | list[int] | None
    step_d2h: int | list[int] | None


class ZeroCopy(TypedDict):
    """Of the worker: whether runs use the memory that is bound; ``addresses``: at least the addresses are those that were bound."""

    verified: bool
    how: str
    addresses: NotRequired[bool]


class CaseCheck(TypedDict):
    """What was verified of a case: the verdict and how it is known.

    ``zero_copy`` also has ``addresses`` (at least the addresses are those that were bound), ``external`` the ``library`` and the
    ``place`` of its memory, ``graph`` the ``id`` of what was captured.
    """

    verdict: Literal["passed", "failed", "unclear"]
    how: NotRequired[str]
    addresses: NotRequired[bool]
    library: NotRequired[str]
    place: NotRequired[str]
    id: NotRequired[int]


class LibraryMemory(TypedDict):
    """Another library, and where its memory is."""

    library: str
    place: str


class TensorMemory(TypedDict):
    """An input or output as a mode has it: in which memory, and why there. ``usual``: that is the memory which the mode is
    about, the device's for device tensors."""

    name: str
    memory: str
    why: str
    usual: bool


class TensorMemories(TypedDict):
    """Where a mode has each input and output, in the model's order."""

    inputs: list[TensorMemory]
    outputs: list[TensorMemory]


class External(LibraryMemory):
    """Of the worker: whether runs read the memory of another library."""

    verified: bool
    how: str


class Graph(TypedDict):
    """Of the worker: a graph that was captured and is replayed, and whether a replay reads inputs that were written in place."""

    id: int
    verified: bool
    how: str


class Downsampled(TypedDict):
    """Samples of the first of each ``every`` rounds were kept, whole blocks of them; ``taken``: how many there were, by
    phase."""

    every: int
    taken: dict[str, int]


class LeftOut(TypedDict):
    """Blocks and samples that were measured and left out of the figures, by phase, as a case has those that were not."""

    samples: dict[str, list[int | float]]
    blocks: dict[str, list[list[int]]]


class Throttled(TypedDict):
    """The rounds that were measured while the card was held back: how many of how many (``of``), by what, in words, and
    whether they were left out of the figures."""

    rounds: list[int]
    of: int
    reasons: list[str]
    left_out: bool


class NoiseReading(TypedDict):
    """What the machine did for ``took_ns`` from ``at_ns`` on, on the clock on which blocks begin: how many cores' worth of CPU time
    other processes used (``others``) and the hypervisor took (``stolen``); the share of the time in which some process waited for
    a CPU (``pressure``); for how much of its cores' time a limit of the control group stopped the worker (``throttled_ns``); the
    highest CPU frequency (``mhz``); how many other processes compute on the GPU (``gpu_processes``). What the system does not
    tell is left out."""

    at_ns: int
    took_ns: int
    others: float
    stolen: NotRequired[float]
    pressure: NotRequired[float]
    throttled_ns: NotRequired[int]
    mhz: NotRequired[int]
    gpu_processes: NotRequired[int]


class MachineNoise(TypedDict):
    """What else the machine did during the blocks.

    ``cores``: how many the worker may run on. ``limit``: how many cores' worth of time its control group may take, left out
    without a limit. ``blocks``: of each block ``[round, start_ns, took_ns, waited_ns, switches, threads, slices]``: for how long
    threads of the worker could run and had no CPU, because of others as far as that can be told; how often the system took a CPU
    from one, of blocks of latency; how many of them ran, and how often one was given a CPU. Empty where the system does not tell. ``of``: how many blocks there were, where only those of
    one round in several are kept. ``readings``: of the whole machine, a second or longer each.
    """

    cores: int
    limit: NotRequired[float]
    blocks: list[list[int]]
    of: NotRequired[int]
    readings: list[NoiseReading]


class HostTime(TypedDict):
    """What the host took for the timed blocks of ``latency``, all of them together: ``runs`` of the model, their time by the
    clock, and the CPU time of all threads of the worker in it. The CPU time by the time is how many cores were in use."""

    runs: int
    wall_ns: int
    user_ns: int
    system_ns: int


class Copied(TypedDict):
    """Copies in one direction of a run, by the GPU's clock; ``memory`` is the host's side, such as ``pageable``, None
    where there was no copy."""

    n: int
    bytes: int
    ns: int
    memory: str | None


class Measured(TypedDict):
    """What NVIDIA's CUPTI recorded in ``runs`` runs of their own after the measurement, medians of one run by the GPU's
    clock; ``run_ns`` is one of those runs."""

    runs: int
    run_ns: int
    h2d: Copied
    d2h: Copied
    kernels_ns: int


class HostEnd(TypedDict):
    """Copies in one direction of a run: how many, and the host's ``memory``, such as ``pageable``, None where there was no copy."""

    n: int
    memory: str | None


class Recorded(TypedDict):
    """Of the ``runs`` in which CUPTI recorded the GPU's activity: what is no figure of the copies of one."""

    runs: int
    h2d: HostEnd
    d2h: HostEnd


class Once(TypedDict):
    """The copies before and after all runs of ``device-resident``; 0 where there is nothing to copy."""

    h2d_ns: int
    d2h_ns: int


class Depth(TypedDict):
    """How a pipeline is filled: ``depth`` inferences are in flight, and each sample is a round of as many items. ``items``
    come in turns, ``distinct`` of them with inputs of their own, from ``host_memory``."""

    depth: int
    items: int
    distinct: int
    host_memory: str


class CaseSync(Sync):
    """What ends the samples of a mode, and what ends its uploads and downloads, None where the copy waits by its nature."""

    h2d: NotRequired[Sync | None]
    d2h: NotRequired[Sync | None]


# Profiled nodes


class OperatorTime(TypedDict):
    """All nodes of an operator on an EP; ``compiled graph`` is the operator of what an EP compiled."""

    op: str
    ep: str | None
    nodes: int
    ns: int
    share: float


class EpTime(TypedDict):
    """All nodes on an EP; None for Memcpy nodes, which are between EPs."""

    ep: str | None
    nodes: int
    ns: int
    share: float


class NodeReference(TypedDict):
    """A node of the graph."""

    name: str
    op: str
    ep: str | None


class MemcpyNode(TypedDict):
    """A Memcpy node; ``type`` is such as ``float[8,4]``, ``island`` an index. None is not known."""

    name: str | None
    direction: Literal["to host", "from host"]
    tensor: str | None
    type: str | None
    bytes: int | None
    ns: int | None
    forced_by: list[NodeReference] | None
    island: int | None


class IslandNode(TypedDict):
    """A node of an island; ``reads`` are the types of its inputs. None is not known."""

    name: str
    op: str
    reads: list[str] | None
    ns: int | None


class Island(TypedDict):
    """Nodes on the CPU that hang together.

    ``position`` is ``start``, ``end``, ``middle`` or ``apart``, see `ortbench.analysis.placement.position`; ``to_host`` and
    ``from_host`` are the Memcpy nodes that it forces, ``bytes`` and ``memcpy_ns`` are of these, ``node_ns`` of its nodes,
    ``ns`` of both, ``share`` of a run. Times are None where a model was only looked at. Where an EP compiles, a node that
    ONNX Runtime made of several on the CPU may be in no island, only among the operators.
    """

    nodes: list[IslandNode]
    position: str | None
    node_ns: int | None
    to_host: int
    from_host: int
    bytes: int | None
    memcpy_ns: int | None
    ns: int | None
    share: float | None


class InnerCopies(TypedDict):
    """The copies inside a graph and what forces them; ``problem``: why tensors, ``forced_by`` and islands are not known."""

    memcpy: list[MemcpyNode]
    islands: list[Island]
    problem: str | None


class ProfiledNode(TypedDict):
    """A node that ran, one before those inside it (``inside``: an index).

    ``of``: the model's nodes that it was made of, none of what ONNX Runtime put in; ``inputs`` and ``outputs``: tensors by their
    names in the graph that ran, None where that is not known; ``makes``: the tensors of the model's file that the nodes of ``of`` give;
    ``count``: how often it ran in an inference; ``reads`` and ``gives``: types and shapes, such as ``float[8,4]``.
    """

    name: str
    op: str
    ep: str
    of: list[str]
    makes: list[str]
    inputs: list[str] | None
    outputs: list[str] | None
    reads: list[str]
    gives: list[str]
    inside: int | None
    count: float
    ns: list[int]  # in each round


class WeightsOfType(TypedDict):
    """The initializers of a type."""

    type: str
    count: int
    bytes: int


class ModelContent(TypedDict):
    """What a model's file has: how many nodes of each operator, opsets by domain, initializers by type."""

    operators: dict[str, int]
    opsets: dict[str, int]
    weights: list[WeightsOfType]


class NodeKernels(TypedDict):
    """The GPU's kernels that a node launched, by CUPTI: how many, and what they take on the GPU's clock, in an inference; ``share`` of
    all kernels. None of those that no node launched, as far as that is known."""

    name: str | None
    op: str | None
    ep: str | None
    kernels: float
    ns: int
    share: float


class Nodes(InnerCopies):
    """What ONNX Runtime's profile of some runs after the measurement says.

    Its times are the host's, profiling has slowed them, and on an EP that works asynchronously a node's time is that of
    its launch: they are shares and hints, and nothing of them is in any case. Means over the faster half of the runs: ``ns`` in a
    run, ``share`` of a run. ``runs``: how many; ``run_ns``: one of the faster half; ``outside_ns``: what of it is outside of nodes.
    ``each`` are all nodes, ``rounds_ns`` a run in each round: one run, or the mean over the faster half of several in a row.
    ``content`` is of the model's file, where it can be read. ``kernels`` are of some more runs, with CUPTI, where copies are measured too.
    """

    runs: int
    run_ns: int
    outside_ns: int
    operators: list[OperatorTime]
    eps: list[EpTime]
    each: NotRequired[list[ProfiledNode]]
    rounds_ns: NotRequired[list[int]]
    content: NotRequired[ModelContent]
    kernels: NotRequired[list[NodeKernels]]


# The link


class Peak(TypedDict):
    """The highest rate of copies that a sweep saw in a direction, at which size, from which host memory."""

    gbps: float
    bytes: int
    memory: str


class Peaks(TypedDict):
    """By direction; None where none was measured."""

    h2d: Peak | None
    d2h: Peak | None


class LinkShare(TypedDict):
    """How near copies come to what the link can do: see `ortbench.analysis.copies`."""

    bytes: int
    copies: int
    took_ns: int
    sweep_ns: int
    of_sweep: float
    of_peak: float


Link = TypedDict(
    "Link",
    {
        "from": str,  # where the sweep is
        "created": str,
        "memory": str,  # the host's side of the copies
        "h2d": list[list[float]],  # bytes and ns of each size
        "d2h": list[list[float]],
        "peak": Peaks,
        "shares": dict[str, dict[str, LinkShare]],  # by mode and direction
    },
)


# What hardware is called by its vendor


NVIDIA = 0x10DE
# Of those whose devices ONNX Runtime knows: `OrtDevice::VendorIds` in its include/onnxruntime/core/framework/ortdevice.h,
# which are PCI's numbers but for Qualcomm's. NVIDIA's EP gives the number and leaves the name empty.
_VENDORS = {
    NVIDIA: "NVIDIA", 0x1002: "AMD", 0x8086: "Intel", 0x13B5: "Arm", 0x1414: "Microsoft", 0x5143: "Qualcomm",
    0x19E5: "Huawei",
}  # fmt: skip


def vendor_name(device: Device) -> str:
    """The vendor as the device names it, else by its number; "" where neither is known."""
    return device.get("vendor") or _VENDORS.get(device.get("vendor_id", 0), "")


def kind(device: Device) -> str:
    """Type and vendor, for example ``GPU NVIDIA``."""
    return f"{device['type']} {vendor_name(device)}".rstrip()


def is_on_nvidia(ep: Provider | EpOfSession) -> bool:
    """Whether an EP's device is one of NVIDIA's GPUs; where the EP offers no EP device, by its name."""
    device = ep["device"]
    of_nvidia = device["vendor_id"] == NVIDIA if "vendor_id" in device else is_nvidia(ep["ep"])
    return of_nvidia and device["type"] == "GPU"
