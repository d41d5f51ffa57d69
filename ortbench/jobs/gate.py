"""Carries a gate out: against a stored result, or live. What `ortbench gate` and suites go through."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ortbench.analysis.comparing.comparable import (
    apart,
    changes,
    comparability,
    different_chains,
    mismatches,
    sameness,
    short,
)
from ortbench.core.errors import INTERRUPTED, OrtbenchError
from ortbench.core.files import make_marked, write_or_note
from ortbench.core.safe_text import complain
from ortbench.gate.checks import check_alone
from ortbench.gate.limits import Check, Limits
from ortbench.gate.live import LiveGate
from ortbench.gate.live_load import LiveLoadGate, planned
from ortbench.gate.stored import check_stored
from ortbench.gate.verdict import AGAIN, SIDES, Verdict, confirmed, verdict_json
from ortbench.jobs.asked_gate import AskedGate
from ortbench.jobs.compare import result_file
from ortbench.jobs.measuring import Place, measure, new_place
from ortbench.jobs.publishing import Exports, publish
from ortbench.model.kinds import KINDS
from ortbench.model.result import Result
from ortbench.model.result_file import load
from ortbench.plan.options import declared
from ortbench.plan.output_options import Wanted
from ortbench.plan.plan import Observer, Plan
from ortbench.plan.target import Inputs
from ortbench.report.comparison import build_gate
from ortbench.report.markdown import markdown


@dataclass(frozen=True)
class _Held:
    """A live gate that was held once: the results of the candidate and of the baseline, where there is one, their folders,
    and the names of the checks that found the candidate slower.
    """

    results: Sequence[Result]
    folders: Sequence[Path]
    checks: Sequence[Check]
    regressions: set[str]


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


def gate_live(
    asked: AskedGate, place: Place | None, quiet: bool = False, observer: Observer | None = None
) -> Verdict | None:
    """Measure a candidate, in turns with its baseline where there are two plans, until the verdict is clear; a regression
    once more, with fresh workers. None if it was interrupted; see `ortbench.jobs.measuring.measure`.
    """
    once = partial(_hold, asked, quiet, observer)
    held = once(place)
    if held is None:
        return None
    results, checks = held.results, held.checks
    remarks, alike = _remarks(asked.plans, results) if results[1:] else ([], False)
    folder = held.folders[0] if held.folders else None
    if folder is not None and results[1:]:
        folder = folder.parent
    if held.regressions:
        again = _hold_again(once, folder)
        if again is None:
            return None
        checks = confirmed(checks, held.regressions, *again)
    verdict = Verdict(results, checks, remarks, folder, alike)
    if folder is not None:
        write_or_note(folder / "gate.json", verdict_json(verdict))
        write_or_note(folder / "gate.md", markdown(build_gate(verdict)))
    return verdict


def _hold(asked: AskedGate, quiet: bool, observer: Observer | None, place: Place | None) -> _Held | None:
    """Measure once until the checks are clear, and check; None if it was interrupted."""
    plans, names, in_turns = asked.plans, SIDES[: len(asked.plans)], len(asked.plans) > 1
    live: LiveGate | LiveLoadGate
    if asked.load is None:
        live = LiveGate(asked.limits, plans[0].modes, in_turns, plans[0].work.shared(plans[-1].work))
    else:
        live = LiveLoadGate(asked.limits, planned(plans[0].modes, asked.load))
    check_inputs = None if asked.force else LiveGate.check_inputs
    found = measure(plans, place, names, asked.load, live, check_inputs, quiet, observer=observer)
    if found.interrupted:
        return None
    is_contest = in_turns or isinstance(live, LiveGate)
    checks = live.checks(found.results) if is_contest else check_alone(found.result, asked.limits)
    return _Held(found.results, found.folders, checks, live.regressions(checks))


def _hold_again(
    once: Callable[[Place | None], _Held | None], place: Path | None
) -> tuple[Sequence[Check], str | None] | None:
    """The checks of another time with fresh workers, which is kept beside the first, or why there are none; None if it was
    interrupted."""

    def folder() -> Path:
        assert place is not None
        return make_marked(place / AGAIN)

    try:
        held = once(None if place is None else folder)
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
        inputs += map(apart, different_chains(baseline.part, candidate.part))
    if not inputs and (same := sameness(baseline, candidate)) is not None:
        return [same], True
    return [f"baseline → candidate: {change}" for change in [*inputs, *changes(baseline, candidate)]], False


def check_stored_result(result: Path, asked: AskedGate, wanted: Wanted) -> int:
    """Hold a result file against its limits and that of an earlier run, show the verdict; the exit code."""
    stored = None if asked.baseline is None else load(result_file(asked.baseline))
    return _conclude(gate_stored(load(result_file(result)), stored, asked.limits, asked.force), wanted)


def measure_until_decided(asked: AskedGate, wanted: Wanted) -> int:
    """Hold a live gate in a folder of its own and show its verdict; the exit code."""
    verdict = gate_live(asked, new_place(wanted.out, asked.plans[:1], "gate"), wanted.quiet)
    if verdict is None:
        print("ortbench: interrupted before the gate was decided", file=sys.stderr)
        return INTERRUPTED
    return _conclude(verdict, wanted)


def _conclude(verdict: Verdict, wanted: Wanted) -> int:
    """Write and print a gate's verdict; its exit code."""
    from ortbench.report.exports.junit import outcomes_of_gate

    outcomes = partial(outcomes_of_gate, verdict.results, verdict.checks)
    exports = Exports("ortbench gate", outcomes, verdict.results[:1])
    publish(wanted, [build_gate(verdict)], partial(verdict_json, verdict), exports=exports)
    for line in verdict.failed:
        complain(line)
    return verdict.code
