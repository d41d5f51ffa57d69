"""The shapes of a sweep as results of their own, and such results as one of a sweep. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Protocol

from ortbench.analysis.sweep import best_of, differing_dims, summarise_switching
from ortbench.model.modes import CPU, LATENCY
from ortbench.model.result import FAILED, RUN, SWEEP, Case, Point, Result
from ortbench.model.schema import Axis, Switching, Tensor
from ortbench.model.slo import Slo


class Asked(Protocol):
    """A shape that was asked for: its name, modes and sizes by dimension; with real inputs the name of their set."""

    @property
    def name(self) -> str: ...
    @property
    def data(self) -> str | None: ...
    @property
    def modes(self) -> Sequence[str]: ...
    @property
    def dims(self) -> Mapping[str, int | str]: ...


def point_as_result(result: Result, shape: Point) -> Result:
    """A shape of a sweep as the result that a run of it would have, of the same run as the other shapes' ones."""
    setup, model = copy(result.setup), copy(result.model)
    setup["first_inference_ns"] = shape.first_inference_ns or 0
    model["inputs"], model["outputs"] = shape.inputs, shape.outputs
    return replace(
        result, setup=setup, model=model, cases=[replace(case, point={}) for case in result.at_point(shape.point)],
        items=shape.items, kind=RUN, axes=[], sweep=None, shapes=[], switching=None, best=None,
    )  # fmt: skip


def split(results: Sequence[Result], settings: Sequence[str] = ()) -> tuple[list[Result], list[str]]:
    """Results in whose place each sweep has its shapes, as results of their own, and what tells them apart.

    Args:
        results: any number of them.
        settings: of each what it was measured with, in a few words; of a shape its name comes behind.
    """
    found: list[tuple[Result, str]] = []
    for result, setting in zip(results, settings or [""] * len(results), strict=True):
        found += [(point_as_result(result, it), f"{setting} {it.name}".strip()) for it in result.shapes] or [
            (result, setting)
        ]
    return [shape for shape, _ in found], [setting for _, setting in found]


def merge(
    shapes: Sequence[Asked],
    results: Sequence[Result | None],
    reasons: Sequence[str | None],
    slo: Slo | None,
    switching: Sequence[Switching],
) -> Result:
    """The result of a sweep.

    Args:
        shapes: that were asked for.
        results: of each, None where it did not open; of one at least there is one.
        reasons: why not.
        slo: what the best one has to keep.
        switching: what it costs that shapes change, with its samples.
    """
    first = next(result for result in results if result is not None)
    made = replace(first, kind=SWEEP, items=None, warnings=[], cases=[])
    made.shapes = [_described(shape, result) for shape, result in zip(shapes, results, strict=True)]
    made.axes = _axes(made.shapes)
    for asked, it, result, reason in zip(shapes, made.shapes, results, reasons, strict=True):
        it.point = {axis["name"]: it.shape[axis["name"]] if axis["unit"] else it.name for axis in made.axes}
        cases = [Case(mode, FAILED, reason) for mode in asked.modes] if result is None else result.cases
        made.cases += [replace(case, point=it.point) for case in cases]
    made.model = {
        **first.model,
        "inputs": _common([it.inputs for it in made.shapes if it.inputs]),
        "outputs": _common([it.outputs for it in made.shapes if it.outputs]),
    }
    made.sweep = {"slo": None if slo is None else {slo.statistic: slo.limit_ns}}
    _collect_warnings(made, shapes, results)
    made.switching = [summarise_switching(it) for it in switching]
    for it in made.shapes:
        if (cpu := made.case(CPU, it.point)) is not None and it.first_inference_ns:
            later = cpu.median(LATENCY)
            cpu.put("first_inference", it.first_inference_ns)
            cpu.put("first_ratio", round(it.first_inference_ns / later, 4) if later else None, derived=True)
    for found in made.switching:
        _put_switching(made, found)
    made.best = best_of(made, slo)
    return made


def _put_switching(made: Result, found: Switching) -> None:
    points = {it.name: it.point for it in made.shapes}
    for it in found["shapes"]:
        if (case := made.case(found["mode"], points[it["shape"]])) is not None:
            case.put("same_shape", it["alone_ns"])
            case.put("other_shape", it["turns_ns"])
            case.put("switching_ratio", it["ratio"], it["ci95"])
            case.put("switching_cost", it["turns_ns"] - it["alone_ns"], derived=True)


def _described(shape: Asked, result: Result | None) -> Point:
    """A shape, not yet on the axes; one that did not open with what was asked for."""
    asked = {name: size for name, size in shape.dims.items() if isinstance(size, int)}
    if result is None:
        return Point(shape.name, {}, asked, shape.data)
    inputs, outputs = result.model["inputs"], result.model["outputs"]
    first_ns = result.setup["first_inference_ns"]
    return Point(shape.name, {}, {**asked, **_sizes(inputs)}, shape.data, inputs, outputs, result.items, first_ns)


def _axes(shapes: Sequence[Point]) -> list[Axis]:
    """The dimensions whose sizes differ; the names of the shapes where these are sets of real inputs, or where sizes, which all of
    them have, do not tell each from all others."""
    dims = [name for name in differing_dims(shapes) if all(name in it.shape for it in shapes)]
    if shapes[0].data is None and len({tuple(it.shape[name] for name in dims) for it in shapes}) == len(shapes):
        return [
            {"name": name, "unit": "elements", "values": list(dict.fromkeys(it.shape[name] for it in shapes))}
            for name in dims
        ]
    return [{"name": "shape" if shapes[0].data is None else "data", "unit": "", "values": [it.name for it in shapes]}]


def _sizes(tensors: Iterable[Tensor]) -> dict[str, int]:
    """The sizes of the dimensions that have a name and one size."""
    found: dict[str, set[int]] = {}
    for tensor in tensors:
        for dim, size in zip(tensor["model_shape"], tensor["shape"] or (), strict=False):
            if isinstance(dim, str):
                found.setdefault(dim, set()).add(size)
    return {name: sizes.pop() for name, sizes in found.items() if len(sizes) == 1}


def _common(several: Sequence[Sequence[Tensor]]) -> list[Tensor]:
    """Tensors as the model has them, with what is the same in all shapes."""
    found = []
    for tensors in zip(*several, strict=True):
        tensor = copy(tensors[0])
        if any(it["shape"] != tensor["shape"] for it in tensors):
            tensor["shape"] = tensor["bytes"] = None
        found.append(tensor)
    return found


def _collect_warnings(made: Result, shapes: Sequence[Asked], results: Sequence[Result | None]) -> None:
    """What the shapes warn of, once where all of them do."""
    there = [(shape.name, result) for shape, result in zip(shapes, results, strict=True) if result is not None]
    found: dict[tuple[str, str], list[str]] = {}
    for name, result in there:
        for it in result.warnings:
            found.setdefault((it["code"], it["message"]), []).append(name)
    for (code, message), names in found.items():
        made.warn(code, message if len(names) == len(there) else f"{', '.join(names)}: {message}")
