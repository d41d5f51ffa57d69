"""What a gate checks of a soak. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from ortbench.analysis.intervals import at_most
from ortbench.facts.checks import FAILED, PASSED, UNCLEAR, Check, check_by
from ortbench.facts.fact import Fact, Values, bytes_of
from ortbench.features.gate.plan import Limits
from ortbench.features.soak.analysis import UNCLEAR as CANNOT_TELL
from ortbench.features.soak.analysis import trends_of
from ortbench.model.result import Result


def checks(result: Result, limits: Limits) -> Iterator[Check]:
    most = limits.own.get("max-growth")
    if most is None:
        return
    for it in trends_of(result.part):
        if not it.is_memory:
            continue
        low, high = (0.0, 0.0) if it.growth is None else it.growth.ci95
        verdict = {True: PASSED, False: FAILED, None: UNCLEAR}[at_most((low, high), most)]
        if it.verdict == CANNOT_TELL and verdict == PASSED:
            verdict = UNCLEAR
        values: Values = {"what": it.title, "growth": it.text, "most": bytes_of(most)}
        fact = Fact("check-growth", "open" if verdict == UNCLEAR else "known", "", values)
        yield check_by(f"growth of {it.title}", verdict, fact, metric=it.metric)
