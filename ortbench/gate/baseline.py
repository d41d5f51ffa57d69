"""What a gate holds, and what it is held against: an earlier result, or what a live gate measures in turns with it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ortbench.core.errors import BadInput
from ortbench.model.modes import modes_by
from ortbench.plan.loop_plan import Steps
from ortbench.plan.option_types import FLAG, PATH
from ortbench.plan.options import BASELINE, LIMIT, LOAD, RUNS, Option, RawOptions, declared, options_of, twin
from ortbench.plan.plan import Loop, Plan, check_sizes
from ortbench.plan.plan_builder import library_apart
from ortbench.plan.target import Inputs, Target

CANDIDATE = (
    Option(
        "model", "MODEL", "Measure this model live, as the candidate.", RUNS, PATH, commands=("gate",), common=("gate",)
    ),
    Option("chain", "FILE", "Measure this chain live, as the candidate.", RUNS, PATH, commands=("gate",)),
)
UNDER_LOAD = Option(
    "load", "", "Measure under load, as 'ortbench load' does.", LOAD, FLAG, commands=("gate",), only_live=True
)
_EARLIER = PATH._replace(example='"folder of an earlier suite"')
_MODEL = Option(
    "baseline-model",
    "MODEL",
    "Measure this model live, as the baseline.",
    BASELINE,
    PATH,
    commands=("gate",),
    common=("gate",),
)
_TWINS = tuple(twin(it) for it in options_of(Target, Steps, Inputs, Loop, Plan) if it.twin)
BASELINE_CHAIN = Option(
    "baseline-chain", "FILE", "Measure this chain live, as the baseline.", BASELINE, PATH, commands=("gate",)
)
LIVE_BASELINE = (_MODEL, BASELINE_CHAIN, *_TWINS)
STORED_BASELINE = (
    Option(
        "baseline",
        "BASE.json",
        "Compare with this stored result.",
        BASELINE,
        _EARLIER,
        commands=("gate",),
        common=("gate",),
    ),
    Option(
        "force",
        "",
        "Compare results that are not comparable, and say why not.",
        LIMIT,
        FLAG,
        commands=("gate", "compare", "history"),
        per={"history": {"help": "Keep results of other machines in one series."}},
    ),
)


def has_live_baseline(given: RawOptions) -> bool:
    return any(it.flag in given for it in LIVE_BASELINE)


def baseline_of(plan: Plan, given: RawOptions) -> Plan:
    """The baseline's plan, from the candidate's.

    Options that are given replace the candidate's; an empty one (``--baseline-ep-option ""``) leaves none, or the
    default. Another EP starts without the candidate's EP options, device, library and engine cache. Raises `BadInput`
    for an option that cannot be or that says nothing, or an interpreter that is not there.
    """
    if BASELINE_CHAIN.flag in given:
        raise BadInput(f"{BASELINE_CHAIN.name} is for a chain: name the candidate's with --chain", BASELINE_CHAIN.name)
    given = library_apart(given, "baseline-")
    target: dict[str, Any] = {}
    if "baseline-ep" in given or "baseline-ep-library" in given:
        target = {name: it.default for name, it in declared(Target).items() if it.of_ep or name == "ep"}
    target |= changes(Target, given)
    loop = changes(Loop, given)
    if "depth" in loop and not {*modes_by("depth")} & {*plan.modes}:
        reason = f"says nothing without mode {' or '.join(modes_by('depth'))}: add --depth"
        raise BadInput(f"--baseline-depth {reason}", "--baseline-depth")
    steps = changes(Steps, given)
    inputs = changes(Inputs, given)
    if plan.steps is not None:
        steps = {"steps": replace(plan.steps, **steps)}
    elif steps:
        name = twin(declared(Steps)[next(iter(steps))]).name
        raise BadInput(f"{name} is for a loop: say what is fed back with --feedback OUT=IN", name)
    else:
        check_sizes(inputs.get("dims", {}), "--baseline-dim")
    return replace(
        plan,
        model=given.get(_MODEL.flag) or plan.model,
        target=replace(plan.target, **target),
        inputs=replace(plan.inputs, **inputs),
        loop=replace(plan.loop, **loop),
        **steps,
        **changes(Plan, given),
    )


def changes(owner: type, given: RawOptions) -> dict[str, Any]:
    """What the twins of a dataclass's options say, by its fields; `BadInput` for a value that cannot be."""
    changes = {}
    for name, it in declared(owner).items():
        flag = f"baseline-{it.flag}"
        if it.twin and flag in given:
            changes[name] = value = given[flag]
            if it.check is not None and value is not None:
                it.check(value, f"--{flag}")
    return changes
