"""A copy of a candidate's model in which one change is taken back: nodes that the baseline's model has not are out, or its own are
in their place. What that does to the time, measured without a profiler, shows whether the change makes the difference."""

from __future__ import annotations

import copy
import shutil
from collections import defaultdict
from collections.abc import Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

from ortbench.core.errors import BenchmarkFailed, one_line
from ortbench.core.files import files_named_in
from ortbench.features.why.analysis.matching import ACTIVATIONS, Traits, align
from ortbench.worker import State, inspection
from ortbench.worker.tensors import inner_graphs

_PREFIX = "baseline/"  # of what comes from there
_COMPARED_BYTES = 1 << 20  # bytes of a weight that is compared whole; of a longer one the type and the shape are


def revert(
    state: State,
    model: str,
    baseline: str,
    nodes: list[str],
    base_nodes: list[str],
    folder: str,
    is_quantized: bool = False,
) -> dict[str, str]:
    """Write a copy in which the changes are taken back that some nodes of the model, or of the baseline's, are part of; of a model that
    `is_quantized` those nodes of the baseline are in the place of what stands for them. `BenchmarkFailed`: there is none in the files, or
    it cannot be taken back alone."""
    own, base = inspection.read_named(model), inspection.read_named(baseline)
    if own is None or base is None:
        raise BenchmarkFailed("a model cannot be read as ONNX")
    reverter = _Reverter(own, base)
    if is_quantized:
        reverter.keep_float({*base_nodes})
    else:
        reverter.revert({*nodes}, {*base_nodes})
    return {"path": _write(own, Path(model), Path(folder) / "copy")}


def _write(model: Any, path: Path, folder: Path) -> str:
    """Write a copy of the model of a file into a new folder, with copies of its weights' files; its path.

    ONNX Runtime follows no link out of a model's folder, and a weight may lie in a file of the model's own name."""
    locations, name = files_named_in(path), path.name
    while name in locations:
        name = f"copy-{name}"
    try:
        folder.mkdir()
        for location in sorted(locations):
            if (path.parent / location).is_file():
                (folder / location).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path.parent / location, folder / location)
        with (folder / name).open("xb") as file:
            file.write(model.SerializeToString())
    except (OSError, ValueError) as error:  # ValueError: more than a protobuf can hold
        raise BenchmarkFailed(f"no copy of {path} can be made: {one_line(error)}") from None
    return str(folder / name)


class _Reverter:
    def __init__(self, own: Any, base: Any) -> None:
        self.own, self.base = own.graph, base.graph
        opsets, base_opsets = ({it.domain: it.version for it in model.opset_import} for model in (own, base))
        if any(base_opsets[domain] != opsets.get(domain, base_opsets[domain]) for domain in base_opsets):
            raise BenchmarkFailed("the models have other opsets, so that no part of one fits into the other")
        sizes, base_sizes = ((len(_graph_inputs(it)), len(it.output)) for it in (self.own, self.base))
        if sizes != base_sizes:
            raise BenchmarkFailed("the models have other inputs or outputs")
        self.nodes = [it for it in self.own.node if it.op_type != "Constant"]
        self.base_nodes = [it for it in self.base.node if it.op_type != "Constant"]
        mine, theirs = _describe_nodes(self.base, self.base_nodes), _describe_nodes(self.own, self.nodes)
        self.pairs = align(mine, theirs)
        self.same = {
            b: a for a, b in self.pairs if a is not None and b is not None and mine[a].reads == theirs[b].reads
        }
        while crossed := self._find_crossed():
            for b in crossed:
                del self.same[b]

    def _find_crossed(self) -> list[int]:
        """The nodes that read what another node gives than their counterparts do, though both of these have counterparts too."""
        known = self._map_names(set())
        own = set(known.values())

        def is_crossed(inputs: Sequence[str], theirs: Sequence[str]) -> bool:
            return len(inputs) != len(theirs) or any(
                name in known and mine in own and known[name] != mine for mine, name in zip(inputs, theirs, strict=True)
            )

        return [b for b, a in self.same.items() if is_crossed(self.nodes[b].input, self.base_nodes[a].input)]

    def revert(self, nodes: set[str], base_nodes: set[str]) -> None:
        out, into = self._choose(nodes, base_nodes)
        renamed = self._map_names(into)
        lost = {it for at in out for it in self.nodes[at].output}
        come = {it for at in into for it in self.base_nodes[at].output}
        for b, a in self.same.items():  # what reads the change now reads what its counterpart in the baseline reads
            _rewire(self.nodes[b], self.base_nodes[a], lost, come, renamed)
        for own, theirs in zip(self.own.output, self.base.output, strict=True):
            if own.name in lost or theirs.name in come:
                self._rename(renamed.get(theirs.name, theirs.name), own.name, renamed)
        copies = self._copy_nodes(into, renamed)
        dropped = {id(self.nodes[at]) for at in out}
        self._set_nodes([*(node for node in self.own.node if id(node) not in dropped), *copies])

    def _set_nodes(self, nodes: Sequence[Any]) -> None:
        """Make these the nodes of the copy, without what nothing reads."""
        makers = {name: node for node in nodes for name in node.output if name}
        needed, wanted = dict[int, Any](), [output.name for output in self.own.output]
        while wanted:
            node = makers.get(wanted.pop())
            if node is not None and id(node) not in needed:
                needed[id(node)] = node
                wanted += [*node.input, *_outer_reads(node)]
        kept = [copy.deepcopy(node) for node in nodes if id(node) in needed]
        del self.own.node[:]
        self.own.node.extend(_sort_nodes(kept))
        del self.own.value_info[:]
        read = {name for node in kept for name in {*node.input, *_outer_reads(node)}}
        weights = [it for it in self.own.initializer if it.name in read]  # of the others ONNX Runtime refuses some
        del self.own.initializer[:]
        self.own.initializer.extend(weights)

    def keep_float(self, base_nodes: set[str]) -> None:
        """Put nodes of the baseline in the place of the quantized ones that stand for them: what goes in and out is converted as it was."""
        into = {at for at, node in enumerate(self.base_nodes) if node.name in base_nodes}
        inside = [name for at in sorted(into) for name in self.base_nodes[at].output if name]
        outside = [node for at, node in enumerate(self.base_nodes) if at not in into]
        read = {output.name for output in self.base.output}
        read |= {name for node in outside for name in {*node.input, *_outer_reads(node)}}
        weights = {tensor.name for tensor in self.base.initializer}
        weights |= {name for node in self.base.node if node.op_type == "Constant" for name in node.output}
        made = {output: node for node in self.own.node for output in node.output}
        renamed = {name: _PREFIX + name for name in inside}
        given = {it.name for it in _graph_inputs(self.own)}
        for name in {name for at in into for name in self.base_nodes[at].input} - {"", *inside, *weights}:
            renamed[name] = name if name in given - read else self._float_value(name, made, given)
        for name in read & {*inside}:
            integers = self._integers(name, made)
            if name not in made and integers is None:
                raise BenchmarkFailed(f"nothing of the candidate gives {name}")
            renamed[name] = name
            for tensor in (name, integers):
                if (giver := made.pop(tensor, None)) is not None:
                    giver.output[[*giver.output].index(tensor)] = f"{_PREFIX}{tensor}/gone"
            if integers is not None:
                self._convert("QuantizeLinear", name, integers, integers)
        self._set_nodes([*self.own.node, *self._copy_nodes(into, renamed)])

    def _float_value(self, name: str, made: Mapping[str, Any], given: set[str]) -> str:
        """What is a tensor of the baseline in the copy, once it was quantized and is a float again."""
        readers = [
            (node, node.input[0]) for node in self.own.node if node.op_type in ("QuantizeLinear", "DequantizeLinear")
        ]
        quantized = {node.output[0] for node, read in readers if node.op_type == "QuantizeLinear" and read == name}
        found = next((node.output[0] for node, read in readers if read in quantized), name)
        if found in made or found in given:
            return str(found)
        if (integers := self._integers(name, made)) is None:
            raise BenchmarkFailed(f"nothing of the candidate gives {name}")
        self._convert("DequantizeLinear", integers, f"{_PREFIX}{name}/float", integers)
        return f"{_PREFIX}{name}/float"

    def _integers(self, name: str, made: Mapping[str, Any]) -> str | None:
        """What an operator on integers of the candidate gives for a tensor of the baseline; an activation is part of what it reads."""
        integers, giver = f"{name}_quantized", next((it for it in self.base_nodes if name in it.output), None)
        if integers in made:
            return None if made[integers].op_type.endswith("QuantizeLinear") else integers
        if giver is None or giver.op_type not in ACTIVATIONS:
            return None
        return self._integers(giver.input[0], made)

    def _convert(self, op: str, tensor: str, to: str, integers: str) -> None:
        if not (scale := self._scale(integers)):
            raise BenchmarkFailed(f"nothing of the candidate says the scale of {integers}")
        self.own.node.add(op_type=op, name=f"{_PREFIX}{to}/{op}", input=[tensor, *scale], output=[to])

    def _scale(self, integers: str) -> list[str]:
        """The scale and the zero point, which operators on integers read behind these; a Reshape or MaxPool leaves them as they are."""
        for node in self.own.node:
            if integers not in node.input:
                continue
            at = [*node.input].index(integers) + 1
            is_scaled = node.op_type.startswith(("Q", "DequantizeLinear"))
            scale = [*node.input[at : at + 2]] if is_scaled else self._scale(node.output[0])
            if len(scale) == 2:
                return scale
        return []

    def _choose(self, nodes: set[str], base_nodes: set[str]) -> tuple[set[int], set[int]]:
        """What is out and what is in its place: all changes of the files that have one of the nodes, and what hangs on them."""
        regions: list[tuple[set[int], set[int]]] = []
        is_open = False
        for a, b in self.pairs:
            if b is not None and b in self.same:
                is_open = False
                continue
            if not is_open:
                regions.append((set(), set()))
            is_open = True
            regions[-1][0].update(() if b is None else (b,))
            regions[-1][1].update(() if a is None else (a,))
        out, into = set[int](), set[int]()
        for gone, come in regions:
            if {self.nodes[it].name for it in gone} & nodes or {self.base_nodes[it].name for it in come} & base_nodes:
                out |= gone
                into |= come
        if not out and not into:
            raise BenchmarkFailed("the nodes are the same in both models' files")
        while True:  # what only the candidate has and reads what is out goes too
            lost = {it for number in out for it in self.nodes[number].output}
            kept = self.same.keys() | out
            more = {number for number, it in enumerate(self.nodes) if number not in kept and lost & set(it.input)}
            if not more:
                return out, into
            for gone, come in regions:
                if gone & more:
                    out |= gone
                    into |= come

    def _map_names(self, into: set[int]) -> dict[str, str]:
        """By the baseline's tensors those of the copy."""
        names = {a.name: b.name for a, b in zip(_graph_inputs(self.base), _graph_inputs(self.own), strict=True)}
        for b, a in self.same.items():
            names.update(zip(self.base_nodes[a].output, self.nodes[b].output, strict=False))
        for number in into:
            names.update({name: _PREFIX + name for name in self.base_nodes[number].output if name})
        return names

    def _rename(self, tensor: str, name: str, renamed: dict[str, str]) -> None:
        """Give a tensor the name of an output, which what is out gave until now."""
        if tensor in {other.name for other in _graph_inputs(self.own)}:
            raise BenchmarkFailed("without it an output would be an input")
        renamed.update({key: name for key, value in renamed.items() if value == tensor})
        for node in self.own.node:
            for names in (node.input, node.output):
                for slot, other in enumerate(names):
                    if other == name:
                        names[slot] = f"{_PREFIX}{name}/gone"  # of what is out
                    elif other == tensor:
                        names[slot] = name

    def _copy_nodes(self, into: set[int], renamed: dict[str, str]) -> list[Any]:
        """The baseline's nodes for the copy, whose weights come with them."""
        weights = {tensor.name: tensor for tensor in self.base.initializer}
        constants = {name: node for node in self.base.node if node.op_type == "Constant" for name in node.output}
        copies, known = [], set[str]()
        for number in sorted(into):
            node = copy.deepcopy(self.base_nodes[number])
            if _outer_reads(node):
                raise BenchmarkFailed(f"the baseline's {node.name} has branches or a body")
            node.name = _PREFIX + node.name
            for slot, name in enumerate(node.input):
                if not name:
                    continue
                if name in renamed:
                    node.input[slot] = renamed[name]
                    continue
                node.input[slot] = _PREFIX + name
                if name in known:
                    continue
                known.add(name)
                if name in constants:
                    constant = copy.deepcopy(constants[name])
                    constant.name, constant.output[0] = _PREFIX + constant.name, _PREFIX + name
                    copies.append(constant)
                elif name in weights:
                    weight = copy.deepcopy(weights[name])
                    if weight.external_data:
                        raise BenchmarkFailed("weights of the baseline's part lie in a file of their own")
                    weight.name = _PREFIX + name
                    self.own.initializer.append(weight)
                else:
                    raise BenchmarkFailed(f"the baseline's {node.name} reads what the candidate has not")
            for slot, name in enumerate(node.output):
                node.output[slot] = renamed.get(name, name)
            copies.append(node)
        return copies


def _rewire(node: Any, base: Any, lost: set[str], come: set[str], renamed: dict[str, str]) -> None:
    if lost & _outer_reads(node):
        raise BenchmarkFailed(f"{node.name} reads it in a branch or a body")
    for slot, name in enumerate(node.input):
        theirs = base.input[slot] if slot < len(base.input) else ""
        if name in lost or theirs in come:
            if theirs not in renamed:
                raise BenchmarkFailed(f"nothing of the baseline stands for what {node.name} reads")
            node.input[slot] = renamed[theirs]


def _describe_nodes(graph: Any, nodes: Sequence[Any]) -> list[Traits]:
    """Those of some nodes of a graph; ``reads`` is all that makes a node's work another one: attributes and weights."""
    weights = {tensor.name: _weight(tensor) for tensor in graph.initializer}
    givers = {name: node.op_type for node in graph.node for name in node.output}
    readers: dict[str, list[str]] = defaultdict(list)
    for node in graph.node:
        if node.op_type == "Constant":
            weights[node.output[0]] = node.attribute[0].SerializeToString()
        for name in node.input:
            readers[name].append(node.op_type)
    return [
        Traits(
            op=(node.domain, node.op_type),
            gives=len(node.output),
            reads=(
                tuple(sorted(it.SerializeToString(deterministic=True) for it in node.attribute)),
                tuple(weights.get(name) for name in node.input),
            ),
            before=tuple(givers.get(name) for name in node.input),
            after=tuple(sorted(op for name in node.output for op in readers[name])),
            name=node.name,
            outputs=tuple(node.output),
        )
        for node in nodes
    ]


def _weight(tensor: Any) -> object:
    form = tensor.data_type, tuple(tensor.dims)
    if tensor.external_data or tensor.ByteSize() > _COMPARED_BYTES:
        return form
    unnamed = copy.deepcopy(tensor)
    unnamed.name = ""
    return unnamed.SerializeToString(deterministic=True)


def _graph_inputs(graph: Any) -> list[Any]:
    weights = {it.name for it in graph.initializer}
    return [it for it in graph.input if it.name not in weights]


def _outer_reads(node: Any) -> set[str]:
    """All that nodes in the branches or the body of a node read."""
    return {name for _, graph in inner_graphs(node) for it in graph.node for name in {*it.input, *_outer_reads(it)}}


def _sort_nodes(nodes: Sequence[Any]) -> list[Any]:
    """Nodes in an order in which each comes after what it reads."""
    makers = {name: number for number, node in enumerate(nodes) for name in node.output if name}
    reads = ({*node.input, *_outer_reads(node)} & makers.keys() for node in nodes)
    before = {number: sorted(makers[name] for name in names) for number, names in enumerate(reads)}
    try:
        return [nodes[number] for number in TopologicalSorter(before).static_order()]
    except CycleError:
        raise BenchmarkFailed("the copy would be a circle") from None
