"""What a load says of an SLO: which load points meet it, and up to which rate or how many clients. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import takewhile

from ortbench.analysis.findings.finding import Finding, Weight, merged
from ortbench.analysis.findings.program import again
from ortbench.analysis.findings.speedups import condition
from ortbench.analysis.loads.levels import (
    RATE,
    LoadPoint,
    asked_of,
    at,
    block_figures,
    bounds_of,
    by_name,
    has_figure,
    has_rates,
    is_of_few,
    kept,
    latency_of,
    limited,
    longer,
    measured,
    meets,
    modes_of,
    processes_of,
    rate_text,
    too_few,
)
from ortbench.analysis.loads.queueing import LEAST
from ortbench.analysis.noise import is_busy, quieter
from ortbench.core.resampling import FEW
from ortbench.core.safe_text import listed
from ortbench.core.units import duration
from ortbench.model.modes import mode_of
from ortbench.model.result import Case, Result
from ortbench.model.schema import SloRate

_ALONE = " independent of each other (those that queue together count for fewer)"
_CLOSE = 1.5  # times the limit, or part of it, of what is close to it
_MOST_TIMES = 30.0  # as long to measure is worth a line; beyond that a figure is as good as its limit
_COUNTED = {1: "one process", 2: "two processes"}
_TRIES = 4  # that a search has for one rate, for certain


def slo_answer(result: Result) -> str:
    """Up to which rate, of a search, or how many clients an SLO is met; nothing where that was not looked for, or never met."""
    asked = asked_of(result) or {}
    met = {mode: it["rate"] for mode, it in kept(result).items()}
    if met:
        said = [f"{mode} up to {LoadPoint(RATE, met[mode]).text}{needs}" for mode, needs in of_groups(result, met)]
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
    return f"Cannot tell whether {slo_text(asked)} is met" if told else ""


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
    """The highest rate at which a mode meets an SLO; or that none does, or that the time was too short to tell."""
    if found is not None:
        what = f"{mode} meets {slo_text(asked)} {found_text(found)}{condition(result, mode)}"
        doubt = "" if found["violated_from"] is None else busy_doubt(result)
        beyond = [
            it for it in measured(result, RATE, mode) if at(it).value > found["rate"] and _keeps(it, asked) is None
        ]
        by_rate = {at(it).value: it for it in measured(result, RATE, mode)}
        first, met = by_rate.get(found["violated_from"] or 0.0), by_rate.get(found["rate"])
        processes = 1 if met is None else processes_of(met)
        few = "" if first is None or not is_of_few(result, first) else f", in {_COUNTED[processes_of(first)]}"
        where = "in between" if found["violated_from"] is not None else "of higher rates"
        between = f"; {where} it cannot be told for certain" if beyond else ""
        if found["violated_from"] is None and found["rate"] >= max(by_rate, default=0.0):
            between = (
                "; no higher rate was tried, as this is about the throughput back to back: the limit can be higher"
            )
        next_ = _longer_search(result, max(beyond, key=lambda it: latency_of(it).n), asked) if beyond else ""
        return Finding(
            what,
            f"{requests_text(found, asked, processes)}{few}{doubt}{between}",
            next_,
            Weight.ANSWER,
            "unclear" if doubt else "",
        )
    if unclear := left_open(result, mode, asked):
        what = f"Whether {mode} meets {slo_text(asked)} at any rate cannot be told"
        most = max(unclear, key=lambda it: latency_of(it).n)
        return Finding(what, _why_open([most], asked), _longer_search(result, most, asked), Weight.ANSWER, "unclear")
    lowest = next(iter(measured(result, RATE, mode)), None)
    evidence = "" if lowest is None else f"{_figures(lowest, asked)} {at(lowest).phrase}{busy_doubt(result)}"
    what, tone = f"{mode} meets {slo_text(asked)} at none of the rates tried", "unclear" if is_busy(result) else ""
    return Finding(what, evidence, weight=Weight.ANSWER, tone=tone)


def left_open(result: Result, mode: str, asked: Mapping[str, int]) -> list[Case]:
    """Of a search that found no rate those of which its requests do not tell whether they meet the SLO, below all that violate it."""
    levels = measured(result, RATE, mode)
    return [*takewhile(lambda it: _keeps(it, asked) is None, levels)]


def found_text(found: SloRate) -> str:
    """Up to which rate an SLO is met."""
    return f"up to {LoadPoint(RATE, found['rate']).text}"


def requests_text(found: SloRate, asked: Mapping[str, int], processes: int = 1) -> str:
    """What the requests at the rate that was found have, and from which rate on the SLO is violated."""
    pooled = ", ".join(f"{stat} {duration(ns)}" for stat, ns in found["latency"].items() if stat in asked)
    beyond = found["violated_from"]
    more = "" if beyond is None else f"; violated from {LoadPoint(RATE, beyond).text} on"
    spread = f" in {processes} processes" if processes > 1 else ""
    return f"{pooled} of {found['requests']:,} requests{spread} at that rate{more}"


def _of_points(result: Result, text: str, asked: Mapping[str, int]) -> list[Finding]:
    """Which of the load points that were asked for meet the SLO, modes of which the same is said together."""
    told = {mode: it for mode in modes_of(result) if (it := _held(result, mode, asked))}
    found, doubt = [], busy_doubt(result)
    for modes, many, (good, broken, few, where) in merged((mode, it[:4]) for mode, it in told.items()):
        same = [(mode, it[4]) for mode, it in told.items() if it[:4] == (good, broken, few, where)]
        firsts = [f"{first} with {mode}" if many > 1 else first for mode, first in same if first]
        first = f"{where.strip()} {', '.join(firsts)}".strip() if many > 1 else "".join(firsts) + where
        ends = "" if many > 1 else "s"
        if good:
            evidence = "; ".join(filter(None, (f"violated {broken} ({first}){doubt}" if broken else "", few)))
            what, tone = f"{modes} meet{ends} {text} {good}", "good"
        elif broken:
            evidence = "; ".join(filter(None, (first + doubt, few)))
            what, tone = f"{modes} violate{ends} {text} {broken}", "unclear" if doubt else "bad"
        else:
            evidence, what, tone = few, f"Whether {modes} meet{ends} {text} cannot be told", "unclear"
        next_ = _longer(result, asked) if few else ""
        found.append(Finding(what, evidence, next_, Weight.ANSWER, tone))
    return found


def _held(result: Result, mode: str, asked: Mapping[str, int]) -> tuple[str, str, str, str, str] | None:
    """Where a mode meets an SLO, where it violates it, where that cannot be told and why, the first load point that violates it, where it
    is not the only one, and the latencies there."""
    levels = limited(result, mode)
    if not levels:
        return None
    told = [(level, _keeps(level, asked)) for level in levels]
    good, broken, unknown = ([level for level, kept in told if kept is it] for it in (True, False, None))
    most = {kind: max(at(it).value for it in good if at(it).kind == kind) for kind in {at(it).kind for it in good}}
    # What meets it with more does so with less.
    unknown = [it for it in unknown if at(it).value > most.get(at(it).kind, 0)]
    where = f" {at(broken[0]).phrase}" if len(broken) > 1 else ""
    first = "".join(_figures(it, asked) for it in broken[:1])
    return points(good), points(broken), _why_open(unknown, asked), where, first


def _figures(level: Case, asked: Mapping[str, int]) -> str:
    """The statistics of an SLO at a load point that violates it; of too few requests for one what it is at least."""
    if all(by_name(latency_of(level), stat) <= most for stat, most in asked.items()):
        return "the workers are saturated"
    found = []
    for stat in asked:
        within = bounds_of(level, stat)
        least = None if within is None or has_figure(level, stat) else within["low"]
        figure = by_name(latency_of(level), stat)
        found.append(f"{stat} {duration(figure)}" if least is None else f"{stat} at least {duration(least)}")
    return ", ".join(found)


def busy_doubt(result: Result) -> str:
    """Said of what violates an SLO, or saturates, on a busy machine."""
    return ", which noise of the machine may have made" if is_busy(result) else ""


def _why_open(levels: Sequence[Case], asked: Mapping[str, int]) -> str:
    """Why it cannot be told whether load points meet an SLO: there were too few requests, or a figure is too close to its limit."""
    apart = [it for it in levels if _differs(it, asked)]
    levels = [it for it in levels if it not in apart]
    few = {id(it): stats for it in levels if (stats := too_few(it, asked))}
    takes = listed([f"{stat} takes {LEAST[stat]}" for stat in asked if any(stat in it for it in few.values())])
    alone = [it for it in levels if meets(it, asked)]
    rest = [it for it in levels if id(it) not in few and it not in alone]
    close = [
        it
        for it in rest
        if any(most / _CLOSE < by_name(latency_of(it), stat) < most * _CLOSE for stat, most in asked.items())
    ]
    queued = [it for it in rest if it not in close]
    said = [f"some processes meet it and some violate it {points(apart)}"] if apart else []
    if few:
        these = [it for it in levels if id(it) in few]
        are_dependent = any(latency_of(it).n >= LEAST[stat] for it in these for stat in few[id(it)])
        depends = _ALONE if are_dependent else ""
        said.append(f"too few requests{depends} {points(these)}, {takes} or more")
    if close:
        said.append(f"too close to the limit {points(close)}")
    if alone:
        said.append(f"met in fewer than {FEW} processes {points(alone)}")
    if queued:
        said.append(f"too few requests{_ALONE} {points(queued)}")
    return "; ".join(said)


def _differs(level: Case, asked: Mapping[str, int]) -> bool:
    """Whether some of the processes of a load point meet an SLO by their figures, and some do not."""
    of_each = ([*block_figures(level, stat).values(), most] for stat, most in asked.items())
    return processes_of(level) >= FEW and any(min(it) < it[-1] < max(it) for it in of_each)


def _longer(result: Result, asked: Mapping[str, int]) -> str:
    """The command that measures for so long that load points tell, of which that is open; nothing where none would in a time that
    is worth it."""
    unknown = [it for mode in modes_of(result) for it in limited(result, mode) if _keeps(it, asked) is None]
    return _with_duration(result, [result.part["duration_s"] * many for it in unknown if (many := _many(it, asked))])


def _longer_search(result: Result, level: Case, asked: Mapping[str, int]) -> str:
    """The same of a search: so long that a few tries tell of a rate."""
    seconds = latency_of(level).n / at(level).value * (_many(level, asked) or 1.0) / _TRIES
    return _with_duration(result, [max(2 * result.part["duration_s"], seconds)])


def _many(level: Case, asked: Mapping[str, int]) -> float | None:
    """How many times as many requests would tell; None where a figure is as good as its limit. How many independent ones a few requests
    are worth is known badly: one of four is taken at least."""
    found, few = longer(level, asked), too_few(level, asked)
    if few:
        least = max(LEAST[stat] for stat in few) / latency_of(level).n
        return min(found, 4 * least) if least > 1 else found
    return found if found <= _MOST_TIMES else None


def _with_duration(result: Result, seconds: Sequence[float]) -> str:
    is_replayed = result.part["file"] is not None  # as long as the file is
    if is_replayed or not seconds:
        return ""
    return again(result, "--duration", f"{math.ceil(max(seconds))}s", *quieter(result))


def _keeps(level: Case, asked: Mapping[str, int]) -> bool | None:
    """Whether a load point meets an SLO; None where that cannot be told."""
    check = level.checks.get("slo")
    return meets(level, asked) if check is None else {"passed": True, "failed": False}.get(check["verdict"])


def points(levels: Sequence[Case]) -> str:
    """Load points of one kind in words: ``at 10, 20 and 30 requests/s``, ``with 1 and 2 clients``."""
    if len(levels) < 2:
        return "".join(at(level).phrase for level in levels)
    preposition, _, unit = at(levels[-1]).phrase.split(" ", 2)
    return f"{preposition} {listed([rate_text(at(level).value) for level in levels])} {unit}"
