"""Which of several configurations of one run is best, for what, and whether the figures say so at all. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ortbench.analysis.comparing.comparable import alike_but_for_ep
from ortbench.analysis.comparing.compare import FAR, RatioEstimate, are_one_run, between, estimate
from ortbench.analysis.comparing.pairs import TOO_FEW
from ortbench.analysis.comparing.series import Key, Series, series_at
from ortbench.analysis.comparing.verdict import MARGIN
from ortbench.analysis.findings.finding import Finding, Weight
from ortbench.analysis.findings.node_advice import are, short
from ortbench.analysis.findings.phrases import times, within
from ortbench.analysis.outputs import doubt
from ortbench.core.safe_text import listed
from ortbench.core.units import digits
from ortbench.model.kinds import KINDS
from ortbench.model.metrics import figure, metric
from ortbench.model.modes import ALL_MODES, HOST_ACCESSIBLE, LATENCY, WHOLE_START, is_rate, mode_of
from ortbench.model.result import Result

_BOUND = 0.05  # up to which the sentence says how much better another can be
_WEIGHED = 0.02  # up to which two workers of one configuration differ in memory
_UNCLEAR = "cannot tell"
BUSY = "on this busy machine"
_COSTS = (("cpu_time", "CPU time"), ("host_memory", "host memory"))


class Best(NamedTuple):
    """What is known of the best configuration for one figure of a mode."""

    what: str  # the figure
    mode: str
    number: int | None  # of the best; None where none is measurably better than the first
    text: str


def bests(results: Sequence[Result], names: Sequence[str]) -> list[Best]:
    """The best of configurations that took turns on the same work, in each mode by time and, of one mode alone, by costs too;
    nothing where they did not, or did other work."""
    first = results[0]
    if len(results) < 2 or KINDS[first.kind].axes or any(_other_work(first, it) for it in results[1:]):
        return []
    modes = [mode for mode in ALL_MODES if sum(it.case(mode) is not None for it in results) > 1]
    (timed, *_) = KINDS[first.kind].views[0].gated
    of_time = metric(WHOLE_START).title if timed.metric == WHOLE_START else "latency"
    goals = [(timed.metric, of_time), *(_COSTS if len(modes) == 1 else ())]
    found = (_best(results, names, mode, key, what) for mode in modes for key, what in goals)
    return [it for it in found if it is not None]


def best_findings(found: Sequence[Best]) -> list[Finding]:
    """The same in sentences, those of several modes with what they are of."""
    of_modes = len({it.mode for it in found}) > 1
    said: dict[tuple[str, str], list[str]] = {}
    for it in found:
        unclear = [one for one in found if one.what == it.what and one.text.startswith(f"{_UNCLEAR};")]
        together = it in unclear and len(unclear) > 1
        rest = (f"{one.text.partition('; ')[2]} in {one.mode}" for one in unclear)
        said.setdefault((it.what, f"{_UNCLEAR}; {', '.join(rest)}" if together else it.text), []).append(it.mode)
    return [
        Finding(f"Best for {what}{f' in {listed(modes)}' if of_modes else ''}", text, weight=Weight.ANSWER)
        for (what, text), modes in said.items()
    ]


def best_of_models(results: Sequence[Result], names: Sequence[str]) -> list[Finding]:
    """Which configuration is the fastest, in sentences for each of several models and works whose configurations took turns; nothing of
    those on several EPs, of which `ep_findings` tells."""
    groups = [group for group in alike_but_for_ep(results) if _fastest_ep([results[it] for it in group]) is None]
    costs = [what for _, what in _COSTS]
    said: list[Finding] = []
    for group, about in zip(groups, _abouts([results[group[0]] for group in groups]), strict=True):
        found = bests([results[it] for it in group], [names[it] for it in group])
        said += [
            it._replace(what=f"{about}: {it.what[0].lower()}{it.what[1:]}")
            for it in best_findings([it for it in found if it.what not in costs])
        ]
    return said


def _abouts(firsts: Sequence[Result]) -> list[str]:
    """What each of several groups is of: the model, with its shapes where others are of it too."""
    paths = [it.model["path"] for it in firsts]
    shapes = [
        ", ".join(f"{it['name']}: {'x'.join(map(str, it['shape'] or ()))}" for it in first.model["inputs"])
        for first in firsts
    ]
    return [path if paths.count(path) == 1 else f"{path} ({shape})" for path, shape in zip(paths, shapes, strict=True)]


def ep_findings(results: Sequence[Result]) -> list[Finding]:
    """Which EP is the fastest, each with its best mode, in a sentence for each model and work that several EPs were measured on; nothing
    of the configurations of one run alone, of which `bests` says more."""
    groups = [[results[number] for number in group] for group in alike_but_for_ep(results)]
    if len(groups) == 1 and all(are_one_run(groups[0][0], it) for it in groups[0][1:]):
        return []
    abouts = [""] if len(groups) == 1 else [f"{about}: " for about in _abouts([group[0] for group in groups])]
    found = [(about, _fastest_ep(group)) for about, group in zip(abouts, groups, strict=True)]
    return [it._replace(what=f"{about}{it.what}") for about, it in found if it is not None]


class _OfEp(NamedTuple):
    """The best mode of an EP."""

    ep: str
    result: Result
    series: Series


def _fastest_ep(group: Sequence[Result]) -> Finding | None:
    """Which EP's best mode is the fastest, of modes that can replace each other, or else of those whose tensors stay on the device."""
    kind = KINDS[group[0].kind]
    if not kind.live or kind.axes or kind.of_stages:
        return None
    usable = [it for it in group if doubt(it) is None]
    eps = {it.target["ep"] for it in usable}
    if len(eps) < 2:
        return None
    (timed, *_) = kind.views[0].gated
    # Beside modes that time how the host writes inputs and reads outputs it would have a lead that is none.
    untimed = {it.target["ep"] for it in usable if it.median(HOST_ACCESSIBLE, timed.metric) is not None} != eps
    modes = [it for it in ALL_MODES if not (untimed and it == HOST_ACCESSIBLE)]
    for on_device in (False, True):
        best: dict[str, _OfEp] = {}
        for result in usable:
            for mode in modes:
                found = series_at(result, Key(mode, (), timed))
                if found is None or is_rate(mode, LATENCY) or mode_of(mode).on_device != on_device:
                    continue
                ep = result.target["ep"]
                if ep not in best or found.value < best[ep].series.value:
                    best[ep] = _OfEp(short(ep), result, found)
        if len(best) == len(eps):
            return _of_eps(sorted(best.values(), key=lambda it: it.series.value))
    return None


def _of_eps(ordered: Sequence[_OfEp]) -> Finding:
    """By how much the first of several EPs is faster than each other, or that it cannot be told."""
    top, *others = ordered
    ratios = [(it, between(top.result, top.series, it.result, it.series)) for it in others]
    known = [(it, ratio) for it, ratio in ratios if ratio is not None]
    said = {
        it.ep: f"{times(ratio.ratio)} as fast as {it.ep}{within(_ci95(ratio), digits)}{f' {BUSY}' * ratio.doubted}"
        for it, ratio in known
    }
    far = {it.ep for it, ratio in known if ratio.apart}
    by_interval = [it.ep for it, ratio in known if ratio.low is not None and ratio.low > 1 and not ratio.doubted]
    faster = [ep for ep in said if ep in by_interval or ep in far]
    figures = ", ".join(f"{it.ep} {it.series.text(it.series.value)} with {it.series.key.mode}" for it in ordered)
    how = "measured in turns" if all(ratio.paired for _, ratio in known) else "measured one after the other"
    said |= {it: f"{said[it]} (each inference by {FAR}× or more)" for it in sorted(far.difference(by_interval))}
    unsure = [ep for ep in said if ep not in faster]
    doubt = f"whether {top.ep} is faster than {listed(unsure)}"
    why = f"{top.ep} is {listed([said[ep] for ep in unsure])}"
    if all(ratio.low is None for _, ratio in known):
        why += f", {TOO_FEW}"
    if not faster:
        return Finding(f"Cannot tell {doubt}", f"{why}; {figures}; {how}", weight=Weight.ANSWER, tone="unclear")
    rest = f"; cannot tell {doubt}: {why}" if unsure else ""
    what = f"{top.ep} is {listed([said[ep] for ep in faster])}"
    return Finding(what, f"{figures}; {how}{rest}", weight=Weight.ANSWER)


def _ci95(ratio: RatioEstimate) -> tuple[float, float] | None:
    return None if ratio.low is None or ratio.high is None else (ratio.low, ratio.high)


def _other_work(one: Result, other: Result) -> bool:
    shapes = [[(it["name"], it["shape"]) for it in result.model["inputs"]] for result in (one, other)]
    same_model = one.model["sha256"] == other.model["sha256"]
    return not same_model or shapes[0] != shapes[1] or not are_one_run(one, other)


def _best(results: Sequence[Result], names: Sequence[str], mode: str, of: str, what: str) -> Best | None:
    key = Key(mode, (), figure(of))
    there = {number: it for number, result in enumerate(results) if (it := series_at(result, key)) is not None}
    if len(there) < 2:
        return None
    top = min(there, key=lambda number: there[number].value)
    reference = next(iter(there))
    others = _others(results, there, top)
    if all(it.ci95 is None for it in others.values()):
        return None  # too few blocks, which the comparison says
    near = [
        number
        for number, it in others.items()
        if it.is_same or (it.value <= 1 + _BOUND and it.ci95 is not None and it.ci95[0] <= 1)
    ]
    if top != reference and reference not in near:
        # Of what is as good as the best what sets least: the rest may do nothing.
        top = min([top, *near], key=lambda number: _settings(results[reference], results[number]))
        others = _others(results, there, top)
    said = f"{names[top]}, {key.metric.unit.text(there[top].value)}"
    alike = [
        (names[number], it)
        for number, it in others.items()
        if it.doubted or it.ci95 is None or it.ci95[0] <= 1 or it.is_same
    ]
    if top == reference:
        reference = min(others, key=lambda number: others[number].value)
        if not alike:
            return Best(what, mode, top, f"{said}; {names[reference]} takes {_times(others[reference])}")
        by_figures = "" if any(it.is_same for _, it in alike) else " by its figures"
        return Best(what, mode, None, f"{names[top]}{by_figures}{_are_ties(alike)}")
    against = others[reference]
    if against.ci95 is not None and against.ci95[0] > 1 + MARGIN and not against.doubted:
        return Best(what, mode, top, f"{said}; {names[reference]} takes {_times(against)}{_are_ties(alike)}")
    gains = [estimate(it, there[reference], same_run=True) for number, it in there.items() if number != reference]
    ends = [it.high for it in gains if it is not None and it.high is not None]
    why = f", {BUSY}" if against.doubted else ""
    if len(ends) == len(gains) and max(ends) <= 1 + _BOUND:
        most = max(1, math.ceil((max(ends) - 1) * 100))
        verdict = "no difference," if max(ends) <= 1 + MARGIN and not why else f"{_UNCLEAR}{why}, but"
        rest = [names[it] for it in there if it != reference]
        whose = f"{rest[0]} is not" if len(rest) == 1 else f"none of the {len(rest)} others measured is"
        return Best(what, mode, None, f"{verdict} {whose} more than {most}% better than {names[reference]}")
    if against.ci95 is not None and against.ci95[0] > 1 and not why:
        text = f"{names[top]}; it cannot be told whether by more than {MARGIN:.0%}: {names[reference]} takes {_times(against)}"
        return Best(what, mode, None, text)
    return Best(what, mode, None, f"{_UNCLEAR}{why}; {names[reference]} takes {_times(against)} as {names[top]}")


class _Worse(NamedTuple):
    """How many times as much a figure is as the best, and whether noise of the machine may have made it more."""

    value: float
    ci95: tuple[float, float] | None = None
    doubted: bool = False
    exact: bool = False  # no samples, which lie where they are

    @property
    def is_same(self) -> bool:
        most = self.value if self.exact else math.inf if self.ci95 is None else self.ci95[1]
        return not self.doubted and most <= 1 + MARGIN


def _are_ties(alike: Sequence[tuple[str, _Worse]]) -> str:
    """What is said of those that are the same as the best one, or of which nobody can tell."""
    same = [name for name, it in alike if it.is_same]
    doubted = [name for name, it in alike if it.doubted]
    unclear = [name for name, _ in alike if name not in (*same, *doubted)]
    said = [f"{listed(same)} {are(len(same))} the same within {MARGIN:.0%}"] if same else []
    said += [f"{_UNCLEAR} whether {listed(unclear)} {are(len(unclear))} worse"] if unclear else []
    said += [f"{_UNCLEAR} {BUSY} whether {listed(doubted)} {are(len(doubted))} worse"] if doubted else []
    return "".join(f"; {it}" for it in said)


def _times(worse: _Worse) -> str:
    """How much more it is; without the interval that noise may have made, as in tables."""
    return f"{digits(worse.value)}× as much{within(None if worse.doubted else worse.ci95, digits)}"


def _others(results: Sequence[Result], there: Mapping[int, Series], top: int) -> dict[int, _Worse]:
    return {
        number: _worse(results[top], there[top], results[number], it) for number, it in there.items() if number != top
    }


def _settings(first: Result, result: Result) -> int:
    """In how many settings a configuration differs from the first."""
    found = (key for key in result.target if key not in ("sync", "memory", "device"))
    return sum(result.target.get(key) != first.target.get(key) for key in found)


def _worse(best: Result, top: Series, result: Result, other: Series) -> _Worse:
    found = between(best, top, result, other)
    if found is None or found.low is None or found.high is None:
        return _Worse(other.value / max(top.value, 1e-9))
    if found.exact:
        return _Worse(found.ratio, (found.ratio / (1 + _WEIGHED), found.ratio * (1 + _WEIGHED)), exact=True)
    return _Worse(found.ratio, (found.low, found.high), found.doubted and not found.apart)
