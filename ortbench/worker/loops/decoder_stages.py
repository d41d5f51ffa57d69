"""A decoder behind an encoder, which runs before its first step, or behind an embedding model, which runs before each."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ortbench.analysis.feedback_pairs import TOKEN_IDS
from ortbench.core.errors import BadInput
from ortbench.model.modes import CPU, HOST_ACCESSIBLE, RESIDENT, SHARED
from ortbench.model.tensor_patterns import expanded
from ortbench.plan.chain_plan import Chain, End, Link, Stage
from ortbench.plan.loop_plan import Embedding, Encoder, Steps
from ortbench.worker.inputs import arrays as input_arrays
from ortbench.worker.inputs.model_file import index_sizes
from ortbench.worker.loops import data as loops
from ortbench.worker.loops import generation
from ortbench.worker.loops.chain import Handed, ResidentStage, bound_stage, cpu_stage
from ortbench.worker.loops.chain_data import ChainData, OpenStage, join
from ortbench.worker.loops.data import LoopData, by_step
from ortbench.worker.loops.modes import CpuStage, HostAccessibleLoop, SharedLoop
from ortbench.worker.loops.step_inputs import WAYS_OUT
from ortbench.worker.modes.base import then
from ortbench.worker.modes.slots import Slot
from ortbench.worker.session.first_run import Data, run_error, run_once
from ortbench.worker.session.tensor_memory import Place
from ortbench.worker.session.tensors import Array, TensorSpec, host_value

if TYPE_CHECKING:
    from ortbench.plan.target import Inputs
    from ortbench.worker.loops.base import LoopMode
    from ortbench.worker.session.session import Model


class SharedStage(SharedLoop, ResidentStage):
    """Past and present in one buffer, behind another stage."""


class HostAccessibleStage(HostAccessibleLoop, ResidentStage):
    """HOST_ACCESSIBLE memory, behind another stage."""


class EmbeddingCpu(CpuStage):
    """An embedding model with CPU tensors, whose outputs of each step are taken before the next one."""

    def _step(self, number: int, feeds: dict[str, Any], names: list[str]) -> None:
        super()._step(number, feeds, names)
        found, self._got[number] = self._got[number], None
        self._got[-1] = found


class EmbeddingStage(ResidentStage):
    """An embedding model with device tensors: one buffer for what the prompt gives, one for what each token gives."""

    each_read = True

    def _in_slot(self, spec: TensorSpec, place: Place, array: Array, number: int) -> Slot:
        if array.size:
            return super()._in_slot(spec, place, array, number)
        memory = self._single.memory_for(spec, place)
        return Slot(spec, array, host_value(spec, array), memory, stays=True)  # nothing has to be on the device

    def _is_read(self, name: str, number: int) -> bool:
        return name in self._links.read

    def handed(self, out: int, stays: bool) -> Sequence[Handed]:
        slots = (self._outs[number][self._free.index(out)] for number in (0, 1))
        return [self._handed(slot, stays) for slot in slots]


class HostAccessibleEmbedding(HostAccessibleLoop, EmbeddingStage):
    """The same in HOST_ACCESSIBLE memory."""


_BOUND: dict[str, type[ResidentStage]] = {
    RESIDENT: ResidentStage, SHARED.name: SharedStage, HOST_ACCESSIBLE: HostAccessibleStage,
}  # fmt: skip


def make_encoded(path: str, model: Model, front: Model, request: Inputs, steps: Steps) -> ChainData:
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
    joints = join(
        Chain(tuple(it.asked for it in stages), tuple(_links("encoder", decoder.encoder, front, model))), stages
    )
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


def _links(name: str, encoder: Encoder | Embedding, front: Model, model: Model) -> Iterator[Link]:
    outs, ins = front.output_names, {spec.name for spec in model.inputs}
    found = {name: name for name in outs if name in ins}
    for out, into in encoder.links:
        found |= {name: taken for taken, name in expanded(out, into, outs) if name in ins}
    for into, out in found.items():
        yield Link(End(name, out), End("decoder", into), {"from": encoder.model, "to": encoder.model})


def make_embedded(path: str, model: Model, front: Model, request: Inputs, steps: Steps) -> ChainData:
    """The embedding model `front` and the decoder, which have run with plain arrays. Raises as `ortbench.worker.loops.data.make` does."""
    decoder = steps.decoder
    assert decoder is not None
    embedding = decoder.embedding
    assert embedding is not None
    called = (embedding.ids, *TOKEN_IDS)
    ids = next((spec for name in called for spec in front.inputs if spec.name == name), None)
    if ids is None:
        raise BadInput(f"{embedding.model}: no input of token ids (input_ids) is there")
    own = Steps(count=steps.count)
    stages = [
        OpenStage(Stage("embedding", embedding.model, model.target, request, own), front),
        OpenStage(Stage("decoder", path, model.target, request, steps), model),
    ]
    links = tuple(_links("embedding", embedding, front, model))
    joints = join(Chain(tuple(it.asked for it in stages), links), stages)
    if not joints:
        raise BadInput(f"{embedding.model}: no output is an input of {path}")
    given = {joint.given.name for joint in joints}
    stages[0].asked = replace(
        stages[0].asked, steps=replace(own, keep=tuple(name for name in front.output_names if name not in given))
    )
    empty = {spec.name: _no_features(spec, joints[0].taken) for spec in front.inputs if spec is not ids}

    took: list[int] = []

    def run(tokens: Array) -> list[Array]:
        begun = time.perf_counter_ns()
        try:
            found = run_once(front, {ids.name: tokens, **empty})
            took[1:] = [time.perf_counter_ns() - begun]
            return found
        except Exception as error:
            failed = run_error(error, model.target, request, WAYS_OUT)
            raise type(failed)(f"the embedding model: {failed}") from None

    def embedded(tokens: Array) -> dict[str, Array]:
        found = run(tokens)
        return {joint.taken.name: found[joint.out] for joint in joints}

    sizes = index_sizes(embedding.model, front.inputs)
    limits = request.ranges.get(ids.name) or input_arrays.default_range(ids, sizes.get(ids.name))
    batch = generation.batch_of(ids, request.dims)
    embed = generation.Embed(
        ids, batch, limits, embedding.special, tuple(joint.taken.name for joint in joints), embedded
    )
    stages[1].loop = loops.make(path, model, _without(request, front, model), steps, {}, states_kept=True, embed=embed)
    stages[1].loop.single.first_inference_ns += took[0]
    told = stages[1].loop.generated
    assert told is not None
    states = (model.outputs[pair.out].name for pair in stages[1].loop.pairs)
    stages[1].asked = replace(stages[1].asked, steps=replace(steps, keep=(*steps.keep, *states)))
    token = told.next_ids.copy()
    prompt, later = run(told.prompt_ids), run(token)
    single = Data({ids.name: token, **empty}, later, [], {}, 0, None)
    stages[0].loop = LoopData(
        pairs=[],
        feeds=[{ids.name: it, **empty} for it in (told.prompt_ids, *[told.next_ids] * (steps.count - 1))],
        first=[],
        shapes=[[]] * (steps.count + 1),
        outputs=[[loops.form_of(array) for array in it] for it in (prompt, *[later] * (steps.count - 1))],
        last=[],
        single=single,
        early=single,
        ranges={},
        kept=frozenset(),
    )
    return ChainData(stages, joints)


def _no_features(spec: TensorSpec, embeds: TensorSpec) -> Array:
    """The features of no image and no sound, [..., 0, width]."""
    wide = embeds.shape[-1] if embeds.shape else None
    sizes = [dim if isinstance(dim, int) else 0 for dim in spec.shape]
    if sizes and isinstance(wide, int) and not isinstance(spec.shape[-1], int):
        sizes[-1] = wide
    return np.zeros(sizes, spec.dtype)


def _without(request: Inputs, front: Model, model: Model) -> Inputs:
    """What is asked of the decoder alone."""
    ours, others = ({dim for spec in it.inputs for dim in spec.shape} for it in (model, front))
    dims = {name: size for name, size in request.dims.items() if name in ours or name not in others}
    names = {spec.name for spec in front.inputs} - {spec.name for spec in model.inputs}
    ranges = {name: limits for name, limits in request.ranges.items() if name not in names}
    return replace(request, dims=dims, ranges=ranges)


def make_staged(name: str, data: ChainData, request: Inputs) -> LoopMode:
    """Set a mode of a decoder up whose first step runs the encoder before, or each of whose steps the embedding model. Raises
    `Unsupported`: the EP or a model cannot do it."""
    asked = data.stages[1].asked.steps.decoder
    assert asked is not None
    embeds = asked.embedding is not None
    front: CpuStage | ResidentStage
    decoder: CpuStage | ResidentStage
    if name == CPU:
        front = _cpu_front(data, embeds)
        decoder = cpu_stage(data.stages[1], data, {id(data.stages[0]): front})
    else:
        front = bound_stage(data.stages[0], data, {}, _FRONTS[embeds][name == HOST_ACCESSIBLE])
        decoder = bound_stage(data.stages[1], data, {id(data.stages[0]): front}, _BOUND[name])
    decoder.front, decoder.takes_first = front, False
    (_embed_each if embeds else _encode_first)(front, decoder)
    for side in ("bytes_in", "bytes_out"):
        both = [getattr(it, side) for it in (front, decoder)]
        if None not in both:
            setattr(decoder, side, sum(both))
    if isinstance(decoder, SharedLoop):
        decoder.check(request)
    return decoder


def _cpu_front(data: ChainData, embeds: bool) -> CpuStage:
    stage = data.stages[0]
    return EmbeddingCpu(stage.model, stage.loop, []) if embeds else cpu_stage(stage, data, {})


def _encode_first(encoder: CpuStage | ResidentStage, decoder: CpuStage | ResidentStage) -> None:
    first = decoder._calls[0]

    def encode_and_begin() -> None:
        encoder.run_whole()
        encoder.take_times(0)
        decoder.take()
        first()

    decoder._calls[0] = encode_and_begin


def _embed_each(embedding: CpuStage | ResidentStage, decoder: CpuStage | ResidentStage) -> None:
    for number, (embed, call) in enumerate(zip(embedding._calls, decoder._calls, strict=True)):
        if isinstance(decoder, CpuStage):
            decoder._calls[number] = then(then(embed, partial(decoder.take, number)), call)
        else:
            decoder._calls[number] = then(embed, call)
    both: list[Mapping[str, Any]] = [it.bytes_by_step() for it in (embedding, decoder)]
    count = len(decoder._calls)
    for key in ("step_h2d", "step_d2h"):
        one, other = (it if isinstance(it, list) else [it] * count for it in (side[key] for side in both))
        if None not in one and None not in other:
            decoder._by_step[key] = by_step([a + b for a, b in zip(one, other, strict=True)])


_FRONTS: dict[bool, tuple[type[ResidentStage], type[ResidentStage]]] = {
    False: (ResidentStage, HostAccessibleStage),
    True: (EmbeddingStage, HostAccessibleEmbedding),
}
