"""What starts are asked to be: fresh processes that open a model and run it, and what they find ready."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

from ortbench.features.start import FEATURE
from ortbench.features.start.model import StartWork
from ortbench.model.modes import CPU, MODES, Part, Work
from ortbench.model.settings import CHOICES
from ortbench.plan.option_types import FLAG
from ortbench.plan.options import MEASURED, RawOptions, build, new_option, option
from ortbench.plan.plan import Plan
from ortbench.plan.plan_builder import plan_of

WARM, COLD = "warm", "cold"
AHEAD, NONE = "ahead", "none"  # compiled before any start; by no other start
_DURATION_S = FEATURE.commands["start"].options["duration"]["default"]
_cache = partial(
    option, panel=MEASURED, commands=("start",), common=("start",), is_live_only=True,
)  # fmt: skip
# What makes a bench of a suite one of starts.
IN_SUITES = (new_option("start", "", "Starts of fresh processes.", MEASURED, FLAG, commands=()),)


@dataclass(frozen=True)
class Starts(Part):
    """Fresh processes, one after the other; the EP keeps nothing where `compile_cache` is None or `NONE`."""

    file_cache: str = _cache(
        "file-cache",
        "STATE",
        "Have the model's files in the system's cache (warm) or not (cold).",
        default=WARM,
        choices=(WARM, COLD),
        lists=CHOICES._replace(example=f"{WARM},{COLD}"),
    )
    compile_cache: str | None = _cache(
        "compile-cache",
        "STATE",
        "Have the EP find what it compiled in an earlier start (warm), or ahead of time.",
        choices=(WARM, COLD, AHEAD, NONE),
        lists=CHOICES._replace(example=f"{NONE},{AHEAD}"),
        shown="none: the EP keeps nothing",
    )

    folder = "start"
    known_modes: ClassVar = {CPU: MODES[CPU]}

    @property
    def work(self) -> Work:
        return StartWork()


def start_of(model: str, given: RawOptions, command: tuple[str, ...] = (), needed: Collection[str] = ()) -> Plan:
    """The plan of starts that options describe; see `plan_of`. A worker that opens the model first runs it once."""
    plan = plan_of(model, {"duration": _DURATION_S, **given}, command, needed, (CPU,))
    return replace(plan, part=build(Starts, given), loop=replace(plan.loop, warmup=1))
