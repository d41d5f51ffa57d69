"""What a gate's options ask for: a stored result to hold to limits, or what to measure. The command line and Python share it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from ortbench.core.errors import BadInput
from ortbench.gate.baseline import CANDIDATE, UNDER_LOAD, baseline_of, has_live_baseline
from ortbench.gate.limits import Limits, limits_of
from ortbench.gate.live_load import check_live
from ortbench.model.modes import WHOLE_CHAIN
from ortbench.plan.load_plan import LoadPlan, live_load
from ortbench.plan.load_plan import check as check_load
from ortbench.plan.options import LOAD, Given, make, options_of, twin
from ortbench.plan.output_options import Wanted
from ortbench.plan.plan import PLAN, Plan, check
from ortbench.plan.plan_builder import asked_modes, live, plan_of, weighing
from ortbench.plan.sweep_plan import list_in


@dataclass(frozen=True)
class AskedGate:
    """A gate.

    Attributes:
        limits: what the candidate must keep to.
        force: go on where candidate and baseline are not comparable.
        plans: of a live gate, those of the candidate and, where there is one, of the baseline; none for a stored result.
        baseline: the stored result that a stored one is held against, if any.
        load: that a live gate puts on its models, or None.
    """

    limits: Limits
    force: bool
    plans: tuple[Plan, ...] = ()
    baseline: Path | None = None
    load: LoadPlan | None = None


def asked_gate(given: Given, is_stored: bool, typed: tuple[str, ...]) -> AskedGate:
    """What options ask for; `is_stored` where a result is given that has been measured, `typed` is for the results.

    Raises:
        BadInput: options that cannot be, that say nothing, or exclude each other.
    """
    is_contest = has_live_baseline(given)
    has_baseline = "baseline" in given or is_contest
    if "max-regression" in given and not has_baseline:
        reason = "needs something to hold it against: --baseline, or live one of --baseline-…"
        raise BadInput(f"--max-regression {reason}", "--max-regression")
    if "metric" in given and not has_baseline:
        raise BadInput("--metric says what is held against a baseline: give one", "--metric")
    limits = limits_of(given, has_baseline, asked_modes(given) if "mode" in given else ())
    if not limits.any:
        raise BadInput("nothing to check: give --baseline, a live baseline, or a limit such as --max-cpu-nodes 0")
    is_live = any(it.flag in given for it in CANDIDATE)
    force = "force" in given
    if is_stored:
        if is_live or is_contest:
            raise BadInput("a result file and a live gate (--model, --chain, --baseline-…) exclude each other")
        _refuse_live_options(given)
        return AskedGate(limits, force, baseline=Path(given["baseline"]) if "baseline" in given else None)
    if "baseline" in given and is_live:
        raise BadInput("a live gate measures its baseline itself: leave --baseline out or name a result file")
    if all(it.flag in given for it in CANDIDATE):
        raise BadInput("--model and --chain exclude each other: name one candidate", "--chain")
    if not is_live:
        raise BadInput("name a result file, or for a live gate a --model or a --chain")
    if (listed := list_in(given)) is not None:
        reason = "a live gate is of one shape: hold each in one (shapes of a suite), or two sweeps: ortbench gate SWEEP --baseline SWEEP"
        raise BadInput(f"--{listed}: {reason}", f"--{listed}")
    if UNDER_LOAD.flag in given:
        return _under_load(given, limits, typed, is_contest)
    for it in options_of(LoadPlan):
        if it.panel == LOAD and it.flag in given:
            raise BadInput(
                f"{it.name} is of a load: add {UNDER_LOAD.name}, or name a result of 'ortbench load'", it.name
            )
    plan = weighing(live(_plan(given, limits, typed), given, limits.phases()), limits.of_memory)
    plans = (plan, _baseline(plan, given)) if is_contest else (plan,)
    for one in plans:
        check(one)
    return AskedGate(limits, force, plans)


def _under_load(given: Given, limits: Limits, typed: tuple[str, ...], is_contest: bool) -> AskedGate:
    """A live gate of a load; `BadInput` for options that a load has not, or that exclude each other."""
    if "chain" in given:
        raise BadInput(f"{UNDER_LOAD.name} puts a load on one model: name it with --model", UNDER_LOAD.name)
    for it in options_of(*PLAN):
        for one in (it, twin(it)):
            if one.flag in given and not ({"load"} & {*it.commands} or it.flag == "duration"):
                raise BadInput(f"{one.name} is not for a load; 'ortbench load --help' lists what is", one.name)
    put = live_load(make(LoadPlan, {flag: value for flag, value in given.items() if flag != "duration"}), given)
    plan = plan_of(
        given["model"], {flag: value for flag, value in given.items() if flag != "duration"}, typed, limits.needed()
    )
    plans = (plan, baseline_of(plan, given)) if is_contest else (plan,)
    for side in plans:
        check(side)
        check_load(side, put)
    check_live(limits, plan.modes, put, is_contest)
    return AskedGate(limits, "force" in given, plans, load=put)


def _plan(given: Given, limits: Limits, typed: tuple[str, ...]) -> Plan:
    """The candidate's plan: of a model, or of a chain; `BadInput` for what cannot be read, or what chains have not."""
    if "chain" not in given:
        return plan_of(given["model"], given, typed, limits.needed())
    from ortbench.suite import chain_file  # it reads files, which gates of models need not

    return chain_file.gated_plan_of(Path(given["chain"]), os.environ, given, typed, limits.needed())


def _baseline(plan: Plan, given: Given) -> Plan:
    """The baseline's plan, see `_plan`."""
    return _BASELINES.get(plan.work.whole, baseline_of)(plan, given)


def _of_chain(plan: Plan, given: Given) -> Plan:
    from ortbench.suite import chain_file

    return chain_file.baseline_of(plan, os.environ, given)


_BASELINES = {WHOLE_CHAIN: _of_chain}


def _refuse_live_options(given: Given) -> None:
    """An option that says how to measure does nothing for a result that has been measured: `BadInput` where one was given."""
    for it in options_of(LoadPlan, (UNDER_LOAD,), *PLAN, Wanted):
        if it.only_live and it.flag in given:
            reason = "says how to measure: it is for a live gate (--model), not for a result file"
            raise BadInput(f"{it.name} {reason}", it.name)
