"""Carries a gate out: against a stored result, or live. What `ortbench gate` and suites go through."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from ortbench.compare import changes, comparability, sameness
from ortbench.gate import Limits, check_alone, check_stored
from ortbench.launch import launch
from ortbench.livegate import LiveGate
from ortbench.plan import Plan
from ortbench.result import Result, write_atomically
from ortbench.verdict import SIDES, Verdict, markdown, to_json


def gate_stored(result: Result, baseline: Result | None, limits: Limits, force: bool) -> Verdict:
    """Hold a finished result against its limits and a baseline of an earlier run.

    Raises:
        NotComparable: they were not measured on the same thing, and it was not forced.
        BadInput: limits that the results have no figures for.
    """
    if baseline is None:
        return Verdict([result], check_alone(result, limits))
    remarks = comparability([baseline, result], SIDES[::-1], force)
    return Verdict([result, baseline], [*check_stored(result, baseline, limits), *check_alone(result, limits)], remarks)


def gate_live(
    plans: Sequence[Plan], limits: Limits, force: bool, folder: Callable[[], Path], quiet: bool
) -> Verdict | None:
    """Measure a candidate, in turns with its baseline where there are two plans, until the verdict is clear.

    Args:
        plans: of the candidate and the baseline, checked.
        limits: what the candidate must keep to.
        force: go on if the two take other inputs.
        folder: makes the folder that everything is saved in.
        quiet: show no progress.

    Returns:
        None if it was interrupted.

    Raises:
        BadInput, BenchmarkFailed, NotComparable: before anything could be measured, or nothing could be.
    """
    live = LiveGate(limits, plans[0].modes, has_baseline=len(plans) > 1)
    launched = launch(plans, folder, SIDES[: len(plans)], live, None if force else live.check_inputs, quiet)
    if launched.interrupted:
        return None
    results = launched.results
    remarks = _remarks(*results) if results[1:] else []
    place = launched.folders[0].parent if results[1:] else launched.folders[0]
    verdict = Verdict(results, live.checks(results), remarks, place)
    write_atomically(place / "gate.json", to_json(verdict))
    write_atomically(place / "gate.md", markdown(verdict))
    return verdict


def _remarks(candidate: Result, baseline: Result) -> list[str]:
    """What differs between the sides of a live gate, in sentences; that nothing does, if so."""
    if (same := sameness(baseline, candidate)) is not None:
        return [same]
    return [f"baseline → candidate: {change}" for change in changes(baseline, candidate)]
