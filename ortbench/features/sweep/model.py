"""The kind of sweeps, and what a result has of one."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TypedDict

from ortbench.model.kinds import RUN, SPEEDUP, View, tails
from ortbench.model.metrics import LATENCY
from ortbench.model.protocol import Stage
from ortbench.model.result import Point, Result
from ortbench.model.schema import NotRequired

KIND = RUN._replace(
    key="sweep", noun="a sweep",
    views=(View(
        compared=RUN.views[0].gated, several=RUN.views[0].gated, gated=RUN.views[0].gated,
        columns=(tails(LATENCY), SPEEDUP, ("item_time", "item_throughput", "best"), ("copy_share", "SLO", "latency.n")),
        screen=("latency", "p95", "speedup", "items/s", "best", "SLO"),
    ),),
    charts=("rates_by_size", "times_by_size"),
    checks=(*RUN.checks, "slo"),
    live=False,
    times_nodes=False,
    needed=(*RUN.needed, "sweep", "shapes"),
    every_axis=True,
    many_shapes=True,
)  # fmt: skip


class Sweep(TypedDict):
    """What the best shape of a sweep had to keep (``slo``: ns by statistic, null without)."""

    slo: dict[str, int] | None


class SwitchedShape(TypedDict):
    """A shape (its name) in calls that change shapes, against its calls alone: medians in ns, how many times as long the former
    take and the 95 % interval of that, null with too few rounds; ``samples``: of both ways, in order, ``calls`` of each round."""

    shape: str
    alone_ns: int
    turns_ns: int
    ratio: float
    ci95: list[float] | None
    samples: dict[str, list[int]]


class Switching(TypedDict):
    """What it costs in a mode that each call has another shape than the one before: ``rounds`` of ``calls`` of each shape in
    turns and as many one shape at a time. ``ratio``: how many times as long a turn of all shapes takes; ``cost_ns``: what it
    takes longer, by call; with 95 % intervals, null with too few rounds."""

    mode: str
    rounds: int
    calls: int
    ratio: float
    ci95: list[float] | None
    cost_ns: int
    cost_ci95_ns: list[int] | None
    shapes: list[SwitchedShape]


class BestShape(TypedDict):
    """The name of the best shape of a mode: the one with most items a second (``by`` is ``items_per_s``) of those that keep the
    SLO, or, where all have as many items, the largest that keeps it (``bytes_in``). ``ties``: names of those that cannot be told
    from it. ``verdict``, of items, absent from older files: whether it is the best for certain (``known``), others are as good (``tied``), or
    that cannot be told (``open``), on a busy machine (``noise``)."""

    shape: str
    by: str
    items_per_s: float | None
    ci95: list[float] | None
    ties: list[str]
    verdict: NotRequired[str]


class Best(TypedDict):
    """The best shape by mode, null where none keeps the SLO or none can be told; ``mode``: the one that gets most items done."""

    mode: str | None
    modes: dict[str, BestShape | None]


class OpenedSweep(TypedDict):
    """``open_sweep``: the session is there; of the rest each ``open_point`` says what ``open`` says."""

    stages: list[Stage]


class SwitchTimes(TypedDict):
    """``time_turns``: samples of calls in turns (``turns``) and of one shape at a time (``alone``), ns, by shape."""

    turns: list[list[int]]
    alone: list[list[int]]


class Parts(TypedDict, total=False):
    sweep: Sweep
    shapes: list[Point]
    switching: list[Switching] | None
    best: Best | None


def references(result: Result) -> Iterator[tuple[list[str | int], str, Collection[str]]]:
    """Where a name stands that is that of something else in the result, the name, and those that there are."""
    modes, shapes = {case.mode for case in result.cases}, {shape.name for shape in result.shapes}
    for number, switched in enumerate(result.own.get("switching") or []):
        yield ["switching", number, "mode"], switched["mode"], modes
        for at, of in enumerate(switched["shapes"]):
            yield ["switching", number, "shapes", at, "shape"], of["shape"], shapes
    best = result.own.get("best")
    if best is not None:
        if best["mode"] is not None:
            yield ["best", "mode"], best["mode"], best["modes"]
        for mode, best_shape in best["modes"].items():
            yield ["best", "modes"], mode, modes
            for name in [best_shape["shape"], *best_shape["ties"]] if best_shape else ():
                yield ["best", "modes", mode], name, shapes
