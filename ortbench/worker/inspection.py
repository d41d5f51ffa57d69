"""The graph that ONNX Runtime runs, node by node with its tensors and the Memcpy nodes that it put in; and why, as it says, a
session wants an input or output in ordinary host memory though its EP computes elsewhere. And the pass behind
`ortbench run --measure-copies`: NVIDIA's CUPTI records what the GPU does in some runs, by the package ``cupti-python`` (13.4), whose
module ``cupti.cupti`` has the C API's functions under other names.
"""

from __future__ import annotations

import math
import time
from collections import ChainMap, Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from ortbench.analysis.copies import GAP_NS, KERNEL, LAUNCH, Activity, Moment, summarise_activities
from ortbench.analysis.kernels import LaunchedKernel, launched_kernels
from ortbench.analysis.node_times import Timed, as_run, named_copies
from ortbench.analysis.placement import Node, with_copies
from ortbench.core.eps import CPU_EP
from ortbench.core.errors import BenchmarkFailed, OrtbenchError, one_line
from ortbench.core.files import temporary_folder
from ortbench.core.safe_text import join_words
from ortbench.model.modes import D2H, H2D, LATENCY
from ortbench.model.schema import Measured, ModelContent
from ortbench.plan.target import Target
from ortbench.worker import session
from ortbench.worker.mode_base import Mode
from ortbench.worker.providers import Provider
from ortbench.worker.tensors import NO_ONNX, inner_graphs, read_model

Placed = Sequence[tuple[str, str, str]]  # EP, name and operator of each node


def name_nodes(path: str) -> bytes | None:
    """A model whose every node has a name of its own, so that placement, profile and graph can be told to be of one node;
    None where the file will do as it is, or cannot be changed: it is in ORT's own format or too large for protobuf."""
    model = read_model(path)
    if model is None or not _name_nodes(model.graph, "", set()):
        return None
    try:
        content: bytes = model.SerializeToString()
    except Exception:  # protobuf raises many kinds
        return None
    return content


def read_named(path: str) -> Any:
    """The model of a file, whose every node has the name that `name_nodes` gives it; None where it cannot be read."""
    model = read_model(path)
    if model is not None:
        _name_nodes(model.graph, "", set())
    return model


def _name_nodes(graph: Any, prefix: str, taken: set[str]) -> bool:
    """Name the nodes of a graph as ONNX Runtime's profile does, operator_number; returns whether any was changed."""
    taken.update(node.name for node in graph.node)
    changed, seen, number = False, set[str](), 0
    for node in graph.node:
        if not node.name or node.name in seen:
            name = f"{prefix}{node.op_type}_{number}"
            while name in taken:
                name += "_"
            node.name = name
            changed = True
        taken.add(node.name)
        seen.add(node.name)
        number += node.op_type != "Constant"  # ONNX Runtime makes weights of them and does not count them
        for label, inner in inner_graphs(node):
            changed |= _name_nodes(inner, f"{node.name}/{label}/", taken)
    return changed


def model_content(model: Any) -> ModelContent:
    """What an onnx ModelProto has: operators, opsets, weights by type."""
    from onnx import helper

    operators: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    sizes: Counter[str] = Counter()

    def add(tensor: Any) -> None:
        try:
            dtype = helper.tensor_dtype_to_np_dtype(tensor.data_type)
            name, size = str(dtype), int(dtype.itemsize) * math.prod(tensor.dims)
        except (KeyError, ValueError):
            name, size = "other", 0
        counts[name] += 1
        sizes[name] += size

    graphs = [model.graph]
    while graphs:
        graph = graphs.pop()
        for tensor in graph.initializer:
            add(tensor)
        for node in graph.node:
            if node.op_type == "Constant":  # some exporters keep weights there
                for attribute in node.attribute:
                    if attribute.name == "value":
                        add(attribute.t)
            prefix = f"{node.domain}:" if node.domain not in ("", "ai.onnx") else ""
            operators[prefix + node.op_type] += 1
            graphs += [graph for _, graph in inner_graphs(node)]
    return {
        "operators": dict(operators.most_common()),
        "opsets": {entry.domain or "ai.onnx": entry.version for entry in model.opset_import},
        "weights": [{"type": name, "count": counts[name], "bytes": sizes[name]} for name in counts],
    }


def flatten_nodes(model: Any, placed: Placed) -> tuple[list[Node], list[str]]:
    """The nodes of an onnx ModelProto, a node before those inside it, and the names of its inputs; one whose name and
    operator do not decide where it is has no EP."""
    eps: dict[tuple[str, str], set[str]] = defaultdict(set)
    for ep, name, op in placed:
        eps[name, op].add(ep)
    certain = {key: next(iter(found)) for key, found in eps.items() if len(found) == 1}
    nodes: list[Node] = []
    _flatten(model.graph, "", ChainMap(), None, "", certain, nodes)
    weights = {tensor.name for tensor in model.graph.initializer}
    return nodes, [value.name for value in model.graph.input if value.name not in weights]


def _flatten(
    graph: Any,
    prefix: str,
    outer: ChainMap[str, str],
    inside: int | None,
    branch: str,
    eps: Mapping[tuple[str, str], str],
    nodes: list[Node],
) -> tuple[list[str], list[str]]:
    """Add the nodes of a graph and of those inside it; gives the unique names of the graph's inputs and of its outputs. What can be seen
    from outside (`outer`) has unique names already; a prefix makes those of the graph's own tensors unique."""
    seen = outer.new_child()  # no copy, of which each branch would make one

    def own(name: str) -> str:
        seen[name] = prefix + name
        return seen[name]

    for tensor in graph.initializer:
        own(tensor.name)
    given = [own(value.name) for value in graph.input]
    for node in graph.node:
        index = len(nodes)
        inputs = [seen.get(name, name) for name in node.input if name]
        nodes.append(Node(node.name, node.op_type, eps.get((node.name, node.op_type)), (), (), inside, branch))
        fed: list[str] = []
        for label, inner in inner_graphs(node):
            inner_inputs, inner_outputs = _flatten(inner, f"{node.name}/{label}/", seen, index, label, eps, nodes)
            fed += inner_inputs
            inputs += inner_outputs
        outputs = [own(name) for name in node.output if name]
        nodes[index] = replace(nodes[index], inputs=tuple(inputs), outputs=(*outputs, *fed))
    return given, [seen.get(value.name, value.name) for value in graph.output]


class NotKnown(Exception):
    """Why the graph cannot be had, in words."""


def find_graph(
    path: str, target: Target, provider: Provider, content: bytes | None, placed: Placed | None, timed: Sequence[Timed]
) -> list[Node]:
    """The graph that ran, or that would run, with its Memcpy nodes. ONNX Runtime writes it out for EPs whose nodes have kernels. Where an
    EP compiled parts of it, the graph before that is taken, as written for the CPU EP, and the Memcpy nodes are worked out from the
    placement; the profile must agree. Raises `NotKnown`: it cannot be had."""
    if Path(path).suffix == ".ort":
        raise NotKnown("the model is in ORT format, whose graph is not read")
    if not any(node.is_compiled for node in timed):
        try:
            graph, _ = flatten_nodes(_written_graph(path, target, provider, content), placed or ())
            return as_run(graph, timed) if timed else graph
        except session.HoldsCompiledNodes:
            pass
        except OrtbenchError as error:
            raise NotKnown(f"ONNX Runtime does not write its graph out: {error}") from None
    return _predict_graph(path, target, content, placed, timed)


def _written_graph(path: str, target: Target, provider: Provider, content: bytes | None) -> Any:
    """The graph as ONNX Runtime will run it, as an onnx ModelProto. Raises `BadInput` or `BenchmarkFailed`: it is refused."""
    try:
        import onnx
    except ImportError:
        raise BenchmarkFailed(f"reading it takes {NO_ONNX}") from None

    with temporary_folder() as folder:
        graph_path = str(Path(folder) / "graph.onnx")
        session.open_model(path, target, provider, graph_path=graph_path, content=content)
        try:
            return onnx.load(graph_path, load_external_data=False)
        except Exception as error:  # protobuf and onnx raise many kinds
            raise BenchmarkFailed(f"the graph cannot be read: {error}") from None


def _predict_graph(
    path: str, target: Target, content: bytes | None, placed: Placed | None, timed: Sequence[Timed]
) -> list[Node]:
    if placed is None:
        raise NotKnown("ONNX Runtime does not say where it placed the nodes")
    optimization = "disable" if target.opt_level == "disable" else "basic"  # what it does before it asks the EPs
    plain = Target(ep="cpu", session_config=target.session_config, custom_ops=target.custom_ops, opt_level=optimization)
    try:
        graph, inputs = flatten_nodes(_written_graph(path, plain, Provider(CPU_EP), content), placed)
    except OrtbenchError as error:
        raise NotKnown(f"ONNX Runtime does not write the graph out: {error}") from None
    if Counter((node.name, node.op) for node in graph) != Counter((name, op) for _, name, op in placed):
        raise NotKnown("the EP was given another graph than the one that ONNX Runtime writes out")
    if any(node.ep is None for node in graph):
        raise NotKnown("nodes of one name are on several EPs")
    copied = with_copies(graph, inputs)
    if not timed:
        return copied
    named_graph = named_copies(copied, timed)
    if named_graph is None:
        raise NotKnown("other Memcpy nodes ran than the placement lets expect")
    return named_graph


_MOST = 3  # operators that are named


def host_reasons(path: str, placed: Placed | None, inputs: Sequence[str], outputs: Sequence[str]) -> dict[str, str]:
    """What makes an output, or reads an input, in host memory, in words."""
    model = None if placed is None else read_model(path)
    if placed is None or model is None:
        return {}
    nodes, _ = flatten_nodes(model, placed)
    reading, making = ({name: list[Node]() for name in names} for names in (inputs, outputs))
    for node in nodes:
        for name in reading.keys() & node.inputs:
            reading[name].append(node)
        for name in making.keys() & node.outputs:
            making[name].append(node)
    reasons = {name: _describe_nodes(users, "read", "taken") for name, users in reading.items()}
    reasons |= {name: _describe_nodes(users, "made", "left") for name, users in making.items()}
    return {name: why for name, why in reasons.items() if why is not None}


def _describe_nodes(nodes: Sequence[Node], does: str, keeps: str) -> str | None:
    """Which of the nodes that have a tensor does so on the CPU or, where none does, keeps it there by itself."""
    on_cpu = list(dict.fromkeys(node.op for node in nodes if node.on_cpu))
    if on_cpu:
        return f"{does} by {_list_names(on_cpu)} on the CPU"
    others = list(dict.fromkeys(node.op for node in nodes if node.ep is not None))
    return f"{keeps} there by {_list_names(others)}" if others else None


def _list_names(names: Sequence[str]) -> str:
    more = len(names) - _MOST
    return join_words([*names[:_MOST], *([f"{more} more"] if more > 0 else [])])


_BUFFER_BYTES = 8 << 20  # as in NVIDIA's samples; more are asked for as they fill
_FORCED = 1  # CUPTI_ACTIVITY_FLAG_FLUSH_FORCED: also buffers that are not full
_READINGS = 10  # of both clocks; the one that took the least time is the best


def measure_copies(modes: Mapping[str, Mode], runs: int) -> dict[str, Measured]:
    """Record what the GPU does in some runs of modes. Raises `BenchmarkFailed`: there is no CUPTI here, or it refuses."""
    cupti = _load_cupti()
    try:
        recorder = Recorder(cupti)
        return {name: _measure_mode(recorder, mode, runs) for name, mode in modes.items()}
    except OrtbenchError:
        raise
    except Exception as error:  # cuptiError, or NotSupportedError where there is no driver
        raise BenchmarkFailed(f"CUPTI refuses: {one_line(error)}") from None


def record_kernels(run: Callable[[], object], runs: int) -> list[LaunchedKernel]:
    """The kernels of some runs, and when each was launched. Raises as `measure_copies` does."""
    cupti = _load_cupti()
    try:
        recorder = Recorder(cupti, launches=True)
        with recorder.recording() as found:
            before = recorder.moment()
            for _ in range(runs):
                run()
            after = recorder.moment()
    except OrtbenchError:
        raise
    except Exception as error:
        raise BenchmarkFailed(f"CUPTI refuses: {one_line(error)}") from None
    return launched_kernels(found, before, after)


def _load_cupti() -> Any:
    try:
        from cupti import cupti
    except Exception as error:
        if isinstance(error, ImportError) and (error.name or "").partition(".")[0] == "cupti":
            raise BenchmarkFailed("the package cupti-python is not installed; pip install 'ortbench[cupti]'") from None
        raise BenchmarkFailed(f"the package cupti-python does not load: {one_line(error)}") from None
    return cupti


class Recorder:
    """CUPTI's activity records of copies and kernels, and with `launches` of what calls it. One a process: its callbacks are registered for good. Raises
    `Exception`: whatever CUPTI says."""

    def __init__(self, cupti: Any, launches: bool = False) -> None:
        self._cupti = cupti
        self._seen: list[Activity] = []
        kinds, copies = cupti.ActivityKind, cupti.ActivityMemcpyKind
        # The concurrent kind: CUPTI's KERNEL would have kernels run one after the other.
        self._kinds = (kinds.MEMCPY, kinds.CONCURRENT_KERNEL, *((kinds.RUNTIME, kinds.DRIVER) if launches else ()))
        self._directions = {copies.HTOD: H2D, copies.HTOA: H2D, copies.DTOH: D2H, copies.ATOH: D2H}
        cupti.activity_register_callbacks(lambda: (_BUFFER_BYTES, 0), self._read_buffer)

    def _read_buffer(self, records: Sequence[Any]) -> None:
        """Keep what a full buffer holds; the records themselves end with it."""
        for record in records:
            activity = self._activity(record)
            if activity is not None and activity.end_ns:  # CUPTI gives 0 where it could not collect a time
                self._seen.append(activity)

    def _activity(self, record: Any) -> Activity | None:
        memcpy, kernel, *calls = self._kinds
        if record.kind == kernel or record.kind in calls:
            what = KERNEL if record.kind == kernel else LAUNCH
            return Activity(what, record.start, record.end, correlation=record.correlation_id)
        direction = self._directions.get(record.copy_kind) if record.kind == memcpy else None
        if direction is None:
            return None
        host = record.src_kind if direction == H2D else record.dst_kind
        memory = self._cupti.ActivityMemoryKind(host).name.lower()
        return Activity(direction, record.start, record.end, record.bytes, memory)

    @contextmanager
    def recording(self) -> Iterator[list[Activity]]:
        """Record what happens in the block; the list is filled when it ends."""
        found: list[Activity] = []
        enabled = []
        try:
            for kind in self._kinds:
                self._cupti.activity_enable(kind)
                enabled.append(kind)
            self._seen.clear()
            yield found
            self._cupti.activity_flush_all(_FORCED)
            found += self._seen
        finally:
            for kind in enabled:
                self._cupti.activity_disable(kind)

    def moment(self) -> Moment:
        readings = []
        for _ in range(_READINGS):
            start = time.perf_counter_ns()
            theirs = self._cupti.get_timestamp()
            end = time.perf_counter_ns()
            readings.append((end - start, Moment(theirs, (start + end) // 2)))
        return min(readings, key=lambda reading: reading[0])[1]


def _measure_mode(recorder: Recorder, mode: Mode, runs: int) -> Measured:
    call, a, b = mode.phases()[LATENCY]
    with recorder.recording() as found:
        call(a, b)  # the first with CUPTI pays for its buffers
        before, spans = recorder.moment(), []
        for _ in range(runs):
            time.sleep(GAP_NS / 1e9)
            start = time.perf_counter_ns()
            kept = call(a, b)
            spans.append((start, time.perf_counter_ns()))
            del kept
        time.sleep(GAP_NS / 1e9)
        after = recorder.moment()
    return summarise_activities(spans, found, before, after)
