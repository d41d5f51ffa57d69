"""The request to set a mode up: its fences and proofs, a check of its outputs, and what warms it up."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from ortbench.core.errors import NotWritten, WrongOutputs
from ortbench.model.modes import LATENCY, is_rate
from ortbench.plan.plan import Loop
from ortbench.worker.proofs import random_nodes
from ortbench.worker.proofs.outputs import check_outputs
from ortbench.worker.state import Stages, State
from ortbench.worker.timing import Ranges, warm_up

if TYPE_CHECKING:
    from ortbench.model.protocol import Prepared
    from ortbench.model.schema import Places, TensorPlace
    from ortbench.worker.modes.base import Mode
    from ortbench.worker.session.places import Bound


def prepare(
    state: State, mode: str, warmup: int | None, depth: int = Loop.depth, warmup_ns: int = Loop().warmup_ns
) -> Prepared:
    """Set a mode up, prove its fence, check its outputs, have it prove what it claims, warm it up.

    Args:
        state: with the model.
        mode: its name.
        warmup: runs to warm it up with; None for as many as fill `warmup_ns`, those of the proofs counted.
        depth: of a pipeline.
        warmup_ns: for inferences; a fifth of it for each of their phases.
    """
    stages = Stages()
    try:
        return _prepare(state, mode, warmup, warmup_ns, depth, stages)
    except WrongOutputs as error:
        raise WrongOutputs(f"{error}{random_nodes.sentence(state.opened.path)}") from None


def _prepare(state: State, mode: str, warmup: int | None, warmup_ns: int, depth: int, stages: Stages) -> Prepared:
    tolerances = state.opened.request.rtol, state.opened.request.atol
    made, times = _make_checked(state, mode, depth, stages)
    fences = made.fences()
    taken = {phase: [fence.known.work_ns] for phase, fence in fences.items() if fence.known is not None}
    ran = {phase: fence.spent_ns for phase, fence in fences.items()}
    taken[LATENCY] = times
    ran[LATENCY] = sum(taken[LATENCY]) + sum(
        fence.spent_ns for fence in {id(it): it for it in fences.values()}.values()
    )
    proved: dict[str, Any] = {}
    for proof in made.proofs(*tolerances, state.modes):
        begun = time.perf_counter_ns()
        proved[proof.key] = proof.prove()
        ran[LATENCY] += time.perf_counter_ns() - begun
        stages.done(proof.stage)
    estimates = {}
    for phase, call in made.phases().items():
        budget = warmup_ns if phase == LATENCY else warmup_ns // 5
        estimates[phase] = warm_up(call, warmup, budget - ran.get(phase, 0), taken.get(phase, ()))
        made.rest()
    stages.done("warming up")
    state.modes[mode] = made
    state.ranges[mode] = made.listen(Ranges(made))
    found: Prepared = {
        "bytes_in": made.bytes_in,
        "bytes_out": made.bytes_out,
        "sync": {
            **made.fence.to_dict(),
            "h2d": None if made.upload_fence is None else made.upload_fence.to_dict(),
            "d2h": None if made.download_fence is None else made.download_fence.to_dict(),
        },
        "zero_copy": proved.get("zero_copy"),
        "external": proved.get("external"),
        "graph": proved.get("graph"),
        "places": _places(state, made),
        "pipeline": made.pipeline(),
        "inferences_per_sample": made.per_call if is_rate(mode, LATENCY) else None,
        "estimates_ns": estimates,
        "stages": stages.spans,
    }
    if (loop := made.bytes_by_step()) is not None:
        found["loop"] = loop
    if (copied := made.stage_bytes()) is not None:
        found["chain"] = copied
    return found


def _make_checked(state: State, mode: str, depth: int, stages: Stages) -> tuple[Mode, list[int]]:
    """A mode whose outputs are right, and what the calls of ``latency`` took that showed it, ns.

    What a few µs of work leave to wait for is less than a busy host can tell from nothing. Where the host then reads outputs
    in place and they are not there, the fence does not wait, and the next one is tried.
    """
    request = state.opened.request
    while True:
        made = state.opened.make(mode, depth)
        stages.done("binding, proving the fence")
        try:
            return made, check_outputs(made, request.rtol, request.atol)
        except NotWritten:
            if made.fence.known is None or not state.opened.model.fences.refuse("run", made.fence.kind):
                raise
        finally:
            stages.done("comparing outputs")


def _places(state: State, made: Mode) -> Places:
    """Where the mode has every input and output, and why."""

    def described(it: Bound) -> TensorPlace:
        why = it.why or state.opened.host_reasons.get(it.name, "the session wants it there")
        return {"name": it.name, "memory": it.memory, "why": why, "usual": it.usual}

    ins, outs = made.bound()
    return {"inputs": [*map(described, ins)], "outputs": [*map(described, outs)]}
