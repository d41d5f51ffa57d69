"""Requests about a session that all shapes share: open it, open a shape in it, and time calls that change shapes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ortbench.core.errors import Unsupported
from ortbench.model.modes import LATENCY
from ortbench.plan.target import inputs_from, target_from
from ortbench.worker import Stages, State, first_run
from ortbench.worker.libraries import set_up_onnxruntime
from ortbench.worker.modes import Opened, Shared
from ortbench.worker.opening import count_copies, describe_loaded_ep, describe_opened, open_session
from ortbench.worker.session import describe_placement
from ortbench.worker.sync import Syncs
from ortbench.worker.timing import time_block

if TYPE_CHECKING:
    from ortbench.features.sweep.model import OpenedSweep, SwitchTimes
    from ortbench.model import protocol

_WAYS_OUT = "--dim, --shape, --sequence-tensors, --range change them, --data gives real ones"


def open_sweep(state: State, model: str, target: dict[str, Any]) -> OpenedSweep:
    """Load the EP and create the session that all shapes share."""
    stages = Stages()
    set_up_onnxruntime()
    wanted, opened, cache = open_session(model, target_from(target), stages)
    described = describe_loaded_ep(wanted, opened.provider, stages)
    state.shared = Shared(model, wanted, opened, described, cache, describe_placement(opened))
    return {"stages": stages.spans}


def open_point(state: State, point: int, inputs: dict[str, Any]) -> protocol.Opened:
    """Make the inputs of a shape, by whose number requests are about it from then on, and its reference outputs, by a first run of it."""
    stages = Stages()
    shared, request = state.shared, inputs_from(inputs)
    # What is proved of the syncs of one shape is not taken for granted of another, whose work is longer or shorter.
    model = replace(shared.model, syncs=Syncs())
    opened = Opened(shared.path, shared.target, request, model)
    unsupported = None
    try:
        opened.data = first_run.make_data(shared.path, model, request, _WAYS_OUT)
    except Unsupported as error:
        unsupported = str(error)
    state.points[point] = State()
    state.points[point].opened = opened
    stages.end("inputs and first run")
    if not shared.counted and unsupported is None:
        shared.where = count_copies(shared.where, shared.path, model, opened.data.arrays)
        shared.counted = True
    answer = describe_opened(opened, shared.described, shared.where, unsupported, stages)
    return {**answer, "engine_cache": shared.cache.cache_state()}


def time_turns(state: State, mode: str, points: Sequence[int], calls: int, first: bool) -> SwitchTimes:
    """Time calls of ``latency`` of several shapes twice, so many `calls` of each: in turns, each call another shape, which may come
    `first`, and one shape at a time. The samples are in ns, by the number of the shape in `points`. One shape at a time begins with
    a call that is not recorded, since it is a change of shapes too."""
    made = [(state.points[point].modes[mode], state.points[point].ranges[mode]) for point in points]
    turns: list[list[int]] = [[] for _ in points]
    single_shape: list[list[int]] = []

    def time_in_turns() -> None:
        for _ in range(calls):
            for times, (timed, ranges) in zip(turns, made, strict=True):
                times += time_block(timed, ranges, LATENCY, 1, 0)

    def time_one_at_a_time() -> None:
        single_shape.extend(time_block(it, ranges, LATENCY, calls, 1) for it, ranges in made)

    for part in (time_in_turns, time_one_at_a_time) if first else (time_one_at_a_time, time_in_turns):
        part()
    return {"turns": turns, "alone": single_shape}
