"""What goes into the steps of a loop, by what options, files and links say, and of one that generates by how far it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ortbench.core.errors import BadInput, OrtbenchError
from ortbench.core.expressions import INDEX, STEP, value_of
from ortbench.features.loop.plan import Steps
from ortbench.features.loop.worker import generation
from ortbench.plan.target import Inputs
from ortbench.worker import input_arrays
from ortbench.worker.first_run import run_timed
from ortbench.worker.input_arrays import axis_label, resolve_shapes
from ortbench.worker.session import Model
from ortbench.worker.tensors import Array, TensorSpec, index_sizes

WAYS_OUT = "--dim, --shape, --fill and --range change them, --input gives real ones"
Shape = tuple[int, ...]


class Pair(NamedTuple):
    """A state: the output and the input that takes it in the next step, by their places in the model."""

    out: int
    into: int


def name_states(model: Model, pairs: Sequence[Pair], state: Sequence[Array]) -> dict[str, Array]:
    return {model.inputs[pair.into].name: array for pair, array in zip(pairs, state, strict=True)}


class StepInputs:
    def __init__(
        self, path: str, model: Model, request: Inputs, steps: Steps, pairs: Sequence[Pair], linked: Mapping[str, Array]
    ) -> None:
        self._model, self._request, self._steps, self._pairs = model, request, steps, pairs
        self._state = [model.inputs[pair.into] for pair in pairs]
        self._outs = [model.outputs[pair.out] for pair in pairs]
        names = {spec.name for spec in self._state}
        self.others = {spec.name for spec in model.inputs} - names  # the inputs that are no state
        self._given = {} if request.path is None else input_arrays.load_some_arrays(Path(request.path), model.inputs)
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
        self.guessed: dict[str, int] = {}  # dimensions that nobody said anything of, with their sizes in the first step
        self.first = self._first_state()  # the state before the first step
        self.first_ns = 0  # what the first trial took, where there was one

    def _first_state(self) -> list[Array]:
        dims = {**self._request.dims, **self._steps.first_dims}
        shapes, guessed = resolve_shapes(self._model.inputs, self._shapes(), dims, {STEP: 0})
        self.guessed = dict.fromkeys(guessed, 1)
        return [
            self._given[spec.name] if spec.name in self._given else np.zeros(shapes[spec.name], spec.dtype)
            for spec in self._state
        ]

    def settle(self) -> None:
        """Find by trial steps how large the state begins where nobody said so: with 1, unless a step makes it larger.

        What is larger behind a step, and larger still where it was larger before, grows, and begins with 0 as a KV cache does; what
        has the same size whatever it had before keeps that. Raises `BadInput` or `BenchmarkFailed`: no step runs.
        """
        if self._model.known_outputs is not None:  # what it found in the session that ran
            shapes = [array.shape for array in self._first_step()]
            self.first = [
                array if array.shape == shape else np.zeros(shape, array.dtype)
                for array, shape in zip(self.first, shapes, strict=True)
            ]
            return
        fixed = self._shapes()
        axes = [
            (number, axis)
            for number, spec in enumerate(self._state)
            for axis, dim in enumerate(spec.dims)
            if dim in self.guessed and spec.name not in fixed
        ]
        if not axes:
            return
        try:
            behind = self._first_step()
        except OrtbenchError as error:
            # A cache that cannot hold anything yet: one whose dimension has another name behind a step may begin with 0.
            renamed = [(n, axis) for n, axis in axes if self._state[n].shape[axis] not in (None, *self._outs[n].shape)]
            self._resize(dict.fromkeys(renamed, 0))
            if not renamed or self._try_step() is None:
                raise error from None
            return
        larger = {(n, axis): size for n, axis in axes if (size := behind[n].shape[axis]) > self.first[n].shape[axis]}
        if not larger:
            return
        self._resize(dict.fromkeys(larger, 0))
        empty = self._try_step()
        for n, axis in larger:
            if empty is None or not 0 < empty[n].shape[axis] < larger[n, axis]:
                self._resize({(n, axis): larger[n, axis]})

    def _state_after(self, inputs: Mapping[str, Array], which: str) -> list[Array]:
        """The state behind a run that finds the first one. Raises as `run_timed` does."""
        arrays = {**inputs, **name_states(self._model, self._pairs, self.first)}
        found, took = run_timed(self._model, arrays, self._request, WAYS_OUT, self.guessed, which)
        self.first_ns = self.first_ns or took
        return [found[pair.out] for pair in self._pairs]

    def _first_step(self) -> list[Array]:
        return self._state_after(self.make_step(0, self.first), f"step 1 of {self._steps.count}: ")

    def _try_step(self) -> list[Array] | None:
        """The state behind a first step; None where it does not run."""
        try:
            return self._first_step()
        except OrtbenchError:
            return None

    def _resize(self, sizes: Mapping[tuple[int, int], int]) -> None:
        """Have the first state other sizes, by the number of the state and the axis."""
        for (number, axis), size in sizes.items():
            shape = list(self.first[number].shape)
            shape[axis] = size
            self.first[number] = np.zeros(shape, self._state[number].dtype)
            self.guessed[str(self._state[number].dims[axis])] = size

    def _shapes(self) -> dict[str, Shape]:
        """Shapes that are fixed in all steps."""
        return {**self._request.shapes, **{name: array.shape for name, array in self._given.items()}}

    def make_step(self, number: int, state: Sequence[Array]) -> dict[str, Array]:
        dims: dict[str, int | str] = dict(self._request.dims)
        if number == 0:
            dims |= self._steps.first_dims
        for spec in self._state:  # the state says how large it is by now
            for axis, dim in enumerate(spec.dims):
                dims.pop(str(dim), None)
                dims.pop(axis_label(spec, axis), None)
        now = {spec.name: array.shape for spec, array in zip(self._state, state, strict=True)}
        shapes, _ = resolve_shapes(self._model.inputs, {**self._shapes(), **now}, dims, {STEP: number})
        known = {STEP: number}
        for spec in self._model.inputs:
            known |= {dim: n for dim, n in zip(spec.dims, shapes[spec.name], strict=False) if isinstance(dim, str)}
        own = [spec for spec in self._model.inputs if spec.name in self.others]
        return {spec.name: self._array(spec, shapes[spec.name], known) for spec in own}

    def _array(self, spec: TensorSpec, shape: Shape, known: Mapping[str, int]) -> Array:
        if spec.name in self._given:
            given: Array = self._given[spec.name]
            return given
        if spec.name in self._steps.fill:
            text = self._steps.fill[spec.name]
            where = f"--fill {spec.name}={text}"
            if spec.is_string or not spec.is_tensor:
                raise BadInput(f"{where}: the input holds no numbers", "--fill")
            index = np.arange(shape[-1]) if shape else np.zeros((), np.int64)
            with np.errstate(divide="raise", invalid="raise"):
                value = np.asarray(value_of(text, {**known, INDEX: index}, where))
            with np.errstate(all="ignore"):
                values = value.astype(spec.dtype)
            if spec.dtype.kind in "iub" and not np.array_equal(values, value):
                wrong = value.flat[int(np.flatnonzero(np.not_equal(values, value))[0])]
                raise BadInput(f"{where}: the input holds {spec.dtype}, and that is {wrong:g}", "--fill")
            made: Array = np.array(np.broadcast_to(values, shape), order="C")
            key: tuple[object, ...] = (spec.name, shape, made.tobytes())
        else:
            key = (spec.name, shape)
            if key in self._made:
                return self._made[key]
            order = [it.name for it in self._model.inputs].index(spec.name)
            generator = np.random.default_rng([self._request.seed, order, *shape])
            made = input_arrays.random_array(spec, shape, self.ranges.get(spec.name, (0.0, 1.0)), generator)
        return self._made.setdefault(key, made)


class PromptedInputs(StepInputs):
    """The inputs of a loop that generates, with a cache of so many tokens, or of none before its first step."""

    def __init__(
        self,
        path: str,
        model: Model,
        request: Inputs,
        steps: Steps,
        pairs: Sequence[Pair],
        generated: generation.Generated,
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
        self._generated, self._cache = generated, cache
        ids = generated.roles.ids
        blank = np.zeros((generated.batch, generated.prompt), ids.dtype)
        self._own = generation.arrays_of(generated, model, 0, blank)  # of a run
        super().__init__(path, model, request, steps, pairs, {})
        self._context = self._ids(generated.context, 0)
        generated.prompt_ids = self._ids(generated.prompt, generated.context)
        for name in self._own:
            if name != ids.name or generated.given is not None:
                self.ranges.pop(name, None)

    def _ids(self, count: int, at: int) -> Array:
        """Tokens [batch, count]: those of the file from a place on, else random ones."""
        generated, spec = self._generated, self._generated.roles.ids
        if generated.given is not None:
            return generated.given[:, at : at + count].astype(spec.dtype)
        generator = np.random.default_rng([self._request.seed, count, *([at] if at else [])])
        limits = self.ranges.get(spec.name, (0, 1))
        return input_arrays.random_array(spec, (generated.batch, count), limits, generator)

    def settle(self) -> None:
        """Have the first state hold the context. Raises as `make_loop_data` does."""
        generated, length = self._generated, self._generated.roles.ids.shape[1]
        # GroupQueryAttention takes several tokens behind others of one sequence alone.
        part = generation.PART if generated.batch == 1 else max(generated.context, 1)
        part = length if isinstance(length, int) else part
        for at in range(0, generated.context if self._model.known_outputs is None else 0, part):
            inputs = self._run_arrays(at, self._context[:, at : at + part], 0, self.first)
            self.first = self._state_after(inputs, f"filling the cache with --context {generated.context}: ")

    def _shapes(self) -> dict[str, Shape]:
        return {**super()._shapes(), **{name: array.shape for name, array in self._own.items()}}

    def _first_state(self) -> list[Array]:
        states, decoder = super()._first_state(), self._steps.decoder
        assert decoder is not None
        for spec, out in zip(self._state, self._outs, strict=True):  # the cache says how long these are
            for name in {*spec.dims} - {*out.dims}:
                self.guessed.pop(str(name), None)
        sized = {1: decoder.heads, 3: decoder.head_size}
        found = []
        for array, spec, out in zip(states, self._state, self._outs, strict=True):
            shape = list(array.shape)
            for axis, dim in enumerate(spec.shape):
                if isinstance(dim, int) or spec.name in self._given or spec.name in self._request.shapes:
                    continue
                grows = axis < len(out.shape) and (dim is None or dim != out.shape[axis])
                if axis == 0:
                    shape[axis] = self._generated.batch
                elif (grows and (dim is not None or axis == 2)) or (self._cache and len(shape) == 4 and axis == 2):
                    shape[axis] = self._cache
                elif len(shape) == 4 and (size := sized.get(axis)) is not None:
                    shape[axis] = size
            found.append(array if shape == list(array.shape) else np.zeros(shape, spec.dtype))
        return found

    def make_step(self, number: int, state: Sequence[Array]) -> dict[str, Array]:
        ids = self._generated.prompt_ids if number == 0 else self._generated.next_ids
        return self._run_arrays(self._generated.depth(number), ids, number, state)

    def _run_arrays(self, past: int, ids: Array, number: int, state: Sequence[Array]) -> dict[str, Array]:
        self._own = generation.arrays_of(self._generated, self._model, past, ids)
        return {**super().make_step(number, state), **self._own}

    def _array(self, spec: TensorSpec, shape: Shape, known: Mapping[str, int]) -> Array:
        if spec.name in self._own:
            return np.empty(0, spec.dtype)  # what `make_step` has
        return super()._array(spec, shape, known)
