"""Whether a load keeps an SLO at its rates, and whether any shape of a sweep does. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from ortbench.analysis.findings.load_advice import limit_text, slo_text
from ortbench.analysis.findings.phrases import within
from ortbench.analysis.loads.levels import FEWEST_BLOCKS, P50, by_name, interval, is_full, latency_of, measured
from ortbench.analysis.sweep import best_of, cases_of, keeps
from ortbench.core import units
from ortbench.core.errors import BadInput
from ortbench.gate.contests import named
from ortbench.gate.limits import FAILED, PASSED, UNCLEAR, Check, Limits
from ortbench.model.kinds import LOAD, RATE, SWEEP
from ortbench.model.metrics import LATENCY
from ortbench.model.modes import ALL_MODES, is_rate
from ortbench.model.result import Case, Result
from ortbench.model.schema import SloRate
from ortbench.model.slo import Slo

FULL = "requests come as fast as they are served or faster"


def check_slo(result: Result, limits: Limits) -> Iterator[Check]:
    """What a load or a sweep must keep to; `BadInput` where the load has no point at a rate."""
    if not limits.slo:
        return
    yield from _OF_KIND[result.kind](result, limits)


def few_blocks() -> str:
    """Why a figure of a load point has no interval."""
    return f"fewer than {FEWEST_BLOCKS} blocks, so no interval; a longer --duration gives more"


# Loads


def _of_load(result: Result, limits: Limits) -> Iterator[Check]:
    if result.slo is not None and result.slo["found"] and result.slo["asked"] == limits.slo:
        yield from (_found(mode, it, limits.slo) for mode, it in result.slo["found"].items() if limits.held(mode))
        return
    cases = [case for case in measured(result, RATE.name) if limits.held(case.mode)]
    if not cases:
        raise BadInput("--slo: the result has no load point at a rate; measure it with 'ortbench load --rate'", "--slo")
    yield from (_keeps(case, stat, most) for case in cases for stat, most in limits.slo.items())


def _found(mode: str, found: SloRate | None, asked: Mapping[str, int]) -> Check:
    """Whether any rate keeps an SLO that one was looked for: others that were tried on the way need not."""
    name = f"SLO of {mode}"
    if found is None:
        return Check(name, FAILED, f"{name}: no rate that was tried keeps {slo_text(asked)}", metric=_RATE, mode=mode)
    text = f"{name}: {slo_text(asked)} up to {units.rate(found['rate'])} a second{within(found['ci95'], units.rate)}"
    return Check(name, PASSED, text, metric=_RATE, mode=mode)


def _keeps(case: Case, stat: str, most: int) -> Check:
    """Whether a load point keeps an SLO for certain: of the largest latency by itself, of others by their intervals."""
    name = named(f"SLO of {case.mode} {stat}", tuple(case.point.items()))
    limit = f"must be at most {limit_text(most)}"
    value, inside = by_name(latency_of(case), stat), interval(case, stat)
    verdict, said = UNCLEAR, f"{units.duration(value)} ({few_blocks()})"
    if is_full(case):
        verdict, said = FAILED, f"{FULL}, so the queue grows as long as they come"
    elif stat == "max":
        verdict, said = PASSED if value <= most else FAILED, units.duration(value)
    elif inside is not None:
        low, high = inside
        verdict = PASSED if high <= most else FAILED if low > most else UNCLEAR
        said = f"{units.duration(value)} ({units.duration(low)} to {units.duration(high)})"
    separator = ";" if is_full(case) else ","
    metric = f"{LATENCY}.{'median' if stat == P50 else stat}"
    return Check(name, verdict, f"{name}: {said}{separator} {limit}", metric=metric, mode=case.mode, point=case.point)


# Sweeps


def _of_sweep(result: Result, limits: Limits) -> Iterator[Check]:
    """Whether any shape keeps it, mode by mode where times are latency: that larger ones do not is what a sweep finds out."""
    for slo in (Slo(stat, most) for stat, most in limits.slo.items()):
        best = best_of(result, slo)
        for mode in ALL_MODES:
            told = [keeps(case, slo) for _, case in cases_of(result, mode) if case.stats(LATENCY)]
            if not told or not limits.held(mode) or is_rate(mode, LATENCY):
                continue
            name, found = f"SLO of {mode}", None if best is None else best["modes"].get(mode)
            verdict, said = FAILED, f"no shape keeps {slo}"
            if found is not None:
                rate = "" if found["items_per_s"] is None else f", {units.rate(found['items_per_s'])} items/s"
                verdict, said = PASSED, f"{slo} is kept; best with {found['shape']}{rate}"
            elif None in told:
                few = f"it takes {slo.needed} runs of a shape; --duration gives more"
                verdict, said = UNCLEAR, f"whether a shape keeps {slo} cannot be told: {few}"
            yield Check(name, verdict, f"{name}: {said}", metric=LATENCY, mode=mode)


_RATE = "slo_rate"
_OF_KIND: dict[str, Callable[[Result, Limits], Iterator[Check]]] = {LOAD.key: _of_load, SWEEP.key: _of_sweep}
