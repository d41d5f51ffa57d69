"""A decoder behind an encoder: what the encoder takes and gives, and modes whose first step runs it before."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ortbench.analysis.feedback_pairs import TOKEN_IDS
from ortbench.core.errors import BadInput
from ortbench.model.modes import CPU, HOST_ACCESSIBLE, RESIDENT, SHARED
from ortbench.model.tensor_patterns import expanded
from ortbench.plan.chain_plan import Chain, End, Link, Stage
from ortbench.plan.loop_plan import Encoder, Steps
from ortbench.worker.loops import data as loops
from ortbench.worker.loops import generation
from ortbench.worker.loops.chain import ResidentStage, bound_stage, cpu_stage
from ortbench.worker.loops.chain_data import ChainData, OpenStage, join
from ortbench.worker.loops.modes import CpuStage, HostAccessibleLoop, SharedLoop

if TYPE_CHECKING:
    from ortbench.plan.target import Inputs
    from ortbench.worker.loops.base import LoopMode
    from ortbench.worker.session.session import Model


class SharedStage(SharedLoop, ResidentStage):
    """Past and present in one buffer, behind an encoder."""


class HostAccessibleStage(HostAccessibleLoop, ResidentStage):
    """HOST_ACCESSIBLE memory, behind an encoder."""


_BOUND: dict[str, type[ResidentStage]] = {
    RESIDENT: ResidentStage, SHARED.name: SharedStage, HOST_ACCESSIBLE: HostAccessibleStage,
}  # fmt: skip


def make(path: str, model: Model, front: Model, request: Inputs, steps: Steps) -> ChainData:
    """The encoder `front` and the decoder, which have run with plain arrays. Raises as `ortbench.worker.loops.data.make` does."""
    decoder = steps.decoder
    assert decoder is not None
    assert decoder.encoder is not None
    roles = generation.roles_of(path, model, decoder, generation.pairs_of(path, model, decoder))
    batch = generation.batch_of(roles.ids, request.dims)
    given = generation.tokens_of(steps, batch)
    ids = next((spec for spec in front.inputs if spec.name in TOKEN_IDS), None)
    dims: dict[str, int | str] = {**request.dims, str(front.inputs[0].shape[0]): batch}
    linked, length = {}, None
    if ids is not None:
        fixed = ids.shape[1]
        length = fixed if isinstance(fixed, int) else steps.prompt_length or generation.usual(given, decoder, steps)
        dims[str(fixed)] = length
        if given is not None:
            generation.check_enough(steps, given, length)
            linked[ids.name] = given[:, :length].astype(ids.dtype)
    masks = {spec.name: "1" for spec in front.inputs if "mask" in spec.name}
    once = Steps(count=1, fill=masks)
    own = replace(request, dims=dims, path=None, shapes={}, ranges={}, index_sizes=None, expect=None)
    encoder = OpenStage(Stage("encoder", decoder.encoder.model, model.target, own, once), front)
    encoder.loop = loops.make(decoder.encoder.model, front, own, once, linked, states_kept=True)
    behind = OpenStage(Stage("decoder", path, model.target, request, steps), model)
    stages = [encoder, behind]
    joints = join(Chain(tuple(it.asked for it in stages), tuple(_links(decoder.encoder, front, model))), stages)
    if not joints:
        raise BadInput(f"{decoder.encoder.model}: no output is an input of {path}")
    taken = {joint.taken.name: encoder.last(joint.out) for joint in joints}
    width = length or next(iter(taken.values())).shape[1]
    for spec in model.inputs:
        if spec.name.startswith("encoder_") and "mask" in spec.name:
            taken[spec.name] = np.ones((batch, width), spec.dtype)
    behind.loop = loops.make(path, model, request, steps, taken, states_kept=True, encoded=length)
    states = (model.outputs[pair.out].name for pair in behind.loop.pairs)
    behind.asked = replace(behind.asked, steps=replace(steps, keep=(*steps.keep, *states)))
    behind.loop.single.first_inference_ns += encoder.loop.first_ns
    return ChainData(stages, joints)


def _links(encoder: Encoder, front: Model, model: Model) -> Iterator[Link]:
    outs, ins = front.output_names, {spec.name for spec in model.inputs}
    found = {name: name for name in outs if name in ins}
    for out, into in encoder.links:
        found |= {name: taken for taken, name in expanded(out, into, outs) if name in ins}
    for into, out in found.items():
        yield Link(End("encoder", out), End("decoder", into), {"from": encoder.model, "to": encoder.model})


def make_encoded(name: str, data: ChainData, request: Inputs) -> LoopMode:
    """Set a mode of a decoder up whose first step runs the encoder before. Raises `Unsupported`: the EP or a model cannot do it."""
    front, behind = data.stages
    encoder: CpuStage | ResidentStage
    decoder: CpuStage | ResidentStage
    if name == CPU:
        encoder = cpu_stage(front, data, {})
        decoder = cpu_stage(behind, data, {id(front): encoder})
    else:
        kind = _BOUND[name]
        encoder = bound_stage(front, data, {}, ResidentStage if kind is SharedStage else kind)
        decoder = bound_stage(behind, data, {id(front): encoder}, kind)
    first, decoder.takes_first = decoder._calls[0], False

    def encode_and_begin() -> None:
        encoder.run_whole()
        encoder.take_times(0)
        decoder.take()
        first()

    decoder._calls[0] = encode_and_begin
    if encoder.bytes_in is not None and decoder.bytes_in is not None:
        decoder.bytes_in += encoder.bytes_in
    if encoder.bytes_out is not None and decoder.bytes_out is not None:
        decoder.bytes_out += encoder.bytes_out
    if isinstance(decoder, SharedLoop):
        decoder.check(request)
    return decoder
