"""The facts of an SLO: up to which rate or how many clients a mode meets it, violates it, or that this cannot be told. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile

from ortbench.analysis.findings.program import again
from ortbench.analysis.latency_bounds import LEAST
from ortbench.analysis.noise import is_busy, quiet_options
from ortbench.analysis.point_blocks import block_figures, by_name, is_full, latency_of
from ortbench.core.safe_text import listed
from ortbench.core.stats import FEW
from ortbench.core.units import rate_asked
from ortbench.facts.fact import Fact, Quantity, Values, ns
from ortbench.facts.shared import condition
from ortbench.features.load.analysis.points import (
    RATE,
    load_point_of,
    measured_cases,
    meets,
    modes_of,
    processes_of,
    slo_cases,
    slo_in,
    slo_limits,
    slo_text,
    times_longer,
    undecided_statistics,
)
from ortbench.features.load.model import SloRate
from ortbench.model.result import Case, Result

_MOST_TIMES = 30.0  # as long to measure is worth a line; beyond that a figure is as good as its limit
_TRIES = 4  # that a search has for one rate, for certain
Asked = Mapping[str, int]


def slo_facts(result: Result) -> Iterator[Fact]:
    asked = slo_limits(result)
    if not asked:
        return
    if (met := slo_in(result)) is not None and (found := met["found"]):
        order = sorted(found, key=lambda mode: -(found[mode] or {"rate": 0})["rate"])
        for mode in order:
            yield search_fact(result, mode, found[mode], asked)
        return
    for mode in modes_of(result):
        yield from _of_points(result, mode, asked)


def points_text(cases: Sequence[Case]) -> str:
    """Load points of one kind in words: ``at 10, 20 and 30 requests/s``, ``with 1 and 2 clients``."""
    if len(cases) < 2:
        return "".join(load_point_of(case).phrase for case in cases)
    preposition, _, unit = load_point_of(cases[-1]).phrase.split(" ", 2)
    return f"{preposition} {listed([rate_asked(load_point_of(case).value) for case in cases])} {unit}"


def _rate(value: float) -> Quantity:
    return Quantity(value, "requests/s")


def search_fact(result: Result, mode: str, found: SloRate | None, asked: Asked) -> Fact:
    """The highest rate at which a mode meets an SLO; or that none does, or that the time was too short to tell."""
    values = _asked_values(result, mode, asked)
    cases = measured_cases(result, RATE, mode)
    if found is None:
        unclear = [*takewhile(lambda it: meets_slo(it, asked) is None, cases)]
        if unclear:
            most = max(unclear, key=lambda it: latency_of(it).n)
            return Fact(
                "slo-rate", "open", mode, {**values, **_why_open(most, asked)}, _longer_search(result, most, asked)
            )
        lowest = cases[0] if cases else None
        return Fact(
            "slo-rate",
            "noise" if is_busy(result) else "none",
            mode,
            values | ({} if lowest is None else _figures(lowest, asked)),
        )
    stat = next(iter(asked))
    values |= {
        "rate": _rate(found["rate"]),
        "requests": found["requests"],
        "stat": stat,
        "latency": ns(found["latency"].get(stat, 0)),
    }
    beyond = [it for it in cases if load_point_of(it).value > found["rate"] and meets_slo(it, asked) is None]
    after = _longer_search(result, max(beyond, key=lambda it: latency_of(it).n), asked) if beyond else ""
    if found["violated_from"] is not None:
        values["violated_from"] = _rate(found["violated_from"])
        verdict = "met-busy" if is_busy(result) else "met"
    else:
        verdict = (
            "met-highest"
            if found["rate"] >= max((load_point_of(it).value for it in cases), default=0.0)
            else "met-at-least"
        )
    return Fact("slo-rate", verdict, mode, values, after, {RATE: found["rate"]})


def _asked_values(result: Result, mode: str, asked: Asked) -> Values:
    """The SLO, its limits as figures, and what has to hold for a mode that keeps tensors on the device."""
    limits: Values = {f"{stat}_limit": ns(most) for stat, most in asked.items()}
    return {"slo": slo_text(asked), **limits, **condition(result, mode)}


def _of_points(result: Result, mode: str, asked: Asked) -> Iterator[Fact]:
    """Which of the load points that were asked for meet the SLO."""
    told = [(case, meets_slo(case, asked)) for case in slo_cases(result, mode)]
    good, broken = ([case for case, is_met in told if is_met is it] for it in (True, False))
    most = max((load_point_of(it).value for it in good), default=0.0)
    unknown = [
        case for case, is_met in told if is_met is None and load_point_of(case).value > most
    ]  # what meets it with more does so with less
    values = _asked_values(result, mode, asked)
    if good:
        highest = max(good, key=lambda it: load_point_of(it).value)
        yield Fact("slo", "met", mode, {**values, "where": load_point_of(highest).text}, "", highest.point)
    if broken:
        violated = "violated" if len(broken) == 1 else "violated-at-several"
        verdict = "busy" if is_busy(result) else "saturated" if is_full(broken[0]) else violated
        first = {**values, "where": points_text(broken), **_figures(broken[0], asked)}
        yield Fact("slo", verdict, mode, first, "", broken[0].point)
    if unknown:
        values |= {"where": points_text(unknown), **_why_open(unknown[0], asked)}
        yield Fact("slo", "open", mode, values, _longer(result, asked), unknown[0].point)


def _figures(case: Case, asked: Asked) -> Values:
    """The statistic of an SLO that a load point violates, and where."""
    stat = next((it for it, most in asked.items() if by_name(latency_of(case), it) > most), next(iter(asked)))
    return {"stat": stat, "latency": ns(by_name(latency_of(case), stat)), "first": load_point_of(case).phrase}


def _why_open(case: Case, asked: Asked) -> Values:
    few = undecided_statistics(case, asked)
    if meets(case, asked):
        return {"why": f"it takes {FEW} processes"}
    if _differs(case, asked):
        return {"why": "some processes meet it, some do not"}
    return {"why": f"too few requests, a {few[0]} takes {LEAST[few[0]]}" if few else "too close to the limit"}


def _differs(case: Case, asked: Asked) -> bool:
    """Whether some of the processes of a load point meet an SLO by their figures, and some do not."""
    of_each = ([*block_figures(case, stat).values(), most] for stat, most in asked.items())
    return processes_of(case) >= FEW and any(min(it) < it[-1] < max(it) for it in of_each)


def _longer(result: Result, asked: Asked) -> str:
    """The command that measures for so long that load points tell, of which that is open; nothing where none would in a time that
    is worth it."""
    unknown = [it for mode in modes_of(result) for it in slo_cases(result, mode) if meets_slo(it, asked) is None]
    if all(meets(it, asked) for it in unknown):
        return again(result, "--processes", str(FEW))
    return _with_duration(result, [result.part["duration_s"] * many for it in unknown if (many := _many(it, asked))])


def _longer_search(result: Result, case: Case, asked: Asked) -> str:
    """The same of a search: so long that a few tries tell of a rate."""
    seconds = latency_of(case).n / load_point_of(case).value * (_many(case, asked) or 1.0) / _TRIES
    return _with_duration(result, [max(2 * result.part["duration_s"], seconds)])


def _many(case: Case, asked: Asked) -> float | None:
    """How many times as many requests would tell; None where a figure is as good as its limit. How many independent ones a few requests
    are worth is known badly: one of four is taken at least."""
    found, few = times_longer(case, asked), undecided_statistics(case, asked)
    if few:
        least = max(LEAST[stat] for stat in few) / latency_of(case).n
        return min(found, 4 * least) if least > 1 else found
    return found if found <= _MOST_TIMES else None


def _with_duration(result: Result, seconds: Sequence[float]) -> str:
    is_replayed = result.part["file"] is not None  # as long as the file is
    if is_replayed or not seconds:
        return ""
    return again(result, "--duration", f"{math.ceil(max(seconds))}s", *quiet_options(result))


def meets_slo(case: Case, asked: Asked) -> bool | None:
    """Whether a load point meets an SLO; None where that cannot be told."""
    check = case.checks.get("slo")
    return meets(case, asked) if check is None else {"passed": True, "failed": False}.get(check["verdict"])
