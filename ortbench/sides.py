"""The sides of one run: the product of what was given as lists, and what to call each of them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

from ortbench import interpreters
from ortbench.characters import plain_name
from ortbench.errors import BadInput
from ortbench.options import Given, Option, declared
from ortbench.plan import Inputs, Loop, Plan, Target
from ortbench.sweep_plan import CopyPlan

MAX_SIDES = 16  # each is a process with a session of its own, and gets its turn in every round


def sides_of(given: Given, options: Iterable[Option]) -> list[Given]:
    """What was given for each side: every combination of the values of all lists, the first list's slowest.

    Args:
        given: options, as a command line gives them where lists may be given.
        options: of the command, as it has them.

    Returns:
        As many as there are combinations, one without lists; each as the command line gives it without lists.

    Raises:
        BadInput: what is no list, or too many sides.
    """
    several = [(it, it.lists.each(given[it.flag], it.name)) for it in options if it.lists and it.flag in given]
    count = prod(len(values) for _, values in several)
    if count > MAX_SIDES:
        made = " × ".join(f"{len(values)} of {it.name}" for it, values in several if len(values) > 1)
        raise BadInput(f"{made}: one run takes at most {MAX_SIDES} sides, and {count} were asked for")
    flags = [it.flag for it, _ in several]
    return [
        {**given, **dict(zip(flags, values, strict=True))} for values in product(*(values for _, values in several))
    ]


def target_name(plan: Plan | CopyPlan) -> str:
    """The EP of a plan in a word: its name, or that of its library."""
    return _ep_name(plan.target)


def _ep_name(target: Target) -> str:
    return Path(target.library).stem if target.library and target.ep == "auto" else target.ep


def eps_of(plan: Plan) -> list[str]:
    """The EPs of a plan, each in a word: of a chain those of its stages."""
    targets = [plan.target] if plan.chain is None else [stage.target for stage in plan.chain.stages]
    return list(dict.fromkeys(_ep_name(target) for target in targets))


def differ_by_ep(plans: Sequence[Plan]) -> bool:
    """Whether every side has an EP of its own."""
    return len({(plan.target.ep, plan.target.library) for plan in plans}) == len(plans)


def side_names(plans: Sequence[Plan]) -> list[str]:
    """What to call the sides of a run: that in which they differ, such as ``batch=8`` or ``cuda threads=2``.

    As names of folders (`ortbench.characters.plain_name`) they are different too.
    """
    several_eps = len({target_name(plan) for plan in plans}) > 1
    settings = [dict(_settings(plan, several_eps)) for plan in plans]
    known = dict.fromkeys(key for one in settings for key in one)
    differing = [key for key in known if any(one.get(key) != settings[0].get(key) for one in settings)]
    names: list[str] = []
    for one in settings:
        name = " ".join(_said(key, one.get(key)) for key in differing) or one["ep"]
        again = sum(plain_name(other) == plain_name(name) for other in names)
        names.append(name if not again else f"{name}-{again + 1}")
    return names


def _settings(plan: Plan, several_eps: bool) -> Iterator[tuple[str, Any]]:
    """Every setting of a plan by what people call it, the EP first; entries of tables each by themselves.

    Where there are several EPs, what is for one of them alone goes without saying.
    """
    yield "ep", target_name(plan)
    for owner, values in ((Target, plan.target), (Inputs, plan.inputs), (Loop, plan.loop), (Plan, plan)):
        for field, it in declared(owner).items():
            value = getattr(values, field)
            if it.flag in ("ep", "ep-library") or (several_eps and it.of_ep):
                continue
            if isinstance(value, Mapping):
                yield from value.items()
            else:
                yield it.flag, value


def _said(key: str, value: Any) -> str:
    if key == "ep":
        return str(value)
    if key == "python":
        return "ortbench's own" if value is None else interpreters.name(value)
    if isinstance(value, bool):
        return key if value else f"no {key}"
    if isinstance(value, tuple):
        return f"{key}={'x'.join(map(str, value))}"
    return f"{key}={'default' if value is None else value}"
