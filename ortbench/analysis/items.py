"""How many items a run has, and what that makes of its time: a batch of 8 in 2 ms is 4000 items a second. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import NamedTuple

from ortbench.analysis.intervals import by_round
from ortbench.core.errors import BadInput
from ortbench.core.expressions import named_dims
from ortbench.core.features import part_of
from ortbench.core.stats import MEAN, Blocks, Rounds, Value, figure_of
from ortbench.model.modes import ALL_MODES, ITEM_THROUGHPUT, ITEM_TIME, LATENCY, THROUGHPUT
from ortbench.model.result import FAILED, OK, RUN, Case, Point, Result, not_ok
from ortbench.model.schema import Items, Tensor

OPTION = "--items"
_N = "n"
_BATCHES = ("batch", "batchsize", _N)  # what the dimension of items is called, the surest name first; see `_plain`


def items_of(inputs: Sequence[Tensor], asked: int | str | None, guessed: Collection[str]) -> Items | None:
    """How many items a run has: what was asked for, else the size of a dimension that is called a batch, or n where a batch stands.

    None where no dimension has such a name, or those that have differ. Dimensions that are `guessed` were set to 1
    because nobody said otherwise. `BadInput` where the name that was asked for is no dimension's, or stands for no size
    or for several.
    """
    sizes = dim_sizes(inputs)
    if isinstance(asked, int):
        return {"count": asked, "dim": None}
    if asked is not None:
        return {"count": _size(asked, sizes, guessed), "dim": asked}
    for batch in _BATCHES:
        called = [name for name in sizes if _plain(name) == batch and (batch != _N or _is_first(name, inputs))]
        found = {size for name in called for size in sizes[name] if size}  # what grows from nothing counts no items
        if found:
            return {"count": found.pop(), "dim": called[0]} if len(found) == 1 else None
    return None


def _is_first(name: str, inputs: Sequence[Tensor]) -> bool:
    """Whether it is the first dimension of all inputs that have several and do not fix the first one."""
    several = [dims for it in inputs if len(dims := dims_of(it)) > 1]
    return {dims[0] for dims in several if isinstance(dims[0], str)} == {name}


def _plain(name: str) -> str:
    """A name in small letters and without what joins words: Batch_Size is batchsize."""
    return re.sub(r"[-_. ]", "", name).casefold()


def dims_of(tensor: Tensor) -> tuple[int | str, ...]:
    """The sizes and names of a tensor's dimensions, as the model states them."""
    return named_dims(tensor["name"], tensor.get("model_shape") or ())


def dim_sizes(inputs: Iterable[Tensor]) -> dict[str, set[int]]:
    """The sizes of each dimension that is not fixed."""
    sizes: dict[str, set[int]] = {}
    for tensor in inputs:
        for dim, size in zip(dims_of(tensor), tensor["shape"] or (), strict=False):
            if isinstance(dim, str):
                sizes.setdefault(dim, set()).add(size)
    return sizes


def _size(name: str, sizes: dict[str, set[int]], guessed: Collection[str]) -> int:
    found = sizes.get(name)
    if found is None:
        has = f"they have {', '.join(sorted(sizes))}" if sizes else "all of them are fixed, so give a number"
        raise BadInput(f"{OPTION} {name}: the model's inputs have no such dimension; {has}", OPTION)
    if name in guessed:
        raise BadInput(f"{OPTION} {name}: nobody says how large it is: add --dim {name}=N", OPTION)
    if len(found) > 1:
        listed = " and ".join(map(str, sorted(found)))
        raise BadInput(f"{OPTION} {name}: is {listed} in different inputs: give a number", OPTION)
    return next(iter(found))


def put_throughput(case: Case, items: Items | None) -> None:
    """Put into a case what its latency means for inferences and items; nothing where it did not work."""
    latency = case.stats(LATENCY) if case.status == OK else None
    count = None if items is None else items["count"]
    blocks = {} if latency is None else by_round(case, LATENCY)
    if latency is not None and not blocks:
        blocks = {0: [latency.mean]}
    put_rates(case, {THROUGHPUT: 1, ITEM_THROUGHPUT: count or 0}, blocks)
    case.set_metric(ITEM_TIME, None if latency is None or not count else round(latency.median / count, 3), derived=True)
    per_joule = case.value("inferences_per_joule")
    case.set_metric("items_per_joule", None if per_joule is None or count is None else per_joule * count, derived=True)


def put_rates(case: Case, counts: Mapping[str, int], blocks: Blocks) -> None:
    """Put into a case how many there are a second, by metric: so many in each sample, ns, all of them divided by the time that they took.

    Of two humps a median is one of them, and its inverse no rate at which anything is done.
    """
    took, ends = max(figure_of(blocks, MEAN), 1) if blocks else 0, None
    if (rounds := Rounds(blocks, case.first_rounds)).are_enough:
        ends = rounds.interval(rounds.figures(blocks, MEAN), took)[::-1]
    for metric, count in counts.items():
        if not count or not blocks:
            case.set_metric(metric, None)
            continue
        inside = None if ends is None else [round(count * 1e9 / max(it, 1), 3) for it in ends]
        case.set_metric(metric, round(count * 1e9 / took, 3), inside, derived=True)


def is_batch(items: Items | None) -> bool:
    """Whether a run has several items, so that a figure by item says more than one by run."""
    return items is not None and items["count"] > 1


class Rate(NamedTuple):
    """The best that something reached: what it is called, its items, and their rate with a mode and its interval, where it has one."""

    name: str
    items: Items
    items_per_s: float
    mode: str
    ci95: tuple[float, float] | None = None


def best_mode(result: Result, name: str, modes: Collection[str] = ()) -> Rate | None:
    """The mode of a result, of some or of all, that gets most items done; None where nobody knows how many there are."""
    cases = [case for case in result.cases if not modes or case.mode in modes]
    known = [(value, case.mode) for case in cases if isinstance(value := case.metrics.get(ITEM_THROUGHPUT), Value)]
    if result.items is None or not known:
        return None
    found, mode = max(known, key=lambda it: it[0].value)
    return Rate(name, result.items, found.value, mode, found.ci95)


# Cases that have shapes of their own, and what of a result failed


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
