"""What starts are asked to be: fresh processes that open a model and run it, and what they find ready."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from ortbench.model.unit_of_work import Part, StartWork, Work
from ortbench.plan.list_syntax import CHOICES
from ortbench.plan.option_types import FLAG
from ortbench.plan.options import MEASURED, Option, one_of, option

WARM, COLD = "warm", "cold"
_cache = partial(
    option, panel=MEASURED, check=one_of((WARM, COLD)), lists=CHOICES._replace(example=f"{WARM},{COLD}"), commands=("start",),
    common=("start",), only_live=True,
)  # fmt: skip
# What makes a bench of a suite one of starts.
STARTED = Option("start", "", "Starts of fresh processes.", MEASURED, FLAG, commands=())


@dataclass(frozen=True)
class Starts(Part):
    """Fresh processes, one after the other; the EP keeps nothing where `compile_cache` is None."""

    file_cache: str = _cache(
        "file-cache", "STATE", "Have the model's files in the system's cache (warm) or not (cold).", default=WARM
    )
    compile_cache: str | None = _cache(
        "compile-cache",
        "STATE",
        "Have the EP find what it compiled before (warm) or nothing (cold).",
        shown="the EP keeps nothing",
    )

    folder = "start"

    @property
    def work(self) -> Work:
        return StartWork()
