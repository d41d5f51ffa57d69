"""The plans of chains in gates and suites: as `ortbench chain` makes them, with the modes, phases and baseline of a gate."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path

from ortbench.core.errors import BadInput
from ortbench.gate.baseline import BASELINE_CHAIN, LIVE_BASELINE, STORED_BASELINE, changes
from ortbench.gate.limits import Limits
from ortbench.model.modes import ALL_MODES
from ortbench.plan.options import Given, options_of
from ortbench.plan.output_options import Wanted
from ortbench.plan.plan import PLAN, Plan
from ortbench.plan.target import Target
from ortbench.suite import chain_file

_PYTHON = "baseline-python"
_OWN = {it.flag for it in options_of(*PLAN, Wanted) if "chain" in it.commands}
_OF_GATES = {it.flag for it in options_of(Limits, STORED_BASELINE)} | {BASELINE_CHAIN.flag, _PYTHON}
_KNOWN = {it.flag: it for it in options_of(*PLAN, LIVE_BASELINE)}


def is_for_chains(flag: str) -> bool:
    """Whether an option of a gate or a suite means something for a chain."""
    return flag in _OWN | _OF_GATES


def refuse_others(given: Given) -> None:
    """Refuse options that chains have not: of sessions, inputs and loops, which are a stage's, and of single
    inferences."""
    for flag, it in _KNOWN.items():
        if flag in given and not is_for_chains(flag):
            raise BadInput(f"{it.name} {why_not(flag)}", it.name)


def why_not(flag: str) -> str:
    """Why an option is not for a chain, behind its name."""
    if flag.startswith("baseline-"):
        return f"is of one model: give the baseline's chain a file of its own, {BASELINE_CHAIN.name} FILE"
    return "is not for a chain, whose file says how each stage runs"


def plan_of(
    path: Path, environ: Mapping[str, str], given: Given, command: tuple[str, ...], needed: Collection[str]
) -> Plan:
    """The plan of a chain that a gate holds to limits, with the modes that these need; options that say nothing of a
    plan are left alone."""
    refuse_others(given)
    plan = chain_file.plan_of(path, environ, given, command)
    more = (name for name in ALL_MODES if name in needed and name not in plan.modes)
    return replace(plan, modes=(*plan.modes, *more))


def baseline_of(plan: Plan, environ: Mapping[str, str], given: Given) -> Plan:
    """The baseline's plan: of another chain, with another interpreter, or both."""
    python = changes(Target, given).get("python", plan.target.python)
    same = {flag: value for flag, value in given.items() if flag != "python"}
    path = Path(given.get(BASELINE_CHAIN.flag) or plan.model)
    found = chain_file.plan_of(path, environ, same if python is None else {**same, "python": python}, plan.command)
    return replace(found, modes=plan.modes, loop=plan.loop)
