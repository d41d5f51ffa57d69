"""What a gate checks of a soak. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from ortbench.analysis.intervals import at_most
from ortbench.facts import Fact, Values, bytes_of
from ortbench.facts.sentences import FAILED, PASSED, UNCLEAR, Check, check_by
from ortbench.features.gate.plan import Limits
from ortbench.features.soak.analysis import UNCLEAR as CANNOT_TELL
from ortbench.features.soak.analysis import trends_of
from ortbench.model.result import Result


def checks(result: Result, limits: Limits) -> Iterator[Check]:
    most = limits.own.get("max-growth")
    if most is None:
        return
    for trend in trends_of(result.part):
        if not trend.is_memory:
            continue
        low, high = (0.0, 0.0) if trend.growth is None else trend.growth.ci95
        verdict = {True: PASSED, False: FAILED, None: UNCLEAR}[at_most((low, high), most)]
        if trend.verdict == CANNOT_TELL and verdict == PASSED:
            verdict = UNCLEAR
        values: Values = {"what": trend.title, "growth": trend.text, "most": bytes_of(most)}
        fact = Fact("check-growth", "open" if verdict == UNCLEAR else "known", "", values)
        yield check_by(f"growth of {trend.title}", verdict, fact, metric=trend.metric)
