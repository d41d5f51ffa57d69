"""`ortbench run`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ortbench.cli.options import Model, command_line, takes
from ortbench.core.errors import BadInput
from ortbench.plan.configurations import sides_of
from ortbench.plan.options import Given, make, options_of
from ortbench.plan.output_options import Wanted
from ortbench.plan.plan import PLAN, Plan, check, check_amount
from ortbench.plan.plan_builder import plan_of


@takes(*PLAN, Wanted)
def run(given: Given, model: Model) -> None:
    """Measure a model in its I/O modes: what copies and inference cost."""
    measure(model, given, "run")


def measure(model: str, given: Given, command: str) -> None:
    """Carry a command out that measures several settings side by side.

    Args:
        model: its path.
        given: options.
        command: its name.
    """
    check_amount(given)
    from ortbench.jobs import run as job

    wanted = make(Wanted, given)
    job.check_wanted(wanted)
    plans = _plans(model, given, command)
    if len(plans) > 1 and wanted.json is not None:
        raise BadInput("--json is for one result: every side has a result.json in a folder of its own", "--json")
    for plan in plans:
        check(plan)
    raise SystemExit(job.run(plans, wanted))


def _plans(model: str, given: Given, command: str) -> list[Plan]:
    """A plan for each side.

    Raises:
        BadInput: an option that cannot be read, or that is for one EP where there are several.
    """
    sides = sides_of(given, [it.of(command) for it in options_of(*PLAN) if command in it.commands])
    eps = list(dict.fromkeys(side["ep"] for side in sides if "ep" in side))
    if len(eps) > 1 and ("ep-library" in given or "device" in given):
        raise BadInput("with several --ep give a library as an --ep of its own, and no --device")
    plans = []
    for side in sides:
        if "ep-option" in side and len(eps) > 1:
            side = {**side, "ep-option": _options_for(side["ep"], eps, side["ep-option"])}
        plan = plan_of(model, side, command_line())
        plans.append(replace(plan, target=replace(plan.target, several_eps=len(eps) > 1)))
    return plans


def _options_for(ep: str, eps: Sequence[str], ep_option: Sequence[str]) -> list[str]:
    """The EP options of one of several EPs: ``cuda:key=value`` is for that EP alone, ``key=value`` for all."""
    found = []
    for option in ep_option:
        owner, colon, rest = option.partition(":")
        if not colon or owner not in eps or "=" in owner:
            found.append(option)
        elif owner == ep:
            found.append(rest)
    return found
