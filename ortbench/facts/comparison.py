"""The facts of results side by side: which configuration or EP has less, what differs from the first, what a comparison lacks. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from ortbench.analysis.comparable import alike_but_for_ep, are_alike, changes, mismatches
from ortbench.analysis.comparison import (
    FAR,
    RatioEstimate,
    Row,
    between_runs,
    compare_series,
    lacking,
    modes_alone,
    points_alone,
)
from ortbench.analysis.intervals import ABOVE, BELOW, MARGIN, OPEN, PARTS, SAME, at_most, quotient, verdict_of
from ortbench.analysis.items import best_mode, is_batch
from ortbench.analysis.load_points import FEWEST_BLOCKS
from ortbench.analysis.noise import certificates
from ortbench.analysis.outputs import doubt
from ortbench.analysis.placement import short
from ortbench.analysis.series import Key, Series, series_at
from ortbench.analysis.speedups import (
    FASTER,
    NOISY,
    UNCERTAIN,
    UNKNOWN,
    compared_modes,
    fastest,
    may_be_faster,
    replaceable_tensors,
)
from ortbench.core.errors import NotComparable
from ortbench.core.features import part_of
from ortbench.core.stats import Value
from ortbench.facts import Fact, Quantity, Values, certified_share, condition, latency, per_s, share, times
from ortbench.facts.run import copy_share, facts_of
from ortbench.facts.sentences import in_order, phrase
from ortbench.model.kinds import kind_of
from ortbench.model.metrics import LATENCY, SIZE, figure, metric
from ortbench.model.modes import ALL_MODES, HOST_ACCESSIBLE, WHOLE_START, is_rate, mode_of
from ortbench.model.result import Result, are_one_run
from ortbench.model.settings import OF_SESSION, setting_words
from ortbench.plan.next_command import session_lines

_NEAR = 1.05  # times as much as the least, up to which what sets less stands for it
_WEIGHED = 0.02  # up to which two workers of one configuration differ in memory
_COSTS = (("cpu_time", "CPU time"), ("host_memory", "host memory"))
_COST_NAMES = [what for _, what in _COSTS]
_WITHIN = Quantity(MARGIN * 100, "%")


def _ratio(found: RatioEstimate) -> Quantity:
    return times(Value(found.ratio, found.ends))


def _quantity(series: Series) -> Quantity:
    return Quantity(series.value, "B" if series.key.metric.unit is SIZE else "ns")


def _verdict(found: RatioEstimate | None) -> str:
    """What a ratio says: a verdict of `verdict_of`, `NOISY` or `UNKNOWN`."""
    if found is None:
        return UNKNOWN
    if found.exact:  # no samples, which lie where they are
        ends = found.ratio / (1 + _WEIGHED), found.ratio * (1 + _WEIGHED)
        is_same = at_most(ends, (1 + MARGIN) * (1 + _WEIGHED)) and found.ratio * (1 + MARGIN) >= 1
        return SAME if is_same else verdict_of(ends)
    return found.verdict()


class Best(NamedTuple):
    """What is known of the best configuration for one figure of a mode."""

    what: str  # the figure
    mode: str
    number: int | None  # of the best; None where none is better than the first for certain
    fact: Fact


def bests(results: Sequence[Result], names: Sequence[str]) -> list[Best]:
    """The best of configurations that took turns on the same work, in each mode by time and, of one mode alone, by costs too; of points
    what their kind has in place of that; nothing where they did not, or did other work."""
    first = results[0]
    if len(results) < 2 or any(_did_other_work(first, it) for it in results[1:]):
        return []
    if kind_of(first.kind).axes:
        of_points: list[Best] = part_of(first.kind, "facts", "point_bests", lambda *_: [])(results, names)
        return of_points
    modes = [mode for mode in ALL_MODES if sum(it.case(mode) is not None for it in results) > 1]
    (timed, *_) = kind_of(first.kind).views[0].gated
    of_time = metric(WHOLE_START).title if timed.metric == WHOLE_START else "latency"
    goals = [(timed.metric, of_time), *(_COSTS if len(modes) == 1 else ())]
    found = (best_at(results, names, Key(mode, (), figure(key)), what) for mode in modes for key, what in goals)
    return [it for it in found if it is not None]


def _did_other_work(one: Result, other: Result) -> bool:
    shapes = [[(it["name"], it["shape"]) for it in result.model["inputs"]] for result in (one, other)]
    return one.model["sha256"] != other.model["sha256"] or shapes[0] != shapes[1] or not are_one_run(one, other)


def best_at(results: Sequence[Result], names: Sequence[str], key: Key, what: str) -> Best | None:
    """The best of configurations that took turns for one figure of a mode, maybe at a point; None where too little was measured."""
    every = {number: series_at(result, key) for number, result in enumerate(results)}
    there = {number: it for number, it in every.items() if it is not None}
    if len(there) < 2:
        return None
    first = next(iter(there))

    def against(one: int) -> dict[int, RatioEstimate | None]:
        """How many times as much as a configuration each other one has."""
        return {it: compare_series(there[one], there[it]) for it in there if it != one}

    top = min(there, key=lambda number: there[number].value)
    others = against(top)
    if all(_verdict(it) == UNKNOWN for it in others.values()):
        return None  # too few blocks, which the comparison says
    if top == first:
        other = min(others, key=lambda number: there[number].value)
        is_better = all(_verdict(it) == ABOVE for it in others.values())
    else:
        other, is_better = first, _verdict(others[first]) == ABOVE
    if not is_better:
        return Best(what, key.mode, None, _none_better(names, key, what, there, first))
    if top != first:
        # Of what is as good as the least what sets least: the rest may do nothing.
        near = [number for number, it in others.items() if _is_near(it) and _verdict(against(number)[first]) == ABOVE]
        top = min([top, *near], key=lambda number: _settings(results[first], results[number]))
        others = against(top)
    found = others[other]
    assert found is not None
    said = {number: _verdict(it) for number, it in others.items()}
    rivals = [names[it] for it, of in said.items() if of not in (ABOVE, SAME, BELOW)]
    ties = [names[it] for it, of in said.items() if of in (SAME, BELOW)]
    values: Values = {
        "configuration": names[top], "what": what, "value": _quantity(there[top]), "other": names[other], "ratio": _ratio(found),
        "ties": rivals or ties,
    }  # fmt: skip
    verdict = "better-open" if rivals else "better-tied" if ties else "better"
    return Best(what, key.mode, top, Fact("best-configuration", verdict, key.mode, values))


def _is_near(found: RatioEstimate | None) -> bool:
    return found is not None and (_verdict(found) == SAME or (_verdict(found) == OPEN and found.ratio <= _NEAR))


def _settings(first: Result, result: Result) -> int:
    """In how many settings a configuration differs from the first."""
    found = (key for key in result.target if key not in ("sync", "memory", "device"))
    return sum(result.target.get(key) != first.target.get(key) for key in found)


def _none_better(names: Sequence[str], key: Key, what: str, there: Mapping[int, Series], first: int) -> Fact:
    """That no configuration has less of something than the first for certain: that all have the same, that none has less, or that it is
    open."""
    gains = {number: compare_series(it, there[first]) for number, it in there.items() if number != first}
    said = {number: _verdict(it) for number, it in gains.items()}
    values: Values = {"configuration": names[first], "what": what, "margin": _WITHIN, "value": _quantity(there[first])}
    if all(it == SAME for it in said.values()):
        return Fact("best-configuration", "same", key.mode, values)
    known = {number: it for number, it in gains.items() if it is not None}
    open_ = [
        number
        for number, of in known.items()
        if said[number] == NOISY or (said[number] not in (SAME, BELOW) and at_most(of.ends, 1 + MARGIN) is not True)
    ]
    if not open_ and len(known) == len(gains):
        tops = [it.high or it.ratio for it in known.values()]
        values |= {"most": times(max([*tops, 1.0])), "ties": [names[it] for it, of in said.items() if of == SAME]}
        return Fact("best-configuration", "none", key.mode, values)
    rival = min(open_ or known, key=lambda number: there[number].value)
    values |= {"other": names[rival], "ratio": _ratio(known[rival])}
    return Fact("best-configuration", "noise" if said[rival] == NOISY else "open", key.mode, values)


def best_of_models(results: Sequence[Result], names: Sequence[str]) -> list[Fact]:
    """Which configuration is the best by time, for each of several models and works whose configurations took turns; nothing of those on
    several EPs, of which `ep_facts` tell."""
    groups = [group for group in alike_but_for_ep(results) if not _fastest_ep([results[it] for it in group])]
    found = (bests([results[it] for it in group], [names[it] for it in group]) for group in groups)
    return [it.fact for of_group in found for it in of_group if it.what not in _COST_NAMES]


def setting_facts(results: Sequence[Result], names: Sequence[str], found: Sequence[Best]) -> Iterator[Fact]:
    """What sets each of the best configurations, where it is better than the first: the options of ortbench, and the lines of code."""
    several = len({it.mode for it in found}) > 1
    for number in dict.fromkeys(it.number for it in found if it.number is not None):
        target = results[number].target
        python, cpp = session_lines(target)
        if python and python != session_lines(results[0].target)[0]:
            goals = [f"{it.what} in {it.mode}" if several else it.what for it in found if it.number == number]
            of: Values = {"configuration": names[number], "goals": [*dict.fromkeys(goals)]}
            yield Fact("settings", "options", "", {**of, "options": shlex.join(setting_words(OF_SESSION, target))})
            yield Fact("settings", "python", "", {**of, "statements": python})
            yield Fact("settings", "cpp", "", {**of, "statements": cpp})


def ep_facts(results: Sequence[Result]) -> list[Fact]:
    """How much faster the fastest EP is than each other one, each with its best mode, for each model and work that several EPs were
    measured on; nothing of the configurations of one run alone, of which `bests` says more."""
    groups = [[results[number] for number in group] for group in alike_but_for_ep(results)]
    if len(groups) == 1 and all(are_one_run(groups[0][0], it) for it in groups[0][1:]):
        return []
    return [fact for group in groups for fact in _fastest_ep(group)]


def _fastest_ep(group: Sequence[Result]) -> list[Fact]:
    """Of modes that can replace each other, or else of those whose tensors stay on the device."""
    kind = kind_of(group[0].kind)
    usable = [it for it in group if doubt(it) is None]
    eps = {it.target["ep"] for it in usable}
    if not kind.live or kind.axes or kind.of_stages or len(eps) < 2:
        return []
    (timed, *_) = kind.views[0].gated
    # Beside modes that time how the host writes inputs and reads outputs it would have a lead that is none.
    untimed = {it.target["ep"] for it in usable if it.median(HOST_ACCESSIBLE, timed.metric) is not None} != eps
    modes = [it for it in ALL_MODES if not (untimed and it == HOST_ACCESSIBLE)]
    for on_device in (False, True):
        best: dict[str, Series] = {}  # by EP
        for result in usable:
            for mode in modes:
                found = series_at(result, Key(mode, (), timed))
                if found is None or is_rate(mode, LATENCY) or mode_of(mode).on_device != on_device:
                    continue
                ep = result.target["ep"]
                best[ep] = min(best.get(ep, found), found, key=lambda it: it.value)
        if len(best) == len(eps):
            top, *others = sorted(best.values(), key=lambda it: it.value)
            return [_of_pair(top, it) for it in others]
    return []


def _of_pair(top: Series, other: Series) -> Fact:
    found = compare_series(top, other)
    said = _verdict(found)
    values: Values = {
        "model": top.result.model["path"], "ep": short(top.result.target["ep"]), "latency": _quantity(top),
        "other": short(other.result.target["ep"]), "other_mode": other.key.mode, "other_latency": _quantity(other), "margin": _WITHIN,
    }  # fmt: skip
    if found is not None:
        values["ratio"] = _ratio(found)
    far = found is not None and found.apart and found.ends is None
    if far:
        values["times"] = FAR
    verdicts: dict[str, str] = {ABOVE: "faster", SAME: "same", NOISY: NOISY, UNKNOWN: UNKNOWN}
    return Fact("fastest-ep", "far" if far else verdicts.get(said, UNCERTAIN), top.key.mode, values)


# Whether results may be compared, and what differs besides their figures


def remark_facts(results: Sequence[Result], names: Sequence[str], force: bool) -> list[Fact]:
    """What differs between the first result and each other one; `NotComparable` unless they are comparable or it is forced."""
    facts = []
    for name, result in zip(names[1:], results[1:], strict=True):
        of: Values = {"base": names[0], "configuration": name}
        differences = mismatches(results[0], result)
        if differences and not force:
            found = "; ".join(differences)
            raise NotComparable(f"{names[0]} and {name} are not comparable: {found} (--force compares them anyway)")
        if differences:
            facts.append(Fact("comparability", "forced", "", {**of, "differences": differences}))
        if changed := changes(results[0], result):
            facts.append(Fact("comparability", "changed", "", {**of, "changes": changed}))
        if not differences and are_alike(results[0], result):
            facts.append(Fact("comparability", "same", "", of))
    return facts


def is_repeated(fact: Fact, said: Collection[str]) -> bool:
    """Whether all that a fact names as changed is `said` elsewhere."""
    changed = fact.values.get("changes")
    return isinstance(changed, list) and all(it in said for it in changed)


def alone_facts(results: Sequence[Result], names: Sequence[str], of: Collection[str] = ()) -> Iterator[Fact]:
    """The modes, `of` some or all, that only one of two results was asked for, and the points that not all have."""
    for name, modes in zip(names, modes_alone(results), strict=True):
        if asked := [it for it in modes if not of or it in of]:
            yield Fact("only-in", "modes", "", {"configuration": name, "modes": asked})
    for name, points in zip(names, points_alone(results), strict=True):
        if points:
            yield Fact("only-in", "points", "", {"configuration": name, "points": points})


def ratio_facts(results: Sequence[Result], names: Sequence[str], found: Sequence[Row], same: float) -> list[Fact]:
    """In which modes the second of two results is slower or faster, by the figure that its kind is judged by."""
    (timed, *_) = kind_of(results[0].kind).views[0].gated
    alike: dict[str, list[str]] = {}
    facts = []
    for row in found if len(results) == 2 else ():
        ratio = row.since_first[1]
        if row.key.figure != timed or row.key.point or ratio is None or _verdict(ratio) == UNKNOWN:
            continue  # of too few blocks `lacking_facts` tell
        said: str = ratio.verdict(same)
        if said in (ABOVE, BELOW):
            values: Values = {
                "what": row.key.metric.title,
                "configuration": names[1],
                "base": names[0],
                "ratio": _ratio(ratio),
            }
            facts.append(Fact("difference", "slower" if said == ABOVE else "faster", row.key.mode, values))
        else:
            alike.setdefault(said, []).append(row.key.mode)
    shared: Values = {"configuration": names[-1], "base": names[0], "margin": Quantity(same * 100, "%")}
    facts += [Fact("difference", said, "", {**shared, "modes": modes}) for said, modes in alike.items()]
    return facts


def lacking_facts(results: Sequence[Result], names: Sequence[str], found: Sequence[Row]) -> Iterator[Fact]:
    """What results that were compared have too few blocks of, and what gives them."""
    few = lacking(results, found)
    if few is None:
        yield Fact("few-blocks", "load", "", {"needed": FEWEST_BLOCKS})
        return
    facts = []
    for count in sorted({count for count, _ in few.values()}):  # what has the fewest is measured longest
        numbers = [number for number, (own, _) in few.items() if own == count]
        values: Values = {"configurations": [names[it] for it in numbers], "blocks": count, "needed": PARTS}
        facts.append(Fact("few-blocks", "some", "", values, few[numbers[0]][1]))
    yield from in_order(facts)


def between_runs_facts(results: Sequence[Result], found: Sequence[Row]) -> Iterator[Fact]:
    """What runs of different times differ by, where nobody knows the spread between runs of one configuration."""
    if all(are_one_run(results[0], it) for it in results[1:]):
        return
    rows = [row for row in found if any(it and it.ends and not it.paired and not it.exact for it in row.since_first)]
    if rows and not any(row.spread for row in rows):
        values: Values = {"least": certified_share(between_runs(results))}
        known = certificates(results)
        if known:
            values["date"] = max(it["created"] for it in known)[:10]
        yield Fact("between-runs", "certified" if known else "one-each", "", values)


def items_facts(results: Sequence[Result], names: Sequence[str], modes: Sequence[str] = ()) -> Iterator[Fact]:
    """Which of several results of one model gets most items done, in some modes or in all, where one has a batch."""
    if len({result.model["sha256"] for result in results}) > 1:
        return
    found = (best_mode(it, name, modes) for it, name in zip(results, names, strict=True) if doubt(it) is None)
    rates = [it for it in found if it is not None]
    if len(rates) < 2 or not any(is_batch(it.items) for it in rates):
        return
    top = max(rates, key=lambda it: it.items_per_s)
    said = {
        rate.name: verdict_of(quotient(top.items_per_s, rate.items_per_s, top.ci95, rate.ci95).ci95)
        for rate in rates
        if rate is not top
    }
    ties = [name for name, it in said.items() if it == SAME]
    rivals = [name for name, it in said.items() if it not in (SAME, ABOVE)]
    values: Values = {
        "configuration": top.name,
        "rate": per_s(top.items_per_s, top.ci95, "items"),
        "ties": rivals or ties,
    }
    yield Fact("most-items", "open" if rivals else "tied" if ties else "most", top.mode, values)


FEW_RESULTS = 6  # of which each mode that is the fastest is named


def headline_of_many(results: Sequence[Result]) -> str:
    """What there is to say first of several results, in a few words."""
    off = [it for result in results for it in facts_of(result) if it.code == "fallback"]
    shares = sorted(copied for result in results if (copied := copy_share(result)))
    values: Values = {"results": len(results), "off": len(off)}
    if off:
        return phrase(Fact("several", "fallback", "", values))
    if not shares:
        return phrase(Fact("several", "side-by-side", "", values))
    values |= {"least": share(shares[0], derived=True), "most": share(shares[-1], derived=True)}
    return phrase(Fact("several", "copies", "", values))


def mode_facts(results: Sequence[Result], names: Sequence[str]) -> list[Fact]:
    """The two speedups of results side by side: the fastest mode of each that takes new inputs in each inference, and what it brings to
    keep tensors on the device; or what their kind has in place of them."""
    if (of_kind := part_of(results[0].kind, "facts", "several_facts")) is not None:
        return [fact for result, name in zip(results, names, strict=True) for fact in of_kind(result, name)]
    found = []
    for result, name in zip(results, names, strict=True):
        for on_device in (False, True):
            best = None if result.axes else fastest(result, on_device)
            if best is None or (on_device and best.claim != FASTER):
                continue
            values: Values = {
                "configuration": name, "speedup": times(best.speedup), "latency": latency(best.case), "takes": replaceable_tensors(result),
                **condition(result, best.mode),
            }  # fmt: skip
            is_open = any(may_be_faster(it.speedup) for it in compared_modes(result, on_device))
            verdict = best.claim if best.claim in (FASTER, NOISY, UNKNOWN) else "open" if is_open else "none"
            found.append(Fact("fastest-mode", verdict, best.mode, values))
    return found
