"""What features add to plans: options of their own, and plans of their own kinds."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

from ortbench.core.features import features, module_of
from ortbench.plan.options import Owner, options_of
from ortbench.plan.plan import Plan


@cache
def owners_in_features(command: str = "") -> list[Owner]:
    """What declares the options of features that a command takes; without one those of all."""
    return [
        _of_plan(name, owner)
        for name, record in features().items()
        for owner, commands in record.options.items()
        if command in ("", *commands)
    ]


@cache
def plans_of_features() -> dict[str, Callable[..., Plan]]:
    """By kind, the functions that make a plan from a model, options, the typed command and the modes that are needed."""
    return {
        kind: _of_plan(name, function) for name, record in features().items() for kind, function in record.plans.items()
    }


def flags_of_kinds() -> dict[str, set[str]]:
    """The options that only one kind of a feature has."""
    return {
        kind: {it.flag for owner in record.options for it in options_of(_of_plan(name, owner))}
        for name, record in features().items()
        for kind in record.plans
    }


def _of_plan(feature: str, name: str) -> Any:
    return getattr(import_module(module_of(feature, "plan")), name)
