"""What a soak tells: whether memory, handles and threads grow, and what to do about it. Pure."""

from __future__ import annotations

from ortbench.analysis.findings.finding import Finding, Weight
from ortbench.analysis.findings.phrases import NOTHING
from ortbench.analysis.findings.program import again
from ortbench.analysis.growth import GROWS, NONE, STEADY, UNCLEAR, Grown, grown
from ortbench.core.safe_text import capitalized
from ortbench.model.modes import DEVICE_GROWTH
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


def soak_headline(result: Result) -> str:
    return next((f"{capitalized(title)}: {text}" for title, text in verdicts(result.part)), NOTHING)


_TONES = {NONE: "good", STEADY: "good", GROWS: "bad", UNCLEAR: "unclear"}


def _finding(result: Result, it: Grown) -> Finding:
    (_, first), (count, last) = it.points[0], it.points[-1]
    what = f"{capitalized(it.title)} ({it.show(first)} at the start, {it.show(last)} after {count:,} inferences)"
    return Finding(what, it.text, _next(result, it), Weight.ANSWER, _TONES[it.verdict])


def _next(result: Result, it: Grown) -> str:
    """Soak longer, or keep arenas small where shapes make them grow."""
    stopped = result.stopped
    if it.verdict == UNCLEAR and stopped is not None and stopped["reason"] in ("iterations", "duration"):
        return again(result, f"--{stopped['reason']}", f"{_TIMES_LONGER * stopped['value']:g}")
    if it.verdict not in (GROWS, STEADY) or not it.is_memory or not result.part["shapes"]:
        return ""
    if it.metric == DEVICE_GROWTH:
        return again(result, "--run-config", "memory.enable_memory_arena_shrinkage=gpu:0")
    return again(result, "--no-cpu-mem-arena") if result.target.get("cpu_mem_arena", True) else ""
