"""What a sweep of shapes is asked to do: a plan for each shape, all of one model and session."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from ortbench.core.errors import BadInput
from ortbench.core.files import check_readable, expected_outputs, input_sets
from ortbench.features.sweep import FEATURE
from ortbench.model.metric_names import FIELDS, Slo, parse_limits
from ortbench.plan.option_types import ARRAY_SETS, FLAG, OptionType, text_of
from ortbench.plan.options import (
    INPUT,
    MEASURED,
    RawOptions,
    build,
    declared_options,
    new_option,
    option,
    options_for,
)
from ortbench.plan.plan import Plan, check
from ortbench.plan.plan_builder import OF_SHAPES, name_configurations, path_ends, plan_of, split_configurations

MAX_SHAPES = 64  # each has buffers of its own in every mode
SWEPT = "sweep"
_DURATION_S = FEATURE.commands[SWEPT].options["duration"]["default"]
_swept = partial(option, commands=(SWEPT,))


def parse_slo(text: str, option: str) -> Slo:
    """``p99=20ms`` or ``latency=1.5s``; `BadInput` where it is not of that form."""
    found = parse_limits(text, option, FIELDS)
    if len(found) > 1:
        raise BadInput(f"{option} {text!r}: name one statistic, by which the best shape is told", option)
    return Slo(*found.popitem())


@dataclass(frozen=True)
class SweepOptions:
    data: tuple[str, ...] = _swept(
        "data", "PATH", "Sweep over real inputs: .npz files, or folders of input_0.pb, ...", panel=INPUT,
        kind=ARRAY_SETS, default=(), common=(SWEPT,),
    )  # fmt: skip
    slo: Slo | None = _swept(
        "slo", "STAT=TIME", "Set the limit for the best shape: p99=20ms, latency=5ms.", panel=MEASURED,
        kind=OptionType('"p99=20ms"', text_of, parse_slo), is_in_suites=False, common=(SWEPT,),
    )  # fmt: skip


# What makes a bench of a suite a sweep, and what only such a one has; its SLO has the key of that of a load.
IN_SUITES = (
    new_option(
        SWEPT,
        "",
        "A sweep over the lists in dim, shape and sequence-tensors, in one session.",
        MEASURED,
        FLAG,
        commands=(),
    ),
    declared_options(SweepOptions)["data"],
)


@dataclass(frozen=True)
class Shape:
    """A shape of a sweep: what to call it, and its plan; with real inputs the name of their set."""

    name: str
    plan: Plan
    data: str | None = None


def shapes_of(model: str, given: RawOptions, command: tuple[str, ...], needed: Collection[str] = ()) -> list[Shape]:
    """The shapes that options ask for, the first list's sizes slowest, in modes as `plan_of` has them; `BadInput`: an option that cannot
    be read, fewer than two shapes, or too many."""
    given = {"duration": _DURATION_S, **given}
    if swept := build(SweepOptions, given).data:
        for option in OF_SHAPES:
            if option.flag in given:
                raise BadInput(f"{option.name}: --data says how inputs look, leave it out", option.name)
        return _of_data(plan_of(model, given, command, needed), swept)
    options = [it.for_command(SWEPT) for it in options_for(SWEPT)]
    plans = [
        plan_of(model, options_of_shape, command, needed)
        for options_of_shape in split_configurations(given, options, MAX_SHAPES, "shapes")
    ]
    if len(plans) < 2:
        reason = "such as --dim batch=1,2,4..64; 'ortbench inspect' lists a model's dimensions"
        raise BadInput(f"a sweep needs several shapes: {reason}, and --data takes real inputs", "--dim")
    return [Shape(name, plan) for name, plan in zip(name_configurations(plans), plans, strict=True)]


def check_shapes(shapes: Sequence[Shape]) -> None:
    """Refuse what cannot be carried out, before anything is started (`BadInput`)."""
    for shape in shapes:
        check(shape.plan)


def _of_data(plan: Plan, paths: Sequence[str]) -> list[Shape]:
    """The files, test sets, and those in folders, by their own names, with so many folders before them as tell them apart."""
    found: list[Path] = []
    for path in map(Path, paths):
        check_readable(path, "--data", "file or folder", folders=True)
        if not (sets := input_sets(path)):
            raise BadInput(f"--data {path}: has neither input_0.pb nor test sets nor .npz files in it", "--data")
        found += sets
    if len(found) < 2:
        raise BadInput(f"--data: a sweep needs several sets, and {paths[0]} is one", "--data")
    if len(found) > MAX_SHAPES:
        raise BadInput(f"--data: one run takes at most {MAX_SHAPES} shapes, and there are {len(found)}", "--data")
    names = path_ends([path.with_name(path.name.removesuffix(".npz").removesuffix(".inputs")) for path in found])
    if names is None:
        raise BadInput("--data: a set was given twice; give each once", "--data")
    shapes = []
    for name, path in zip(names, found, strict=True):
        expected = expected_outputs(path)
        inputs = replace(plan.inputs, path=str(path), expect=None if expected is None else str(expected))
        shapes.append(Shape(name, replace(plan, inputs=inputs), name))
    return shapes
