"""The finding on latencies that have two humps, of which the median says little. Pure."""

from __future__ import annotations

from ortbench.analysis.findings.finding import Finding, Weight
from ortbench.core.humps import Hump, two_humps
from ortbench.core.units import duration, share
from ortbench.model.modes import LATENCY
from ortbench.model.result import OK, Result


def hump_findings(result: Result) -> list[Finding]:
    """Of all modes with two humps in one finding: where these are, and how many of the samples each has."""
    timed = {it.mode: it.samples[LATENCY] for it in result.at_point() if it.status == OK and LATENCY in it.samples}
    found = {mode: humps for mode, times in timed.items() if (humps := two_humps(times)) is not None}
    if not found:
        return []
    what = "Latency is bimodal, so its median describes only one of two peaks"
    listed = "; ".join(f"{mode} {_text(low)} and {_text(high)}" for mode, (low, high) in found.items())
    return [Finding(what, listed, "see the page (--html), which plots latency over time", Weight.ANSWER, "unclear")]


def _text(hump: Hump) -> str:
    return f"{duration(hump.place)} in {share(hump.share)} of samples"
