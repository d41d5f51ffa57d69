"""Requests of a sweep: one session, several shapes, each with data, modes and buffers of its own; and what it costs that
shapes change from call to call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ortbench.core.errors import Unsupported
from ortbench.model.modes import LATENCY
from ortbench.plan.ep_options import with_own
from ortbench.plan.target import Target, inputs_from, target_from
from ortbench.worker import opening
from ortbench.worker.proofs.fence import Fences
from ortbench.worker.session import engine_cache, first_run, placement, providers, session
from ortbench.worker.session.runtime import begin
from ortbench.worker.session.session import Model
from ortbench.worker.state import Opened, Stages, State
from ortbench.worker.timing import time_block

if TYPE_CHECKING:
    from ortbench.model import protocol, schema

_WAYS_OUT = "--dim, --shape, --length, --range change them, --data gives real ones"


@dataclass
class Shared:
    """What all shapes have in common.

    Attributes:
        path, target, model: what is open.
        described: its EP.
        cache: watches where the EP keeps engines.
        where: its nodes.
        counted: whether `where` has all that can be known.
    """

    path: str
    target: Target
    model: Model
    described: protocol.LoadedEp
    cache: engine_cache.Watch
    where: schema.Placement
    counted: bool = False


def open_sweep(state: State, model: str, target: dict[str, Any]) -> protocol.OpenedSweep:
    """Load the EP and create the session that all shapes share."""
    stages = Stages()
    begin()
    wanted = target_from(target)
    provider = providers.find(wanted)
    wanted = with_own(wanted, provider.name)
    stages.done("loading the EP")
    cache = engine_cache.Watch(model, wanted)
    opened = session.open_model(model, wanted, provider)
    stages.done("creating the session")
    described = opening.described_ep(wanted, provider, stages)
    state.shared = Shared(model, wanted, opened, described, cache, placement.placement(opened))
    return {"stages": stages.spans}


def open_point(state: State, point: int, inputs: dict[str, Any]) -> protocol.Opened:
    """Make the inputs of a shape and its reference outputs, by a first run of it in the session.

    Args:
        state: with the session.
        point: its number, by which requests are about it from then on.
        inputs: as of `ortbench.plan.plan.Inputs`.
    """
    stages = Stages()
    shared, request = state.shared, inputs_from(inputs)
    # What is proved of the fences of one shape is not taken for granted of another, whose work is longer or shorter.
    model = replace(shared.model, fences=Fences())
    opened = Opened(shared.path, shared.target, request, model, first_run.no_data())
    unsupported = None
    try:
        opened.data = first_run.make_data(shared.path, model, request, _WAYS_OUT)
    except Unsupported as error:
        unsupported = str(error)
    state.points[point] = State()
    state.points[point].opened = opened
    stages.done("inputs and first run")
    if not shared.counted and unsupported is None:
        shared.where = opening.with_copies(shared.where, shared.path, model, opened.data.arrays)
        shared.counted = True
    answer = opening.answered(opened, shared.described, shared.where, unsupported, stages)
    return {**answer, "engine_cache": shared.cache.found()}


def switching(state: State, mode: str, points: Sequence[int], calls: int, first: bool) -> protocol.Switched:
    """Time calls of ``latency`` of several shapes twice: each call another shape, and one shape at a time.

    Args:
        state: with the shapes.
        mode: that is set up for all of them.
        points: their numbers, in the order in which they are called.
        calls: of each shape, either way.
        first: whether the calls in turns come first.

    Returns:
        The samples in ns, by the number of the shape in `points`. One shape at a time begins with a call that is not recorded,
        since it is a change of shapes too.
    """
    made = [(state.points[point].modes[mode], state.points[point].ranges[mode]) for point in points]
    turns: list[list[int]] = [[] for _ in points]
    alone: list[list[int]] = []

    def in_turns() -> None:
        for _ in range(calls):
            for times, (it, ranges) in zip(turns, made, strict=True):
                times += time_block(it, ranges, LATENCY, 1, 0)

    def one_at_a_time() -> None:
        alone.extend(time_block(it, ranges, LATENCY, calls, 1) for it, ranges in made)

    for part in (in_turns, one_at_a_time) if first else (one_at_a_time, in_turns):
        part()
    return {"turns": turns, "alone": alone}
