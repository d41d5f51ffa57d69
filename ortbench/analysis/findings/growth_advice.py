"""What a soak tells: whether memory, handles and threads grow, and what to do about it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from ortbench.analysis.findings.finding import Finding, Weight
from ortbench.analysis.findings.phrases import NOTHING
from ortbench.analysis.findings.program import again
from ortbench.analysis.growth import GROWS, NONE, STEADY, TOLERANCE, UNCLEAR, Growth, growth
from ortbench.core.units import digits, duration, size
from ortbench.model.modes import CPU_TIME, DEVICE_GROWTH, HOST_GROWTH
from ortbench.model.result import Case, Result
from ortbench.model.schema import Soak

_FEW = 3  # handles or threads that a process may come to have besides
_LONGER = 4  # times as long as a soak that cannot tell
_KEYS = {
    "private": (HOST_GROWTH, "host memory"),
    "resident": (HOST_GROWTH, "host memory"),
    "device": (DEVICE_GROWTH, "device memory"),
    "handles": ("handle_growth", "open handles"),
    "threads": ("thread_growth", "threads"),
}
_HELD = {HOST_GROWTH: "host_held", DEVICE_GROWTH: "device_held"}


@dataclass(frozen=True)
class Grown:
    """Something that was read throughout a soak: inferences, and how much of it there was after them."""

    metric: str
    title: str
    points: Sequence[tuple[float, float]]

    @property
    def is_memory(self) -> bool:
        """Else it is counted."""
        return self.metric in (HOST_GROWTH, DEVICE_GROWTH)

    @cached_property
    def growth(self) -> Growth | None:
        """Whether it grows; None of too few readings."""
        return growth(self.points, TOLERANCE if self.is_memory else _FEW)

    @property
    def verdict(self) -> str:
        """One of the four."""
        return UNCLEAR if self.growth is None else self.growth.verdict

    def show(self, value: float) -> str:
        """A figure of it with its unit."""
        sign = "−" if value < 0 else ""
        return f"{sign}{size(abs(value))}" if self.is_memory else f"{sign}{digits(abs(value))}"

    @property
    def text(self) -> str:
        """The verdict in words."""
        found = self.growth
        if found is None:
            return "cannot tell yet, there are too few readings"
        if found.verdict == GROWS:
            half = (found.ci95[1] - found.ci95[0]) / 2
            return f"grows by {self.show(found.slope)} ± {self.show(half)} per 1,000 inferences"
        if found.verdict == STEADY:
            return f"grew until {found.until:,} inferences, steady since"
        if found.verdict == UNCLEAR:
            return f"cannot tell yet, {found.why}"
        return f"no growth, at most {self.show(found.ci95[1])} per 1,000 inferences"


def grown(soak: Soak) -> list[Grown]:
    """What was read throughout, the host's memory first: private memory where the system tells it, else the resident set."""
    found: dict[str, Grown] = {}
    for key, (metric, title) in _KEYS.items():
        points = [(it["inferences"], it[key]) for it in soak["readings"]]  # type: ignore[literal-required]
        if points and metric not in found and all(held is not None for _, held in points):
            found[metric] = Grown(metric, title, points)
    return list(found.values())


def put_growth(case: Case, soak: Soak) -> None:
    """Put into a case how much grows."""
    for it in grown(soak):
        if it.growth is not None:
            case.put(it.metric, it.growth.slope, it.growth.ci95, derived=True)
        if it.is_memory:
            case.put(_HELD[it.metric], it.points[-1][1], derived=True)


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
            before, cpu = base.value(_HELD[it.metric]), [one.stats(CPU_TIME) for one in (case, base)]
            what, took = f"{name} ends with {it.show(it.points[-1][1])} of {it.title}", ""
            if case is not base and before is not None:
                what += f" instead of {it.show(before)}"
                took = f"; CPU time of an inference {' instead of '.join(duration(it.mean) for it in cpu if it)}"
            found.append(Finding(what, it.text + took, weight=Weight.ANSWER, tone=_TONES[it.verdict]))
    return found


def soak_headline(result: Result) -> str:
    return next((f"{_begun(title)}: {text}" for title, text in verdicts(result.part)), NOTHING)


_TONES = {NONE: "good", STEADY: "good", GROWS: "bad", UNCLEAR: "unclear"}


def _begun(title: str) -> str:
    return title[0].upper() + title[1:]


def _finding(result: Result, it: Grown) -> Finding:
    (_, first), (count, last) = it.points[0], it.points[-1]
    what = f"{_begun(it.title)} ({it.show(first)} at first, {it.show(last)} after {count:,} inferences)"
    return Finding(what, it.text, _next(result, it), Weight.ANSWER, _TONES[it.verdict])


def _next(result: Result, it: Grown) -> str:
    """Soak longer, or try smaller arenas where shapes make them grow."""
    stopped = result.stopped
    if it.verdict == UNCLEAR and stopped is not None and stopped["reason"] in ("iterations", "duration"):
        return again(result, f"--{stopped['reason']}", f"{_LONGER * stopped['value']:g}")
    if it.verdict not in (GROWS, STEADY) or not it.is_memory or not result.part["shapes"]:
        return ""
    return "" if any("--try" in word for word in result.command) else again(result, "--try", "arena")
