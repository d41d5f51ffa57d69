"""The plan that options ask for: what a command line and a suite share."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import product
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ortbench.core import features
from ortbench.core.errors import BadInput
from ortbench.core.processes import environment_name
from ortbench.core.safe_text import plain_name
from ortbench.model.kinds import kind_of
from ortbench.model.metrics import METRICS as METRICS_KNOWN
from ortbench.model.metrics import Group
from ortbench.model.modes import ALL_MODES, CPU, EVERY, IN_FLIGHT, MODES, Part, named_modes
from ortbench.model.settings import Several, split_lists
from ortbench.plan.option_types import (
    FLAG,
    SHARE,
    TEXTS,
    Entries,
    OptionType,
    check_modes,
    finite,
    is_library,
    parse_share,
    table_of,
)
from ortbench.plan.options import COMPARED as PANEL
from ortbench.plan.options import (
    LIMIT,
    Option,
    RawOptions,
    build,
    declared_options,
    new_option,
    options_for,
    options_of,
)
from ortbench.plan.plan import PLAN, SAME, Loop, Pace, Plan
from ortbench.plan.target import PARALLEL, Inputs, Shape, Stream, Target

if TYPE_CHECKING:
    from ortbench.model.metric_names import MetricName

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


# How much is measured; what is paced takes longer than until processes agree.
_AMOUNTS = {"duration", "precision", "iterations", "processes", "every", "rate"}


def run_of(model: str, given: RawOptions, command: tuple[str, ...] = ()) -> Plan:
    """The plan of a run, see `plan_of`: unless options say how much is measured, it ends when processes agree."""
    plan = with_pace(plan_of(model, given, command, known=MODES), given)
    return replace(plan, loop=replace(plan.loop, until_agreed=_AMOUNTS.isdisjoint(given)))


_PACED_S = 10.0  # of each mode where it is paced: a p99 takes 100 samples


def with_pace(plan: Plan, given: RawOptions) -> Plan:
    """The plan whose inferences, or steps, are also measured at set moments, where options say so."""
    pace = build(Pace, given)
    is_longer = not {"every", "rate"}.isdisjoint(given) and "duration" not in given
    return replace(plan, pace=pace, loop=replace(plan.loop, duration_s=_PACED_S) if is_longer else plan.loop)


def planner_of(model: str, given: RawOptions) -> tuple[Collection[str], Callable[..., Plan]]:
    """The modes of a model with options, and what makes its plan, of the arguments of `plan_of`: a feature's where it is of its kind."""
    asked = (ask(model, given) for ask in features.hooks("planner_of"))
    return next(filter(None, asked), (MODES, plan_of))


def plan_stream(command: str, given: RawOptions, planned: Callable[[RawOptions], Plan], most: int) -> Plan:
    """The plan, in one mode unless told otherwise, of a command whose lists of at most so many shapes are a stream; `BadInput`: too many
    shapes, or one, or a mode that cannot have several."""
    options = [
        option.for_command(command)
        for option in options_of(Inputs)
        if option.rules.is_of_shapes and option.is_taken_by(command)
    ]
    plans = [planned({"mode": (CPU,), **own}) for own in split_configurations(given, options, most, "shapes")]
    plan = plans[0]
    if len(plans) == 1:
        if "shape-order" in given:
            raise BadInput("--shape-order: there is one shape; --dim NAME=16,64,512 makes several", "--shape-order")
        return plan
    if plan.modes != (CPU,):
        listed = next(it.name for it in options if len(split_lists(given.get(it.flag))) > 1)
        raise BadInput(f"{listed}: several shapes are for mode {CPU}", listed)
    every = [it.inputs for it in plans]
    shapes = (Shape(shape_name(it, every), it) for it in every)
    return replace(plan, stream=replace(build(Stream, given), shapes=tuple(shapes)))


def shape_name(inputs: Inputs, every: Sequence[Inputs]) -> str:
    """The sizes of a shape that are not the same in all: ``batch=8 sequence=64``."""
    found = []
    for one, others in (
        (inputs.dims, [it.dims for it in every]),
        (inputs.shapes, [it.shapes for it in every]),
        (inputs.lengths, [it.lengths for it in every]),
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


MAX_CONFIGURATIONS = 16  # each is a process with a session of its own, and gets its turn in every round


def split_configurations(
    given: RawOptions, options: Iterable[Option], most: int = MAX_CONFIGURATIONS, called: str = "configurations"
) -> list[RawOptions]:
    """What was given for each configuration, at least one: every combination of the values of all lists, the first list's slowest, in the order
    of `options`. `BadInput`: more than `most`, which are `called` something."""
    several = [(it, split_lists(given[it.flag])) for it in options if it.flag in given]
    count = prod(len(values) for _, values in several)
    if count > most:
        made = " × ".join(f"{len(values)} of {it.name}" for it, values in several if len(values) > 1)
        raise BadInput(f"{made}: one run takes at most {most} {called}, and {count} were asked for")
    flags = [it.flag for it, _ in several]
    return [
        {**given, **dict(zip(flags, values, strict=True))} for values in product(*(values for _, values in several))
    ]


def plan_configurations(given: RawOptions, command: str, plan_of: Callable[[RawOptions], Plan]) -> list[Plan]:
    """A plan for each configuration of a command, as `plan_of` makes it of what was given for it; `BadInput`: an option that cannot be
    read, or that is for one EP where there are several."""
    mixed = "shape-order" in given  # lists of shapes are of one configuration then
    options = [it.for_command(command) for it in options_for(command) if not (mixed and it.rules.is_of_shapes)]
    configurations = []
    for own in split_configurations(given, options):
        if isinstance(given.get("execution-mode"), Several) and own["execution-mode"] != PARALLEL:
            # The parallel ones alone have it.
            own = {flag: value for flag, value in own.items() if flag != "inter-op-threads"}
        if own not in configurations:
            configurations.append(own)
    eps = list(dict.fromkeys(own["ep"] for own in configurations if "ep" in own))
    if len(eps) > 1 and ("ep-library" in given or "device" in given):
        raise BadInput("with several --ep give a library as an --ep of its own, and no --device")
    if len(configurations) > 1 and "optimized-model" in given:
        raise BadInput(
            f"--optimized-model: {len(configurations)} configurations would write it: measure one", "--optimized-model"
        )
    plans = []
    for own in configurations:
        if "ep-option" in own and len(eps) > 1:
            own = {**own, "ep-option": _options_for(own["ep"], eps, own["ep-option"])}
        plan = plan_of(own)
        plans.append(replace(plan, target=replace(plan.target, several_eps=len(eps) > 1)))
    return plans


def _options_for(ep: str, eps: Sequence[str], ep_option: Mapping[str, str]) -> dict[str, str]:
    """The EP options of one of several EPs: ``cuda:key=value`` is for that EP alone, ``key=value`` for all."""
    found = {}
    for key, value in ep_option.items():
        owner, colon, rest = key.partition(":")
        if not colon or owner not in eps:
            found[key] = value
        elif owner == ep:
            found[rest] = value
    return found


def ep_name(target: Target) -> str:
    """An EP in a word: its name, or that of its library."""
    return Path(target.library).stem if target.library and target.ep == "auto" else target.ep


def eps_of(plan: Plan) -> list[str]:
    """The EPs of a plan, each in a word: of a chain those of its stages."""
    return list(dict.fromkeys(map(ep_name, plan.targets)))


def ep_names(plans: Sequence[Plan]) -> list[str]:
    """The EP of each plan in a word; libraries of one name by what tells their paths apart: ``fast/libep``."""
    names = [ep_name(plan.target) for plan in plans]
    libraries: dict[str, set[str]] = {}
    for name, plan in zip(names, plans, strict=True):
        if plan.target.library and plan.target.ep == "auto":
            libraries.setdefault(name, set()).add(plan.target.library)
    others = {plan.target.ep for plan in plans}
    called: dict[str, str] = {}
    for name, alike in libraries.items():
        whole = [Path(os.path.abspath(path)).with_suffix("") for path in alike]
        called |= zip(alike, path_ends(whole, 2 if name in others else 1) or alike, strict=True)
    return [
        called.get(plan.target.library or "", name) if plan.target.ep == "auto" else name
        for name, plan in zip(names, plans, strict=True)
    ]


def path_ends(paths: Sequence[Path], least: int = 1) -> list[str] | None:
    """The ends of some paths, at least so many parts of each, as long as tells all of them apart; None where nothing does."""
    for length in range(least, max(len(path.parts) for path in paths) + 1):
        found = ["/".join(path.parts[-length:]) for path in paths]
        if len(set(found)) == len(found):
            return found
    return None


def differ_by_ep(plans: Sequence[Plan]) -> bool:
    return len({(plan.target.ep, plan.target.library) for plan in plans}) == len(plans)


def name_configurations(plans: Sequence[Plan]) -> list[str]:
    """What to call the configurations of a run: that in which they differ, such as ``batch=8`` or ``cuda intra-op-threads=2``.

    As names of folders (`ortbench.core.safe_text.plain_name`) they are different too.
    """
    eps = ep_names(plans)
    settings = [dict(_settings(plan, ep, len(set(eps)) > 1)) for plan, ep in zip(plans, eps, strict=True)]
    known = dict.fromkeys(key for one in settings for key in one)
    differing = [key for key in known if any(one.get(key) != settings[0].get(key) for one in settings)]
    names: list[str] = []
    for plan, one in zip(plans, settings, strict=True):
        name = plan.beside or " ".join(_format_setting(key, one.get(key)) for key in differing) or one["ep"]
        again = sum(plain_name(other) == plain_name(name) for other in names)
        names.append(name if not again else f"{name}-{again + 1}")
    return names


def _settings(plan: Plan, ep: str, several_eps: bool) -> Iterator[tuple[str, Any]]:
    """Every setting of a plan by what people call it, the EP first; entries of tables each by themselves.

    Where there are several EPs, what is for one of them alone goes without saying.
    """
    yield "ep", ep
    for values in (plan.target, plan.inputs, plan.part, plan.loop, plan):
        for field, option in declared_options(type(values)).items():
            value = getattr(values, field)
            if option.flag in ("ep", "ep-library") or (several_eps and option.rules.is_of_one_ep):
                continue
            if isinstance(value, Mapping):
                yield from value.items()
            else:
                yield option.flag, value


def _format_setting(key: str, value: Any) -> str:
    if key in ("ep", "shape-order"):
        return str(value)
    if key == "python":
        return "ortbench's own" if value is None else environment_name(value)
    if isinstance(value, bool):
        return key if value else f"no {key}"
    if isinstance(value, tuple):
        return f"{key}={'x'.join(map(str, value))}"
    return f"{key}={'default' if value is None else value}"


# What of results is compared: the options that say so


def _metrics(given: Sequence[str], option: str) -> tuple[MetricName, ...]:
    from ortbench.model.metric_names import parse_metric  # which few commands have

    return tuple(parse_metric(text, option) for text in given)


METRICS: OptionType = TEXTS._replace(example='"device-tensors.latency.median" or a list', parse=_metrics)


def _figure(name: str, text: str, option: str) -> float:
    if name not in _OF_OUTPUTS:
        raise BadInput(f"{option} {name}: choose from {', '.join(_OF_OUTPUTS)}", option)
    if name == _TOP1:
        return parse_share(text, f"{option} {name}")
    value = finite(text)
    if math.isnan(value):
        raise BadInput(f"{option} {name}={text}: write a number, such as {option} outputs.sqnr=30", option)
    return value


def _figure_text(name: str, value: Any, option: str) -> str:
    if not isinstance(value, (int, float, str)) or isinstance(value, bool):
        raise BadInput("must be a number")
    return str(value)


_TOP1 = "outputs.top1"
_OF_OUTPUTS = tuple(it.key for it in METRICS_KNOWN.values() if it.group is Group.OUTPUTS)
FIGURES = table_of(Entries("METRIC=X", _figure, _figure_text), '{"outputs.sqnr" = 30}', "float | str")
_SAME = new_option(
    "equivalence-margin",
    "P",
    "Call differences up to this the same.",
    PANEL,
    SHARE,
    default=SAME,
    commands=("compare",),
    is_in_suites=False,
)
FORCE = new_option(
    "force",
    "",
    "Compare results that are not comparable, and say why not.",
    LIMIT,
    FLAG,
    commands=("gate", "compare"),
    by_command={"compare": {"panel": PANEL}},
)
COMPARED = (
    new_option(
        "metric",
        "M",
        "Compare a metric: h2d, latency.p99, throughput@concurrency=4.",
        PANEL,
        METRICS,
        shown="those that matter",
        commands=("compare",),
        is_in_suites=False,
    ),
    _SAME,
    FORCE,
)


class Compared(NamedTuple):
    """Which modes and metrics, empty for the usual ones, and up to which share two are called the same."""

    modes: tuple[str, ...]
    metrics: tuple[MetricName, ...]
    same: float


def compared_of(given: RawOptions) -> Compared:
    """What options say of it; `BadInput`: a mode or a metric that there is not, or no share."""
    names = given.get("mode", ())
    modes = () if not names or EVERY in names else check_modes(named_modes(names, ALL_MODES), "--mode")
    metrics = given.get("metric", ())
    for metric in metrics:
        if metric.best:
            raise BadInput(f"--metric {metric.text}: only a gate compares the best points", "--metric")
    return Compared(modes, metrics, given.get(_SAME.flag, SHARE.parse(SAME, _SAME.name)))


def run_name(plans: Sequence[Plan], what: str = "") -> str:
    """What the folder of a run is called: its name, or what it is if that is no plain run, model, EPs and time."""
    if plans[0].name is not None:
        return plain_name(plans[0].name).lstrip(".") or "unnamed"
    eps = dict.fromkeys(eps_of(plans[0]) if kind_of(plans[0].work.kind).of_stages else ep_names(plans))
    others = dict.fromkeys(environment_name(it.target.python) for it in plans if it.target.python is not None)
    return with_time(*filter(None, [what]), Path(plans[0].model).stem, *eps, *others)


def with_time(*parts: str) -> str:
    """What the folder of a measurement without a name is called."""
    return plain_name("-".join([*parts, datetime.now().strftime("%Y%m%d-%H%M%S")]))
