"""What a command came to, for features that write it in a form of their own: a page, a list for CI systems, a timeline."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ortbench.core.safe_text import visible_lines
from ortbench.core.stats import Stats
from ortbench.facts.checks import Check
from ortbench.model import modes
from ortbench.model.metrics import PER_BLOCK
from ortbench.model.result import Case, Result
from ortbench.model.timeline import Timeline
from ortbench.report.model import Block, Report


class Failure(NamedTuple):
    """Why there is no result, or why it is not all that was wanted."""

    name: str  # what came to nothing
    reason: str
    is_skipped: bool = False
    seconds: float = 0.0  # after which it was known


class Part(NamedTuple):
    """One of the results that a command came to, or why there is none."""

    result: Result | None
    name: str = ""  # on a page; without one a failure is not shown there
    label: str = ""  # which of several configurations it is of, where its EP does not say it
    group: str = ""  # of what CI systems list; by default its model and EP
    checks: Sequence[Check] = ()  # of a gate
    is_baseline: bool = False
    failure: Failure | None = None


class Publication(NamedTuple):
    title: str  # the command, or a suite's name
    parts: Sequence[Part]  # in the order of a page
    first: Report | None = None  # a verdict on all
    before: Sequence[Sequence[Block]] = ()  # what a page has before the results
    why: str = ""  # what makes the difference that failed a gate
    timelines: Sequence[tuple[str, Result, Timeline]] = ()  # of configurations, or shapes, by name

    @property
    def results(self) -> list[Result]:
        """Those that were not measured to be compared with."""
        return [it.result for it in self.parts if it.result is not None and not it.is_baseline]

    @property
    def labels(self) -> list[str]:
        """Theirs."""
        return [it.label for it in self.parts if it.result is not None and not it.is_baseline]


def samples_text(case: Case, phase: str, stats: Stats) -> str:
    """How many samples there are, and what of."""
    if phase in PER_BLOCK:
        return f"{stats.n} blocks"
    if phase == modes.ENQUEUE and modes.mode_of(case.mode).in_bursts:
        return f"{stats.n} bursts, time per inference"
    if case.pipeline is not None and modes.is_rate(case.mode, phase):
        return f"{stats.n} rounds with {case.pipeline['depth']} inferences in flight, time per inference"
    if modes.is_rate(case.mode, phase):
        return f"{stats.n} bursts of {case.inferences_per_sample} inferences, time per inference"
    if phase == modes.STEP:
        return f"{stats.n} steps"
    return f"{stats.n} {_SAMPLES[case.whole](case)}"


_SAMPLES: dict[str, Callable[[Case], str]] = {
    modes.LATENCY: lambda case: "samples",
    modes.WHOLE_LOOP: lambda case: f"loops of {len(case.steps_ns or ())} steps",
    modes.WHOLE_CHAIN: lambda case: f"chains of {len(case.stages)} stages",
    modes.WHOLE_START: lambda case: "starts",
}


def plain_line(text: str) -> str:
    """A text on one line that can be seen, and that XML and JSON can hold."""
    return " ".join(visible_lines(text).split())


def number_repeated(labels: Sequence[tuple[str, str]]) -> list[str]:
    """The second of each pair, with a number where the pair has occurred before."""
    earlier: set[tuple[str, str]] = set()
    names = []
    for group, label in labels:
        name, number = label, 1
        while (group, name) in earlier:
            number += 1
            name = f"{label} ({number})"
        earlier.add((group, name))
        names.append(name)
    return names
