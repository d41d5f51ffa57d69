"""A decoder behind an encoder, which runs before its first step, or behind an embedding model, which runs before each."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ortbench.analysis.feedback_pairs import TOKEN_IDS
from ortbench.core.errors import BadInput
from ortbench.core.expressions import expanded
from ortbench.model.modes import CPU, HOST_ACCESSIBLE
from ortbench.plan.chain_plan import Chain, End, Link, Stage
from ortbench.plan.loop_plan import Embedding, Encoder, Features, Steps
from ortbench.worker.inputs import arrays as input_arrays
from ortbench.worker.inputs.files import load_some
from ortbench.worker.inputs.model_file import index_sizes
from ortbench.worker.loops import data as loops
from ortbench.worker.loops import generation
from ortbench.worker.loops.bound import BoundLoop, Handed, Links
from ortbench.worker.loops.chain import ChainData, Joint, OpenStage, bound_stage, cpu_stage, join
from ortbench.worker.loops.data import LoopData, by_step
from ortbench.worker.loops.modes import BOUND, CpuLoop, HostAccessibleLoop, ResidentLoop, SharedLoop, Taken
from ortbench.worker.loops.step_inputs import WAYS_OUT
from ortbench.worker.modes.base import then
from ortbench.worker.modes.slots import Slot
from ortbench.worker.session.first_run import Data, run_timed
from ortbench.worker.session.memory import Copy, Place
from ortbench.worker.session.tensors import Array, TensorSpec, host_value

if TYPE_CHECKING:
    from ortbench.plan.target import Inputs
    from ortbench.worker.loops.base import LoopMode
    from ortbench.worker.session.session import Model


class EmbeddingCpu(CpuLoop):
    """An embedding model with CPU tensors, whose outputs of each step are taken before the next one. Links give it something for
    the prompt alone."""

    def __init__(self, model: Model, loop: LoopData, taken: Sequence[Taken]) -> None:
        super().__init__(model, loop, taken)
        self.takes_first = False
        for feed, step in zip(self._feeds[1:], loop.feeds[1:], strict=True):
            for it in taken:
                feed[model.inputs[it.into].name] = self._given(it.into, step[model.inputs[it.into].name])

    def take(self, step: int | None = None) -> None:
        super().take(0)

    def _step(self, number: int, feeds: dict[str, Any], names: list[str]) -> None:
        super()._step(number, feeds, names)
        found, self._got[number] = self._got[number], None
        self._got[-1] = found


class EmbeddingStage(ResidentLoop):
    """An embedding model with device tensors: one buffer for what the prompt gives, one for what each token gives."""

    each_read = True
    takes_first = False

    def __init__(self, model: Model, loop: LoopData, steps: Steps, links: Links | None = None) -> None:
        assert links is not None
        taken = {name: (handed[0], None) for name, handed in links.taken.items()}  # later steps have no features
        super().__init__(model, loop, steps, links._replace(taken=taken))

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


def make_encoded(path: str, model: Model, opened: Callable[[str], Model], request: Inputs, steps: Steps) -> ChainData:
    """The encoder and the decoder, which have run with plain arrays. Raises as `ortbench.worker.loops.data.make` does.

    `opened` opens the model of a path once."""
    decoder = steps.decoder
    assert decoder is not None
    assert decoder.encoder is not None
    front = opened(decoder.encoder.model)
    roles = generation.roles_of(path, model, decoder, generation.pairs_of(path, model, decoder))
    batch = generation.batch_of(roles.ids, request.dims)
    given = generation.tokens_of(steps, batch)
    ids = next((spec for spec in front.inputs if spec.name in TOKEN_IDS), None)
    dims: dict[str, int | str] = {**request.dims, str(front.inputs[0].dims[0]): batch}
    linked, length = {}, None
    if ids is not None:
        fixed = ids.dims[1]
        length = fixed if isinstance(fixed, int) else steps.prompt_length or generation.usual(given, decoder, steps)
        dims[str(fixed)] = length
        if given is not None:
            generation.check_enough(steps, given, length)
            linked[ids.name] = given[:, :length].astype(ids.dtype)
    masks = {spec.name: "1" for spec in front.inputs if "mask" in spec.name}
    asked = Stage("encoder", decoder.encoder.model, model.target, _own(request, dims), Steps(count=1, fill=masks))
    encoder = _ran_once(asked, front, linked)
    behind = OpenStage(Stage("decoder", path, model.target, request, steps), model)
    stages = [encoder, behind]
    joints = join(
        Chain(tuple(it.asked for it in stages), tuple(_links("encoder", decoder.encoder, front, "decoder", model))),
        stages,
    )
    if not joints:
        raise BadInput(f"{decoder.encoder.model}: no output is an input of {path}")
    taken = {joint.taken.name: encoder.last(joint.out) for joint in joints}
    width = length or next(iter(taken.values())).shape[1]
    for spec in model.inputs:
        if spec.name.startswith("encoder_") and "mask" in spec.name:
            taken[spec.name] = np.ones((batch, width), spec.dtype)
    _put_loop(behind, loops.make(path, model, request, steps, taken, states_kept=True, encoded=length))
    behind.loop.single.first_inference_ns += encoder.loop.first_ns
    return ChainData(stages, joints)


def _own(request: Inputs, dims: dict[str, int | str]) -> Inputs:
    """What is asked of a stage alone."""
    return replace(request, dims=dims, path=None, shapes={}, ranges={}, index_sizes=None, expect=None)


def _ran_once(asked: Stage, model: Model, given: Mapping[str, Array]) -> OpenStage:
    """A stage that has run once, with these inputs."""
    stage = OpenStage(asked, model)
    stage.loop = loops.make(asked.model, model, asked.inputs, asked.steps, given, states_kept=True)
    return stage


def _put_loop(decoder: OpenStage, loop: LoopData) -> None:
    """A decoder has run: its states are kept from step to step."""
    decoder.loop, steps = loop, decoder.asked.steps
    states = (decoder.model.outputs[pair.out].name for pair in loop.pairs)
    decoder.asked = replace(decoder.asked, steps=replace(steps, keep=(*steps.keep, *states)))


def _links(name: str, stage: Encoder | Embedding | Features, front: Model, behind: str, model: Model) -> Iterator[Link]:
    outs, ins = front.output_names, {spec.name for spec in model.inputs}
    found = {name: name for name in outs if name in ins}
    for out, into in stage.links:
        found |= {name: taken for taken, name in expanded(out, into, outs) if name in ins}
    for into, out in found.items():
        yield Link(End(name, out), End(behind, into), {"from": stage.model, "to": stage.model})


def make_embedded(path: str, model: Model, opened: Callable[[str], Model], request: Inputs, steps: Steps) -> ChainData:
    """What gives features, the embedding model and the decoder, which have run with plain arrays. Raises as
    `ortbench.worker.loops.data.make` does; for `opened` see `make_encoded`."""
    decoder = steps.decoder
    assert decoder is not None
    embedding = decoder.embedding
    assert embedding is not None
    front = opened(embedding.model)
    called = (embedding.ids, *TOKEN_IDS)
    ids = next((spec for name in called for spec in front.inputs if spec.name == name), None)
    if ids is None:
        raise BadInput(f"{embedding.model}: no input of token ids (input_ids) is there")
    features, fed = _features(embedding, opened, model, request)
    behind = request if fed is None else replace(request, path=None)
    own = Steps(count=steps.count)
    stages = [
        *features,
        OpenStage(Stage("embedding", embedding.model, model.target, request, own), front),
        OpenStage(Stage("decoder", path, model.target, behind, steps), model),
    ]
    links = [*_links("embedding", embedding, front, "decoder", model)]
    if not links:
        raise BadInput(f"{embedding.model}: no output is an input of {path}")
    for it in embedding.features:
        stage = next((stage for stage in features if stage.name == it.name), None)
        links += [] if stage is None else _links(it.name, it, stage.model, "embedding", front)
    joints = join(Chain(tuple(it.asked for it in stages), tuple(links)), stages)
    ours = [it for it in joints if it.target is stages[-1]]
    given = {joint.given.name for joint in ours}
    left = tuple(name for name in front.output_names if name not in given)
    stages[-2].asked = replace(stages[-2].asked, steps=replace(own, keep=left))
    empty = {spec.name: _no_features(spec, ours[0].taken) for spec in front.inputs if spec is not ids}
    seen = {joint.taken.name: joint.source.last(joint.out) for joint in joints if joint not in ours}
    took: list[int] = []

    def run(tokens: Array, is_prompt: bool) -> list[Array]:
        arrays = {ids.name: tokens, **empty, **(seen if is_prompt else {})}
        found, now = run_timed(front, arrays, request, WAYS_OUT, {}, "the embedding model: ")
        took[1:] = [now]
        return found

    def embedded(tokens: Array, is_prompt: bool) -> dict[str, Array]:
        found = run(tokens, is_prompt)
        for joint in ours:
            if found[joint.out].shape[:2] != tokens.shape:
                sizes = f"{list(found[joint.out].shape)} for ids {list(tokens.shape)}"
                raise BadInput(f"{embedding.model}: {joint.given.name} is {sizes}, which no decoder can take")
        return {joint.taken.name: found[joint.out] for joint in ours}

    sizes = index_sizes(embedding.model, front.inputs)
    limits = request.ranges.get(ids.name) or input_arrays.default_range(ids, sizes.get(ids.name))
    batch = generation.batch_of(ids, request.dims)
    embed = generation.Embed(
        ids,
        batch,
        limits,
        embedding.special,
        _placed(embedding, joints, steps),
        tuple(joint.taken.name for joint in ours),
        embedded,
    )
    others = _without(behind, [front, *(it.model for it in features)], model)
    loop = loops.make(path, model, others, steps, fed or {}, states_kept=True, embed=embed)
    loop.single.first_inference_ns += took[0] + sum(it.loop.first_ns for it in features)
    told = loop.generated
    assert told is not None
    _put_loop(stages[-1], loop)
    token = told.next_ids.copy()
    prompt, later = run(told.prompt_ids, True), run(token, False)
    single = Data({ids.name: token, **empty}, later, {}, {}, 0, None)
    stages[-2].loop = LoopData(
        pairs=[],
        feeds=[{ids.name: told.prompt_ids, **empty, **seen}, *[{ids.name: told.next_ids, **empty}] * (steps.count - 1)],
        first=[],
        shapes=[[]] * (steps.count + 1),
        outputs=[[loops.form_of(array) for array in it] for it in (prompt, *[later] * (steps.count - 1))],
        last=[],
        single=single,
        early=single,
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


def _features(
    embedding: Embedding, opened: Callable[[str], Model], model: Model, request: Inputs
) -> tuple[list[OpenStage], dict[str, Array] | None]:
    """The stages some of whose inputs ``--input`` has, which have run, and what it has for the decoder; none, and None, without any."""
    if request.path is None or Path(request.path).is_dir() or not embedding.features:
        return [], None
    models = [(it, opened(it.model)) for it in embedding.features if it.model]
    specs = {spec.name: spec for spec in (*model.inputs, *(spec for _, other in models for spec in other.inputs))}
    given = load_some(Path(request.path), [*specs.values()])
    found = []
    for it, other in models:
        names = {spec.name for spec in other.inputs} & given.keys()
        if not names:
            continue
        dims = {name: size for name, size in request.dims.items() if any(name in spec.dims for spec in other.inputs)}
        asked = Stage(it.name, it.model, model.target, _own(request, dims), Steps(count=1))
        found.append(_ran_once(asked, other, {name: given[name] for name in names}))
    if not found:
        return [], None
    return found, {spec.name: given[spec.name] for spec in model.inputs if spec.name in given}


def _placed(embedding: Embedding, joints: Sequence[Joint], steps: Steps) -> tuple[int, ...]:
    """The tokens of a random prompt that stand for features. Raises `BadInput`: nobody knows them."""
    placed: list[int] = []
    for it in embedding.features:
        counts = [joint.source.last(joint.out).shape[:-1] for joint in joints if joint.source.name == it.name]
        if counts and it.token is None and steps.tokens is None:
            reason = (
                f"the folder does not say which token stands for what {it.name} gives: give the prompt with --tokens"
            )
            raise BadInput(f"--input: {reason}", "--input")
        placed += [it.token or 0] * (math.prod(counts[0]) if counts else 0)
    return tuple(placed)


def _without(request: Inputs, others: Sequence[Model], model: Model) -> Inputs:
    """What is asked of the decoder alone."""
    ours = {dim for spec in model.inputs for dim in spec.dims}
    dims = {dim for it in others for spec in it.inputs for dim in spec.dims} - ours
    names = {spec.name for it in others for spec in it.inputs} - {spec.name for spec in model.inputs}
    return replace(
        request,
        dims={name: size for name, size in request.dims.items() if name not in dims},
        ranges={name: limits for name, limits in request.ranges.items() if name not in names},
    )


def make_staged(name: str, data: ChainData, request: Inputs) -> LoopMode:
    """Set a mode of a decoder up whose first step runs the encoder before, or each of whose steps the embedding model. Raises
    `Unsupported`: the EP or a model cannot do it."""
    *fronts, _ = data.stages
    asked = data.stages[-1].asked.steps.decoder
    assert asked is not None
    made: dict[int, CpuLoop | BoundLoop] = {}  # by the id of the stage
    for stage in data.stages:
        kinds = _kinds(name, stage is data.stages[-1], asked.embedding is not None and stage is fronts[-1])
        if name == CPU:
            made[id(stage)] = cpu_stage(stage, data, made, kinds[0])
        else:
            made[id(stage)] = bound_stage(stage, data, made, kinds[1])
    *before, decoder = made.values()
    decoder.fronts, decoder.takes_first = tuple(before), False
    if asked.embedding is None:
        _run_before(before, decoder._calls, decoder)
    else:
        *features, embedding = before
        _run_before(features, embedding._calls, embedding)
        _embed_each(embedding, decoder)
    for side in ("bytes_in", "bytes_out"):
        every = [getattr(it, side) for it in made.values()]
        if None not in every:
            setattr(decoder, side, sum(every))
    if isinstance(decoder, SharedLoop):
        decoder.check(request)
    return decoder


def _kinds(name: str, is_decoder: bool, embeds: bool) -> tuple[type[CpuLoop], type[BoundLoop]]:
    """How a stage is set up in a mode, with arrays and with IO binding."""
    if is_decoder:
        return CpuLoop, BOUND.get(name, ResidentLoop)
    if embeds:
        return EmbeddingCpu, HostAccessibleEmbedding if name == HOST_ACCESSIBLE else EmbeddingStage
    return CpuLoop, HostAccessibleLoop if name == HOST_ACCESSIBLE else ResidentLoop


def _run_before(fronts: Sequence[CpuLoop | BoundLoop], calls: list[Copy], behind: CpuLoop | BoundLoop) -> None:
    """Have the first of the calls of a stage run these before."""
    if not fronts:
        return
    first = calls[0]

    def run_and_begin() -> None:
        for stage in fronts:
            stage.run_whole()
            stage.take_times(0)
        behind.take()
        first()

    calls[0] = run_and_begin


def _embed_each(embedding: CpuLoop | BoundLoop, decoder: CpuLoop | BoundLoop) -> None:
    for number, (embed, call) in enumerate(zip(embedding._calls, decoder._calls, strict=True)):
        if isinstance(decoder, CpuLoop):
            decoder._calls[number] = then(then(embed, partial(decoder.take, number)), call)
        else:
            decoder._calls[number] = then(embed, call)
    both: list[Mapping[str, Any]] = [it._by_step for it in (embedding, decoder)]
    count = len(decoder._calls)
    for key in ("step_h2d", "step_d2h"):
        one, other = (it if isinstance(it, list) else [it] * count for it in (side[key] for side in both))
        if None not in one and None not in other:
            decoder._by_step[key] = by_step([a + b for a, b in zip(one, other, strict=True)])
