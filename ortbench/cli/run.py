"""`ortbench run`."""

from __future__ import annotations

from collections.abc import Sequence

from ortbench.asked import plan_of
from ortbench.cli.options import Model, command_line, takes
from ortbench.errors import BadInput
from ortbench.options import Given, make
from ortbench.plan import PLAN, Target, check
from ortbench.wanted import Wanted


@takes(*PLAN, Wanted)
def run(given: Given, model: Model) -> None:
    """Measure a model in its I/O modes: what copies and inference cost."""
    eps = list(dict.fromkeys(given.get("ep", [Target.ep])))
    if "iterations" in given and ("duration" in given or "precision" in given):
        raise BadInput("--iterations fixes how much is measured: leave --duration and --precision out", "--iterations")
    if len(eps) > 1 and ("ep-library" in given or "device" in given):
        raise BadInput("with several --ep give a library as an --ep of its own, and no --device")
    if len(eps) > 1 and "json" in given:
        raise BadInput("--json is for one --ep: every EP has a result.json in a folder of its own", "--json")
    environments = [{"python": it} for it in dict.fromkeys(given.get("python", ()))] or [{}]
    if len(environments) > 1 and "json" in given:
        raise BadInput("--json is for one --python: each has a result.json in a folder of its own", "--json")
    from ortbench.jobs import run as job

    wanted = make(Wanted, given)
    job.check_wanted(wanted)
    plans = []
    for ep in eps:
        own = {"ep-option": _options_for(ep, eps, given["ep-option"])} if "ep-option" in given and len(eps) > 1 else {}
        for environment in environments:
            plans.append(plan_of(model, {**given, **own, "ep": ep, **environment}, command_line()))
            check(plans[-1])
    raise SystemExit(job.run(plans, wanted))


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
