"""The options of each command, from where the core and features declare them; and the plans of the kinds of features."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

from ortbench.core.features import features, part_of
from ortbench.plan.options import Option, Owner, names_of, options_of
from ortbench.plan.plan import Plan

# What declares the options of the core, in the order in which help shows them, and the commands that it is for; none: all.
_OF_CORE: dict[str, tuple[str, ...]] = {
    "plan.compare_options:COMPARED": ("compare",),
    "plan.plan:PLAN": (),
    "plan.output_options:OutputOptions": (),
}


@cache
def options_for(command: str) -> list[Option]:
    """The options that a command takes, as they are declared; `Option.for_command` has them as that command does."""
    of_core = [_named(*name.split(":")) for name, commands in _OF_CORE.items() if command in commands or not commands]
    found: dict[str, Option] = {}
    for owner in (*owners_in_features(command), *of_core):
        for it in options_of(owner):
            if it.is_taken_by(command):
                found.setdefault(it.flag, it)
    return list(found.values())


@cache
def owners_in_features(command: str = "") -> list[Owner]:
    """What declares the options of features that a command takes; without one those of all."""
    return [
        _of_plan(name, owner)
        for name, record in features().items()
        for owner, commands in record.options.items()
        if not command or not names_of(command).isdisjoint(commands)
    ]


@cache
def plans_of_features() -> dict[str, Callable[..., Plan]]:
    """By kind, the functions that make a plan from a model, options, the typed command and the modes that are needed."""
    return {
        kind: _of_plan(name, function) for name, record in features().items() for kind, function in record.plans.items()
    }


@cache
def limits_of_kinds() -> dict[str, tuple[str, Option]]:
    """The options of a gate that are limits of a feature's kind, with the kind."""
    tables = ((kind, part_of(name, "plan", "LIMITS", ())) for name, it in features().items() for kind in it.plans)
    return {it.flag: (kind, it) for kind, limits in tables for it in limits}


def flags_of_kinds() -> dict[str, set[str]]:
    """The options that only one kind of a feature has."""
    return {
        kind: {it.flag for owner in record.options for it in options_of(_of_plan(name, owner))}
        for name, record in features().items()
        for kind in record.plans
    }


def _of_plan(feature: str, name: str) -> Any:
    return _named(f"features.{feature}.plan", name)


def _named(module: str, name: str) -> Any:
    return getattr(import_module(f"ortbench.{module}"), name)
