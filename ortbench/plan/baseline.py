"""What a gate checks, and what it compares with: an earlier result, or what a live gate measures in turns with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any

from ortbench.core.errors import BadInput
from ortbench.core.features import candidates
from ortbench.core.processes import is_interpreter
from ortbench.plan.option_types import MODEL, PATH, OptionType, no_table, or_default
from ortbench.plan.options import (
    BASELINE,
    Option,
    RawOptions,
    baseline_option,
    declared_options,
    new_option,
    options_of,
    owners_in_features,
)
from ortbench.plan.options import BASELINE_SET as SET
from ortbench.plan.plan import PLAN, Loop, Plan, check_sizes
from ortbench.plan.plan_builder import FORCE, check_depth, library_apart
from ortbench.plan.target import Inputs, Target

_EARLIER = PATH._replace(example='"folder of an earlier suite"', python="Result | StoredResult | AnyPath")
_live = partial(new_option, panel=BASELINE, kind=PATH, commands=("gate",))
BASELINE_MODEL = _live(
    "baseline-model", "MODEL", "Measure this model live, as the baseline.", kind=MODEL, common=("gate",)
)
_PYTHON = declared_options(Target)["python"]
BASELINE_PYTHON = _live(
    "baseline-python", "PATH", "Measure the baseline with this interpreter; '': ortbench's own.",
    kind=or_default(_PYTHON.kind, None),
)  # fmt: skip


@cache
def settable() -> dict[str, Option]:
    """What else a baseline can have its own of, by their long names."""
    owners = options_of(Target, Inputs, Loop, Plan, *owners_in_features("gate"))
    return {it.flag: it for it in owners if it.rules.is_in_baselines and it is not _PYTHON}


@cache
def twins() -> dict[str, Option]:
    """The same, as a baseline has them."""
    return {flag: baseline_option(it) for flag, it in settable().items()}


def live_options() -> list[Option]:
    """The options that say what a live gate compares with."""
    return [BASELINE_MODEL, BASELINE_PYTHON, *twins().values()]


def setting(key: str, option: str) -> Option:
    """The option that a key of ``--baseline-set`` names, as the baseline has it; `BadInput` where it names none."""
    if key in twins():
        return twins()[key]
    if key in ("model", "python", *candidates()):
        reason = f"is given by --baseline-{key}"
    elif key in {it.flag for it in options_of(*PLAN, *owners_in_features("gate"))}:
        reason = "is the same for candidate and baseline"
    else:
        from difflib import get_close_matches  # for a mistake alone

        near = get_close_matches(key.replace("_", "-"), twins(), 1)
        reason = f"there is no such key; did you mean {near[0]}?" if near else f"choose from {', '.join(twins())}"
    raise BadInput(f"{option} {key}: {reason}", option)


def _set(given: Sequence[str], option: str) -> dict[str, Any]:
    """What ``KEY=VALUE`` words say, by the names of the options that they give a baseline."""
    texts: dict[str, list[str]] = {}
    for word in given:
        key, equals, text = word.partition("=")
        if not equals:
            raise BadInput(f"{option} {word!r}: write it as KEY=VALUE, such as intra-op-threads=1", option)
        known = setting(key, option)
        if key in texts and not known.kind.repeatable:
            raise BadInput(f"{known.name}: was given twice; give it once", option)
        texts.setdefault(key, []).append(text)
    its = {key: twins()[key] for key in texts}
    return {it.flag: it.read(texts[key] if it.kind.repeatable else texts[key][0]) for key, it in its.items()}


BASELINE_SET = new_option(
    SET, "KEY=VALUE", "Give the baseline its own value of an option, such as ep-option=K=V.", BASELINE,
    OptionType("{intra-op-threads = 1}", no_table, _set, repeatable=True, of_options=True, python="Baseline"),
    choices=lambda: [f"{key}=" for key in settable()],
    commands=("gate",), common=("gate",),
)  # fmt: skip
TYPED_BASELINE = (BASELINE_MODEL, BASELINE_PYTHON, BASELINE_SET)
STORED_BASELINE = (
    new_option(
        "baseline",
        "BASE.json",
        "Compare with this stored result.",
        BASELINE,
        _EARLIER,
        commands=("gate",),
        common=("gate",),
    ),
    FORCE,
)


def live_baselines() -> list[str]:
    """The same by their long names, with those of features."""
    return [*(it.flag for it in live_options()), *(f"baseline-{it}" for it in candidates())]


def has_live_baseline(given: RawOptions) -> bool:
    return any(flag in given for flag in live_baselines())


def baseline_of(plan: Plan, given: RawOptions) -> Plan:
    """The baseline's plan, from the candidate's.

    Options that are given replace the candidate's; an empty one (``--baseline-set ep-option=``) leaves none, or the
    default. Another EP starts without the candidate's EP options, device, library and engine cache. Raises `BadInput`
    for an option that cannot be or that says nothing, or an interpreter that is not there.
    """
    for kind in candidates():
        if f"baseline-{kind}" in given:
            raise BadInput(
                f"--baseline-{kind} is for a {kind}: name the candidate's with --{kind}", f"--baseline-{kind}"
            )
    given = library_apart(given, f"{SET}.")
    target: dict[str, Any] = {"optimized_model": None}  # which would be written by both
    if not {f"{SET}.ep", f"{SET}.ep-library"}.isdisjoint(given):
        target |= {
            name: option.default
            for name, option in declared_options(Target).items()
            if option.rules.is_of_one_ep or name == "ep"
        }
    target |= _changes(Target, given)
    target["python"] = baseline_python(plan, given)
    loop = _changes(Loop, given)
    if "depth" in loop:
        check_depth(plan.modes, twins()["depth"].name)
    inputs = _changes(Inputs, given)
    known = {it.flag for it in options_of(Target, Inputs, Loop, Plan, type(plan.part))}
    for flag, twin in twins().items():
        if twin.flag in given and flag not in known:
            raise BadInput(f"{twin.name} is not for {plan.work.name}", twin.name)
    model, part = plan.part.for_baseline(
        given.get(BASELINE_MODEL.flag) or plan.model, plan.model, _changes(type(plan.part), given)
    )
    if not part.takes_empty_dims:
        check_sizes(inputs.get("dims", {}), twins()["dim"].name)
    return replace(
        plan,
        model=model,
        target=replace(plan.target, **target),
        inputs=replace(plan.inputs, **inputs),
        loop=replace(plan.loop, **loop),
        part=part,
        **_changes(Plan, given),
    )


def baseline_python(plan: Plan, given: RawOptions) -> str | None:
    """The interpreter of the baseline, by default the candidate's; `BadInput` where there is none."""
    python: str | None = given.get(BASELINE_PYTHON.flag, plan.target.python)
    if BASELINE_PYTHON.flag in given and python is not None:
        is_interpreter(python, BASELINE_PYTHON.name)
    return python


def _changes(owner: type, given: RawOptions) -> dict[str, Any]:
    """What a baseline has of its own of a dataclass's options, by its fields; `BadInput` for a value that cannot be."""
    changes = {}
    for name, option in declared_options(owner).items():
        own = twins().get(option.flag)
        if own is not None and own.flag in given:
            changes[name] = value = given[own.flag]
            if option.check is not None and value is not None:
                option.check(value, own.name)
    return changes
