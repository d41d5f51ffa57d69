"""What a soak tells: whether memory, handles and threads grow, and what to do about it. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from ortbench.analysis.findings.finding import Finding, Weight
from ortbench.analysis.findings.phrases import NOTHING
from ortbench.analysis.findings.program import again
from ortbench.analysis.growth import GROWS, HELD, NONE, STEADY, UNCLEAR, Grown, grown
from ortbench.core.safe_text import capitalized
from ortbench.core.units import duration
from ortbench.model.modes import CPU_TIME
from ortbench.model.result import Result
from ortbench.model.schema import Soak

_TIMES_LONGER = 4  # times as long as a soak that cannot tell


def _told(soak: Soak) -> list[Grown]:
    """Memory, and of what is counted that which grows."""
    return [it for it in grown(soak) if it.is_memory or it.verdict == GROWS]


def verdicts(soak: Soak) -> list[tuple[str, str]]:
    """What grows, or does not, and the verdict in words."""
    return [(it.title, it.text) for it in _told(soak)]


def soak_findings(result: Result, soak: Soak) -> list[Finding]:
    """The verdicts, with what there was at first and in the end."""
    return [_finding(result, it) for it in _told(soak)]


def tried_findings(results: Sequence[Result], names: Sequence[str]) -> list[Finding]:
    """What soaks side by side end with, each beside the first."""
    found, base = [], results[0].cases[0]
    for result, name in zip(results, names, strict=True):
        case = result.cases[0]
        for it in (it for it in grown(result.part) if it.is_memory):
            before, cpu = base.value(HELD[it.metric]), (case.stats(CPU_TIME), base.stats(CPU_TIME))
            what, took = f"{name} ends with {it.show(it.points[-1][1])} of {it.title}", ""
            if case is not base and before is not None:
                what += f" instead of {it.show(before)}"
                if cpu[0] and cpu[1]:
                    took = f"; mean CPU time {duration(cpu[0].mean)} instead of {duration(cpu[1].mean)}"
            found.append(Finding(what, it.text + took, weight=Weight.ANSWER, tone=_TONES[it.verdict]))
    return found


def soak_headline(result: Result) -> str:
    return next((f"{capitalized(title)}: {text}" for title, text in verdicts(result.part)), NOTHING)


_TONES = {NONE: "good", STEADY: "good", GROWS: "bad", UNCLEAR: "unclear"}


def _finding(result: Result, it: Grown) -> Finding:
    (_, first), (count, last) = it.points[0], it.points[-1]
    what = f"{capitalized(it.title)} ({it.show(first)} at the start, {it.show(last)} after {count:,} inferences)"
    return Finding(what, it.text, _next(result, it), Weight.ANSWER, _TONES[it.verdict])


def _next(result: Result, it: Grown) -> str:
    """Soak longer, or try smaller arenas where shapes make them grow."""
    stopped = result.stopped
    if it.verdict == UNCLEAR and stopped is not None and stopped["reason"] in ("iterations", "duration"):
        return again(result, f"--{stopped['reason']}", f"{_TIMES_LONGER * stopped['value']:g}")
    if it.verdict not in (GROWS, STEADY) or not it.is_memory or not result.part["shapes"]:
        return ""
    return "" if any("--try" in word for word in result.command) else again(result, "--try", "arena")
