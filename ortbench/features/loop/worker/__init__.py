"""The modes of loops, `cpu-tensors` (of stages of chains too) and those that are bound, `device-resident`, `shared` and
`host-accessible`, and how one is set up by its name; and the request to open a loop: the session of its model, and a plain run of all its steps.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from ortbench.core.eps import SHORT_NAMES
from ortbench.core.errors import BadInput, OrtbenchError, Unsupported, WrongOutputs
from ortbench.core.safe_text import join_words
from ortbench.features.loop.model import OpenedLoop
from ortbench.features.loop.plan import Steps, steps_from
from ortbench.features.loop.worker.base import LoopMode
from ortbench.features.loop.worker.bound import BoundLoop
from ortbench.features.loop.worker.data import LoopData, make_loop_data
from ortbench.model.modes import CPU, HOST_ACCESSIBLE, RESIDENT, SHARED
from ortbench.plan.target import Inputs, Target, inputs_from, target_from
from ortbench.worker import State, providers
from ortbench.worker.bound import BoundMode
from ortbench.worker.first_run import to_arrays
from ortbench.worker.memory import BoundTensor, Copy, copy_arrays
from ortbench.worker.mode_base import Mode, Slot
from ortbench.worker.modes import (
    CpuMode,
    HostAccessibleMode,
    Opened,
    ResidentMode,
    bind_as_device_memory,
    describe_arrays,
)
from ortbench.worker.opening import open_as
from ortbench.worker.session import Model
from ortbench.worker.sync import Sync
from ortbench.worker.tensors import Array, TensorSpec, host_array, host_value, host_view

if TYPE_CHECKING:
    from ortbench.features.memory.worker import Forms, Sessions


class CpuLoop(LoopMode):
    """CPU tensors in every step; what links give is what stages before it gave last."""

    name = CPU
    sync: Sync = CpuMode.sync

    def __init__(self, model: Model, loop: LoopData, taken: Sequence[LinkedInput] = ()) -> None:
        super().__init__(model, loop)
        self._taken = taken
        self._native = all(spec.is_native for spec in (*model.inputs, *model.outputs))
        self._owners: list[Any] = []  # of what ONNX Runtime is given in another form than numpy's
        self._holds: list[Any] = []  # the same of what links give
        names = [model.inputs[pair.into].name for pair in loop.pairs]
        self._first = [self._make_feed(pair.into, array) for pair, array in zip(loop.pairs, loop.first, strict=True)]
        self._state: list[Any] = self._first
        self._got: list[Any] = [None] * loop.count
        linked = {it.into for it in taken}  # a link that gives nothing must fail, not find what the plain run had
        self._feeds: list[dict[str, Any]] = [
            {
                spec.name: self._make_feed(index, step[spec.name])
                for index, spec in enumerate(model.inputs)
                if spec.name in step and index not in linked
            }
            for step in loop.feeds
        ]
        steps = [partial(self._step, number, feed, names) for number, feed in enumerate(self._feeds)]
        self._calls = self._add_choices(steps)
        self._count()

    def _make_feed(self, index: int, array: Array) -> Any:
        if self._native:
            return array
        value = host_value(self._model.inputs[index], array)
        self._owners.append((value, array))
        return value

    def begin(self) -> None:
        self._state = list(self._first)
        self._got = [None] * self._loop.count  # what the last loop gave is freed before the first step
        if self._taken:
            self.take()

    def _step(self, number: int, feeds: dict[str, Any], names: list[str]) -> None:
        # Nothing but `_state` holds the state: all states of a long loop at once would not fit.
        given, model = {**feeds, **dict(zip(names, self._state, strict=True))}, self._model
        if self._native:
            found = model.session.run(model.output_names, given, model.plain_options)
        else:
            found = model.session.run_with_ort_values(model.output_names, given, model.plain_options)
        self._state = [found[pair.out] for pair in self._loop.pairs]
        self._got[number] = [None if index in self._state_outputs else array for index, array in enumerate(found)]
        if self._chosen is not None and number:
            self._got[number - 1] = None  # those of a long one would not fit

    def state(self, number: int) -> list[Array]:
        values: list[Any] = [None] * len(self._model.outputs)
        for pair, value in zip(self._loop.pairs, self._state, strict=True):
            values[pair.out] = value
        found = to_arrays(self._model, values)
        return [found[pair.out] for pair in self._loop.pairs]

    def step_outputs(self, number: int) -> list[Array | None]:
        found = to_arrays(self._model, self._got[number])
        return [found[index] for index in self._free]

    def logits(self, number: int) -> Array:
        generated, got = self._loop.generated, self._got[number]
        assert generated is not None
        if self._native:
            found: Array = got[generated.out]
            return found
        return host_array(generated.roles.logits, got[generated.out])

    def read_logits(self) -> Copy | None:
        return None

    def poison(self) -> None:
        """Nothing to do: every run makes new arrays."""

    def bound_tensors(self) -> tuple[list[BoundTensor], list[BoundTensor]]:
        return describe_arrays(self._model)

    def _count(self) -> None:
        model, loop = self._model, self._loop
        if any(location.is_shared for location in (*model.locations.inputs, *model.locations.outputs)):
            return  # ORT may hand an array on as it is
        ins, outs = model.locations.inputs, model.locations.outputs
        into = [(n, model.inputs[it.into]) for n, it in enumerate(loop.pairs) if not ins[it.into].is_on_host]
        out = [(n, model.outputs[it.out]) for n, it in enumerate(loop.pairs) if not outs[it.out].is_on_host]
        state_in = [sum(spec.nbytes(shapes[n]) for n, spec in into) for shapes in loop.shapes[:-1]]
        state_out = [sum(spec.nbytes(shapes[n]) for n, spec in out) for shapes in loop.shapes[1:]]
        crosses = {spec.name: not location.is_on_host for spec, location in zip(model.inputs, ins, strict=True)}
        others_in = [sum(array.nbytes for name, array in step.items() if crosses[name]) for step in loop.feeds]
        others_out = [
            sum(array.nbytes for index, array in zip(self._free, step, strict=True) if not outs[index].is_on_host)
            for step in loop.outputs
        ]
        self._count_bytes((state_in, state_out), (others_in, others_out))

    # As a stage of a chain

    def take(self) -> None:
        """Take what links give, as this stage's runs take it: numpy's arrays, or where it has other types OrtValues."""
        self._holds.clear()
        for into, source, out in self._taken:
            number = source._loop.state_of_output(out)
            value = source._got[-1][out] if number is None else source._state[number]
            spec, is_array = self._model.inputs[into], isinstance(value, (np.ndarray, np.generic))
            if self._native and not is_array:
                value = host_array(source._model.outputs[out], value)
            elif is_array and not self._native:
                array = np.asarray(value, order="C")
                value = host_value(spec, array)
                self._holds.append((value, array))
            number = self._loop.state_of_input(into)
            if number is not None:
                self._state[number] = value
                continue
            for feed in self._feeds:
                feed[spec.name] = value


class LinkedInput(NamedTuple):
    """What a stage takes of another one: its own input, that stage, and the output, by their places in the models."""

    into: int
    source: CpuLoop
    out: int


class ResidentLoop(BoundLoop):
    """Device tensors: the state never leaves the device, what is no state is copied in and out in every step."""

    name = RESIDENT
    single: type[BoundMode] = ResidentMode


class SharedLoop(ResidentLoop):
    """The same with one buffer for a state's past and present, where the model writes only what is new."""

    name = SHARED.name
    one_buffer = True

    def __init__(self, model: Model, loop: LoopData, steps: Steps) -> None:
        grown = [number for number in range(len(loop.pairs)) if loop.is_growing(number)]
        if grown:
            name = model.outputs[loop.pairs[grown[0]].out].name
            raise Unsupported(f"the state {name!r} changes its shape, so past and present cannot be one buffer")
        super().__init__(model, loop, steps)

    def check(self, request: Inputs) -> None:
        """Raises `Unsupported`: the model does not write only what is new."""
        if self._model.known_outputs is None:
            try:
                self.compare_steps(request.rtol, request.atol)
            except WrongOutputs as error:
                message = f"with past and present in one buffer, {error}"
                raise Unsupported(f"{message}; --rtol and --atol set the tolerance") from None


class HostAccessibleLoop(BoundLoop):
    """HOST_ACCESSIBLE memory: the host writes inputs and reads outputs where they are bound."""

    name = HOST_ACCESSIBLE
    single: type[BoundMode] = HostAccessibleMode
    leaves_to_ort = False  # its outputs would be in the device's DEFAULT memory
    host_reads_outputs = True

    def _copy_in(self, slots: Sequence[Slot]) -> Copy:
        moved = [slot for slot in slots if not slot.is_zero_copy]
        return copy_arrays([slot.array for slot in moved], [host_view(slot.spec, slot.value) for slot in moved])

    def _copy_out(self, slots: Sequence[Slot]) -> Copy:
        moved = [slot for slot in slots if not slot.is_zero_copy and slot.value is not None]
        return copy_arrays([host_view(slot.spec, slot.value) for slot in moved], [slot.array for slot in moved])

    def _bind_output(self, binding: Any, name: str, spec: TensorSpec, value: Any, stays: bool = False) -> None:
        if self.binding_error is None or stays:
            super()._bind_output(binding, name, spec, value)
        else:
            bind_as_device_memory(binding, self._model.provider, name, spec, value)

    def _count(self) -> None:
        none = [0] * self._loop.count
        self._count_bytes((none, none), (none, none))


def make_loop(name: str, model: Model, loop: LoopData, steps: Steps, request: Inputs) -> LoopMode:
    """Set a mode of a loop up. Raises `Unsupported`: the EP or the model cannot do it."""
    if name == CpuLoop.name:
        return CpuLoop(model, loop)
    kind = next(it for it in (ResidentLoop, HostAccessibleLoop, SharedLoop) if it.name == name)
    kind.single.check(model)
    made = kind(model, loop, steps)
    if isinstance(made, SharedLoop):
        made.check(request)
    return made


@dataclass(kw_only=True)
class LoopInWorker(Opened):
    """A model in a loop; its arrays are there after `run_first`."""

    steps: Steps
    loop: LoopData = field(init=False)

    def run_first(self) -> None:
        self.loop = make_loop_data(self.path, self.model, self.request, self.steps)
        self.data = self.loop.single

    def make(self, mode: str, depth: int) -> Mode:
        return make_loop(mode, self.model, self.loop, self.steps, self.request)

    def describe(self) -> dict[str, Any]:
        model, loop, steps = self.model, self.loop, self.steps
        told, named = loop.generated, [] if steps.decoder is None else [ep for ep, _ in steps.decoder.providers]
        eps = {"eps": named, "ep_used": self.target.ep in named} if named else {}  # that the folder asks for
        return {
            "steps": steps.count,
            "feedback": [[model.outputs[pair.out].name, model.inputs[pair.into].name] for pair in loop.pairs],
            "first": dict(steps.first_dims) or None if told is None else {"prompt": told.prompt},
            "grows": [
                model.inputs[pair.into].name for number, pair in enumerate(loop.pairs) if loop.is_growing(number)
            ],
            "state_shapes": [
                [list(shape) for shape in (loop.shapes[0][n], loop.shapes[-1][n])] for n in range(len(loop.pairs))
            ],
            "fill": dict(steps.fill),
            "keep": list(steps.keep),
            "resident": list(steps.resident),
            **({} if told is None else {"generation": {**told.describe(), **eps}}),
        }

    @property
    def loops(self) -> list[LoopData]:
        return [self.loop]


def open_loop(
    state: State, model: str, target: dict[str, Any], inputs: dict[str, Any], steps: dict[str, Any]
) -> OpenedLoop:
    """Load the EP, create the session, make the inputs of all steps and reference outputs; `steps` are `Steps` as data."""
    wanted, kind = with_ep_of_folder(target_from(target), steps), partial(LoopInWorker, steps=steps_from(steps))
    answer = cast("OpenedLoop", open_as(state, model, wanted, inputs_from(inputs), kind))
    if answer["unsupported"] is None:
        answer["loop"] = cast(Any, cast(LoopInWorker, state.opened).describe())
    return answer


def open_without_run(asked: dict[str, Any], known: Sequence[Forms], prefix: str | None) -> Sessions:
    """The session of the model; see `ortbench.features.memory.worker`."""
    from ortbench.features.memory.worker import open_model

    target = with_ep_of_folder(target_from(asked["target"]), asked["steps"])
    return open_model(asked, known, prefix, target, partial(LoopInWorker, steps=steps_from(asked["steps"])))


def with_ep_of_folder(target: Target, steps: Mapping[str, Any] | None) -> Target:
    """The target with the first of the EPs that the folder of a loop that generates asks for and that is here, unless another one was
    asked for; `steps` as a request has them, None of no loop. The folder may be anybody's: it names EPs, no packages or libraries, and `BadInput`: an
    option of it could load code."""
    decoder = None if steps is None else steps["decoder"]
    if decoder is not None and target.ep == "auto" and target.library is None:
        for ep, options in decoder["providers"]:
            if ep not in SHORT_NAMES:
                continue
            refused = [key for key in options if key not in target.options and _may_load(key, options[key])]
            allowed = {key: value for key, value in options.items() if key not in refused}
            candidate = replace(target, ep=ep, options={**allowed, **target.options})
            try:
                providers.find(candidate)
            except OrtbenchError:
                continue
            if refused:
                arguments = " ".join(f"--ep-option {shlex.quote(f'{key}={options[key]}')}" for key in refused)
                raise BadInput(
                    f"{decoder['said_by']} sets {join_words(refused)} of EP {ep}, which may load a library or a file: "
                    f"give it yourself ({arguments}), or name an EP (--ep)"
                )
            return candidate
    return target


_LOADING = re.compile(
    "path|lib|plugin|package|file|dir|config|stream|external|proc|instance|webgpu|dawn", re.IGNORECASE
)


def _may_load(option: str, value: str) -> bool:
    """Whether an EP's option may name a library, a file or an address: by the option's name, or a path in its value."""
    return bool(_LOADING.search(option)) or not re.fullmatch(r"[\w.:, -]*", value, re.ASCII)
