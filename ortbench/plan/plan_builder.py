"""The plan that options ask for: what a command line and a suite share."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from ortbench.core import features
from ortbench.core.errors import BadInput
from ortbench.model.modes import ALL_MODES, CPU, EVERY, IN_FLIGHT, MODES, named_modes
from ortbench.model.unit_of_work import Part
from ortbench.plan.configurations import split_configurations
from ortbench.plan.list_syntax import split_lists
from ortbench.plan.option_types import is_library
from ortbench.plan.options import RawOptions, build, options_of
from ortbench.plan.plan import PLAN, Loop, Plan
from ortbench.plan.stream_plan import Shape, Stream
from ortbench.plan.target import Inputs, Target

# The options of which each entry of a list would be a shape of its own, and what says how inputs look besides.
OF_SHAPES = tuple(it for it in options_of(*PLAN) if it.rules.is_of_shapes or it.flag == "range")


def plan_of(
    model: str,
    given: RawOptions,
    command: tuple[str, ...] = (),
    needed: Collection[str] = (),
    known: Collection[str] = (),
    part: Part | None = None,
) -> Plan:
    """The plan that options describe, of `known` modes, by default those of `planner_of`, and those that are `needed` besides what was asked
    for; without a `part` of single inferences. `BadInput`: an option that cannot be read, or says nothing."""
    modes = modes_to_measure(given, known)
    modes = (*modes, *(name for name in ALL_MODES if name in needed and name not in modes))
    if "depth" in given:
        check_depth(modes, "--depth")
    return build(
        Plan,
        given,
        model=model,
        target=target_of(given),
        inputs=build(Inputs, given),
        modes=modes,
        loop=build(Loop, given),
        part=part or Part(),
        command=command,
    )


_AMOUNTS = {"duration", "precision", "iterations", "processes"}  # how much is measured


def run_of(model: str, given: RawOptions, command: tuple[str, ...] = ()) -> Plan:
    """The plan of a run, see `plan_of`: unless options say how much is measured, it ends when processes agree."""
    plan = plan_of(model, given, command)
    return replace(plan, loop=replace(plan.loop, until_agreed=_AMOUNTS.isdisjoint(given)))


def planner_of(model: str, given: RawOptions) -> tuple[Collection[str], Callable[..., Plan]]:
    """The modes of a model with options, and what makes its plan, of the arguments of `plan_of`: a feature's where it is of its kind."""
    asked = (ask(model, given) for ask in features.hooks("planner_of"))
    return next(filter(None, asked), (MODES, plan_of))


def plan_stream(command: str, given: RawOptions, planned: Callable[[RawOptions], Plan], most: int) -> Plan:
    """The plan, in one mode unless told otherwise, of a command whose lists of at most so many shapes are a stream; `BadInput`: too many
    shapes, or one, or a mode that cannot have several."""
    options = [
        it.for_command(command) for it in options_of(Inputs) if it.rules.is_of_shapes and it.is_taken_by(command)
    ]
    plans = [planned({"mode": (CPU,), **side}) for side in split_configurations(given, options, most, "shapes")]
    plan = plans[0]
    if len(plans) == 1:
        if "shape-order" in given:
            raise BadInput("--shape-order: there is one shape; --dim NAME=16,64,512 makes several", "--shape-order")
        return plan
    if plan.modes != (CPU,):
        listed = next(it.name for it in options if len(split_lists(given.get(it.flag))) > 1)
        raise BadInput(f"{listed}: several shapes are for mode {CPU}", listed)
    shapes = (Shape(_shape_name(it.inputs, plans), it.inputs) for it in plans)
    return replace(plan, stream=replace(build(Stream, given), shapes=tuple(shapes)))


def _shape_name(inputs: Inputs, plans: Sequence[Plan]) -> str:
    """The sizes of a shape that are not the same in all: ``batch=8 sequence=64``."""
    found = []
    for one, others in (
        (inputs.dims, [it.inputs.dims for it in plans]),
        (inputs.shapes, [it.inputs.shapes for it in plans]),
        (inputs.lengths, [it.inputs.lengths for it in plans]),
    ):
        for key, value in one.items():
            if any(it[key] != value for it in others):
                found.append(f"{key}={'x'.join(map(str, value)) if isinstance(value, tuple) else value}")
    return " ".join(found)


def check_depth(modes: Collection[str], option: str) -> None:
    """Refuse (`BadInput`) a depth where no mode has several inferences in flight."""
    if not {*IN_FLIGHT} & {*modes}:
        reason = f"is for mode {' and '.join(IN_FLIGHT)}: add --mode {' or '.join(IN_FLIGHT)}"
        raise BadInput(f"{option}: {reason}", option)


def with_memory(plan: Plan, needs_memory: bool) -> Plan:
    return replace(plan, passes={"measure-memory": 1, **plan.passes}) if needs_memory else plan


def modes_to_measure(given: RawOptions, known: Collection[str] = ()) -> tuple[str, ...]:
    """The modes that were asked for, each once, of those that are `known`, by default of those of `planner_of`."""
    return named_modes(given.get("mode", ()), known or planner_of("", given)[0])


def modes_to_compare(given: RawOptions) -> tuple[str, ...]:
    """The modes that were named, to be compared; none for all."""
    names = given.get("mode", ())
    return () if not names or EVERY in names else modes_to_measure(given)


def target_of(given: RawOptions) -> Target:
    """The target that options describe. An EP that is a path is a plugin EP's library; `BadInput`: options that are not K=V, or a
    library named twice."""
    return build(Target, library_apart(given))


def library_apart(given: RawOptions, prefix: str = "") -> RawOptions:
    """The same options with the library that ``--ep`` names as one; with a prefix those that it begins; `BadInput`: a library named
    twice."""
    ep, library = f"{prefix}ep", f"{prefix}ep-library"
    if not is_library(given.get(ep, "")):
        return given
    if library in given:
        named, other = (f"--{it.replace('.', ' ')}" for it in (ep, library))
        raise BadInput(f"{named} {given[ep]} is a library already: leave {other} out", named)
    return {**{name: value for name, value in given.items() if name != ep}, library: given[ep]}


def list_in(given: RawOptions) -> str | None:
    """The first option (its flag) that has a list, of which each entry would be a shape of its own; None where there is none."""
    several = (it.flag for it in OF_SHAPES if len(split_lists(given.get(it.flag))) > 1)
    return next(several, None)
