"""ONNX Runtime's own profile of a few runs: when each node ran, on which EP, for how long; and the passes behind
`ortbench run --measure-nodes` and `ortbench inspect --ep`.

Profiling slows a run severalfold, so it has a session of its own and nothing in a profile is ever a measurement. The
times are those of the host: on an EP that works asynchronously a node's time is that of its launch.
"""

from __future__ import annotations

import json
import sys
import time
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from ortbench.analysis.nodes.each_node import by_round, each_node, faster_of
from ortbench.analysis.nodes.islands import Node
from ortbench.analysis.nodes.node_times import Timed, as_run, counted, summary
from ortbench.analysis.nodes.node_times import outline as without_times
from ortbench.core.ep_names import CPU_EP
from ortbench.core.errors import BenchmarkFailed, OrtbenchError, ort_text
from ortbench.core.files import temporary_folder
from ortbench.plan.target import Inputs, Target, inputs_from, target_from, with_own
from ortbench.worker.inputs.model_file import read as read_model
from ortbench.worker.looks import graph as looks_graph
from ortbench.worker.session import first_run, placement, providers, session
from ortbench.worker.session.providers import Provider
from ortbench.worker.session.runtime import begin
from ortbench.worker.session.tensors import Array
from ortbench.worker.state import State

if TYPE_CHECKING:
    from ortbench.model import protocol
    from ortbench.model.schema import CountedCopies, InnerCopies, Nodes

_WARMUP_RUNS = 2
_SHOWN_RUNS = 3  # of a timeline
KERNEL_TIME = "_kernel_time"


class NodeEvent(NamedTuple):
    name: str  # of the node; ONNX Runtime calls a node without one ``<operator>_<index>``
    op: str  # its operator; for a graph that the EP compiled, the EP's name for it
    ep: str  # where it ran. Some plugin EPs have their Memcpy nodes counted as the CPU's
    start_ns: int  # on the clock of `time.perf_counter_ns`; ONNX Runtime records whole microseconds
    duration_ns: int  # of its kernel; of a node with branches or a body, all nodes in them included
    run: int  # which of the runs, from 0
    thread: int  # its id in the operating system
    args: dict[str, Any]  # everything else that ONNX Runtime recorded: ``node_index``, ``input_type_shape`` …


class Profile(NamedTuple):
    """Some runs without the warm-up before them."""

    runs: list[tuple[int, int]]  # start (as in `NodeEvent`) and duration of each, ns
    events: list[NodeEvent]  # their nodes, by start; a node before those in its branches or body

    def last(self, count: int) -> Profile:
        """The last so many of its runs, or all where there are fewer, numbered from 0."""
        return self.only(range(max(0, len(self.runs) - count), len(self.runs)))

    def only(self, numbers: Sequence[int]) -> Profile:
        """Some of its runs, numbered from 0."""
        new = {number: at for at, number in enumerate(numbers)}
        events = [event._replace(run=new[event.run]) for event in self.events if event.run in new]
        return Profile([self.runs[number] for number in numbers], events)


def profile_runs(
    path: str, target: Target, provider: Provider, arrays: dict[str, Array], runs: int, warmup: int = _WARMUP_RUNS
) -> Profile:
    """Profile plain runs with arrays in host memory, in a session of their own. Raises `BadInput` or `BenchmarkFailed`:
    the session cannot be opened, a run fails, or the profile cannot be read."""
    with recording(path, target, provider) as recorder:
        return recorder.take(arrays, runs, warmup)


class Recorder(NamedTuple):
    model: session.Model
    start_ns: int  # when the profile began, on the clock of `time.perf_counter_ns`

    def take(self, arrays: dict[str, Array], runs: int, warmup: int = _WARMUP_RUNS) -> Profile:
        """Run, end the profile and read it; see `profile_runs`. It can be taken once."""
        self.run(arrays, warmup + runs)
        return self.end(runs)

    def run(self, arrays: dict[str, Array], runs: int) -> None:
        with _failing():
            for _ in range(runs):
                first_run.run_once(self.model, arrays)

    def end(self, runs: int) -> Profile:
        """End the profile, and read its last runs."""
        with _failing():
            return read(recorded(self.model), self.start_ns, runs)


@contextmanager
def _failing() -> Iterator[None]:
    """What fails inside is a failure of profiling."""
    try:
        yield
    except OrtbenchError:
        raise
    except Exception as error:
        raise BenchmarkFailed(f"profiling failed: {ort_text(error)}") from None


def recorded(model: session.Model) -> list[dict[str, Any]]:
    """The events of a session's profile, which ends with this."""
    text = Path(model.session.end_profiling()).read_text(encoding="utf-8", errors="replace")
    events: list[dict[str, Any]] = json.loads(text, strict=False)
    return events


@contextmanager
def recording(path: str, target: Target, provider: Provider, content: bytes | None = None) -> Iterator[Recorder]:
    """A session that is being profiled from here on; its profile's file is removed at the end. Raises `BadInput` or
    `BenchmarkFailed`: it cannot be opened."""
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
    """An instant of the near past on the clock of `time.perf_counter_ns`."""
    for clock, earlier in zip(_CLOCKS, before, strict=True):
        if earlier <= instant_ns <= clock():
            return instant_ns + _offset(clock)
    raise BenchmarkFailed("ONNX Runtime's profile is on a clock that is not known")


def _offset(clock: Callable[[], int]) -> int:
    """What `time.perf_counter_ns` is ahead of another clock; of several readings the one that took least."""
    readings = []
    for _ in range(5):
        start, there, end = time.perf_counter_ns(), clock(), time.perf_counter_ns()
        readings.append((end - start, (start + end) // 2 - there))
    return min(readings)[1]


def read(recorded: Sequence[dict[str, Any]], start_ns: int, runs: int) -> Profile:
    """The last runs of a profile, by the events of its JSON file, whose ``ts`` and ``dur`` are microseconds: those of cat
    ``Session`` named ``model_run`` are the runs, those of cat ``Node`` named ``…_kernel_time`` the nodes. Raises
    `BenchmarkFailed`: it has fewer runs (ONNX Runtime keeps a million events)."""
    whole = [event for event in recorded if event.get("cat") == "Session" and event["name"] == "model_run"][-runs:]
    if len(whole) < runs:
        raise BenchmarkFailed(f"ONNX Runtime's profile has {len(whole)} of {runs} runs")
    starts = [event["ts"] for event in whole]
    nodes = [event for event in recorded if event.get("cat") == "Node" and event["name"].endswith(KERNEL_TIME)]
    events = []
    # A node comes before those in its branches or body, which can start in the same microsecond; one that took none
    # comes before the node that follows it.
    for event in sorted(nodes, key=lambda event: (event["ts"], event["dur"] > 0, -event["dur"])):
        run = bisect_right(starts, event["ts"]) - 1
        if run >= 0:
            events.append(_node_event(event, start_ns, run))
    return Profile([(start_ns + event["ts"] * 1000, event["dur"] * 1000) for event in whole], events)


def _node_event(event: dict[str, Any], start_ns: int, run: int) -> NodeEvent:
    args = dict(event.get("args", {}))
    return NodeEvent(
        name=event["name"].removesuffix(KERNEL_TIME),
        op=args.pop("op_name", ""),
        ep=args.pop("provider", ""),
        start_ns=start_ns + event["ts"] * 1000,
        duration_ns=event["dur"] * 1000,
        run=run,
        thread=event["tid"],
        args=args,
    )


class Profiling:
    """A session whose runs are profiled, in rounds: between them others may run. `end` it, or `close` it.

    Raises `OrtbenchError`: the model cannot be opened or run.
    """

    def __init__(self, path: str, target: Target, request: Inputs) -> None:
        self._path = path
        self._provider = providers.find(target)
        self._target = with_own(target, self._provider.name)
        self._content = looks_graph.with_names(path)
        self._stack = ExitStack()
        self.close = self._stack.close
        self._recorder = self._stack.enter_context(recording(path, self._target, self._provider, self._content))
        self._arrays, _, _ = first_run.make_inputs(path, self._recorder.model, request)
        self._placed = placement.placed(self._recorder.model)
        self._kept: list[bool] = []  # of each run
        self._rounds = 0

    def run(self, runs: int, warmup: int, rounds: int = 1) -> None:
        """Make so many runs that count, as so many rounds, after others that do not."""
        self._recorder.run(self._arrays, runs + warmup)
        self._kept += [False] * warmup + [True] * runs
        self._rounds += rounds

    def end(self, graph_path: str | None = None) -> tuple[Nodes, Profile]:
        """What the nodes and the copies between them take: the key ``nodes`` of a result. Where this environment cannot read
        models, the graph that ran goes to `graph_path`, for `nodes_read`. Raises `OrtbenchError`: the profile cannot be
        read."""
        profile = self._recorder.end(len(self._kept)).only([at for at, kept in enumerate(self._kept) if kept])
        del self._recorder
        self._stack.close()  # and with it the session, before there is another one
        timed = node_times(profile)
        session_of = self._path, self._target, self._provider, self._content, self._placed, timed
        graph, problem = _graph(*session_of)
        taken = [duration for _, duration in profile.runs]
        found = summary(taken, timed, graph, problem)
        model = looks_graph.named(self._path)
        nodes = [] if model is None else looks_graph.nodes_of(model, ())[0]
        wired = _found(*session_of)[0] if graph == [] else graph  # of one EP only the names of its tensors are wanted
        rounds = faster_of(taken, self._rounds)
        found["each"] = each_node(timed, wired, nodes, rounds)
        found["rounds_ns"] = by_round(taken, rounds)
        if model is not None:
            found["content"] = looks_graph.content(model)
        elif graph_path is not None:
            with suppress(OrtbenchError):
                session.open_model(self._path, self._target, self._provider, graph_path=graph_path)
        return found, profile


def nodes_read(state: State, found: Nodes, model: str, graph: str) -> Nodes:
    """The same nodes with their tensors and those of the model that they were made of, where the environment that profiled them
    could not read that, and ONNX Runtime wrote its graph out there."""
    own, written = looks_graph.named(model), read_model(graph)
    if own is None:
        return found
    timed = [
        Timed(it["name"], it["op"], it["ep"], -1, it["inside"], (*it["ns"],), 0, (*it["reads"],), (*it["gives"],))
        for it in found["each"]
    ]
    ran = None if written is None else as_run(looks_graph.nodes_of(written, ())[0], timed)
    rounds = [[at] for at in range(len(found["rounds_ns"]))]
    each = each_node(timed, ran, looks_graph.nodes_of(own, ())[0], rounds)
    return {**found, "each": each, "content": looks_graph.content(own)}


def profile_nodes(path: str, target: Target, request: Inputs, runs: int) -> tuple[Nodes, Profile]:
    """Profile some runs and say what its nodes and the copies between them take; raises as `Profiling` does."""
    profiling = Profiling(path, target, request)
    try:
        profiling.run(runs, _WARMUP_RUNS, rounds=runs)
        return profiling.end()
    finally:
        profiling.close()


def nodes(
    state: State, model: str, target: dict[str, Any], inputs: dict[str, Any], runs: int, timeline: bool = False
) -> protocol.ProfiledNodes:
    """Profile some runs in a session of their own. A timeline shows the last of them."""
    begin()
    found, profile = profile_nodes(model, target_from(target), inputs_from(inputs), runs)
    return {"found": found, "profile": _recorded(profile.last(_SHOWN_RUNS)) if timeline else None}


def nodes_begin(state: State, model: str, target: dict[str, Any], inputs: dict[str, Any]) -> dict[str, object]:
    """Open a session whose runs are profiled, in turns with those of another worker."""
    begin()
    state.others[Profiling] = Profiling(model, target_from(target), inputs_from(inputs))
    return {}


def nodes_run(state: State, runs: int) -> dict[str, object]:
    """A round of runs; the first, with which others had the processor before, does not count."""
    state.others[Profiling].run(runs, warmup=1)
    return {}


def nodes_end(state: State, graph: str) -> Nodes:
    """What was profiled; the graph is a file to write where this environment cannot read models."""
    profiling: Profiling = state.others[Profiling]
    return profiling.end(graph)[0]


def profile(state: State, stage: int | None = None) -> protocol.Recorded:
    """Some runs in a session with ONNX Runtime's profiler, and what it recorded of their nodes; of a chain those of a stage."""
    path, target, model, arrays = state.opened.session(stage)
    return _recorded(profile_runs(path, target, model.provider, arrays, _SHOWN_RUNS))


def _recorded(profile: Profile) -> protocol.Recorded:
    return {"runs": profile.runs, "nodes": [cast("protocol.NodeEvent", event._asdict()) for event in profile.events]}


def outline(
    path: str, target: Target, model: session.Model, content: bytes | None, profile: Profile | None
) -> InnerCopies:
    """The Memcpy nodes and the islands of an open model without times; see `ortbench.analysis.nodes.node_times.outline`."""
    timed = [] if profile is None else node_times(profile)
    graph, problem = _graph(path, target, model.provider, content, placement.placed(model), timed)
    return without_times(graph, timed, problem)


def count_copies(path: str, target: Target, provider: Provider, arrays: dict[str, Array]) -> CountedCopies:
    """How many Memcpy nodes one run has, and what they copy: keys of a result's ``placement``."""
    try:
        timed = node_times(profile_runs(path, target, provider, arrays, 1, warmup=0))
    except OrtbenchError:  # the count is a help in reading the figures: never worth losing them for
        return {"memcpy_nodes": None}
    return counted(timed)


def _graph(
    path: str,
    target: Target,
    provider: Provider,
    content: bytes | None,
    placed: looks_graph.Placed | None,
    timed: Sequence[Timed],
) -> tuple[list[Node] | None, str | None]:
    """The graph, where it has more than one EP, and why it is not known."""
    if provider.name == CPU_EP or (timed and not any(node.is_copy or node.ep == CPU_EP for node in timed)):
        return [], None
    if not timed and placed is not None and CPU_EP not in {ep for ep, _, _ in placed}:
        return [], None
    return _found(path, target, provider, content, placed, timed)


def _found(*session_of: Any) -> tuple[list[Node] | None, str | None]:
    try:
        return looks_graph.find(*session_of), None
    except looks_graph.NotKnown as error:
        return None, str(error)


@dataclass
class _Sum:
    """What one node has been seen to do so far."""

    event: NodeEvent
    inside: int | None
    ns: list[int]
    bytes: list[int]


def node_times(profile: Profile) -> list[Timed]:
    """The nodes of a profile, a node before those in its branches or body, in the order in which they first ran."""
    sums: list[_Sum] = []
    indices: dict[tuple[int | None, str, str, str, Any], int] = {}
    open_nodes: dict[int, list[tuple[NodeEvent, int]]] = defaultdict(list)  # by thread, the innermost last
    for event in profile.events:
        around = open_nodes[event.thread]
        while around and event.start_ns >= around[-1][0].start_ns + around[-1][0].duration_ns:
            around.pop()
        inside = around[-1][1] if around else None
        key = (inside, event.name, event.op, event.ep, event.args.get("node_index"))
        index = indices.setdefault(key, len(sums))
        if index == len(sums):
            sums.append(_Sum(event, inside, [0] * len(profile.runs), [0] * len(profile.runs)))
        sums[index].ns[event.run] += event.duration_ns
        sums[index].bytes[event.run] += int(event.args.get("output_size", 0))
        if inside is not None:
            sums[inside].ns[event.run] -= event.duration_ns
        around.append((event, index))
    return [_timed(it) for it in sums]


def _timed(found: _Sum) -> Timed:
    event = found.event
    return Timed(
        name=event.name,
        op=event.op,
        ep=event.ep,
        number=int(event.args.get("node_index", -1)),
        inside=found.inside,
        ns=tuple(found.ns),
        bytes=max(found.bytes),
        reads=_types(event.args.get("input_type_shape", ())),
        gives=_types(event.args.get("output_type_shape", ())),
    )


def _types(recorded: Sequence[dict[str, list[int]]]) -> tuple[str, ...]:
    """Types and shapes as ONNX Runtime records them, ``[{"float": [8, 4]}]``, as text."""
    return tuple(f"{name}[{','.join(map(str, shape))}]" for entry in recorded for name, shape in entry.items())
