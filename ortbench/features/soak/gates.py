"""What a gate checks of a soak. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from ortbench.analysis.comparing.verdict import at_most
from ortbench.core import units
from ortbench.features.soak.analysis import UNCLEAR as CANNOT_TELL
from ortbench.features.soak.analysis import grown
from ortbench.gates.limits import FAILED, PASSED, UNCLEAR, Check, Limits
from ortbench.model.result import Result


def checks(result: Result, limits: Limits) -> Iterator[Check]:
    most = limits.own.get("max-growth")
    if most is None:
        return
    for it in grown(result.part):
        if not it.is_memory:
            continue
        low, high = (0.0, 0.0) if it.growth is None else it.growth.ci95
        verdict = {True: PASSED, False: FAILED, None: UNCLEAR}[at_most((low, high), most)]
        if it.verdict == CANNOT_TELL and verdict == PASSED:
            verdict = UNCLEAR
        more = "; a longer --duration tells more" if verdict == UNCLEAR else ""
        text = f"{it.title}: {it.text}, must be at most {units.size(most)} per 1,000{more}"
        yield Check(f"growth of {it.title}", verdict, text, metric=it.metric)
