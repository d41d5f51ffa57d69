"""What a load says of an SLO: which load points meet it, and up to which rate or how many clients. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile

from ortbench.analysis.findings.finding import Finding, Weight, merged
from ortbench.analysis.findings.speedups import condition
from ortbench.analysis.loads.levels import (
    RATE,
    are_enough,
    asked_of,
    at,
    by_name,
    has_rates,
    holds,
    kept,
    latency_of,
    limited,
    measured,
    modes_of,
    rate_text,
)
from ortbench.core.safe_text import listed
from ortbench.core.units import duration, rate
from ortbench.model.modes import mode_of
from ortbench.model.result import Case, Result
from ortbench.model.schema import SloRate
from ortbench.model.slo import SAMPLES_NEEDED

_LONGER = "measure longer with --duration"


def slo_answer(result: Result) -> str:
    """Up to which rate, of a search, or how many clients an SLO is met; nothing where that was not looked for, or never met."""
    asked = asked_of(result) or {}
    met = {mode: it["rate"] for mode, it in kept(result).items()}
    if met:
        said = [f"{mode} up to {rate(met[mode])} requests/s{needs}" for mode, needs in of_groups(result, met)]
        return f"{slo_text(asked)} is met with {', '.join(said)}"
    levels: dict[str, Case] = {}
    for mode in modes_of(result) if asked and not has_rates(result) else ():
        for level in takewhile(lambda it: _keeps(it, asked), limited(result, mode)):
            levels[mode] = level
    groups = of_groups(result, {mode: at(level).value for mode, level in levels.items()})
    return "; ".join(
        f"{mode} meets {slo_text(asked)} with up to {at(levels[mode]).text}{needs}" for mode, needs in groups
    )


def slo_of_rates(result: Result) -> str:
    """At which of the rates that were asked for an SLO is met, or violated; nothing without a rate."""
    asked = asked_of(result) or {}
    told = [(it, _keeps(it, asked)) for it in measured(result, RATE)] if asked else []
    if good := [it for it, is_met in told if is_met]:
        last = max(good, key=lambda it: at(it).value)
        return f"{slo_text(asked)} is met {at(last).phrase} with {last.mode}"
    if broken := [it for it, is_met in told if is_met is False]:
        first = min(broken, key=lambda it: at(it).value)
        return f"{slo_text(asked)} is violated {at(first).phrase} with {first.mode}"
    return f"Too few requests to tell whether {slo_text(asked)} is met" if told else ""


def of_groups(result: Result, figures: Mapping[str, float]) -> list[tuple[str, str]]:
    """The mode with the greatest figure of those that take new inputs in each inference, and behind it the one of those whose
    tensors stay on the device where that has a greater one, each with what it needs."""
    found: list[str] = []
    for on_device in (False, True):
        names = [name for name in figures if mode_of(name).on_device is on_device]
        best = max(names, key=lambda name: figures[name], default=None)
        if best is not None and (not found or figures[best] > figures[found[0]]):
            found.append(best)
    return [(name, condition(result, name)) for name in found]


def slo_text(asked: Mapping[str, int]) -> str:
    """An SLO in words: ``p99 ≤ 20 ms``."""
    return " and ".join(f"{stat} ≤ {limit_text(ns)}" for stat, ns in asked.items())


def limit_text(ns: int) -> str:
    """A duration without noughts that say nothing."""
    number, unit = duration(ns).split(" ")
    return f"{float(number):g} {unit}"


def slo_findings(result: Result) -> list[Finding]:
    asked = asked_of(result)
    if not asked:
        return []
    text = slo_text(asked)
    if result.slo is not None and (found := result.slo["found"]):
        rates = {mode: it["rate"] for mode, it in found.items() if it is not None}
        order = [mode for mode, _ in of_groups(result, rates)]
        modes = sorted(found, key=lambda mode: order.index(mode) if mode in order else len(order))
        return [_searched(result, mode, found[mode], asked) for mode in modes]
    return _of_points(result, text, asked)


def _searched(result: Result, mode: str, found: SloRate | None, asked: Mapping[str, int]) -> Finding:
    """The highest rate at which a mode meets an SLO; where its tries have too few requests, that it is uncertain."""
    what = f"{mode} meets {slo_text(asked)} {found_text(found)}{condition(result, mode)}"
    tries = [it for it in measured(result, RATE, mode) if found is not None and at(it).value == found["rate"]]
    few = _too_few([it for it in tries if not are_enough(it, asked)], asked)
    evidence = "; ".join(filter(None, (tries_text(found, asked), few)))
    return Finding(what, evidence, _LONGER if few else "", Weight.ANSWER, "unclear" if few else "")


def found_text(found: SloRate | None) -> str:
    """Up to which rate an SLO is met, and where that of the next run lies."""
    if found is None:
        return "at none of the rates tried"
    low, high = map(rate, found["next95"])
    return f"up to {rate(found['rate'])} requests/s (95% prediction interval {low} to {high})"


def tries_text(found: SloRate | None, asked: Mapping[str, int]) -> str:
    """What the tries of the rate that was found say: how many met the SLO, and what all of them have together."""
    if found is None:
        return ""
    pooled = ", ".join(f"{stat} {duration(ns)}" for stat, ns in found["latency"].items() if stat in asked)
    if found["tries"] == 1:
        return f"the one try at this rate has {pooled}"
    return f"{found['met']} of {found['tries']} tries at this rate met it, all of them together have {pooled}"


def _of_points(result: Result, text: str, asked: Mapping[str, int]) -> list[Finding]:
    """Which of the load points that were asked for meet the SLO, modes of which the same is said together."""
    told = {mode: it for mode in modes_of(result) if (it := _held(result, mode, asked))}
    found = []
    for modes, many, (good, broken, few, where) in merged((mode, it[:4]) for mode, it in told.items()):
        same = [(mode, it[4]) for mode, it in told.items() if it[:4] == (good, broken, few, where)]
        firsts = [f"{first} with {mode}" if many > 1 else first for mode, first in same if first]
        first = f"{where.strip()} {', '.join(firsts)}".strip() if many > 1 else "".join(firsts) + where
        ends = "" if many > 1 else "s"
        if good:
            evidence = "; ".join(filter(None, (f"violated {broken} ({first})" if broken else "", few)))
            what, tone = f"{modes} meet{ends} {text} {good}", "good"
        elif broken:
            evidence = "; ".join(filter(None, (first, few)))
            what, tone = f"{modes} violate{ends} {text} {broken}", "bad"
        else:
            evidence, what, tone = few, f"Whether {modes} meet{ends} {text} cannot be told", "unclear"
        next_ = _LONGER if few else ""
        found.append(Finding(what, evidence, next_, Weight.ANSWER, tone))
    return found


def _held(result: Result, mode: str, asked: Mapping[str, int]) -> tuple[str, str, str, str, str] | None:
    """Where a mode meets an SLO, where it violates it, where there were too few requests to tell, the first load point that
    violates it, where it is not the only one, and the latencies there."""
    levels = limited(result, mode)
    if not levels:
        return None
    told = [(level, _keeps(level, asked)) for level in levels]
    good, broken, unknown = ([level for level, kept in told if kept is it] for it in (True, False, None))
    few = _too_few(unknown, asked)
    where = f" {at(broken[0]).phrase}" if len(broken) > 1 else ""
    first = ", ".join(f"{stat} {duration(by_name(latency_of(it), stat))}" for it in broken[:1] for stat in asked)
    return points(good), points(broken), few, where, first


def _too_few(levels: Sequence[Case], asked: Mapping[str, int]) -> str:
    """Where there were too few requests for the statistics of an SLO."""
    if not levels:
        return ""
    needed = max(SAMPLES_NEEDED.get(stat, 1) for stat in asked)
    return f"too few requests {points(levels)}, {listed([*asked])} needs {needed}"


def _keeps(level: Case, asked: Mapping[str, int]) -> bool | None:
    """Whether a load point meets an SLO; None where it has too few requests to tell."""
    check = level.checks.get("slo")
    if check is None:
        return holds(level, asked) if are_enough(level, asked) else None
    return {"passed": True, "failed": False}.get(check["verdict"])


def points(levels: Sequence[Case]) -> str:
    """Load points of one kind in words: ``at 10, 20 and 30 requests/s``, ``with 1 and 2 clients``."""
    if len(levels) < 2:
        return "".join(at(level).phrase for level in levels)
    preposition, _, unit = at(levels[-1]).phrase.split(" ", 2)
    return f"{preposition} {listed([rate_text(at(level).value) for level in levels])} {unit}"
