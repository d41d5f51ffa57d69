"""Carries a gate out: against a stored result, or live. What `ortbench gate` and suites go through."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from ortbench.analysis.comparing import same_chain
from ortbench.analysis.comparing.comparable import apart, changes, comparability, mismatches, sameness, short
from ortbench.core.errors import INTERRUPTED, OrtbenchError
from ortbench.core.files import write_or_note
from ortbench.core.safe_text import complain
from ortbench.gate.checks import check_alone
from ortbench.gate.confirmation import confirmed
from ortbench.gate.limits import Check, Limits
from ortbench.gate.stored import check_stored
from ortbench.gate.verdict import AGAIN, SIDES, Verdict, verdict_json
from ortbench.jobs.compare import result_file
from ortbench.jobs.hold import Asked, Hold, hold
from ortbench.jobs.hold_load import hold_load
from ortbench.jobs.junit import write_junit
from ortbench.jobs.writing import summarise_job, write
from ortbench.model.kinds import KINDS
from ortbench.model.result import Result
from ortbench.model.result_file import load
from ortbench.plan.load_plan import LoadPlan
from ortbench.plan.options import declared
from ortbench.plan.output_options import Wanted
from ortbench.plan.plan import Plan
from ortbench.plan.target import Inputs
from ortbench.report.gate import build
from ortbench.report.markdown import markdown


def gate_stored(result: Result, baseline: Result | None, limits: Limits, force: bool) -> Verdict:
    """Hold a finished result against its limits and a baseline of an earlier run.

    Raises:
        NotComparable: they were not measured on the same thing, and it was not forced.
        BadInput: limits that the results have no figures for.
    """
    if baseline is None:
        return Verdict([result], check_alone(result, limits))
    remarks = comparability([baseline, result], SIDES[::-1], force)
    checks = [*check_stored(result, baseline, limits), *check_alone(result, limits)]
    alike = not mismatches(baseline, result) and sameness(baseline, result) is not None
    return Verdict([result, baseline], checks, remarks, alike=alike)


def gate_live(asked: Asked, folder: Callable[[], Path] | None, put: LoadPlan | None = None) -> Verdict | None:
    """Measure a candidate, in turns with its baseline where there are two plans, until the verdict is clear; a regression
    once more, with fresh workers.

    Args:
        asked: what to hold.
        folder: makes the folder that everything is saved in; None where nothing is to be saved.
        put: the load that is put on both; None for inferences, loops or chains.

    Returns:
        None if it was interrupted.

    Raises:
        BadInput, BenchmarkFailed, NotComparable: before anything could be measured, or nothing could be.
    """
    once: Hold = hold if put is None else partial(hold_load, put=put)
    held = once(asked, folder)
    if held is None:
        return None
    results, checks = held.results, held.checks
    remarks, alike = _remarks(asked.plans, results) if results[1:] else ([], False)
    place = held.folders[0] if held.folders else None
    if place is not None and results[1:]:
        place = place.parent
    if held.regressions:
        again = _hold_again(once, asked, place)
        if again is None:
            return None
        checks = confirmed(checks, held.regressions, *again)
    verdict = Verdict(results, checks, remarks, place, alike)
    if place is not None:
        write_or_note(place / "gate.json", verdict_json(verdict))
        write_or_note(place / "gate.md", markdown(build(verdict)))
    return verdict


def _hold_again(once: Hold, asked: Asked, place: Path | None) -> tuple[Sequence[Check], str | None] | None:
    """The checks of another time with fresh workers, which is kept beside the first, or why there are none; None if it was
    interrupted."""

    def folder() -> Path:
        assert place is not None
        (place / AGAIN).mkdir(exist_ok=True)
        return place / AGAIN

    try:
        held = once(asked, None if place is None else folder)
    except (OrtbenchError, OSError) as error:
        return [], f"it failed: {error}"
    return None if held is None else (held.checks, None)


def _remarks(plans: Sequence[Plan], results: Sequence[Result]) -> tuple[list[str], bool]:
    """What differs between the sides of a live gate, in sentences; that nothing does, if so, and whether it is so."""
    candidate, baseline = results
    inputs = [
        f"{it.flag}: {short(getattr(plans[1].inputs, name))} → {short(getattr(plans[0].inputs, name))}"
        for name, it in declared(Inputs).items()
        if getattr(plans[1].inputs, name) != getattr(plans[0].inputs, name)
    ]
    if KINDS[candidate.kind].of_stages:
        inputs += map(apart, same_chain.different(baseline.part, candidate.part))
    if not inputs and (same := sameness(baseline, candidate)) is not None:
        return [same], True
    return [f"baseline → candidate: {change}" for change in [*inputs, *changes(baseline, candidate)]], False


def check_stored_result(result: Path, baseline: Path | None, limits: Limits, force: bool, wanted: Wanted) -> int:
    """Hold a result file against its limits and that of an earlier run, show the verdict; the exit code.

    Raises:
        NotComparable, BadInput: see `gate_stored`; a file that is no result.
    """
    held, stored = load(result_file(result)), None if baseline is None else load(result_file(baseline))
    return _conclude(gate_stored(held, stored, limits, force), wanted)


def measure_until_decided(asked: Asked, wanted: Wanted, put: LoadPlan | None = None) -> int:
    """Hold a live gate in a folder of its own and show its verdict; the exit code.

    Raises:
        BadInput, BenchmarkFailed, NotComparable: see `gate_live`.
    """
    verdict = gate_live(asked, partial(new_gate_folder, wanted.out, asked.plans[0]), put)
    if verdict is None:
        print("ortbench: interrupted before the gate was decided", file=sys.stderr)
        return INTERRUPTED
    return _conclude(verdict, wanted)


def new_gate_folder(out: Path, plan: Plan) -> Path:
    """Make the folder of a live gate.

    Raises:
        BadInput: it cannot be written.
    """
    from ortbench.measure.folder import gate_name, new_folder

    return new_folder(out, gate_name(plan))


def _conclude(verdict: Verdict, wanted: Wanted) -> int:
    """Write and print a gate's verdict; its exit code."""
    from ortbench.report.exports import junit

    report = build(verdict)
    summarise_job(markdown(report))
    if wanted.json is not None:
        write(wanted.json, verdict_json(verdict), "--json")
    if wanted.action_json is not None:
        from ortbench.report.exports.github import action_json

        write(wanted.action_json, action_json(verdict.results[:1]), "--action-json")
    if wanted.junit is not None:
        outcomes = junit.outcomes_of_gate(verdict.results, verdict.checks)
        write_junit(wanted.junit, "ortbench gate", outcomes)
    if wanted.json != "-" and not wanted.quiet:
        from ortbench.report.terminal.print import print_report

        print_report(report)
    for line in verdict.failed:
        complain(line)
    return verdict.code
