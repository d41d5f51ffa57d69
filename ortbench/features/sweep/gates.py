"""Whether any shape of a sweep keeps an SLO. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from ortbench.analysis.shapes import cases_of
from ortbench.core import units
from ortbench.features.sweep.analysis import best_of, keeps, why_not_told
from ortbench.gates.limits import FAILED, PASSED, UNCLEAR, Check, Limits
from ortbench.model.modes import ALL_MODES, LATENCY, is_rate
from ortbench.model.result import Result
from ortbench.model.slo import Slo


def slo_checks(result: Result, limits: Limits) -> Iterator[Check]:
    """Whether any shape keeps it, mode by mode where times are latency: that larger ones do not is what a sweep finds out."""
    for slo in (Slo(stat, most) for stat, most in limits.slo.items()):
        best = best_of(result, slo)
        for mode in ALL_MODES:
            told = [keeps(case, slo) for _, case in cases_of(result, mode) if case.stats(LATENCY)]
            if not told or not limits.held(mode) or is_rate(mode, LATENCY):
                continue
            name, found = f"SLO of {mode}", None if best is None else best["modes"].get(mode)
            verdict, said = FAILED, f"no shape meets {slo}"
            if found is not None:
                rate = "" if found["items_per_s"] is None else f", {units.rate(found['items_per_s'])} items/s"
                verdict, said = PASSED, f"{slo} is met; best with {found['shape']}{rate}"
            elif None in told:
                verdict, said = UNCLEAR, f"whether a shape meets {slo} cannot be told: {why_not_told(slo)}"
            yield Check(name, verdict, f"{name}: {said}", metric=LATENCY, mode=mode)
