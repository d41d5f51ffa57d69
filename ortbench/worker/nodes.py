"""ONNX Runtime's own profile of a few runs: when each node ran, on which EP, for how long; and the passes behind
`ortbench run --measure-nodes` and `ortbench inspect --ep`.

Profiling slows a run severalfold, so it has a session of its own and nothing in a profile is ever a measurement. The
times are those of the host, in whole microseconds: on an EP that works asynchronously a node's time is that of its launch.

A profile's file is read event by event: one of a million events, which is as many as are kept, has some 600 MB, and as a whole it would
take 5 GB. A node is recorded when it ends, so those in its branches or body come before it, and so do all nodes of a run before the run.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ortbench.analysis.kernels import LaunchedKernel, NodeSpan, kernels_by_node
from ortbench.analysis.node_times import TOO_MANY, Timed, as_run, by_round, copy_counts, each_node, faster_of, summary
from ortbench.analysis.node_times import outline as without_times
from ortbench.analysis.placement import Node
from ortbench.core.eps import CPU_EP
from ortbench.core.errors import BenchmarkFailed, OrtbenchError, ort_text
from ortbench.core.files import temporary_folder
from ortbench.core.stats import FEWEST
from ortbench.plan.target import Inputs, Target, inputs_from, target_from, with_own
from ortbench.worker import State, first_run, inspection, providers, session
from ortbench.worker.libraries import set_up_onnxruntime
from ortbench.worker.providers import Provider
from ortbench.worker.session import node_placements
from ortbench.worker.tensors import Array, read_model

if TYPE_CHECKING:
    from ortbench.model import protocol
    from ortbench.model.schema import CountedCopies, InnerCopies, Nodes


_WARMUP_RUNS = 2
_SHOWN_RUNS = 3  # of a timeline
_CUPTI_RUNS = 4  # the first of which pays for buffers
_LONGEST_S, _LONGEST_ROUND_S = 5.0, 0.5  # after which no further run is made
_MOST_READ = 300_000  # nodes of a profile, which take some seconds


NO_RUN = "one inference has more events than the million that ONNX Runtime's profiler keeps"
KERNEL_TIME = "_kernel_time"
_CHUNK = 1 << 20  # characters
_MOST_ARGS = 20_000  # nodes of a run of which everything is kept that was recorded


@dataclass(frozen=True, eq=False)
class Kernel:
    """What all events of a node have in common; there is one of each."""

    name: str  # of the node; ONNX Runtime calls a node without one ``<operator>_<index>``
    op: str  # its operator; for a graph that the EP compiled, the EP's name for it
    ep: str  # where it ran. Some plugin EPs have their Memcpy nodes counted as the CPU's
    number: int  # ONNX Runtime's index of it; -1 where it gives none
    # reads, gives: types and shapes of its inputs and outputs when it first ran
    reads: tuple[str, ...]
    gives: tuple[str, ...]


class NodeRun(NamedTuple):
    kernel: Kernel
    start_us: int
    took_us: int  # all nodes in its branches or body included
    thread: int  # its id in the operating system
    bytes: int  # of its outputs


class Run(NamedTuple):
    """An inference that is in the profile as a whole."""

    start_us: int
    took_us: int
    nodes: list[NodeRun]  # in the order in which they ended
    args: list[dict[str, Any]]  # everything that was recorded of each; none where there are too many nodes


def read_events(path: str) -> Iterator[dict[str, Any]]:
    """The events of a profile, in the order of its file. `ValueError`: it ends inside one."""
    decoder, text = json.JSONDecoder(strict=False), ""
    with open(path, encoding="utf-8", errors="replace") as file:
        while piece := file.read(_CHUNK):
            text, index = text + piece, 0
            while (start := text.find("{", index)) >= 0:
                try:
                    event, index = decoder.raw_decode(text, start)
                except ValueError:  # it goes on in the next piece
                    index = start
                    break
                yield event
            text = text[index:]
    if "{" in text:
        raise ValueError("the profile ends inside an event")


def read_runs(recorded: Iterable[dict[str, Any]]) -> Iterator[Run]:
    """The runs of a profile that are in it as a whole, each as soon as it was read: events of cat ``Session`` named ``model_run`` are the
    runs, those of cat ``Node`` named ``…_kernel_time`` the nodes."""
    kernels: dict[tuple[str, str, str, str], Kernel] = {}
    nodes: list[NodeRun] = []
    every: list[dict[str, Any]] = []
    for event in recorded:
        name = event["name"]
        if event.get("cat") == "Node" and name.endswith(KERNEL_TIME):
            args = event.get("args", {})
            key = (name, args.get("op_name", ""), args.get("provider", ""), args.get("node_index", "-1"))
            if (kernel := kernels.get(key)) is None:
                types = (_describe_types(args.get(f"{way}_type_shape", ())) for way in ("input", "output"))
                kernel = kernels[key] = Kernel(name.removesuffix(KERNEL_TIME), *key[1:3], int(key[3]), *types)
            size = int(args.get("output_size", 0))
            nodes.append(NodeRun(kernel, event["ts"], event["dur"], event["tid"], size))
            if len(every) < _MOST_ARGS:
                every.append(args)
        elif event.get("cat") == "Session" and name == "model_run":
            before = next((index for index, node in enumerate(nodes) if node.start_us >= event["ts"]), len(nodes))
            whole = len(every) == len(nodes)
            yield Run(event["ts"], event["dur"], nodes[before:], every[before:] if whole else [])
            nodes, every = [], []


def _describe_types(recorded: Sequence[dict[str, list[int]]]) -> tuple[str, ...]:
    """Types and shapes as ONNX Runtime records them, ``[{"float": [8, 4]}]``, as text."""
    return tuple(f"{name}[{','.join(map(str, shape))}]" for entry in recorded for name, shape in entry.items())


def sort_nodes(nodes: Sequence[NodeRun]) -> list[int]:
    """The numbers of a run's nodes by their starts, a node before those in its branches or body, which can start in the same microsecond; a
    node that took none comes before the node that follows it."""

    def order(index: int) -> tuple[int, bool, int]:
        node = nodes[index]
        return node.start_us, node.took_us > 0, -node.took_us

    return sorted(range(len(nodes)), key=order)


@dataclass
class _Sum:
    """What one node has been seen to do so far."""

    kernel: Kernel
    inside: int | None
    ns: list[int] = field(default_factory=list)
    bytes: list[int] = field(default_factory=list)
    count: int = 0


class NodeSums:
    """What the nodes of runs took, run after run."""

    def __init__(self) -> None:
        self.run_ns: list[int] = []
        self._sums: list[_Sum] = []
        self._numbers: dict[tuple[int | None, Kernel], int] = {}

    def add(self, run: Run) -> None:
        self.run_ns.append(run.took_us * 1000)
        for known in self._sums:
            known.ns.append(0)
            known.bytes.append(0)
        around: dict[int, list[tuple[int, int]]] = defaultdict(list)  # by thread, the innermost last
        for index in sort_nodes(run.nodes):
            kernel, _, took_us, thread, size = run.nodes[index]
            open_nodes = around[thread]
            while open_nodes and open_nodes[-1][0] < index:  # it had ended
                open_nodes.pop()
            inside = open_nodes[-1][1] if open_nodes else None
            number = self._numbers.setdefault((inside, kernel), len(self._sums))
            if number == len(self._sums):
                nothing = [0] * len(self.run_ns)
                self._sums.append(_Sum(kernel, inside, nothing, [*nothing]))
            self._sums[number].ns[-1] += took_us * 1000
            self._sums[number].bytes[-1] += size
            self._sums[number].count += 1
            if inside is not None:
                self._sums[inside].ns[-1] -= took_us * 1000
            open_nodes.append((index, number))

    def timed_nodes(self) -> list[Timed]:
        """A node before those in its branches or body, in the order in which they first ran."""
        return [
            Timed(
                name=node.kernel.name, op=node.kernel.op, ep=node.kernel.ep, number=node.kernel.number, inside=node.inside,
                ns=tuple(node.ns), bytes=max(node.bytes), reads=node.kernel.reads, gives=node.kernel.gives,
                count=round(node.count / len(self.run_ns), 2),
            )
            for node in self._sums
        ]  # fmt: skip


class Recorder(NamedTuple):
    model: session.Model
    start_ns: int  # when the profile began, on the clock of `time.perf_counter_ns`

    def run(self, arrays: dict[str, Array], runs: int) -> None:
        with _as_failure():
            for _ in range(runs):
                first_run.run_once(self.model, arrays)

    def end(self) -> Iterator[Run]:
        """End the profile, and read its runs one by one, while its file is there."""
        with _as_failure():
            yield from read_runs(read_events(self.model.session.end_profiling()))

    def times(self) -> list[Timed]:
        """The nodes of the last run."""
        sums = NodeSums()
        sums.add(_last_runs(self.end(), 1)[0])
        return sums.timed_nodes()


@contextmanager
def _as_failure() -> Iterator[None]:
    try:
        yield
    except OrtbenchError:
        raise
    except Exception as error:
        raise BenchmarkFailed(f"profiling failed: {ort_text(error)}") from None


def _last_runs(runs: Iterable[Run], count: int) -> list[Run]:
    """The last runs, so many at most and one at least. Raises `BenchmarkFailed`: there is none."""
    found = list(deque(runs, maxlen=count))
    if not found:
        raise BenchmarkFailed(NO_RUN)
    return found


@contextmanager
def open_recorder(path: str, target: Target, provider: Provider, content: bytes | None = None) -> Iterator[Recorder]:
    """A session that is being profiled from here on; its profile's file is removed at the end."""
    with temporary_folder() as folder:
        before = [clock() for clock in _CLOCKS]
        prefix = str(Path(folder) / "profile")
        model = session.open_model(path, target, provider, profile_prefix=prefix, content=content)
        yield Recorder(model, _on_perf_counter(model.session.get_profiling_start_time_ns(), before))


# What C++'s high_resolution_clock, which the profile is on, can be: the time of day with GCC's library, else a steady one.
_CLOCKS: list[Callable[[], int]] = [time.time_ns, time.perf_counter_ns]
if sys.platform != "win32" and hasattr(time, "CLOCK_MONOTONIC_RAW"):
    _CLOCKS.append(partial(time.clock_gettime_ns, time.CLOCK_MONOTONIC_RAW))


def _on_perf_counter(instant_ns: int, before: Sequence[int]) -> int:
    clock = next((it for it, earlier in zip(_CLOCKS, before, strict=True) if earlier <= instant_ns <= it()), None)
    if clock is None:
        raise BenchmarkFailed("ONNX Runtime's profile is on a clock that is not known")
    readings = []  # of both clocks; the one that took least is the best
    for _ in range(5):
        start, reading, end = time.perf_counter_ns(), clock(), time.perf_counter_ns()
        readings.append((end - start, (start + end) // 2 - reading))
    return instant_ns + min(readings)[1]


class Profiling:
    """A session whose runs are profiled, in rounds: between them others may run. `end` it, or `close` it."""

    def __init__(self, path: str, target: Target, request: Inputs) -> None:
        self._path = path
        self._provider = providers.find(target)
        self._target = with_own(target, self._provider.name)
        self._content = inspection.name_nodes(path)
        self._stack = ExitStack()
        self.close = self._stack.close
        self._recorder = self._stack.enter_context(open_recorder(path, self._target, self._provider, self._content))
        self._arrays, _, _ = first_run.make_inputs(path, self._recorder.model, request)
        self._placed = node_placements(self._recorder.model)
        self._round_of: list[int | None] = []  # of each run; None of those that do not count
        self._rounds = 0
        self.kernels: list[LaunchedKernel] = []  # of the last runs, by CUPTI, which slows these
        self._spans: list[list[NodeSpan]] = []  # of the nodes in those runs

    def run(self, runs: int, counts: bool = True) -> None:
        """Make the runs of a round, fewer where they take long: the profiler slows those of many nodes most. Those that warm up do not
        count."""
        end = time.monotonic() + _LONGEST_ROUND_S
        for made in range(runs):
            if made and time.monotonic() > end:
                break
            self._recorder.run(self._arrays, 1)
            self._round_of.append(self._rounds if counts else None)
        self._rounds += counts

    def end(self, graph_path: str | None = None, shown: int = 0) -> tuple[Nodes, protocol.Recorded | None]:
        """What the nodes and the copies between them take: the key ``nodes`` of a result; and the last runs, so many, for a timeline. Where
        this environment cannot read models, the graph that ran goes to `graph_path`, for `nodes_read`."""
        sums, sizes, last = self._read(shown)
        recorded = _describe_runs(last, self._recorder.start_ns) if shown else None
        del self._recorder
        self._stack.close()  # and with it the session, before there is another one
        timed, run_ns = sums.timed_nodes(), sums.run_ns
        session_of = self._path, self._target, self._provider, self._content, self._placed, timed
        graph, problem = _graph_of_eps(*session_of)
        found = summary(run_ns, timed, graph, problem)
        model = inspection.read_named(self._path)
        nodes = [] if model is None else inspection.flatten_nodes(model, ())[0]
        # Of one EP only the names of its tensors are wanted.
        wired = _find_graph(*session_of)[0] if graph == [] else graph
        rounds = faster_of(run_ns, sizes)
        found["each"] = each_node(timed, wired, nodes, rounds)
        found["rounds_ns"] = by_round(run_ns, rounds)
        if self._spans:
            found["kernels"] = kernels_by_node(self._spans, self.kernels)
        if model is not None:
            found["content"] = inspection.model_content(model)
        elif graph_path is not None:
            with suppress(OrtbenchError):
                session.open_model(self._path, self._target, self._provider, graph_path=graph_path)
        return found, recorded

    def _read(self, shown: int) -> tuple[NodeSums, list[int], list[Run]]:
        """The nodes of the runs that count, how many runs each round has, and the last runs; of a profile that was cut off what it has, of one
        that would take long to read the first; warm-up runs where there are no others."""
        sums, sizes, last, read = NodeSums(), Counter[int](), deque[Run](maxlen=max(shown, 1)), 0
        count = len(self._round_of) - _CUPTI_RUNS * bool(self.kernels)
        for at, (run, number) in enumerate(zip(self._recorder.end(), self._round_of, strict=False)):
            if at > count:
                self._spans.append(_spans(run, self._recorder.start_ns))
            if at >= count:
                continue
            last.append(run)
            if number is not None:
                sums.add(run)
                sizes[number] += 1
            read += len(run.nodes)
            if len(sizes) > FEWEST and read > _MOST_READ:
                break
        if not sums.run_ns:
            sums.add(_last_runs(last, 1)[0])
            sizes[0] = 1
        return sums, list(sizes.values()), list(last)


def _spans(run: Run, begin_ns: int) -> list[NodeSpan]:
    """When nodes ran, on the clock of `time.perf_counter_ns`, up to the end of their last microsecond."""
    spans = ((it.kernel, begin_ns + it.start_us * 1000, (it.took_us + 1) * 1000) for it in run.nodes)
    return [NodeSpan(it.name, it.op, it.ep, start_ns, start_ns + took_ns) for it, start_ns, took_ns in spans]


def nodes_read(state: State, found: Nodes, model: str, graph: str) -> Nodes:
    """The same nodes with their tensors and those of the model that they were made of, where the environment that profiled them
    could not read that, and ONNX Runtime wrote its graph out there."""
    own, written = inspection.read_named(model), read_model(graph)
    if own is None:
        return found
    timed = [
        Timed(
            row["name"], row["op"], row["ep"], -1, row["inside"], (*row["ns"],), 0, (*row["reads"],), (*row["gives"],), row["count"],
        )
        for row in found["each"]
    ]  # fmt: skip
    ran = None if written is None else as_run(inspection.flatten_nodes(written, ())[0], timed)
    rounds = [[at] for at in range(len(found["rounds_ns"]))]
    each = each_node(timed, ran, inspection.flatten_nodes(own, ())[0], rounds)
    return {**found, "each": each, "content": inspection.model_content(own)}


def profile_nodes(
    path: str, target: Target, request: Inputs, runs: int, shown: int = 0, kernels: bool = False
) -> tuple[Nodes, protocol.Recorded | None]:
    """Profile some runs and say what its nodes, the copies between them and GPU `kernels` take, with the last ones for a timeline."""
    profiling = Profiling(path, target, request)
    try:
        profiling.run(_WARMUP_RUNS, counts=False)
        end = time.monotonic() + _LONGEST_S
        for made in range(runs):
            if made and time.monotonic() > end:
                break
            profiling.run(1)
        if kernels:
            with suppress(BenchmarkFailed):  # as the pass that measures copies has said
                profiling.kernels = inspection.record_kernels(partial(profiling.run, 1, counts=False), _CUPTI_RUNS)
        return profiling.end(shown=shown)
    finally:
        profiling.close()


def nodes(
    state: State, model: str, target: dict[str, Any], inputs: dict[str, Any], runs: int, timeline: bool = False, kernels: bool = False
) -> protocol.ProfiledNodes:  # fmt: skip
    set_up_onnxruntime()
    shown = _SHOWN_RUNS if timeline else 0
    found, profile = profile_nodes(model, target_from(target), inputs_from(inputs), runs, shown, kernels)
    return {"found": found, "profile": profile}


def nodes_begin(state: State, model: str, target: dict[str, Any], inputs: dict[str, Any]) -> dict[str, object]:
    """Open a session whose runs are profiled, in turns with those of another worker."""
    set_up_onnxruntime()
    state.others[Profiling] = Profiling(model, target_from(target), inputs_from(inputs))
    return {}


def nodes_run(state: State, runs: int) -> dict[str, object]:
    """A round of runs; the first, with which others had the processor before, does not count."""
    profiling: Profiling = state.others[Profiling]
    profiling.run(1, counts=False)
    profiling.run(runs)
    return {}


def nodes_end(state: State, graph: str) -> Nodes:
    """What was profiled; the graph is a file to write where this environment cannot read models."""
    profiling: Profiling = state.others[Profiling]
    return profiling.end(graph)[0]


def profile(state: State, stage: int | None = None) -> protocol.Recorded:
    """Some runs in a session with ONNX Runtime's profiler, and what it recorded of their nodes; of a chain those of a stage."""
    path, target, model, arrays = state.opened.session(stage)
    with open_recorder(path, target, model.provider) as recorder:
        recorder.run(arrays, _WARMUP_RUNS + _SHOWN_RUNS)
        found = _describe_runs(_last_runs(recorder.end(), _SHOWN_RUNS), recorder.start_ns)
    if found is None:
        raise BenchmarkFailed(TOO_MANY)
    return found


def _describe_runs(runs: Sequence[Run], start_ns: int) -> protocol.Recorded | None:
    """Runs for a timeline, on the clock of `time.perf_counter_ns`; None where one has too many nodes for that."""
    nodes: list[protocol.NodeEvent] = []
    for number, run in enumerate(runs):
        if len(run.args) < len(run.nodes):
            return None
        for index in sort_nodes(run.nodes):
            kernel, start_us, took_us, thread, _ = run.nodes[index]
            nodes.append(
                {
                    "name": kernel.name,
                    "op": kernel.op,
                    "ep": kernel.ep,
                    "start_ns": start_ns + start_us * 1000,
                    "duration_ns": took_us * 1000,
                    "run": number,
                    "thread": thread,
                    "args": run.args[index],
                }
            )
    return {"runs": [(start_ns + run.start_us * 1000, run.took_us * 1000) for run in runs], "nodes": nodes}


def outline(
    path: str, target: Target, model: session.Model, content: bytes | None, timed: Sequence[Timed]
) -> InnerCopies:
    graph, problem = _graph_of_eps(path, target, model.provider, content, node_placements(model), timed)
    return without_times(graph, timed, problem)


def count_copies(path: str, target: Target, provider: Provider, arrays: dict[str, Array]) -> CountedCopies:
    """How many Memcpy nodes one run has, and what they copy: keys of a result's ``placement``."""
    try:
        with open_recorder(path, target, provider) as recorder:
            recorder.run(arrays, 1)
            return copy_counts(recorder.times())
    except OrtbenchError:  # the count is a help in reading the figures: never worth losing them for
        return {"memcpy_nodes": None}


def _graph_of_eps(
    path: str,
    target: Target,
    provider: Provider,
    content: bytes | None,
    placed: inspection.Placed | None,
    timed: Sequence[Timed],
) -> tuple[list[Node] | None, str | None]:
    """The graph, where it has more than one EP, and why it is not known."""
    if provider.name == CPU_EP or (timed and not any(node.is_copy or node.ep == CPU_EP for node in timed)):
        return [], None
    if not timed and placed is not None and CPU_EP not in {ep for ep, _, _ in placed}:
        return [], None
    return _find_graph(path, target, provider, content, placed, timed)


def _find_graph(*session_of: Any) -> tuple[list[Node] | None, str | None]:
    try:
        return inspection.find_graph(*session_of), None
    except inspection.NotKnown as error:
        return None, str(error)
