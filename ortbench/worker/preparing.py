"""The request to set a mode up: its fences and proofs, a check of its outputs, and what warms it up."""

from __future__ import annotations

from typing import Any

from ortbench.answers import Prepared
from ortbench.errors import WrongOutputs
from ortbench.modes import TOTAL, is_rate
from ortbench.plan import Loop
from ortbench.worker.modes.make import make_mode
from ortbench.worker.proofs import random_nodes
from ortbench.worker.proofs.outputs import check_outputs
from ortbench.worker.state import Stages, State
from ortbench.worker.timing import Ranges, warm_up

WARMUP_NS = 500_000_000


def prepare(state: State, mode: str, warmup: int | None, depth: int = Loop.depth) -> Prepared:
    """Set a mode up, prove its fence, check its outputs, have it prove what it claims, warm it up."""
    stages = Stages()
    try:
        return _prepare(state, mode, warmup, depth, stages)
    except WrongOutputs as error:
        raise WrongOutputs(f"{error}{random_nodes.sentence(state.opened.path)}") from None


def _prepare(state: State, mode: str, warmup: int | None, depth: int, stages: Stages) -> Prepared:
    tolerances = state.opened.request.rtol, state.opened.request.atol
    made = make_mode(mode, state.opened.model, state.opened.data, depth)
    stages.done("binding, proving the fence")
    check_outputs(made, *tolerances)
    stages.done("comparing outputs")
    proved: dict[str, Any] = {}
    for proof in made.proofs(*tolerances, state.modes):
        proved[proof.key] = proof.prove()
        stages.done(proof.stage)
    estimates = {}
    for phase, call in made.phases().items():
        estimates[phase] = warm_up(call, warmup, WARMUP_NS if phase == TOTAL else WARMUP_NS // 5)
        made.rest()
    stages.done("warming up")
    state.modes[mode] = made
    state.ranges[mode] = Ranges(made)
    return {
        "bytes_in": made.bytes_in,
        "bytes_out": made.bytes_out,
        "fence": {
            **made.fence.to_dict(),
            "upload": None if made.upload_fence is None else made.upload_fence.to_dict(),
            "download": None if made.download_fence is None else made.download_fence.to_dict(),
        },
        "zero_copy": proved.get("zero_copy"),
        "external": proved.get("external"),
        "graph": proved.get("graph"),
        "pipeline": made.pipeline(),
        "runs_per_sample": made.per_call if is_rate(mode, TOTAL) else None,
        "estimates_ns": estimates,
        "stages": stages.spans,
    }
