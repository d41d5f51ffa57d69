"""The stages of a chain, the links between them, and what the whole of it gives with plain arrays.

Every stage is a loop, one that runs once where it is none: it has the arrays of `ortbench.worker.loops.data`, and what links
give it is what the plain runs of the stages before it gave. Modes are compared with those.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ortbench.analysis.freed import TO_FREE
from ortbench.core.errors import BadInput, OrtbenchError, from_data, to_data
from ortbench.model.tensor_patterns import expanded, nearest
from ortbench.plan.chain_plan import Chain, End, Link, Stage
from ortbench.plan.ep_options import with_own
from ortbench.plan.target import POLICIES, Inputs
from ortbench.worker.inputs.files import load_chain
from ortbench.worker.loops import data as loops
from ortbench.worker.loops.data import LoopData
from ortbench.worker.session import providers
from ortbench.worker.session.first_run import beside_expected
from ortbench.worker.session.memory import Place
from ortbench.worker.session.providers import Provider
from ortbench.worker.session.session import Model, open_model
from ortbench.worker.session.tensors import Array, TensorSpec

if TYPE_CHECKING:
    from ortbench.model import protocol


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
        number = self.loop.state_of(out)
        if number is not None:
            return self.loop.last[number]
        held = {pair.out for pair in self.loop.pairs}
        return self.loop.outputs[-1][
            [place for place in range(len(self.model.outputs)) if place not in held].index(out)
        ]

    def place_of_output(self, out: int) -> Place:
        """Where its last step leaves an output: a state where its input is."""
        number, places = self.loop.state_of(out), self.model.places
        return places.outputs[out] if number is None else places.inputs[self.loop.pairs[number].into]


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
    def given(self) -> TensorSpec:
        return self.source.model.outputs[self.out]

    @property
    def taken(self) -> TensorSpec:
        return self.target.model.inputs[self.into]

    @property
    def from_(self) -> End:
        return End(self.source.name, self.given.name)

    @property
    def to(self) -> End:
        return End(self.target.name, self.taken.name)

    def places(self) -> tuple[Place, Place]:
        return self.source.place_of_output(self.out), self.target.model.places.inputs[self.into]

    def why_copied(self) -> str | None:
        """Why the value cannot be taken where it is; None if it can."""
        out, into = self.places()
        if out.own is None or into.own is None:
            return "ONNX Runtime offers no memory of a device that it is on"
        if out.on_host and into.on_host:
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
            (spec._replace(name=str(End(stage.name, spec.name))), stage.last(place))
            for stage in self.stages
            for place, spec in enumerate(stage.model.outputs)
        ]

    def taken_by(self, stage: OpenStage) -> list[Joint]:
        return [joint for joint in self.joints if joint.target is stage]

    def given_by(self, stage: OpenStage) -> list[Joint]:
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
                raise BadInput(f"{link.where['to']}: {joint.to} is linked already")
            found.append(joint)
    return found


def _joints(link: Link, source: OpenStage, target: OpenStage) -> Iterator[Joint]:
    outputs, inputs = source.model.output_names, [spec.name for spec in target.model.inputs]
    pairs = expanded(link.source.tensor, link.to.tensor, outputs)
    if not pairs:
        hint = nearest(link.source.tensor, outputs)
        raise BadInput(
            f"{link.where['from']}: {link.source}: {source.asked.model} has no output {link.source.tensor!r}{hint}"
        )
    for out, into in pairs:
        if into not in inputs:
            hint = nearest(into, inputs)
            raise BadInput(f"{link.where['to']}: {link.to}: {target.asked.model} has no input {into!r}{hint}")
        joint = Joint(link, source, outputs.index(out), target, inputs.index(into))
        one, other = joint.given, joint.taken
        if one.type != other.type or not _may_fit(one.shape, other.shape):
            what = f"{joint.from_} is {loops.form(one)}, and {joint.to} is {loops.form(other)}"
            raise BadInput(f"{link.where['to']}: does not fit: {what}")
        yield joint


def _may_fit(one: Sequence[int | str | None], other: Sequence[int | str | None]) -> bool:
    """Whether shapes can be the same, as far as models say."""
    if not one or not other:  # how ONNX Runtime reports an unknown rank, too
        return True
    fixed = ((a, b) for a, b in zip(one, other, strict=False) if isinstance(a, int) and isinstance(b, int))
    return len(one) == len(other) and all(a == b for a, b in fixed)


def run(stage: OpenStage, joints: Sequence[Joint]) -> None:
    """Have a stage run with plain arrays, on what the stages before it gave. Raises `OrtbenchError`: it cannot be run;
    which stage or link it is about comes first."""
    linked: dict[str, Array] = {}
    for joint in joints:
        array = joint.source.last(joint.out)
        try:
            joint.taken.check_fit(array.shape, str(joint.from_))
        except BadInput as error:
            raise BadInput(f"{joint.link.where['to']}: does not fit: {error}") from None
        linked[joint.taken.name] = array
    asked = stage.asked
    with blaming(asked):
        steps = asked.steps
        if (twice := next((name for name in steps.resident if name in linked), None)) is not None:
            raise BadInput(f"--resident {twice}: a link gives it", "--resident")
        stage.loop = loops.make(asked.model, stage.model, asked.inputs, steps, linked, states_kept=True)


def hold_expected(stages: Sequence[OpenStage], inputs: Inputs) -> protocol.HeldOutputs | None:
    """What plain runs gave beside expected outputs; None where there are none. Raises `BadInput`: they are of other stages or
    outputs; `BenchmarkFailed`: they differ."""
    if inputs.expect is None:
        return None
    known = {
        f"{stage.name}/{spec.name}": (stage, place)
        for stage in stages
        for place, spec in enumerate(stage.model.outputs)
    }
    beside = [
        (str(End(stage.name, stage.model.outputs[place].name)), stage.last(place), array)
        for key, array in load_chain(Path(inputs.expect), known).items()
        for stage, place in (known[key],)
    ]
    return beside_expected(beside, inputs, [stage.model for stage in stages])


@contextmanager
def blaming(stage: Stage) -> Iterator[None]:
    """What goes wrong inside the block is of a stage: said with the line of its file, and the key that it is about.
    Raises `OrtbenchError`: of the same kind."""
    try:
        yield
    except OrtbenchError as error:
        text, option = str(error).partition(TO_FREE)[0], getattr(error, "option", None)  # stages are not copied
        found = re.match(r"--([a-z-]+)", option or text)
        if found is not None and found[1] in stage.where:
            begin, text = stage.where[found[1]], text[len(f"--{found[1]}") :].removeprefix(":").strip()
        else:
            begin = f"{stage.where.get('', '')} ({stage.name})".strip()
        raise _saying(f"{begin}: {text}", error) from None


def of_stage(name: str, error: OrtbenchError) -> OrtbenchError:
    return _saying(f"stage {name}: {error}", error)


def _saying(text: str, error: OrtbenchError) -> OrtbenchError:
    return from_data({**to_data(error), "error": text})


def loop_pairs(stage: OpenStage) -> list[list[str]]:
    model = stage.model
    return [[model.outputs[pair.out].name, model.inputs[pair.into].name] for pair in stage.loop.pairs]
