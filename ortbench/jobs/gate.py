"""Carries a gate out: against a stored result, or live. What `ortbench gate` and suites go through."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from ortbench.analysis.compare import changes, comparability
from ortbench.files import write_atomically
from ortbench.gate.checks import check_alone, check_stored
from ortbench.gate.limits import Limits
from ortbench.gate.live import LiveGate
from ortbench.gate.verdict import SIDES, Verdict, to_json
from ortbench.jobs.run import launch
from ortbench.plan import Plan
from ortbench.report.gate import markdown
from ortbench.result import Result


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
    remarks = [f"baseline → candidate: {change}" for change in changes(results[1], results[0])] if results[1:] else []
    place = launched.folders[0].parent if results[1:] else launched.folders[0]
    verdict = Verdict(results, live.checks(results), remarks, place)
    write_atomically(place / "gate.json", to_json(verdict))
    write_atomically(place / "gate.md", markdown(verdict))
    return verdict
