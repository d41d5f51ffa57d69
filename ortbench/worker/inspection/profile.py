"""The file of ONNX Runtime's profile, read event by event: one of a million events has some 600 MB, and as a whole it would take 5 GB.

Times in it are whole microseconds. A node is recorded when it ends, so those in its branches or body come before it, and so do all nodes
of a run before the run. ONNX Runtime keeps a million events, and drops those that come after.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ortbench.analysis.nodes.node_times import Timed

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
    """A node that ran once."""

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

    def place(index: int) -> tuple[int, bool, int]:
        node = nodes[index]
        return node.start_us, node.took_us > 0, -node.took_us

    return sorted(range(len(nodes)), key=place)


@dataclass
class _Sum:
    """What one node has been seen to do so far."""

    kernel: Kernel
    inside: int | None
    ns: list[int] = field(default_factory=list)
    bytes: list[int] = field(default_factory=list)


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
            if inside is not None:
                self._sums[inside].ns[-1] -= took_us * 1000
            open_nodes.append((index, number))

    def timed(self) -> list[Timed]:
        """A node before those in its branches or body, in the order in which they first ran."""
        return [
            Timed(
                name=it.kernel.name, op=it.kernel.op, ep=it.kernel.ep, number=it.kernel.number, inside=it.inside,
                ns=tuple(it.ns), bytes=max(it.bytes), reads=it.kernel.reads, gives=it.kernel.gives,
            )
            for it in self._sums
        ]  # fmt: skip
