"""`ortbench gate`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from ortbench.asked import asked_modes, live, plan_of, weighing
from ortbench.cli.options import command_line, takes
from ortbench.errors import BadInput
from ortbench.gate.baseline import LIVE_BASELINE, STORED_BASELINE, baseline_of, has_live_baseline
from ortbench.gate.limits import SLO, Limits, limits_of
from ortbench.options import RUNS, Given, make, options_of
from ortbench.plan import PLAN, Plan, check
from ortbench.wanted import Wanted


@takes(Limits, (SLO,), STORED_BASELINE, LIVE_BASELINE, *PLAN, Wanted)
def gate(
    given: Given,
    result: Annotated[
        Path | None,
        typer.Argument(
            metavar="RESULT.json", help="A result file, or a folder that holds one; without it the gate is live."
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option("--model", metavar="MODEL", help="Live: the candidate's model.", rich_help_panel=RUNS),
    ] = None,
    chain: Annotated[
        Path | None,
        typer.Option(
            "--chain",
            metavar="FILE",
            help="Live: the candidate's chain, in the place of --model.",
            rich_help_panel=RUNS,
        ),
    ] = None,
) -> None:
    """Pass or fail, for CI: a model, live, or a stored result.

    Against limits and a baseline. Live, with --model or --chain, candidate and baseline are measured in turns until the
    verdict is clear.
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
    from ortbench.jobs import gate as job

    wanted, force = make(Wanted, given), "force" in given
    if result is not None:
        if model is not None or chain is not None or is_contest:
            raise BadInput("a result file and a live gate (--model, --chain, --baseline-…) exclude each other")
        _refuse_live_options(given)
        baseline = Path(given["baseline"]) if "baseline" in given else None
        raise SystemExit(job.check_stored_result(result, baseline, limits, force, wanted))
    if "baseline" in given and (model is not None or chain is not None):
        raise BadInput("a live gate measures its baseline itself: leave --baseline out or name a result file")
    if model is not None and chain is not None:
        raise BadInput("--model and --chain exclude each other: name one candidate", "--chain")
    if limits.slo:
        raise BadInput("--slo is of a load: name a result file of 'ortbench load --rate'", "--slo")
    if model is None and chain is None:
        raise BadInput("name a result file, or for a live gate a --model or a --chain")
    plan = weighing(live(_plan(model, chain, given, limits), given, limits.phases()), limits.of_memory)
    plans = [plan, _baseline(plan, given)] if is_contest else [plan]
    for it in plans:
        check(it)
    raise SystemExit(job.measure_until_decided(plans, limits, force, wanted))


def _plan(model: str | None, chain: Path | None, given: Given, limits: Limits) -> Plan:
    """The candidate's plan: of a model, or of a chain.

    Raises:
        BadInput: a mistake in a chain's file, an option that cannot be read, or that chains have not.
    """
    if chain is None:
        return plan_of(str(model), given, command_line(), limits.needed())
    from ortbench.suite import chain_job  # it reads files, which gates of models need not

    return chain_job.plan_of(chain, os.environ, given, command_line(), limits.needed())


def _baseline(plan: Plan, given: Given) -> Plan:
    """The baseline's plan, see `_plan`."""
    if plan.chain is None:
        return baseline_of(plan, given)
    from ortbench.suite import chain_job

    return chain_job.baseline_of(plan, os.environ, given)


def _refuse_live_options(given: Given) -> None:
    """An option that says how to measure does nothing for a result that has been measured.

    Raises:
        BadInput: one was given.
    """
    for it in options_of(*PLAN, Wanted):
        if it.only_live and it.flag in given:
            reason = "says how to measure: it is for a live gate (--model), not for a result file"
            raise BadInput(f"{it.name} {reason}", it.name)
