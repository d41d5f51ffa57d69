"""Results whose cases have shapes of their own, and what of a result failed. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace

from ortbench.core.features import part_of
from ortbench.model.modes import ALL_MODES
from ortbench.model.result import FAILED, RUN, Case, Point, Result, not_ok


def differing_dims(shapes: Sequence[Point]) -> list[str]:
    """The dimensions that have several sizes, in the order in which shapes have them."""
    names = dict.fromkeys(name for it in shapes for name in it.shape)
    return [name for name in names if len({it.shape[name] for it in shapes if name in it.shape}) > 1]


def cases_of(result: Result, mode: str) -> list[tuple[Point, Case]]:
    """The shapes in which a mode is ok, with its case."""
    return [(it, case) for it in result.shapes if (case := result.case(mode, it.point)) is not None]


def mode_by_mode(result: Result) -> list[tuple[Point, Case]]:
    """All cases with their shapes, whatever came of them, mode after mode."""
    cases = [(shape, case) for shape in result.shapes for case in result.at_point(shape.point)]
    return [it for mode in ALL_MODES for it in cases if it[1].mode == mode]


def failures(result: Result, status: str = FAILED) -> list[str]:
    """Which modes of which shapes failed, and why: shapes that did so for one reason, and modes of one shape, in one sentence."""
    of_reason: dict[str, dict[str, list[str]]] = {}
    cases = {it.name: result.at_point(it.point) for it in result.shapes}
    for shape, of_shape in cases.items():
        for case in of_shape:
            if case.status == status:
                of_reason.setdefault(str(case.reason), {}).setdefault(shape, []).append(case.mode)
    found = []
    for reason, shapes in of_reason.items():
        of_modes: dict[tuple[str, ...], list[str]] = {}
        for name, modes in shapes.items():
            of_modes.setdefault(tuple(modes), []).append(name)
        for modes_, names in of_modes.items():
            whole = all(len(cases[name]) == len(modes_) for name in names)
            which = ", ".join(names) if whole else f"{', '.join(modes_)} at {', '.join(names)}"
            found.append(f"{which} {status}: {reason}")
    return found


def point_as_result(result: Result, shape: Point) -> Result:
    """A shape as the result that a run of it would have, of the same run as the other shapes' ones."""
    setup, model = copy(result.setup), copy(result.model)
    setup["first_inference_ns"] = shape.first_inference_ns or 0
    model["inputs"], model["outputs"] = shape.inputs, shape.outputs
    return replace(
        result, setup=setup, model=model, cases=[replace(case, point={}) for case in result.at_point(shape.point)],
        items=shape.items, kind=RUN, axes=[], own={},
    )  # fmt: skip


def failures_of(result: Result) -> list[str]:
    """What failed of a result, in sentences: modes, of a load points, of a sweep shapes."""
    failed = [case for case in result.at_point() if case.status == FAILED]
    modes = {case.mode for case in failed}
    said = [f"{named} failed: {reason}" for named, _, reason in not_ok(failed)]
    alike: dict[tuple[str, str | None], list[str]] = {}
    for where, case in part_of(result.kind, "analysis", "failed_points", lambda _: [])(result):
        if case.mode not in modes:
            alike.setdefault((where, case.reason), []).append(case.mode)
    return [
        *failures(result),
        *said,
        *(f"{', '.join(named)} {phrase} failed: {reason}" for (phrase, reason), named in alike.items()),
    ]


def nothing_measured(result: Result) -> str:
    """What to say of a result without a measured or a failed mode, with each reason once."""
    reasons = dict.fromkeys(case.reason for case in result.cases if case.reason)
    return f"nothing was measured: no mode that was asked for is supported ({'; '.join(reasons)})"
