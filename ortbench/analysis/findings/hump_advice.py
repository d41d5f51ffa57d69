"""What is said of modes whose processes differ, and of those with two humps. Pure."""

from __future__ import annotations

from statistics import median

from ortbench.analysis.comparing.pairs import by_process
from ortbench.analysis.findings.finding import SEE_PAGE, Finding, Weight
from ortbench.analysis.findings.phrases import placed, times
from ortbench.core.humps import Hump, two_humps
from ortbench.core.units import count, duration, share
from ortbench.model.modes import LATENCY
from ortbench.model.result import OK, Case, Result

_APART = 1.1  # how many times the least median of a process the greatest must be to be told
_FAR_APART = 1.2  # and to be told early
_MOST_APART = 4  # of modes, and shapes, whose processes differ, that are listed


def hump_findings(result: Result) -> list[Finding]:
    """Of all modes, and shapes, whose processes differ, and of those with two humps, one finding each."""
    timed = [it for it in result.cases if it.status == OK and LATENCY in it.samples]
    of_each = {placed(it): ends for it in timed if (ends := _ends(it)) is not None}
    apart = {place: ends for place, ends in of_each.items() if ends[1] > _APART * ends[0]}
    found = {placed(it): humps for it in timed if (humps := _two_humps(it)) is not None}
    told = []
    if apart:
        ordered = sorted(apart.items(), key=lambda it: it[1][0] / it[1][1])
        listed = "; ".join(f"{mode} {duration(low)} to {duration(high)}" for mode, (low, high) in ordered[:_MOST_APART])
        less = len(of_each) - min(len(ordered), _MOST_APART)
        more = f"; {count(less, 'other')} by less" if less else ""
        (low, high), *_ = (ends for _, ends in ordered)
        most = high / low
        count_ = max(len(it.first_rounds) for it in timed)
        what = f"The medians of the {count_} processes differ by up to {times(most)}, so figures of two runs can differ as much"
        weight = Weight.GAIN if most >= _FAR_APART else Weight.COST
        exact = "; ratios within this run are as exact as their intervals say" if len(timed) > 1 else ""
        exact += "; p95 and p99 are over all processes"
        told.append(Finding(what, f"{listed}{more}{exact}", weight=weight))
    if found:
        what = "Latency is bimodal, so one median does not describe it"
        listed = "; ".join(f"{mode} {_hump(low)} and {_hump(high)}" for mode, (low, high) in found.items())
        next_ = f"{SEE_PAGE}, which plots latency over time"
        told.append(Finding(what, listed, next_, Weight.ANSWER, "unclear"))
    return told


def _ends(case: Case) -> tuple[float, float] | None:
    """The least and the greatest median of its processes, ns; None where there is one alone."""
    medians = [median(it) for it in by_process(case, LATENCY)]
    return (min(medians), max(medians)) if medians else None


def _two_humps(case: Case) -> tuple[Hump, Hump] | None:
    """Those of all samples; of several processes only where most have two by themselves, as else it is processes that differ."""
    own = by_process(case, LATENCY)
    alone = sum(two_humps(it) is not None for it in own)
    return two_humps(case.samples[LATENCY]) if not own or 2 * alone > len(own) else None


def _hump(hump: Hump) -> str:
    return f"{duration(hump.place)} in {share(hump.share)} of samples"
