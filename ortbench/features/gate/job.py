"""What a gate's options ask for, and how it is carried out: on a stored result, or live. The command line, Python and suites share it."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from ortbench.analysis.comparable import apart, are_alike, changes, different_stages, short
from ortbench.analysis.intervals import ABOVE, BELOW, verdict_of
from ortbench.core.errors import INTERRUPTED, BadInput, OrtbenchError
from ortbench.core.features import candidates, features, is_there, part_of
from ortbench.core.files import make_folder, write_or_note
from ortbench.core.safe_text import complain
from ortbench.facts import Fact, certificate_facts
from ortbench.facts.comparison import remark_facts
from ortbench.facts.sentences import FAILED, UNCLEAR, Check
from ortbench.features.gate.gates import AGAIN_ALPHA, ALPHA
from ortbench.features.gate.gates.baseline import LiveGate, check_stored
from ortbench.features.gate.gates.checks import (
    AGAIN,
    NAMES,
    Verdict,
    check_alone,
    confirm_checks,
    refuse_others,
    refuse_unchecked,
    verdict_json,
)
from ortbench.features.gate.plan import COMPARED_WITH_NONE, AskedGate, Limits, candidate_of, limits_of, live
from ortbench.features.gate.report import build_gate, gate_screen, verdict_report
from ortbench.jobs import Measured, check_wanted, publish
from ortbench.jobs.compare import one_result_file
from ortbench.jobs.run import ForecastLine, MakeFolder, folder_maker, measure, observer_for, result_saver
from ortbench.model.kinds import kind_of
from ortbench.model.metrics import USUAL
from ortbench.model.modes import INFERENCE, LATENCY
from ortbench.model.result import Result
from ortbench.model.result_file import load
from ortbench.plan.baseline import baseline_of, has_live_baseline
from ortbench.plan.options import (
    RawOptions,
    declared_options,
    flags_of_kinds,
    limits_of_kinds,
    options_for,
    plans_of_features,
)
from ortbench.plan.plan import Observer, OutputOptions, Plan, check
from ortbench.plan.plan_builder import modes_to_compare, with_memory
from ortbench.plan.target import Inputs
from ortbench.report.records import Part, Publication, markdown


def asked_gate(given: RawOptions, is_stored: bool, typed: tuple[str, ...]) -> AskedGate:
    """What options ask for; `is_stored` where a result is given that has been measured, `typed` is for the results.
    `BadInput` for options that cannot be, that say nothing, or exclude each other."""
    is_in_turns = has_live_baseline(given)
    has_baseline = "baseline" in given or is_in_turns
    for name, reason in (
        ("max-regression", "needs something to compare with:"),
        ("metric", "is compared with a baseline: give"),
    ):
        if name in given and not has_baseline:
            raise BadInput(f"--{name} {reason} --baseline, or live --baseline-model, --baseline-set …", f"--{name}")
    limits = limits_of(given, has_baseline, modes_to_compare(given))
    if not limits.any:
        raise BadInput("nothing to check: give --baseline, a live baseline, or a limit such as --max-cpu-nodes 0")
    names = ["model", *candidates()]
    is_live = any(it in given for it in names)
    why = given.get("why")
    if why and not has_baseline:
        raise BadInput("--why explains a difference: give a baseline", "--why")
    force = "force" in given
    if is_stored:
        if is_live or is_in_turns:
            flags = ", ".join(f"--{it}" for it in names)
            raise BadInput(f"a result file and a live gate ({flags}, --baseline-set …) exclude each other")
        for option in options_for("gate"):
            if option.rules.is_live_only and option.flag in given:
                raise BadInput(f"{option.name} applies to a live gate (--model), not to a stored result", option.name)
        return AskedGate(limits, force, baseline=Path(given["baseline"]) if "baseline" in given else None, why=why)
    if "baseline" in given and is_live:
        raise BadInput("a live gate measures its baseline itself: leave --baseline out or name a result file")
    if "model" in given and (other := _candidate_option(given)):
        raise BadInput(f"--model and --{other} exclude each other: name one candidate", f"--{other}")
    if not is_live:
        raise BadInput(f"name a result file, or for a live gate {' or '.join(f'a --{it}' for it in names)}")
    if limits.outputs and not is_in_turns and "expect" not in given:
        raise BadInput(f"--limit {next(iter(limits.outputs))}: {COMPARED_WITH_NONE}", "--limit")
    for name in features():
        if plans := part_of(name, "gates", "live_plans", lambda *_: ())(given, limits, typed, is_in_turns):
            return AskedGate(limits, force, plans)
    if limits.own:
        return _of_kind(given, limits, typed, is_in_turns)
    for kind, limit in limits_of_kinds().values():
        for flag in flags_of_kinds()[kind]:
            if flag in given:
                reason = f"is of {kind_of(kind).noun}: add {limit.name} {limit.texts.metavar}"
                raise BadInput(f"--{flag} {reason}", f"--{flag}")
    plan = with_memory(live(_plan(given, limits, typed), given, limits.phases()), limits.of_memory)
    plans = (plan,)
    if is_in_turns:
        name = _candidate_option(given)
        plans = plan, _part(name).baseline_of(plan, os.environ, given) if name else baseline_of(plan, given)
    for one in plans:
        check(one)
    if why and (not is_in_turns or plan.work != INFERENCE):
        raise BadInput(
            "--why explains single inferences beside a baseline: give --baseline-model, without --feedback", "--why"
        )
    return AskedGate(limits, force, plans, why=why)


def _of_kind(given: RawOptions, limits: Limits, typed: tuple[str, ...], is_in_turns: bool) -> AskedGate:
    """A live gate of a feature's kind, whose limit was given; `BadInput` for options or limits that the kind has not, or a baseline."""
    kind, limit = limits_of_kinds()[next(iter(limits.own))]
    if is_in_turns or _candidate_option(given):
        reason = f"measures {kind_of(kind).noun} of one model: name it with --model, without a baseline"
        raise BadInput(f"{limit.name} {reason}", limit.name)
    refuse_others(kind, given)
    refuse_unchecked(kind, given)
    plan = plans_of_features()[kind](given["model"], given, typed)
    check(plan)
    return AskedGate(limits, "force" in given, (plan,))


def _plan(given: RawOptions, limits: Limits, typed: tuple[str, ...]) -> Plan:
    """The candidate's plan; `BadInput` for what cannot be read, or an option that the candidate does not take."""
    if not (name := _candidate_option(given)):
        return candidate_of(given["model"], given, typed, limits)
    plan: Plan = _part(name).candidate_of(Path(given[name]), os.environ, given, typed, limits.needed_modes())
    return plan


def _candidate_option(given: RawOptions) -> str:
    """The option that names a candidate which is no model; else nothing."""
    return next((it for it in candidates() if it in given), "")


def _part(name: str) -> ModuleType:
    return import_module(candidates()[name])


@dataclass(frozen=True)
class _Outcome:
    measured: Measured  # the candidate and the baseline, where there is one
    checks: Sequence[Check]
    regressions: set[str]  # the names of the checks that found the candidate slower

    def check_models(self) -> None:
        """Refuse (`BenchmarkFailed`) what was measured since then where a model is another one now."""
        for files in self.measured.model_files:
            files.check()


def gate_stored(result: Result, baseline: Result | None, limits: Limits, force: bool, why: bool = False) -> Verdict:
    """Hold a finished result against its limits and a baseline of an earlier run, and say `why` it differs from that.

    Raises:
        NotComparable: they were not measured on the same thing, and it was not forced.
        BadInput: limits that the results have no figures for.
    """
    if baseline is None:
        return Verdict([result], check_alone(result, limits))
    differences = [*remark_facts([baseline, result], NAMES[::-1], force), *certificate_facts([result, baseline])]
    checks = [*check_stored(result, baseline, limits), *check_alone(result, limits)]
    found = None
    if why:
        from ortbench.features.why.report import explain_results

        found = explain_results([baseline, result], limits.modes)
    return Verdict([result, baseline], checks, differences, why=found)


def gate_live(
    asked: AskedGate, make_folder: MakeFolder | None, quiet: bool = False, observer: Observer | None = None
) -> Verdict | None:
    """Measure a candidate, in turns with its baseline where there are two plans, until the verdict is clear; a regression
    once more, with fresh workers. None if it was interrupted; see `ortbench.jobs.run.measure`."""
    outcome = _measure_once(asked, quiet, observer, make_folder)
    if outcome is None:
        return None
    results, checks, folders = outcome.measured.results, outcome.checks, outcome.measured.folders
    differences = [*(_differences(asked.plans, results) if results[1:] else ()), *certificate_facts(results)]
    folder = folders[0] if folders else None
    if folder is not None and results[1:]:
        folder = folder.parent
    not_confirmed = ""
    if outcome.regressions:
        again = _measure_again(asked, outcome, quiet, observer, folder)
        if again is None:
            return None
        checks, not_confirmed = again
    slower = [it.mode for it in checks if it.verdict == FAILED and it.name in outcome.regressions and it.mode]
    verdict = Verdict(results, checks, differences, folder, not_confirmed=not_confirmed)
    can_tell = bool(results[1:]) and kind_of(results[0].kind).times_nodes and not verdict.failed_cases
    if can_tell and (bool(slower) if asked.why is None else asked.why):
        if slower and not quiet:
            complain(f"gate: {verdict.sentence}; its cause is looked for")
        verdict = _add_explanation(verdict, asked, outcome, slower, quiet, observer)
    if folder is not None:
        write_or_note(folder / "gate.json", verdict_json(verdict))
        write_or_note(folder / "gate.md", markdown(build_gate(verdict)))
    return verdict


def _add_explanation(
    verdict: Verdict,
    asked: AskedGate,
    outcome: _Outcome,
    slower: Sequence[str],
    quiet: bool,
    observer: Observer | None,
) -> Verdict:
    """The verdict with what makes the difference, in the first mode that checks found slower, or else of all; where that cannot be
    found, with why not."""
    if not is_there("why"):
        return verdict
    from ortbench.features.why.job import why_slower
    from ortbench.features.why.report import explanation
    from ortbench.report.run import write_run

    try:
        with ExitStack() as stack:
            told = observer_for(stack, quiet, observer or _line(quiet, "confirming the change of nodes")) or Observer()
            ratios = {it.mode: it.ratio for it in verdict.checks if it.mode and it.ratio is not None and _is_told(it)}
            modes = [*slower, *asked.limits.modes]
            why = explanation(why_slower(asked.plans, verdict.results, modes, told, ratios))
            outcome.check_models()
    except (OrtbenchError, OSError, KeyboardInterrupt) as error:
        reason = "it was interrupted" if isinstance(error, KeyboardInterrupt) else str(error)
        return replace(
            verdict, differences=[*verdict.differences, Fact("nodes-unknown", "failed", "", {"why": reason})]
        )
    for result, folder in zip(verdict.results, outcome.measured.folders, strict=False):
        result_saver(folder)(result)
        write_run(result, folder)
    return replace(verdict, why=why)


def _line(quiet: bool, what: str) -> Observer | None:
    """What says how long something takes on what is no terminal."""
    return None if quiet or sys.stderr.isatty() else ForecastLine(what)


def _is_told(check: Check) -> bool:
    """Whether a live gate tells for certain that a candidate is slower, or faster."""
    of_latency = check.metric == f"{LATENCY}.{USUAL}" and check.rounds is not None and check.verdict != UNCLEAR
    return of_latency and verdict_of((check.low, check.high)) in (ABOVE, BELOW)


def _measure_once(
    asked: AskedGate, quiet: bool, observer: Observer | None, make_folder: MakeFolder | None, alpha: float = ALPHA
) -> _Outcome | None:
    """Measure once until the checks are clear, and check; None if it was interrupted."""
    plans, names, in_turns = asked.plans, NAMES[: len(asked.plans)], len(asked.plans) > 1
    of_kind = part_of(plans[0].part.folder, "gates", "live_gate")
    judge: Any = (
        of_kind(asked.limits, plans)
        if of_kind
        else LiveGate(asked.limits, plans[0].modes, in_turns, plans[0].work.common_work(plans[-1].work), alpha)
    )
    check_inputs = None if asked.force else LiveGate.check_inputs
    # What is for itself, or a kind's limit is for, goes on as long as it is asked to.
    decides = None if asked.limits.own or (of_kind and not in_turns) else judge
    found = measure(plans, make_folder, names, decides, check_inputs, quiet, observer=observer)
    if found.interrupted:
        return None
    checks = judge.checks(found.results)
    return _Outcome(found, checks, judge.regressions(checks))


def _measure_again(
    asked: AskedGate, outcome: _Outcome, quiet: bool, observer: Observer | None, folder: Path | None
) -> tuple[Sequence[Check], str] | None:
    """The checks, with what another time with fresh workers came to, which is kept beside the first, and why that failed, if it did; None
    if it was interrupted."""
    observer = observer or _line(quiet, "confirming with fresh workers")
    try:
        keep = None if folder is None else lambda: make_folder(folder / AGAIN)
        again = _measure_once(asked, quiet, observer, keep, AGAIN_ALPHA)
        outcome.check_models()
    except (OrtbenchError, OSError) as error:
        return confirm_checks(outcome.checks, outcome.regressions, [], str(error)), str(error)
    return None if again is None else (confirm_checks(outcome.checks, outcome.regressions, again.checks), "")


def _differences(plans: Sequence[Plan], results: Sequence[Result]) -> list[Fact]:
    """What differs between the two of a live gate, or that nothing does."""
    candidate, baseline = results
    inputs = [
        f"{option.flag}: {short(getattr(plans[1].inputs, name))} → {short(getattr(plans[0].inputs, name))}"
        for name, option in declared_options(Inputs).items()
        if getattr(plans[1].inputs, name) != getattr(plans[0].inputs, name)
    ]
    inputs += map(apart, different_stages(baseline, candidate))
    if not inputs and are_alike(baseline, candidate):
        return [Fact("gate-change", "none")]
    every = [*inputs, *changes(baseline, candidate)]
    return [Fact("gate-change", "one", "", {"changes": [it]}) for it in every]


def check_stored_result(result: Path, asked: AskedGate, wanted: OutputOptions) -> int:
    """Hold a result file against its limits and that of an earlier run, show the verdict; the exit code."""
    check_wanted(wanted)
    stored = None if asked.baseline is None else load(one_result_file(asked.baseline))
    return _conclude(
        gate_stored(load(one_result_file(result)), stored, asked.limits, asked.force, bool(asked.why)), wanted
    )


def measure_until_decided(asked: AskedGate, wanted: OutputOptions) -> int:
    """Hold a live gate in a folder of its own and show its verdict; the exit code."""
    check_wanted(wanted)
    verdict = gate_live(asked, folder_maker(wanted.out, asked.plans[:1], "gate"), wanted.quiet)
    if verdict is None:
        print("ortbench: interrupted before the gate was decided", file=sys.stderr)
        return INTERRUPTED
    return _conclude(verdict, wanted)


def _conclude(verdict: Verdict, wanted: OutputOptions) -> int:
    why = verdict.why

    def publication() -> Publication:
        candidate, *baselines = zip(verdict.results, verdict.names, strict=True)
        parts = [Part(*it, is_baseline=True) for it in baselines[::-1]]
        parts.append(Part(*candidate, checks=verdict.checks))
        before, text = (why.parts, why.text) if why else ((), "")
        return Publication("ortbench gate", parts, verdict_report(verdict), before, text)

    publish(
        wanted,
        [build_gate(verdict)],
        partial(verdict_json, verdict),
        publication=publication,
        screens=[gate_screen(verdict)],
    )
    for line in verdict.failed_cases:
        complain(line)
    return verdict.code
