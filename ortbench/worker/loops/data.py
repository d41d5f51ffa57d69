"""The arrays of a loop: what goes in at every step, and what a plain loop of `session.run` with arrays gives.

That plain loop is what every mode is held against. It is run before anything is measured, and tells which state grows.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ortbench.core.errors import BadInput
from ortbench.core.expressions import INDEX, STEP, value_of
from ortbench.model.tensor_patterns import matched, nearest
from ortbench.plan.loop_plan import Steps
from ortbench.plan.target import Inputs
from ortbench.worker.inputs import arrays as input_arrays
from ortbench.worker.inputs import files
from ortbench.worker.inputs.arrays import resolve_shapes
from ortbench.worker.inputs.model_file import index_sizes
from ortbench.worker.loops import generation
from ortbench.worker.session.first_run import Data, beside_expected, refuse_foreign, run_error, run_once
from ortbench.worker.session.session import Model
from ortbench.worker.session.tensors import Array, TensorSpec

_MOST_BYTES = 2 << 30  # of the outputs of all steps, which are kept to be compared
_WAYS_OUT = "--dim, --shape, --fill and --range change them, --input gives real ones"
Shape = tuple[int, ...]


class Pair(NamedTuple):
    """A state: the output and the input that takes it in the next step, by their places in the model."""

    out: int
    into: int


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
    ranges: dict[str, tuple[float, float]]  # of random values, by input
    generated: generation.Generated | None = (
        None  # of a loop whose steps give tokens; its outputs are known in form alone
    )

    @property
    def first_ns(self) -> int:
        return self.single.first_inference_ns

    @property
    def held(self) -> set[int]:
        """The outputs that are state, by their places in the model."""
        return {pair.out for pair in self.pairs}

    @property
    def count(self) -> int:
        return len(self.feeds)

    def reference_feeds(self, number: int) -> dict[str, Array]:
        """What the plain loop had in a step: where it generates, the tokens that it fed."""
        told, feeds = self.generated, self.feeds[number]
        if told is None or number == 0:
            return feeds
        ids = told.fed(number - 1).astype(told.next_ids.dtype).reshape(-1, 1)
        return {**feeds, told.roles.ids.name: ids}

    def state_of(self, out: int) -> int | None:
        """The number of the state that an output is; None for one that is none."""
        return next((number for number, pair in enumerate(self.pairs) if pair.out == out), None)

    def state_in(self, into: int) -> int | None:
        """The number of the state that an input is; None for one that is none."""
        return next((number for number, pair in enumerate(self.pairs) if pair.into == into), None)

    def grows(self, number: int) -> bool:
        return any(shapes[number] != self.shapes[0][number] for shapes in self.shapes)


def make(
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
    refuse_foreign((*model.inputs, *model.outputs))
    generated = None if steps.decoder is None else _generation(path, model, request, steps)
    pairs = _pairs(model, steps if generated is None else replace(steps, feedback=generated.feedback))
    _check_names(model, pairs, steps, states_kept)
    if generated is None:
        made = _Inputs(path, model, request, steps, pairs, linked or {})
    else:
        made = _first_that_runs(path, model, request, steps, pairs, generated)
        made.fill(pairs)
    held = {pair.out for pair in pairs}
    feeds, outputs, shapes = [], [], []
    state, kept, took = made.first, 0, 0 if generated is None else generated.first_ns
    singles: list[Data] = []  # of the first two steps and the last one
    expected = _expected(model, request, steps.count)
    beside: list[tuple[str, Array, Array]] = []  # what is expected: its name, what there is, and what there should be
    for number in range(steps.count):
        _check_state(model, pairs, state, number)
        shapes.append([array.shape for array in state])
        arrays = {**made.of_step(number, state), **_named(model, pairs, state)}
        begun = time.perf_counter_ns()
        try:
            found = run_once(model, arrays)
        except Exception as error:
            failed = run_error(error, model.target, request, _WAYS_OUT, made.guessed)
            raise type(failed)(f"step {number + 1} of {steps.count}: {failed}") from None
        took = took or time.perf_counter_ns() - begun
        feeds.append({name: array for name, array in arrays.items() if name in made.others})
        for place, spec in enumerate(model.outputs):
            if (number, place) in expected:
                beside.append((f"{spec.name} of step {number}", found[place], expected[number, place]))
        if generated is not None:
            arrays = {**arrays, generated.roles.ids.name: arrays[generated.roles.ids.name].copy()}
            generated.take(number, found, request.rtol, request.atol)
            outputs.append([_form_of(array) for it, array in enumerate(found) if it not in held])
        else:
            outputs.append([array for it, array in enumerate(found) if it not in held])
            kept += sum(array.nbytes for array in outputs[-1])
        if kept > _MOST_BYTES:
            raise BadInput(
                f"--steps {steps.count}: the outputs of {number + 1} steps take {kept / 1e9:.1f} GB; fewer steps, please"
            )
        singles[2:] = [Data(arrays, found, made.guessed, made.ranges, took, None)]
        state = [found[pair.out] for pair in pairs]
    shapes.append([array.shape for array in state])
    _check_resident(feeds, steps)
    if beside:
        singles[-1].expected = beside_expected(beside, request, [model], path)
        if singles[-1].expected["differs"] is None and generated is None:
            kept_places = [it for it in range(len(model.outputs)) if it not in held]
            outputs = [
                [expected.get((number, it), array) for it, array in zip(kept_places, of_step, strict=True)]
                for number, of_step in enumerate(outputs)
            ]
    early, single = singles[:2][-1], singles[-1]
    return LoopData(pairs, feeds, made.first, shapes, outputs, state, single, early, made.ranges, generated)


def _form_of(array: Array) -> Array:
    """An array of the same shape and dtype that takes no memory."""
    return np.broadcast_to(np.zeros((), array.dtype), array.shape)


def _generation(path: str, model: Model, request: Inputs, steps: Steps) -> generation.Generated:
    """A generation before its first step; what it feeds back is what was asked for, else what the folder or the names say."""
    assert steps.decoder is not None
    if steps.feedback:
        ins, outs = ([spec.name for spec in specs] for specs in (model.inputs, model.outputs))
        pairs = matched(steps.feedback, outs, ins)
    else:
        pairs = generation.pairs_of(path, model, steps.decoder)
    roles = generation.roles_of(path, model, steps.decoder, pairs)
    return generation.begin(path, model, replace(steps, feedback=tuple(pairs)), roles, request.dims)


def _first_that_runs(
    path: str, model: Model, request: Inputs, steps: Steps, pairs: list[Pair], told: generation.Generated
) -> _Prompted:
    """The inputs with a cache of fixed length, where that is wanted and the model takes it, else with one that grows."""
    assert steps.decoder is not None
    if steps.decoder.shared:
        made = _Prompted(path, model, request, steps, pairs, told, told.depth(steps.count + 1))
        told.fixed = model.known is not None or _keeps_its_shape(model, pairs, made, told)
        if told.fixed:
            return made
    return _Prompted(path, model, request, steps, pairs, told, told.context if model.known is not None else 0)


def _keeps_its_shape(model: Model, pairs: list[Pair], made: _Prompted, told: generation.Generated) -> bool:
    """Whether a model gives a cache of fixed length back as long as it was."""
    begun = time.perf_counter_ns()
    try:
        found = run_once(model, {**made.of_step(0, made.first), **_named(model, pairs, made.first)})
    except Exception:  # a model that adds to its cache may refuse a mask that is shorter
        return False
    told.first_ns = time.perf_counter_ns() - begun
    return all(found[pair.out].shape == array.shape for pair, array in zip(pairs, made.first, strict=True))


def _named(model: Model, pairs: Sequence[Pair], state: Sequence[Array]) -> dict[str, Array]:
    return {model.inputs[pair.into].name: array for pair, array in zip(pairs, state, strict=True)}


def _pairs(model: Model, steps: Steps) -> list[Pair]:
    """The pairs of outputs and inputs that patterns stand for. Raises `BadInput`: they match nothing, or what cannot be
    fed back."""
    outputs, inputs = ([spec.name for spec in specs] for specs in (model.outputs, model.inputs))
    found = []
    for out, into in matched(steps.feedback, outputs, inputs):
        pair = Pair(outputs.index(out), inputs.index(into))
        one, other = model.outputs[pair.out], model.inputs[pair.into]
        if one.type != other.type or (one.shape and other.shape and len(one.shape) != len(other.shape)):
            alike = [spec.name for spec in model.inputs if spec.type == one.type and len(spec.shape) == len(one.shape)]
            what = f"is {form(one)}, and the input {form(other)}{nearest(into, alike)}"
            raise BadInput(f"--feedback {out}={into}: the output {what}", "--feedback")
        found.append(pair)
    return found


def form(spec: TensorSpec) -> str:
    """The type and shape of an input or output, for messages."""
    return f"{spec.type} [{', '.join('?' if dim is None else str(dim) for dim in spec.shape)}]"


def _check_names(model: Model, pairs: Sequence[Pair], steps: Steps, states_kept: bool) -> None:
    """Raises `BadInput`: an option names what the model has not, or what is a state."""
    state_in = {model.inputs[pair.into].name for pair in pairs}
    state_out = set() if states_kept else {model.outputs[pair.out].name for pair in pairs}
    sides = (
        ("--fill", steps.fill, [spec.name for spec in model.inputs], state_in, "input"),
        ("--resident", steps.resident, [spec.name for spec in model.inputs], state_in, "input"),
        ("--keep", steps.keep, [spec.name for spec in model.outputs], state_out, "output"),
    )
    for option, names, known, state, what in sides:
        for name in names:
            if name not in known:
                raise BadInput(f"{option} {name}: the model has no such {what}{nearest(name, known)}", option)
            if name in state:
                raise BadInput(f"{option} {name}: is a state, and {what}s that are none are meant", option)
    symbols = sorted({dim for spec in model.inputs for dim in spec.shape if isinstance(dim, str)})
    for name in steps.first_dims:
        if name not in symbols:
            lacks = f"no such symbolic dimension; it has {', '.join(symbols)}" if symbols else "no symbolic dimension"
            raise BadInput(f"--first-dim {name}: the model has {lacks}", "--first-dim")


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
            what = f"step {number} gives {list(array.shape)}, and the model takes {form(spec)}"
            raise BadInput(f"--feedback {model.outputs[pair.out].name}={spec.name}: {what}", "--feedback")


class _Inputs:
    def __init__(
        self, path: str, model: Model, request: Inputs, steps: Steps, pairs: Sequence[Pair], linked: Mapping[str, Array]
    ) -> None:
        self._model, self._request, self._steps = model, request, steps
        self._state = [model.inputs[pair.into] for pair in pairs]
        self._outs = [model.outputs[pair.out] for pair in pairs]
        names = {spec.name for spec in self._state}
        self.others = {spec.name for spec in model.inputs} - names  # the inputs that are no state
        self._given = {} if request.path is None else files.load_some(Path(request.path), model.inputs)
        for name in self._given:
            if name in steps.fill:
                raise BadInput(f"--fill {name}: --input has it already", "--fill")
        said = {"input": self._given, "fill": steps.fill, "shape": request.shapes, "range": request.ranges}
        for flag, entries in said.items():
            if (twice := next((name for name in entries if name in linked), None)) is not None:
                raise BadInput(f"--{flag} {twice}: a link gives it already", f"--{flag}")
        self._given = {**self._given, **linked}
        sizes = request.index_sizes
        sizes = (index_sizes(path, model.inputs) if sizes is None else sizes) or {}
        self.ranges = {
            spec.name: request.ranges.get(spec.name) or input_arrays.default_range(spec, sizes.get(spec.name))
            for spec in model.inputs
            if spec.name in self.others and spec.name not in {**self._given, **steps.fill} and not spec.is_string
        }
        for name in request.ranges:
            if name not in self.ranges:
                raise BadInput(f"--range {name}: the model has no such input that is made up", "--range")
        self._made: dict[tuple[object, ...], Array] = {}
        self.guessed: list[str] = []  # dimensions that nobody said anything of
        self.first = self._first_state()  # the state before the first step

    def _first_state(self) -> list[Array]:
        known = {STEP: 0}
        dims = {**self._request.dims, **self._steps.first_dims}
        given = self._shapes()
        said = {dim for spec in self._model.inputs if spec.name in given for dim in spec.shape}
        for out, spec in zip(self._outs, self._state, strict=True):
            for before, after in zip(spec.shape, out.shape, strict=False):
                # What is a dimension of another name, or of none, behind a step grows: it begins with nothing.
                of_nobody = before not in {*dims, *said} and spec.name not in self._given
                if isinstance(before, str) and before != after and of_nobody:
                    known.setdefault(before, 0)
        shapes, self.guessed = resolve_shapes(self._model.inputs, given, dims, known)
        return [
            self._given[spec.name] if spec.name in self._given else np.zeros(shapes[spec.name], spec.dtype)
            for spec in self._state
        ]

    def _shapes(self) -> dict[str, Shape]:
        """Shapes that are fixed in all steps."""
        return {**self._request.shapes, **{name: array.shape for name, array in self._given.items()}}

    def of_step(self, number: int, state: Sequence[Array]) -> dict[str, Array]:
        dims: dict[str, int | str] = dict(self._request.dims)
        if number == 0:
            dims |= self._steps.first_dims
        for spec in self._state:  # the state says how large it is by now
            for dim in spec.shape:
                dims.pop(str(dim), None)
        now = {spec.name: array.shape for spec, array in zip(self._state, state, strict=True)}
        shapes, _ = resolve_shapes(self._model.inputs, {**self._shapes(), **now}, dims, {STEP: number})
        known = {STEP: number}
        for spec in self._model.inputs:
            known |= {dim: n for dim, n in zip(spec.shape, shapes[spec.name], strict=False) if isinstance(dim, str)}
        own = [spec for spec in self._model.inputs if spec.name in self.others]
        return {spec.name: self._array(spec, shapes[spec.name], known) for spec in own}

    def _array(self, spec: TensorSpec, shape: Shape, known: Mapping[str, int]) -> Array:
        if spec.name in self._given:
            given: Array = self._given[spec.name]
            return given
        if spec.name in self._steps.fill:
            made = self._filled(spec, shape, known)
            key: tuple[object, ...] = (spec.name, shape, made.tobytes())
        else:
            key = (spec.name, shape)
            if key in self._made:
                return self._made[key]
            order = [it.name for it in self._model.inputs].index(spec.name)
            generator = np.random.default_rng([self._request.seed, order, *shape])
            made = input_arrays.random_array(spec, shape, self.ranges.get(spec.name, (0.0, 1.0)), generator)
        return self._made.setdefault(key, made)

    def _filled(self, spec: TensorSpec, shape: Shape, known: Mapping[str, int]) -> Array:
        text = self._steps.fill[spec.name]
        where = f"--fill {spec.name}={text}"
        if spec.is_string or not spec.is_tensor:
            raise BadInput(f"{where}: the input holds no numbers", "--fill")
        index = np.arange(shape[-1]) if shape else np.zeros((), np.int64)
        with np.errstate(divide="raise", invalid="raise"):
            value = np.asarray(value_of(text, {**known, INDEX: index}, where))
        with np.errstate(all="ignore"):
            held = value.astype(spec.dtype)
        if spec.dtype.kind in "iub" and not np.array_equal(held, value):
            wrong = value.flat[int(np.flatnonzero(np.not_equal(held, value))[0])]
            raise BadInput(f"{where}: the input holds {spec.dtype}, and that is {wrong:g}", "--fill")
        filled: Array = np.ascontiguousarray(np.broadcast_to(held, shape))
        return filled


class _Prompted(_Inputs):
    """The inputs of a loop that generates, with a cache of so many tokens, or of none before its first step."""

    def __init__(
        self,
        path: str,
        model: Model,
        request: Inputs,
        steps: Steps,
        pairs: Sequence[Pair],
        told: generation.Generated,
        cache: int,
    ) -> None:
        grown = {
            dim for pair in pairs for dim, after in zip(model.inputs[pair.into].shape, model.outputs[pair.out].shape, strict=False)
            if dim != after
        }  # fmt: skip
        for name in request.dims:
            if name in grown:
                reason = "the prompt and the tokens generated say how long the cache is"
                raise BadInput(f"--dim {name}: {reason}", "--dim")
        self._told, self._cache = told, cache
        self._now = 0, np.zeros((told.batch, told.prompt), told.roles.ids.dtype)  # what is cached, and the ids behind
        super().__init__(path, model, request, steps, pairs, {})
        self._context = self._ids(told.context, 0)
        self._prompt = self._ids(told.prompt, told.context)
        if told.given is not None:
            self.ranges.pop(told.roles.ids.name, None)
        self._told_names = {name for name in told.roles[2:] if name is not None}
        for name in self._told_names:
            self.ranges.pop(name, None)

    def _ids(self, count: int, at: int) -> Array:
        """Tokens [batch, count]: those of the file from a place on, else random ones."""
        told, spec = self._told, self._told.roles.ids
        if told.given is not None:
            return told.given[:, at : at + count].astype(spec.dtype)
        generator = np.random.default_rng([self._request.seed, count, *([at] if at else [])])
        return input_arrays.random_array(spec, (told.batch, count), self.ranges.get(spec.name, (0, 1)), generator)

    def fill(self, pairs: Sequence[Pair]) -> None:
        """Have the first state hold the context. Raises as `make` does."""
        told, model, length = self._told, self._model, self._told.roles.ids.shape[1]
        # GroupQueryAttention takes several tokens behind others of one sequence alone.
        part = length if isinstance(length, int) else generation.PART if told.batch == 1 else max(told.context, 1)
        for at in range(0, told.context if model.known is None else 0, part):
            arrays = {
                **self._of_run(at, self._context[:, at : at + part], 0, self.first),
                **_named(model, pairs, self.first),
            }
            begun = time.perf_counter_ns()
            try:
                found = run_once(model, arrays)
            except Exception as error:
                failed = run_error(error, model.target, self._request, _WAYS_OUT, self.guessed)
                raise type(failed)(f"filling the cache with --context {told.context}: {failed}") from None
            told.first_ns = told.first_ns or time.perf_counter_ns() - begun
            self.first = [found[pair.out] for pair in pairs]

    def _shapes(self) -> dict[str, Shape]:
        told = generation.arrays_of(self._told, self._model, *self._now)
        return {**super()._shapes(), **{name: array.shape for name, array in told.items()}}

    def _first_state(self) -> list[Array]:
        states, decoder = super()._first_state(), self._steps.decoder
        assert decoder is not None
        sized = {1: decoder.heads, 3: decoder.head_size}
        found = []
        for array, spec, out in zip(states, self._state, self._outs, strict=True):
            shape = list(array.shape)
            for axis, dim in enumerate(spec.shape):
                if isinstance(dim, int) or spec.name in self._given or spec.name in self._request.shapes:
                    continue
                grows = axis < len(out.shape) and (dim is None or dim != out.shape[axis])
                if axis == 0:
                    shape[axis] = self._told.batch
                elif (grows and (dim is not None or axis == 2)) or (self._cache and len(shape) == 4 and axis == 2):
                    shape[axis] = self._cache
                elif len(shape) == 4 and (size := sized.get(axis)) is not None:
                    shape[axis] = size
            found.append(array if shape == list(array.shape) else np.zeros(shape, spec.dtype))
        return found

    def of_step(self, number: int, state: Sequence[Array]) -> dict[str, Array]:
        ids = self._prompt if number == 0 else self._told.next_ids
        return self._of_run(self._told.depth(number), ids, number, state)

    def _of_run(self, past: int, ids: Array, number: int, state: Sequence[Array]) -> dict[str, Array]:
        self._now = past, ids
        return {**super().of_step(number, state), **generation.arrays_of(self._told, self._model, past, ids)}

    def _array(self, spec: TensorSpec, shape: Shape, known: Mapping[str, int]) -> Array:
        if spec.name in self._told_names or spec.name == self._told.roles.ids.name:
            return np.empty(0, spec.dtype)  # what `of_step` has
        return super()._array(spec, shape, known)


def _expected(model: Model, request: Inputs, count: int) -> dict[tuple[int, int], Array]:
    """Expected outputs by step and place: what the plain loop must give, and which then take its place."""
    if request.expect is None or model.known is not None:  # known in shape alone
        return {}
    names = [spec.name for spec in model.outputs]
    known = {f"step{step}/{name}": (step, place) for step in range(count) for place, name in enumerate(names)}
    return {known[key]: array for key, array in files.load_steps(Path(request.expect), known).items()}


def lockstep(model: Model, data: LoopData) -> Iterator[list[Array]]:
    """The outputs of one step of the plain loop after the other, state included, in the model's order."""
    state = data.first
    for number in range(data.count):
        found = run_once(model, {**data.reference_feeds(number), **_named(model, data.pairs, state)})
        yield found
        state = [found[pair.out] for pair in data.pairs]


def by_step(values: Sequence[int]) -> Any:
    """Of something that each step has a number of: that number where it is the same in all, else all."""
    return values[0] if len(set(values)) == 1 else list(values)
