"""What the figures of starts mean, from the result alone."""

from __future__ import annotations

from ortbench.analysis.findings.finding import Finding, Weight
from ortbench.analysis.findings.phrases import NOTHING
from ortbench.core.units import duration, share
from ortbench.model.metrics import METRICS
from ortbench.model.modes import LATENCY, SECOND_INFERENCE, START_PARTS
from ortbench.model.result import OK, Case, Result

_TELLING = 0.1  # of the time to ready, from which on a part is named


def start_findings(result: Result) -> list[Finding]:
    """Where the time to the first answer goes, and what the first inference takes besides."""
    return [
        it for case in result.at_point() if case.status == OK for it in (_parts(case), _first(case)) if it is not None
    ]


def start_headline(result: Result) -> str:
    case = next((it for it in result.at_point() if it.status == OK and it.median(LATENCY) is not None), None)
    if case is None:
        return NOTHING
    return f"Ready {duration(case.median(LATENCY) or 0)} after the start of the process on {result.target['ep']}"


def _parts(case: Case) -> Finding | None:
    whole = case.median(LATENCY)
    medians = {METRICS[part].title: case.median(part) for part in START_PARTS}
    found = sorted(((ns, title) for title, ns in medians.items() if ns is not None), reverse=True)
    if not whole or not found:
        return None
    (most, longest), *rest = found
    beside = [f"{title} {duration(ns)}" for ns, title in rest if ns >= _TELLING * whole]
    what = f"{share(most / whole)} of {duration(whole)} to ready is {longest} ({duration(most)})"
    return Finding(what, "; ".join(beside), weight=Weight.ANSWER)


def _first(case: Case) -> Finding | None:
    first, second = case.median("start.first_inference"), case.median(SECOND_INFERENCE)
    if first is None or not second or first < 2 * second:
        return None
    what = f"The first inference takes {duration(first)}, the second {duration(second)}"
    return Finding(what, weight=Weight.COST)
