"""Whether any shape of a sweep keeps an SLO. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from ortbench.analysis.items import cases_of
from ortbench.facts import Fact, Values, per_s
from ortbench.facts.sentences import FAILED, PASSED, UNCLEAR, Check, check_by
from ortbench.features.gate.plan import Limits
from ortbench.features.sweep.analysis import best_of, meets_slo, why_not_told
from ortbench.model.metric_names import Slo
from ortbench.model.modes import ALL_MODES, LATENCY, is_rate
from ortbench.model.result import Result


def slo_checks(result: Result, limits: Limits) -> Iterator[Check]:
    """Whether any shape keeps it, mode by mode where times are latency: that larger ones do not is what a sweep finds out."""
    for slo in (Slo(stat, most) for stat, most in limits.slo.items()):
        best = best_of(result, slo)
        for mode in ALL_MODES:
            told = [meets_slo(case, slo) for _, case in cases_of(result, mode) if case.stats(LATENCY)]
            if not told or not limits.covers(mode) or is_rate(mode, LATENCY):
                continue
            found = None if best is None else best["modes"].get(mode)
            values: Values = {"slo": str(slo), "why": why_not_told(slo)}
            verdict, said = (UNCLEAR, "open") if None in told else (FAILED, "none")
            if found is not None:
                verdict, said = PASSED, "met"
                values["shape"] = found["shape"]
                if found["items_per_s"] is not None:
                    said, values["rate"] = "met-rate", per_s(found["items_per_s"], None, "items")
            fact = Fact("check-slo-shape", said, mode, values)
            yield check_by(f"SLO of {mode}", verdict, fact, metric=LATENCY, mode=mode)
