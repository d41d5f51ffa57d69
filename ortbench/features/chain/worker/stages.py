"""A chain: its stages, the links between them, what the whole of it gives with plain arrays, and how it is set up in a mode by its name.

Every stage is a loop, one that runs once where it is none: it has the arrays of `ortbench.features.loop.worker.data`, and what links
give it is what the plain runs of the stages before it gave. Modes are compared with those.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from numpy import median

from ortbench.core.errors import BadInput, BenchmarkFailed, OrtbenchError, WrongOutputs, from_data, to_data
from ortbench.core.expressions import expand_pattern, nearest
from ortbench.features.chain.model import LinkTimes
from ortbench.features.chain.plan import Chain, Link, Stage
from ortbench.features.loop.worker import CpuLoop, LinkedInput, ResidentLoop
from ortbench.features.loop.worker import data as loops
from ortbench.features.loop.worker.base import LoopMode, PartsMode
from ortbench.features.loop.worker.bound import BoundLoop, Links
from ortbench.features.loop.worker.data import LoopData
from ortbench.model import protocol
from ortbench.model.modes import CPU, WHOLE_CHAIN
from ortbench.model.schema import StageBytes
from ortbench.plan.target import POLICIES, Inputs, with_own
from ortbench.worker import proofs, providers
from ortbench.worker.first_run import compare_with_expected
from ortbench.worker.input_arrays import load_outputs
from ortbench.worker.memory import BoundTensor, Copy, Location
from ortbench.worker.mode_base import Mode, Proof, Step
from ortbench.worker.providers import Provider
from ortbench.worker.session import Model, open_model
from ortbench.worker.sync import Sync
from ortbench.worker.tensors import Array, TensorSpec, Value
from ortbench.worker.timing import time_call


@dataclass(eq=False)
class OpenStage:
    asked: Stage
    model: Model
    loop: LoopData = field(init=False)  # its arrays; there once the stages before it have run

    @property
    def name(self) -> str:
        return self.asked.name

    def last(self, out: int) -> Array:
        """What the last step of the plain run gave for an output."""
        number = self.loop.state_of_output(out)
        if number is not None:
            return self.loop.last[number]
        return self.loop.outputs[-1][out - sum(pair.out < out for pair in self.loop.pairs)]


@dataclass(frozen=True, eq=False)
class Joint:
    link: Link
    # the stage that gives, and the place of its output
    source: OpenStage
    out: int
    # the stage that takes, and the place of its input
    target: OpenStage
    into: int

    @property
    def output_spec(self) -> TensorSpec:
        return self.source.model.outputs[self.out]

    @property
    def input_spec(self) -> TensorSpec:
        return self.target.model.inputs[self.into]

    @property
    def ends(self) -> tuple[str, str]:
        return f"{self.source.name}.{self.output_spec.name}", f"{self.target.name}.{self.input_spec.name}"

    def locations(self) -> tuple[Location, Location]:
        """Where the last step of the one leaves it, a state where its input is, and where the other takes it."""
        number, own = self.source.loop.state_of_output(self.out), self.source.model.locations
        given = own.outputs[self.out] if number is None else own.inputs[self.source.loop.pairs[number].into]
        return given, self.target.model.locations.inputs[self.into]

    def why_copied(self) -> str | None:
        """Why the value cannot be taken where it is; None if it can."""
        out, into = self.locations()
        if out.own is None or into.own is None:
            return "ONNX Runtime offers no memory of a device that it is on"
        if out.is_on_host and into.is_on_host:
            return None
        is_same = getattr(out.own, "is_same", None)
        info = getattr(into.own, "info", None)
        if is_same(info) if is_same is not None and info is not None else out.own.label == into.own.label:
            return None
        return f"{self.source.name} has it in {out.own.label}, {self.target.name} wants it in {into.own.label}"


@dataclass
class ChainData:
    """The open stages in their order, and what links them."""

    stages: list[OpenStage]
    joints: list[Joint]

    def outputs(self) -> list[tuple[TensorSpec, Array]]:
        """What the plain run gave for every output of every stage, by ``stage.name``."""
        return [
            (spec._replace(name=f"{stage.name}.{spec.name}"), stage.last(index))
            for stage in self.stages
            for index, spec in enumerate(stage.model.outputs)
        ]

    def taken_by(self, stage: OpenStage) -> list[Joint]:
        return [joint for joint in self.joints if joint.target is stage]

    def joints_from(self, stage: OpenStage) -> list[Joint]:
        return [joint for joint in self.joints if joint.source is stage]


def open_stages(chain: Chain, profile_prefix: str | None = None) -> Iterator[OpenStage]:
    """Load the EP of each stage, once for those that ask for the same, and create its session. Raises `OrtbenchError`:
    one cannot be opened; which stage it is about comes first."""
    known: dict[str, Provider] = {}
    for number, stage in enumerate(chain.stages):
        target = stage.target
        prefix = profile_prefix and f"{profile_prefix}-{number}"
        asked = f"{target.ep} {target.library} {target.device} {target.options}"
        with blaming(stage):
            if asked not in known or target.ep in POLICIES:  # ONNX Runtime chooses for each session
                known[asked] = providers.find(target)
            provider = known[asked]
            own = with_own(target, provider.name)
            yield OpenStage(stage, open_model(stage.model, own, provider, profile_prefix=prefix))


def join(chain: Chain, stages: Sequence[OpenStage]) -> list[Joint]:
    """The links between open stages, those of patterns one by one. Raises `BadInput`: a link to or from what a model
    has not, of two types, or two to one input."""
    by_name = {stage.name: stage for stage in stages}
    found: list[Joint] = []
    for link in chain.links:
        for joint in _joints(link, by_name[link.source.stage], by_name[link.to.stage]):
            if any(it.target is joint.target and it.into == joint.into for it in found):
                raise BadInput(f"{link.where['to']}: {joint.ends[1]} is linked already")
            found.append(joint)
    return found


def _joints(link: Link, source: OpenStage, target: OpenStage) -> Iterator[Joint]:
    outputs, inputs = source.model.output_names, [spec.name for spec in target.model.inputs]
    pairs = expand_pattern(link.source.tensor, link.to.tensor, outputs)
    if not pairs:
        lacks = f"{source.asked.model} has no output {link.source.tensor!r}{nearest(link.source.tensor, outputs)}"
        raise BadInput(f"{link.where['from']}: {link.source}: {lacks}")
    for out, into in pairs:
        if into not in inputs:
            lacks = f"{target.asked.model} has no input {into!r}{nearest(into, inputs)}"
            raise BadInput(f"{link.where['to']}: {link.to}: {lacks}")
        joint = Joint(link, source, outputs.index(out), target, inputs.index(into))
        one, other = joint.output_spec, joint.input_spec
        sizes = zip(one.shape, other.shape, strict=False)
        # As far as models say; a shape without dimensions is how ONNX Runtime reports an unknown rank, too.
        may_fit = not one.shape or not other.shape or len(one.shape) == len(other.shape)
        may_fit = may_fit and not any(isinstance(a, int) and isinstance(b, int) and a != b for a, b in sizes)
        if one.type != other.type or not may_fit:
            what = (f"{end} is {loops.describe_type(spec)}" for end, spec in zip(joint.ends, (one, other), strict=True))
            raise BadInput(f"{link.where['to']}: does not fit: {', and '.join(what)}")
        yield joint


def run(stage: OpenStage, joints: Sequence[Joint]) -> None:
    """Have a stage run with plain arrays, on what the stages before it gave. Raises `OrtbenchError`: it cannot be run;
    which stage or link it is about comes first."""
    linked: dict[str, Array] = {}
    for joint in joints:
        array = joint.source.last(joint.out)
        try:
            joint.input_spec.check_fit(array.shape, joint.ends[0])
        except BadInput as error:
            raise BadInput(f"{joint.link.where['to']}: does not fit: {error}") from None
        linked[joint.input_spec.name] = array
    asked = stage.asked
    with blaming(asked):
        steps = asked.steps
        if (twice := next((name for name in steps.resident if name in linked), None)) is not None:
            raise BadInput(f"--resident {twice}: a link gives it", "--resident")
        stage.loop = loops.make_loop_data(asked.model, stage.model, asked.inputs, steps, linked, states_kept=True)


def hold_expected(stages: Sequence[OpenStage], inputs: Inputs) -> protocol.OutputComparison | None:
    """What plain runs gave beside expected outputs; None where there are none. Raises `BadInput`: they are of other stages or
    outputs; `BenchmarkFailed`: they differ."""
    if inputs.expect is None:
        return None
    known = {
        f"{stage.name}/{spec.name}": (stage, index)
        for stage in stages
        for index, spec in enumerate(stage.model.outputs)
    }
    keys = f"its keys are STAGE/NAME: {', '.join(known)}"
    beside = [
        (f"{stage.name}.{stage.model.outputs[index].name}", stage.last(index), array)
        for key, array in load_outputs(Path(inputs.expect), known, keys, "[^/]+").items()
        for stage, index in (known[key],)
    ]
    return compare_with_expected(beside, inputs, [stage.model for stage in stages])


@contextmanager
def blaming(stage: Stage) -> Iterator[None]:
    """What goes wrong inside the block is of a stage: said with the line of its file, and the key that it is about.
    Raises `OrtbenchError`: of the same kind."""
    try:
        yield
    except OrtbenchError as error:
        text, option = str(error), getattr(error, "option", None)
        found = re.match(r"--([a-z-]+)", option or text)
        if found is not None and found[1] in stage.where:
            begin, text = stage.where[found[1]], text[len(f"--{found[1]}") :].removeprefix(":").strip()
        else:
            begin = f"{stage.where.get('', '')} ({stage.name})".strip()
        raise from_data({**to_data(error), "error": f"{begin}: {text}"}) from None


def of_stage(name: str, error: OrtbenchError) -> OrtbenchError:
    return from_data({**to_data(error), "error": f"stage {name}: {error}"})


_LINK_NS = 50_000_000  # so long is each copy of a link repeated, as long as there are some and not too many
_LEAST, _MOST = 5, 200


class ChainMode(PartsMode):
    """The stages of a chain, one after the other. Each ends with its sync, so that none begins before the last is done; that of the main
    one stands for the chain's."""

    call_name = WHOLE_CHAIN

    def __init__(self, name: str, data: ChainData, stages: Sequence[LoopMode]) -> None:
        super().__init__()
        self.name = name
        self.part_names = tuple(stage.name for stage in data.stages)
        self._chain, self._stages = data, stages
        self._calls: list[Copy] = [stage.run_whole for stage in stages]
        self.sync: Sync = stages[main_of(data.stages)].sync
        moved = [(stage.bytes_in, stage.bytes_out) for stage in stages]
        self.bytes_in, self.bytes_out = (
            None if None in counts else sum(it or 0 for it in counts) for counts in zip(*moved, strict=True)
        )

    def run_whole(self, _a: object = None, _b: object = None) -> None:
        done = len(self._times)
        try:
            self._run_parts()
        except OrtbenchError as error:
            raise of_stage(self.part_names[len(self._times) - done], error) from None

    def take_times(self, calls: int) -> list[int]:
        for stage in self._stages:
            stage.take_times(0)
        return super().take_times(calls)

    def steps(self) -> list[Step]:
        return list(zip(self.part_names, self._calls, strict=True))

    def syncs(self) -> dict[str, Sync]:
        return {f"stage {name}": stage.sync for name, stage in zip(self.part_names, self._stages, strict=True)}

    def bound_tensors(self) -> tuple[list[BoundTensor], list[BoundTensor]]:
        found: tuple[list[BoundTensor], list[BoundTensor]] = ([], [])
        for name, stage in zip(self.part_names, self._stages, strict=True):
            for tensors, bound in zip(found, stage.bound_tensors(), strict=True):
                reason = "the session's memory info"
                tensors += [
                    BoundTensor(f"{name}.{tensor.name}", tensor.memory, tensor.reason or reason, tensor.is_usual)
                    for tensor in bound
                ]
        return found

    def poison(self) -> None:
        for stage in self._stages:
            stage.poison()

    def outputs(self) -> list[Value]:
        return [array for stage in self._stages for array in stage.outputs()]

    def expected_outputs(self) -> list[tuple[str, Value]]:
        named = zip(self.part_names, self._stages, strict=True)
        return [(f"{name}.{output}", array) for name, stage in named for output, array in stage.expected_outputs()]

    @property
    def source(self) -> str:
        return proofs.FIRST

    def proofs(self, rtol: float | None, atol: float | None, others: Mapping[str, Mode]) -> Sequence[Proof]:
        """Every step of the stages that are loops; what links give them is there, since the outputs have been compared."""
        return [
            Proof("", f"comparing every step of {opened.name}", partial(_compare, opened.name, stage, rtol, atol))
            for opened, stage in zip(self._chain.stages, self._stages, strict=True)
            if opened.loop.count > 1
        ]

    def details(self) -> dict[str, Any]:
        named = zip(self.part_names, self._stages, strict=True)
        copied: dict[str, StageBytes] = {
            name: {"bytes_h2d": mode.bytes_in, "bytes_d2h": mode.bytes_out} for name, mode in named
        }
        return {"stage_bytes": copied}

    def time_separately(self, repeats: int) -> dict[str, Any]:
        """What the copies of each link take, where its values are on a device."""
        found: list[LinkTimes] = []
        by_stage = dict(zip((id(it) for it in self._chain.stages), self._stages, strict=True))
        for joint in self._chain.joints:
            source, target = by_stage[id(joint.source)], by_stage[id(joint.target)]
            if not isinstance(source, BoundLoop) or not isinstance(target, BoundLoop):
                return {}
            copies = source.copy_out(joint.out), target.copy_in(joint.into)
            download, upload = (None if copy is None else _time(copy) for copy in copies)
            found.append({"d2h_ns": download, "h2d_ns": upload})
        return {"links": found}


def _compare(name: str, stage: LoopMode, rtol: float | None, atol: float | None) -> None:
    try:
        stage.compare_steps(rtol, atol)
    except (WrongOutputs, BenchmarkFailed) as error:
        raise of_stage(name, error) from None


def _time(copy: Copy) -> int:
    times: list[int] = []
    while len(times) < _LEAST or (sum(times) < _LINK_NS and len(times) < _MOST):
        times.append(time_call(copy))
    return round(median(times))


def make_chain(name: str, data: ChainData) -> ChainMode:
    """Set a mode of a chain up. Raises `Unsupported`: an EP or a model cannot do it."""
    made: dict[int, Any] = {}  # by the id of the stage
    for stage in data.stages:
        try:
            if name == CPU:
                links = [LinkedInput(it.into, made[id(it.source)], it.out) for it in data.taken_by(stage)]
                made[id(stage)] = CpuLoop(stage.model, stage.loop, links)
            else:
                made[id(stage)] = _bound_stage(stage, data, made)
        except OrtbenchError as error:
            raise of_stage(stage.name, error) from None
    return ChainMode(name, data, list(made.values()))


def main_of(stages: list[OpenStage]) -> int:
    """The number of the stage that a chain's EP is named after: the first one on a device, or the first one."""
    on_device = (number for number, stage in enumerate(stages) if not stage.model.provider.computes_on_host)
    return next(on_device, 0)


def _bound_stage(stage: OpenStage, data: ChainData, made: Mapping[int, BoundLoop]) -> BoundLoop:
    """A stage with IO binding, which has run; `made` are those before it, by their ids."""
    ResidentLoop.single.check(stage.model)
    taken = {
        joint.input_spec.name: made[id(joint.source)].link_value(joint.out, stays=joint.why_copied() is None)
        for joint in data.taken_by(stage)
    }
    given = data.joints_from(stage)
    crossing = [joint for joint in given if joint.why_copied() is not None]
    read = {it.output_spec.name for it in crossing if it.output_spec.is_packed or not it.locations()[0].is_on_host}
    links = Links(taken, {joint.output_spec.name for joint in given}, read)
    made_stage = ResidentLoop(stage.model, stage.loop, stage.asked.steps, links)
    made_stage.run_whole()  # so that the next is set up with something to take
    return made_stage
