"""`ortbench profile`."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from ortbench.cli.options import command_line, takes
from ortbench.plan.options import MEASURED, Given, make
from ortbench.plan.output_options import Wanted
from ortbench.plan.plan import PLAN, Plan, check
from ortbench.plan.plan_builder import plan_of

ModelOrChain = Annotated[
    str, typer.Argument(metavar="MODEL", help="The model, an .onnx or .ort file, or a chain, a TOML file.")
]


@takes(*PLAN, Wanted)
def profile(
    given: Given,
    model: ModelOrChain,
    attach_only: Annotated[
        bool,
        typer.Option(
            "--attach-only",
            help="Do not start nsys: run the session for a profiler that is attached.",
            rich_help_panel=MEASURED,
        ),
    ] = False,
) -> None:
    """Run a short session made for a timeline, under Nsight Systems where it is installed."""
    plan = _plan(model, given)
    plan = replace(plan, loop=replace(plan.loop, in_order=True))
    check(plan)
    from ortbench.jobs import profile as job

    raise SystemExit(job.profile(plan, attach_only, make(Wanted, given)))


def _plan(model: str, given: Given) -> Plan:
    """Of a model, or of a chain.

    Raises:
        BadInput: a mistake in a chain's file, an option that cannot be read, or that chains have not.
    """
    if not model.endswith(".toml"):
        return plan_of(model, given, command_line())
    from ortbench.suite import chain_job

    return chain_job.plan_of(Path(model), os.environ, given, command_line(), ())
