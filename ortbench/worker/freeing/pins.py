"""Constants that pin a dimension inside a graph, and what takes their place; by what onnx's shape inference says of the graph at several
sizes of that dimension, and so which axes of its values follow it.

Only where it follows from the shapes that the size which the model fixes gives what it gave: a Reshape keeps the order of
elements, a state of zeros is what a node begins with by itself, and a value that no input changes is the same for each item.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import helper, numpy_helper

from ortbench.core.errors import BadInput, one_line
from ortbench.worker.inputs.model_file import inner_graphs

Shape = tuple[int, ...]
_SMALL = 64  # elements of a constant that may be a shape
_PRIMES = (23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71)  # stand for dimensions that are symbolic already


class Follows(NamedTuple):
    """The axis of a value that is `outer` × the freed dimension × `inner` long."""

    axis: int
    outer: int
    inner: int


class Sizes(NamedTuple):
    """The size that the model fixes, and two others to try."""

    fixed: int
    one: int
    other: int


def sizes_to_try(fixed: int) -> Sizes:
    """Multiples that few constants of a model have: what is as long by chance at one of them is not at the other."""
    return Sizes(fixed, 7 * fixed, 11 * fixed)


def infer(model: Any, sizes: dict[str, int], strict: bool = False) -> dict[str, Shape | None]:
    """The shapes of all values at sizes of the symbolic dimensions; None where inference does not tell them all.

    Raises what onnx raises: where `strict`, a node does not take the shapes of its inputs.
    """
    at = onnx.ModelProto()
    at.CopyFrom(model)
    del at.graph.value_info[:]
    for node in at.graph.node:
        node.name = node.name or node.output[0]  # which an error then says
    for value in at.graph.output:
        if value.type.HasField("tensor_type"):
            value.type.tensor_type.ClearField("shape")
    for value in at.graph.input:
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param in sizes:
                dim.dim_value = sizes[dim.dim_param]
    graph = onnx.shape_inference.infer_shapes(at, strict_mode=strict, data_prop=True).graph
    found = {it.name: _shape(it) for it in (*graph.input, *graph.value_info, *graph.output)}
    return found | {it.name: tuple(it.dims) for it in graph.initializer}


def _shape(value: Any) -> Shape | None:
    kind = value.type.tensor_type
    if not value.type.HasField("tensor_type") or not kind.HasField("shape"):
        return None
    dims = kind.shape.dim
    return tuple(dim.dim_value for dim in dims) if all(dim.HasField("dim_value") for dim in dims) else None


def stand_ins(model: Any, freed: dict[str, int]) -> dict[str, int]:
    """Sizes for the dimensions that are symbolic already, by which inference can multiply: none where the model does not
    take these."""
    names = {dim.dim_param for it in model.graph.input for dim in it.type.tensor_type.shape.dim if dim.dim_param}
    others = sorted(names - freed.keys())
    found = dict(zip(others, _PRIMES, strict=False))
    try:
        infer(model, found | freed, strict=True)
    except Exception:
        return {}
    return found


_REFUSED = re.compile(r"\(op_type:(?P<type>[^,)]+), node name: (?P<name>.+?)\): (?P<reason>.+?)(?= \(op_type:|$)")


def why(error: Exception) -> str:
    """What shape inference refused first, in a line; what it says of nodes behind that one follows from it."""
    text = " ".join(str(error).split())
    found = _REFUSED.search(text)
    if found is None:
        return one_line(text)
    reason = re.sub(r"^\[[A-Za-z]+\] ", "", found["reason"])
    return one_line(f"{found['type']} {found['name']!r}: {reason}")


def varies(one: Shape | None, other: Shape | None) -> bool:
    return one is not None and other is not None and one != other


def following(at: tuple[Shape | None, Shape | None, Shape | None], sizes: Sizes) -> tuple[int, int] | None:
    """The one axis of a value that is a multiple of the freed dimension, and which multiple; None where there is none, or none
    alone."""
    if any(shape is None for shape in at) or len({len(shape) for shape in at if shape is not None}) != 1:
        return None
    moved = [axis for axis, dims in enumerate(zip(*at, strict=True)) if len(set(dims)) > 1]  # type: ignore[arg-type]
    if len(moved) != 1:
        return None
    (axis,) = moved
    times = [shape[axis] / size for shape, size in zip(at, sizes, strict=True) if shape is not None]
    return (axis, round(times[0])) if len(set(times)) == 1 and times[0] == round(times[0]) else None


class Constants:
    def __init__(self, graph: Any) -> None:
        self._initializers = {it.name: it for it in graph.initializer}
        self._makers = {output: node for node in graph.node for output in node.output}

    def tensor(self, name: str) -> Any:
        """The tensor of a value that is one, also behind nodes that pass it on; else None."""
        if name in self._initializers:
            return self._initializers[name]
        node = self._makers.get(name)
        if node is not None and node.op_type == "Identity":
            return self.tensor(node.input[0])
        if node is not None and node.op_type == "Constant":
            return next((it.t for it in node.attribute if it.name == "value"), None)
        return None

    def integers(self, name: str) -> list[int] | None:
        """The numbers of a small constant vector; None where it is none."""
        found = self.tensor(name)
        if found is None:
            node = self._makers.get(name)
            attributes = () if node is None or node.op_type != "Constant" else node.attribute
            return next((list(it.ints) for it in attributes if it.name == "value_ints"), None)
        if found.data_type not in (onnx.TensorProto.INT64, onnx.TensorProto.INT32) or len(found.dims) != 1:
            return None
        if found.dims[0] > _SMALL or found.data_location == onnx.TensorProto.EXTERNAL:
            return None
        return [int(number) for number in numpy_helper.to_array(found)]

    def is_zero(self, name: str) -> bool:
        """Whether a value is known to be zeros."""
        node, found = self._makers.get(name), self.tensor(name)
        if found is not None:
            external = found.data_location == onnx.TensorProto.EXTERNAL
            return not external and not np.any(numpy_helper.to_array(found))
        if node is None or not node.input:
            return False
        if node.op_type == "ConstantOfShape":
            value = next((it.t for it in node.attribute if it.name == "value"), None)
            return value is None or not np.any(numpy_helper.to_array(value))
        return node.op_type in ("Expand", "Unsqueeze", "Squeeze", "Reshape", "Cast", "Slice") and self.is_zero(
            node.input[0]
        )


_STATES = {"LSTM": (5, 6), "GRU": (5,), "RNN": (5,)}  # inputs that hold a state to begin with
_LENGTHS = 4  # their input that holds how long each sequence is
_MOST_WAVES = 2000


class Refused(Exception):
    """A node keeps the dimension as it is, and why."""

    def __init__(self, node: Any, reason: str) -> None:
        super().__init__(f"{called(node)} {reason}")


def called(node: Any) -> str:
    return f"{node.op_type} {node.name or node.output[0]!r}" if not node.name else f"{node.op_type} {node.name!r}"


class _At(NamedTuple):
    """What is known of all values now, at the three sizes."""

    fixed: dict[str, Shape | None]
    one: dict[str, Shape | None]
    other: dict[str, Shape | None]

    def of(self, name: str) -> tuple[Shape | None, Shape | None, Shape | None]:
        return self.fixed.get(name), self.one.get(name), self.other.get(name)

    def moves(self, name: str) -> bool:
        return varies(self.fixed.get(name), self.one.get(name))


Change = Callable[["Pins", Any, _At, dict[str, Follows], Constants], bool]


class Pins:
    """Frees one dimension of a graph without its large weights; `changed` are the nodes that were changed for it, in words."""

    def __init__(self, model: Any, sizes: Sizes, name: str, others: dict[str, int], exact: bool) -> None:
        self._model, self._sizes, self._name, self._others = model, sizes, name, others
        self._touched = _touched(model.graph, name)
        self._exact = exact  # no other dimension is symbolic
        self._done: set[str] = set()
        self._reshaped: dict[str, Follows] = {}  # outputs of Reshape nodes that were looked at
        self._names = {name for node in model.graph.node for name in (*node.input, *node.output)}
        self.changed: list[str] = []

    def free(self) -> None:
        """Change what pins it, node by node, as far as each change lets the dimension reach. Raises `Refused`."""
        for _ in range(_MOST_WAVES):
            if not self._wave():
                return

    def look(self, strict: bool = False) -> _At:
        """The shapes at each size; raises what onnx raises where `strict`."""
        return _At(*(infer(self._model, {**self._others, self._name: size}, strict) for size in self._sizes))

    def _wave(self) -> bool:
        """Change what is known to pin it by now; whether anything was."""
        at, split = self.look(), dict(self._reshaped)
        constants, nodes, found = Constants(self._model.graph), list(self._model.graph.node), False
        for node in nodes:
            self._pass_on(node, at, split)
            found |= self._change(node, _CHANGES, at, split, constants)
        # A value beside one that follows is known not to follow only when nothing before it pins it any more.
        return found or any(self._change(node, _CHANGES_AT_LAST, at, split, constants) for node in nodes)

    def _change(
        self, node: Any, changes: dict[str, Change], at: _At, split: dict[str, Follows], constants: Constants
    ) -> bool:
        change = changes.get(node.op_type)
        if change is None or node.domain not in ("", "ai.onnx") or node.output[0] in self._done:
            return False
        if not change(self, node, at, split, constants):
            return False
        self._done.add(node.output[0])
        self.changed.append(called(node))
        return True

    def _pass_on(self, node: Any, at: _At, split: dict[str, Follows]) -> None:
        """What is known of the axis of a node's inputs that follows is known of its outputs'."""
        known = [split[name] for name in node.input if name in split]
        for name in node.input:
            if name not in split and (found := following(at.of(name), self._sizes)) is not None and found[1] == 1:
                split[name] = Follows(found[0], 1, 1)
        for name in node.output:
            found = following(at.of(name), self._sizes)
            if found is None:
                continue
            axis, times = found
            same = {(it.outer, it.inner) for it in known if it.outer * it.inner == times}
            if times == 1:
                split[name] = Follows(axis, 1, 1)
            elif len(same) == 1 and node.op_type != "Reshape":
                split[name] = Follows(axis, *same.pop())

    # What nodes pin

    def _reshape(self, node: Any, at: _At, split: dict[str, Follows], constants: Constants) -> bool:
        data, target = node.input[0], constants.integers(node.input[1]) if len(node.input) > 1 else None
        is_unknown = at.fixed.get(data) is None and data in self._touched
        if target is None or not (at.moves(data) or is_unknown):
            return False
        before, after = at.fixed.get(data), at.fixed.get(node.output[0])
        follows = split.get(data)
        if before is None or after is None or follows is None:
            if -1 in target:
                return False  # what follows, or a run, shows whether it fits
            raise Refused(
                node, f"has the constant shape {target}, and where the dimension is in its input is not known"
            )
        to = _reshaped(before, follows, after, self._sizes.fixed)
        if to is None:
            raise Refused(
                node, f"has the constant shape {target}, in which the dimension has more than one place, or none"
            )
        split[node.output[0]] = self._reshaped[node.output[0]] = to
        if all(
            shape == _scaled(after, to, size) for shape, size in zip(at.of(node.output[0]), self._sizes, strict=True)
        ):
            return False
        node.input[1] = self._constant(node, self._freed_target(node, target, follows, to, after))
        return True

    def _freed_target(self, node: Any, target: list[int], follows: Follows, to: Follows, after: Shape) -> list[int]:
        """The constant of a Reshape with the freed dimension where it belongs."""
        zero_is_size = any(it.name == "allowzero" and it.i for it in node.attribute)
        freed = list(target)
        if follows == to and not zero_is_size:
            freed[to.axis] = 0
            if target[to.axis] == -1:
                freed[to.axis] = -1
            if freed != target:
                return freed
        for axis, size in enumerate(target):
            if size == -1 and axis != to.axis:
                if not self._exact:
                    raise Refused(node, f"has the constant shape {target}, whose -1 may be another symbolic dimension")
                freed[axis] = after[axis]
        freed[to.axis] = -1
        if freed == target:
            raise Refused(node, f"has the constant shape {target}, which the freed dimension does not fit")
        return freed

    def _expand(self, node: Any, at: _At, split: dict[str, Follows], constants: Constants) -> bool:
        data, target = node.input[0], constants.integers(node.input[1])
        follows, shape = split.get(data), at.fixed.get(data)
        if target is None or follows is None or shape is None:
            return False
        axis = follows.axis - len(shape) + len(target)
        if axis < 0 or target[axis] == 1:
            return False
        if target[axis] != shape[follows.axis]:
            raise Refused(node, f"has the constant shape {target}")
        node.input[1] = self._constant(node, [1 if place == axis else size for place, size in enumerate(target)])
        return True

    def _resize(self, node: Any, at: _At, split: dict[str, Follows], constants: Constants) -> bool:
        follows = split.get(node.input[0])
        target = constants.integers(node.input[3]) if len(node.input) > 3 and node.input[3] else None
        if follows is None or target is None or at.moves(node.output[0]):
            return False
        if any(it.name == "axes" for it in node.attribute) or (follows.outer, follows.inner) != (1, 1):
            raise Refused(node, f"has the constant sizes {target}")
        parts = [target[: follows.axis], None, target[follows.axis + 1 :]]
        node.input[3] = self._shape_of(node, node.input[0], follows.axis, parts)
        return True

    def _state(self, node: Any, at: _At, split: dict[str, Follows], constants: Constants) -> bool:
        if not at.moves(node.input[0]):
            return False
        found = False
        for place in (_LENGTHS, *_STATES[node.op_type]):
            name = node.input[place] if place < len(node.input) else ""
            if not name or at.moves(name):
                continue
            what = "lengths of sequences" if place == _LENGTHS else "an initial state"
            if place == _LENGTHS or not constants.is_zero(name):
                raise Refused(node, f"has {what} of a fixed size ({name!r}) that cannot be known for others")
            node.input[place] = ""  # a node without one begins with zeros
            found = True
        return found

    def _concat(self, node: Any, at: _At, split: dict[str, Follows], constants: Constants) -> bool:
        """What is joined to a value that follows, and does not follow itself, is repeated for each item, where it is for one."""
        leader = next((name for name in node.input if name in split), None)
        joined = next((it.i for it in node.attribute if it.name == "axis"), 0)
        if leader is None or (shape := at.fixed.get(leader)) is None:
            return False
        axis, found = split[leader].axis, False
        if joined % len(shape) == axis:
            return False
        for place, name in enumerate(node.input):
            other = at.fixed.get(name)
            if at.moves(name) or other is None or len(other) != len(shape):
                continue
            if other[axis] != 1 or split[leader][1:] != (1, 1) or name in self._touched:
                raise Refused(node, f"joins {name!r}, which is {other[axis]} long there whatever the dimension is")
            parts = [[1] * axis, None, [1] * (len(shape) - axis - 1)]
            wanted = self._shape_of(node, leader, axis, parts)
            node.input[place] = self._before(node, "Expand", [name, wanted])
            found = True
        return found

    # Changing the graph

    def _constant(self, node: Any, numbers: Sequence[int]) -> str:
        """A constant of the node's own, as others may share what it had."""
        value = numpy_helper.from_array(np.array(numbers, dtype=np.int64))
        return self._before(node, "Constant", [], value=value)

    def _shape_of(self, node: Any, data: str, axis: int, parts: Sequence[Sequence[int] | None]) -> str:
        """A vector of numbers, with the size of an axis of `data` where a part is None."""
        shape = self._before(node, "Shape", [data])
        size = self._before(node, "Gather", [shape, self._constant(node, [axis])], axis=0)
        pieces = [size if part is None else self._constant(node, part) for part in parts if part is None or part]
        return self._before(node, "Concat", pieces, axis=0)

    def _before(self, node: Any, operator: str, inputs: Sequence[str], **attributes: Any) -> str:
        """Put a node before another one; gives its output's name."""
        number, stem = 0, f"{node.output[0]}/freed"
        while f"{stem}_{number}" in self._names:
            number += 1
        name = f"{stem}_{number}"
        self._names.add(name)
        made = helper.make_node(operator, list(inputs), [name], name=name, **attributes)
        place = next(place for place, it in enumerate(self._model.graph.node) if it.output[0] == node.output[0])
        self._model.graph.node.insert(place, made)
        return name


_CHANGES: dict[str, Change] = {"Reshape": Pins._reshape, "Expand": Pins._expand, "Resize": Pins._resize}
_CHANGES_AT_LAST: dict[str, Change] = {"Concat": Pins._concat, **dict.fromkeys(_STATES, Pins._state)}


def _touched(graph: Any, name: str) -> set[str]:
    """The values that inputs with the dimension have a part in."""
    found = {it.name for it in graph.input if any(dim.dim_param == name for dim in it.type.tensor_type.shape.dim)}
    for node in graph.node:
        if found.intersection(node.input) or inner_graphs(node):  # which may use any value around it
            found.update(node.output)
    return found


def _reshaped(before: Shape, follows: Follows, after: Shape, size: int) -> Follows | None:
    """Where an axis is after a Reshape, which keeps the order of elements; None where more than one place is as good."""
    ahead = math.prod(before[: follows.axis]) * follows.outer
    behind = follows.inner * math.prod(before[follows.axis + 1 :])
    found = list(_places(after, ahead, behind, size))
    alone = [it for it in found if it.outer == it.inner == 1] or found
    same = [it for it in alone if it.axis == follows.axis]
    return (same or alone)[0] if len(alone) == 1 or same else None


def _places(after: Shape, ahead: int, behind: int, size: int) -> Iterator[Follows]:
    for axis, length in enumerate(after):
        before, rest = math.prod(after[:axis]), math.prod(after[axis + 1 :])
        if before and rest and ahead % before == 0 and behind % rest == 0:
            outer, inner = ahead // before, behind // rest
            if outer * size * inner == length:
                yield Follows(axis, outer, inner)


def _scaled(shape: Shape, follows: Follows, size: int) -> Shape:
    length = follows.outer * size * follows.inner
    return tuple(length if axis == follows.axis else it for axis, it in enumerate(shape))


def refusal(label: str, reason: object) -> BadInput:
    return BadInput(f"--free-dim {label}: cannot be freed: {reason}", "--free-dim")
