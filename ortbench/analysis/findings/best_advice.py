"""Which of several configurations of one run is best, for what, and whether the figures say so at all. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from ortbench.analysis.comparing.compare import are_one_run, between, estimate
from ortbench.analysis.comparing.series import Key, Series, series_at
from ortbench.analysis.findings.finding import Finding, Weight
from ortbench.analysis.findings.node_advice import are
from ortbench.analysis.findings.phrases import within
from ortbench.core.safe_text import listed
from ortbench.core.units import digits
from ortbench.model.kinds import KINDS
from ortbench.model.metrics import figure, metric
from ortbench.model.modes import ALL_MODES, WHOLE_START
from ortbench.model.result import Result

ALIKE = 0.05  # up to which a difference is none; the sentence says how much there can be
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
    others = {
        number: _worse(results[top], there[top], results[number], it) for number, it in there.items() if number != top
    }
    if all(it.ci95 is None for it in others.values()):
        return None  # too few blocks, which the comparison says
    said = f"{names[top]}, {key.metric.unit.text(there[top].value)}"
    alike = [
        (names[number], it.doubted) for number, it in others.items() if it.doubted or it.ci95 is None or it.ci95[0] <= 1
    ]
    if top == reference:
        reference = min(others, key=lambda number: others[number].value)
        if not alike:
            return Best(what, mode, top, f"{said}; {names[reference]} takes {_times(others[reference])}")
        return Best(what, mode, None, f"{names[top]}{_are_ties(alike)}")
    against = others[reference]
    if against.ci95 is not None and against.ci95[0] > 1 and not against.doubted:
        return Best(what, mode, top, f"{said}; {names[reference]} takes {_times(against)}{_are_ties(alike)}")
    gains = [estimate(it, there[reference], same_run=True) for number, it in there.items() if number != reference]
    ends = [it.high for it in gains if it is not None and it.high is not None]
    if len(ends) == len(gains) and max(ends) <= 1 + ALIKE:
        most = max(1, math.ceil((max(ends) - 1) * 100))
        return Best(what, mode, None, f"no difference, none is more than {most}% better than {names[reference]}")
    why = f", {BUSY}" if against.doubted else ""
    return Best(what, mode, None, f"{_UNCLEAR}{why}; {names[reference]} takes {_times(against)} as {names[top]}")


class _Worse(NamedTuple):
    """How many times as much a figure is as the best, and whether noise of the machine may have made it more."""

    value: float
    ci95: tuple[float, float] | None = None
    doubted: bool = False


def _are_ties(alike: Sequence[tuple[str, bool]]) -> str:
    sure, doubted = ([name for name, is_doubted in alike if is_doubted is it] for it in (False, True))
    said = f"; {listed(sure)} {are(len(sure))} not measurably worse" if sure else ""
    return said + (f"; {BUSY} {listed(doubted)} may be no worse" if doubted else "")


def _times(worse: _Worse) -> str:
    return f"{digits(worse.value)}× as much{within(worse.ci95, digits)}"


def _worse(best: Result, top: Series, result: Result, other: Series) -> _Worse:
    found = between(best, top, result, other)
    if found is None or found.low is None or found.high is None:
        return _Worse(other.value / max(top.value, 1e-9))
    if found.exact:
        return _Worse(found.ratio, (found.ratio / (1 + _WEIGHED), found.ratio * (1 + _WEIGHED)))
    return _Worse(found.ratio, (found.low, found.high), found.doubted)
