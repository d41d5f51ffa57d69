"""The arrays of a loop: what goes in at every step, and what a plain loop of `session.run` with arrays gives.

Every mode is compared with that plain loop. It is run before anything is measured, and tells which state grows.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ortbench.core.errors import BadInput
from ortbench.core.expressions import match_pairs, nearest
from ortbench.features.loop.plan import Steps
from ortbench.features.loop.worker import generation
from ortbench.features.loop.worker.step_inputs import WAYS_OUT, Pair, PromptedInputs, Shape, StepInputs, name_states
from ortbench.plan.target import Inputs
from ortbench.worker import input_arrays
from ortbench.worker.first_run import Data, check_specs, compare_with_expected, find_unshaped, run_once, run_timed
from ortbench.worker.session import Model
from ortbench.worker.tensors import Array, TensorSpec

_MOST_BYTES = 2 << 30  # of the outputs of all steps, which are kept to be compared


@dataclass
class LoopData:
    pairs: list[Pair]  # the state
    # by step, the inputs that are no state; an array that stays the same is the same object
    feeds: list[dict[str, Array]]
    first: list[Array]  # the state before the first step, in the order of the pairs
    shapes: list[list[Shape]]  # of the state before each step and after the last one
    outputs: list[list[Array]]  # by step, what came of the outputs that are no state, in the model's order
    last: list[Array]  # the state after the last step
    single: Data  # the last step as an inference of its own
    # the second one the same way (the only one, where there is no other): a mode finds out with it what waits for the
    # device. It takes less room than the last one, and its state is not empty
    early: Data
    is_first_apart: bool = False  # the first step has a shape of its own, as of a prompt
    generated: generation.Generated | None = None  # where steps give tokens; its outputs are known in form alone

    @property
    def first_ns(self) -> int:
        return self.single.first_inference_ns

    @property
    def count(self) -> int:
        return len(self.feeds)

    def reference_feeds(self, number: int) -> dict[str, Array]:
        """What the plain loop had in a step: where it generates, the tokens that it fed."""
        generated, feeds = self.generated, self.feeds[number]
        if generated is None or number == 0:
            return feeds
        ids = generated.fed_tokens(number - 1).astype(generated.next_ids.dtype).reshape(-1, 1)
        return {**feeds, generated.roles.ids.name: ids}

    def state_of_output(self, out: int) -> int | None:
        """The number of the state that an output is; None for one that is none."""
        return next((number for number, pair in enumerate(self.pairs) if pair.out == out), None)

    def state_of_input(self, into: int) -> int | None:
        """The number of the state that an input is; None for one that is none."""
        return next((number for number, pair in enumerate(self.pairs) if pair.into == into), None)

    def is_growing(self, number: int) -> bool:
        return any(shapes[number] != self.shapes[0][number] for shapes in self.shapes)


def make_loop_data(
    path: str,
    model: Model,
    request: Inputs,
    steps: Steps,
    linked: Mapping[str, Array] | None = None,
    states_kept: bool = False,
) -> LoopData:
    """What goes into a loop, and what comes of it. Raises `BadInput`: what does not fit the model, or what it refuses;
    `BenchmarkFailed`: a step fails, or its outputs are not the expected ones; `Unsupported`: inputs or outputs that
    cannot be held."""
    check_specs((*model.inputs, *model.outputs))
    generated = None
    if steps.decoder is None:
        pairs = _find_pairs(model, steps)
        _check_names(model, pairs, steps, states_kept)
        made = StepInputs(path, model, request, steps, pairs, linked or {})
    else:
        # What it feeds back is what was asked for, else what the folder or the names say.
        ins, outs = ([spec.name for spec in specs] for specs in (model.inputs, model.outputs))
        named = (
            match_pairs(steps.feedback, outs, ins)
            if steps.feedback
            else generation.pairs_of(path, model, steps.decoder)
        )
        roles = generation.roles_of(path, model, steps.decoder, named)
        generated = generation.begin(path, model, steps, roles, request.dims)
        pairs = _find_pairs(model, replace(steps, feedback=tuple(named)))
        _check_names(model, pairs, steps, states_kept)
        made = _first_that_runs(path, model, request, steps, pairs, generated)
    made.settle()
    state_outputs = {pair.out for pair in pairs}
    free = [it for it in range(len(model.outputs)) if it not in state_outputs]
    feeds, outputs, shapes = [], [], []
    state, kept, first_ns = made.first, 0, made.first_ns
    singles: list[Data] = []  # of the first two steps and the last one
    unshaped: dict[str, str] = {}
    expected = _load_expected(model, request, steps.count)
    beside: list[tuple[str, Array, Array]] = []  # what is expected: its name, what there is, and what there should be
    for number in range(steps.count):
        _check_state(model, pairs, state, number)
        shapes.append([array.shape for array in state])
        arrays = {**made.make_step(number, state), **name_states(model, pairs, state)}
        which = f"step {number + 1} of {steps.count}: "
        try:
            found, took_ns = run_timed(model, arrays, request, WAYS_OUT, made.guessed, which)
        except BadInput as error:
            raise (
                BadInput(f"{error}; --generate {number} ends before that step") if generated and number else error
            ) from None
        first_ns = first_ns or took_ns
        feeds.append({name: array for name, array in arrays.items() if name in made.others})
        for index, spec in enumerate(model.outputs):
            if (number, index) in expected:
                beside.append((f"{spec.name} of step {number}", found[index], expected[number, index]))
        if generated is not None:
            ids = {name: array.copy() for name, array in arrays.items() if name == generated.roles.ids.name}
            arrays = {**arrays, **ids}
            generated.take(number, found, request.rtol, request.atol)
            # Of their form alone, which takes no memory.
            outputs.append([np.broadcast_to(np.zeros((), found[it].dtype), found[it].shape) for it in free])
        else:
            outputs.append([found[it] for it in free])
            kept += sum(array.nbytes for array in outputs[-1])
        if kept > _MOST_BYTES:
            raise BadInput(
                f"--steps {steps.count}: the outputs of {number + 1} steps take {kept / 1e9:.1f} GB; fewer steps, please"
            )
        if not number:
            state_names = [model.outputs[index].name for index in state_outputs]
            unshaped = find_unshaped(path, model, arrays, made.ranges, found, state_names)
        singles[2:] = [Data(arrays, found, made.guessed, made.ranges, first_ns, unshaped=unshaped)]
        state = [found[pair.out] for pair in pairs]
    shapes.append([array.shape for array in state])
    _check_elements(model, pairs, shapes)
    _check_resident(feeds, steps)
    if beside:
        singles[-1].expected = compare_with_expected(beside, request, [model], path)
        if singles[-1].expected["differs"] is None and generated is None:
            outputs = [
                [expected.get((number, it), array) for it, array in zip(free, of_step, strict=True)]
                for number, of_step in enumerate(outputs)
            ]
    early, single = singles[:2][-1], singles[-1]
    is_first_apart = (generated is not None or bool(steps.first_dims)) and steps.count > 1
    return LoopData(pairs, feeds, made.first, shapes, outputs, state, single, early, is_first_apart, generated)


def _first_that_runs(
    path: str, model: Model, request: Inputs, steps: Steps, pairs: list[Pair], generated: generation.Generated
) -> PromptedInputs:
    """The inputs with a cache of fixed length, where that is wanted and the model takes it, else with one that grows."""
    assert steps.decoder is not None
    is_known, first_ns = model.known_outputs is not None, 0
    if steps.decoder.shared:
        made = PromptedInputs(path, model, request, steps, pairs, generated, generated.depth(steps.count + 1))
        start = time.perf_counter_ns()
        generated.fixed = is_known
        with suppress(Exception):  # a model that adds to its cache may refuse a mask that is shorter
            if not is_known:
                found = run_once(model, {**made.make_step(0, made.first), **name_states(model, pairs, made.first)})
                first_ns = made.first_ns = time.perf_counter_ns() - start
                shapes = zip(pairs, made.first, strict=True)
                generated.fixed = all(found[pair.out].shape == array.shape for pair, array in shapes)
        if generated.fixed:
            return made
    made = PromptedInputs(path, model, request, steps, pairs, generated, generated.context if is_known else 0)
    made.first_ns = first_ns
    return made


def _find_pairs(model: Model, steps: Steps) -> list[Pair]:
    """The pairs of outputs and inputs that patterns stand for. Raises `BadInput`: they match nothing, or what cannot be
    fed back."""
    outputs, inputs = ([spec.name for spec in specs] for specs in (model.outputs, model.inputs))
    found = []
    for out, into in match_pairs(steps.feedback, outputs, inputs):
        pair = Pair(outputs.index(out), inputs.index(into))
        source, target = model.outputs[pair.out], model.inputs[pair.into]
        if out in inputs:
            raise BadInput(
                f"--feedback {out}={into}: {out} is an input that the model passes through; feed back another output",
                "--feedback",
            )
        ranks = {len(spec.shape) for spec in (source, target) if spec.shape}
        if source.type != target.type or len(ranks) > 1:
            alike = [it.name for it in model.inputs if it.type == source.type and len(it.shape) == len(source.shape)]
            what = f"is {describe_type(source)}, and the input {describe_type(target)}{nearest(into, alike)}"
            raise BadInput(f"--feedback {out}={into}: the output {what}", "--feedback")
        found.append(pair)
    return found


def describe_type(spec: TensorSpec) -> str:
    """The type and shape of an input or output, for messages."""
    return f"{spec.type} [{', '.join(map(str, spec.dims))}]"


def _check_names(model: Model, pairs: Sequence[Pair], steps: Steps, states_kept: bool) -> None:
    """Raises `BadInput`: an option names what the model has not, or what is a state."""
    state_in = {model.inputs[pair.into].name for pair in pairs}
    state_out = set() if states_kept else {model.outputs[pair.out].name for pair in pairs}
    options = (
        ("--fill", steps.fill, [spec.name for spec in model.inputs], state_in, "input"),
        ("--resident", steps.resident, [spec.name for spec in model.inputs], state_in, "input"),
        ("--keep", steps.keep, [spec.name for spec in model.outputs], state_out, "output"),
    )
    for option, names, known, state, what in options:
        for name in names:
            if name not in known:
                raise BadInput(f"{option} {name}: the model has no such {what}{nearest(name, known)}", option)
            if name in state:
                raise BadInput(f"{option} {name}: is a state, and {what}s that are none are meant", option)
    symbols = sorted({dim for spec in model.inputs for dim in spec.dims if isinstance(dim, str)})
    for name in steps.first_dims:
        if name not in symbols:
            lacks = f"no such symbolic dimension; it has {', '.join(symbols)}" if symbols else "no symbolic dimension"
            raise BadInput(f"--first-dim {name}: the model has {lacks}", "--first-dim")


def _check_elements(model: Model, pairs: Sequence[Pair], shapes: Sequence[Sequence[Shape]]) -> None:
    """Raises `BadInput`: a state that the model does not fix has no elements in any step."""
    for number, pair in enumerate(pairs):
        spec, found = model.inputs[pair.into], [step[number] for step in shapes]
        empty = [
            dim for axis, dim in enumerate(spec.dims) if isinstance(dim, str) and not any(it[axis] for it in found)
        ]
        if empty:
            message = f"the state {spec.name} ({'x'.join(map(str, found[0]))}) has no elements in any step"
            where = f"--feedback {model.outputs[pair.out].name}={spec.name}"
            raise BadInput(f"{where}: {message}; give a size: --dim {empty[0]}=N", "--feedback")


def _check_resident(feeds: Sequence[Mapping[str, Array]], steps: Steps) -> None:
    """Raises `BadInput`: an input that is to be copied once changes."""
    for name in steps.resident:
        for number, step in enumerate(feeds):
            if step[name] is not feeds[0][name]:
                reason = f"its values in step {number} are not those of step 0, so it has to be copied again"
                raise BadInput(f"--resident {name}: {reason}", "--resident")


def _check_state(model: Model, pairs: Sequence[Pair], state: Sequence[Array], number: int) -> None:
    """Raises `BadInput`: a state has a shape that the model does not take."""
    for pair, array in zip(pairs, state, strict=True):
        spec = model.inputs[pair.into]
        fits = not spec.shape or (
            len(spec.shape) == array.ndim
            and all(not isinstance(dim, int) or dim == size for dim, size in zip(spec.shape, array.shape, strict=True))
        )
        if not fits:
            what = f"step {number} gives {list(array.shape)}, and the model takes {describe_type(spec)}"
            raise BadInput(f"--feedback {model.outputs[pair.out].name}={spec.name}: {what}", "--feedback")


def _load_expected(model: Model, request: Inputs, count: int) -> dict[tuple[int, int], Array]:
    """Expected outputs by step and place: what the plain loop must give, and which then take its place."""
    if request.expect is None or model.known_outputs is not None:  # known in shape alone
        return {}
    names = [spec.name for spec in model.outputs]
    keys = "its keys are step0/NAME and so on, as many steps as there are"
    known = {f"step{step}/{name}": (step, index) for step in range(count) for index, name in enumerate(names)}
    return {
        known[key]: array
        for key, array in input_arrays.load_outputs(Path(request.expect), known, keys, r"step\d+").items()
    }


def lockstep(model: Model, data: LoopData) -> Iterator[list[Array]]:
    """The outputs of one step of the plain loop after the other, state included, in the model's order."""
    state = data.first
    for number in range(data.count):
        found = run_once(model, {**data.reference_feeds(number), **name_states(model, data.pairs, state)})
        state = [found[pair.out] for pair in data.pairs]
        yield found
