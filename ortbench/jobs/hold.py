"""Holds a live gate once: measures its sides in turns until the verdict is clear, and says what that comes to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ortbench.gate.limits import Check, Limits
from ortbench.gate.live import LiveGate
from ortbench.gate.verdict import SIDES
from ortbench.jobs.launch import launch
from ortbench.model.result import Result
from ortbench.plan.plan import Observer, Plan


@dataclass(frozen=True)
class Held:
    """A live gate that was held once.

    Attributes:
        results: of the candidate and, where there is one, of the baseline.
        folders: where each was saved; none where nothing is to be saved.
        checks: what was checked.
        regressions: the names of those that found the candidate slower than the baseline.
    """

    results: Sequence[Result]
    folders: Sequence[Path]
    checks: Sequence[Check]
    regressions: set[str]


@dataclass(frozen=True)
class Asked:
    """What a live gate is to hold, and how.

    Attributes:
        plans: of the candidate and, where there is one, of the baseline, checked.
        limits: what the candidate must keep to.
        force: go on if the two take other inputs.
        quiet: show no progress.
        observer: told what happens, in place of a progress on the terminal.
    """

    plans: Sequence[Plan]
    limits: Limits
    force: bool
    quiet: bool
    observer: Observer | None = None

    def check_inputs(self) -> Callable[[Sequence[Result]], None] | None:
        """What refuses two models with other inputs; None where that is forced."""
        return None if self.force else LiveGate.check_inputs


Hold = Callable[[Asked, Callable[[], Path] | None], Held | None]


def hold(asked: Asked, folder: Callable[[], Path] | None) -> Held | None:
    """Hold a gate of inferences, loops or chains.

    Args:
        asked: what to hold.
        folder: makes the folder that everything is saved in; None where nothing is to be saved.

    Returns:
        None if it was interrupted.

    Raises:
        BadInput, BenchmarkFailed, NotComparable: before anything could be measured, or nothing could be.
    """
    plans = asked.plans
    live = LiveGate(asked.limits, plans[0].modes, len(plans) > 1, plans[0].work.shared(plans[-1].work))
    names = SIDES[: len(plans)]
    launched = launch(plans, folder, names, live, asked.check_inputs(), asked.quiet, observer=asked.observer)
    if launched.interrupted:
        return None
    checks = live.checks(launched.results)
    return Held(launched.results, launched.folders, checks, live.regressions(checks))
