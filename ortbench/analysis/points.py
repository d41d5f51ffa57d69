"""The shapes of a sweep as results of their own, and such results as one of a sweep. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import replace

from ortbench.analysis.sweep import best_of, summarise_switching
from ortbench.result import FAILED, SWEEP, Case, Point, Result
from ortbench.schema import Switching, Tensor
from ortbench.slo import Slo
from ortbench.sweep_plan import Shape


def alone(result: Result, point: Point) -> Result:
    """A shape of a sweep as the result that a run of it would have, of the same run as the other shapes' ones."""
    setup, model = copy(result.setup), copy(result.model)
    setup["first_run_ns"] = point.first_run_ns or 0
    model["inputs"], model["outputs"] = point.inputs, point.outputs
    return replace(
        result, setup=setup, model=model, cases=point.cases, items=point.items,
        kind=None, sweep=None, points=None, switching=None, best=None,
    )  # fmt: skip


def apart(results: Sequence[Result], settings: Sequence[str] = ()) -> tuple[list[Result], list[str]]:
    """Results in whose place each sweep has its shapes, as results of their own, and what tells them apart.

    Args:
        results: any number of them.
        settings: of each what it was measured with, in a few words; of a shape its name comes behind.
    """
    found = [
        (shape, " ".join(filter(None, (setting, name))))
        for result, setting in zip(results, settings or [""] * len(results), strict=True)
        for shape, name in zip(several(result), _names(result), strict=True)
    ]
    return [shape for shape, _ in found], [setting for _, setting in found]


def _names(result: Result) -> list[str]:
    return [""] if result.points is None else [point.name for point in result.points]


def several(result: Result) -> list[Result]:
    """The results of all shapes; of what is no sweep the result itself."""
    return [result] if result.points is None else [alone(result, point) for point in result.points]


def together(
    shapes: Sequence[Shape],
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
    points = [
        _failed(shape, reason) if result is None else _point(shape, result)
        for shape, result, reason in zip(shapes, results, reasons, strict=True)
    ]
    made = replace(first, kind=SWEEP, cases=[], items=None, warnings=[], points=points)
    made.model = {
        **first.model,
        "inputs": _common([point.inputs for point in points if point.inputs]),
        "outputs": _common([point.outputs for point in points if point.outputs]),
    }
    names = list(dict.fromkeys(name for point in points for name in point.shape))
    differing = [name for name in names if len({point.shape.get(name) for point in points}) > 1]
    made.sweep = {
        "dims": differing,
        "data": any(shape.data is not None for shape in shapes),
        "slo": None if slo is None else {slo.statistic: slo.limit_ns},
    }
    _collect_warnings(made, shapes, results)
    made.switching = [summarise_switching(it) for it in switching]
    made.best = best_of(points, slo)
    return made


def _point(shape: Shape, result: Result) -> Point:
    inputs = result.model["inputs"]
    return Point(
        shape.name, {**_asked(shape), **_sizes(inputs)}, shape.data, inputs, result.model["outputs"], result.items,
        result.setup["first_run_ns"], result.cases,
    )  # fmt: skip


def _failed(shape: Shape, reason: str | None) -> Point:
    cases = [Case(mode, FAILED, reason) for mode in shape.plan.modes]
    return Point(shape.name, _asked(shape), shape.data, cases=cases)


def _asked(shape: Shape) -> dict[str, int]:
    return {name: size for name, size in shape.plan.inputs.dims.items() if isinstance(size, int)}


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


def _collect_warnings(made: Result, shapes: Sequence[Shape], results: Sequence[Result | None]) -> None:
    """What the shapes warn of, once where all of them do."""
    there = [(shape.name, result) for shape, result in zip(shapes, results, strict=True) if result is not None]
    found: dict[tuple[str, str], list[str]] = {}
    for name, result in there:
        for it in result.warnings:
            found.setdefault((it["code"], it["message"]), []).append(name)
    for (code, message), names in found.items():
        made.warn(code, message if len(names) == len(there) else f"{', '.join(names)}: {message}")
