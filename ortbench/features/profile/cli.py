from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from ortbench.cli.options import command_line
from ortbench.core.features import is_there
from ortbench.plan.options import MEASURED, RawOptions, build
from ortbench.plan.plan import OutputOptions, check
from ortbench.plan.plan_builder import planner_of

_MODEL = f"The model, an .onnx or .ort file{', or a chain, a TOML file' * is_there('chain')}."


def profile(
    given: RawOptions,
    model: Annotated[str, typer.Argument(metavar="MODEL", help=_MODEL)],
    attach_only: Annotated[
        bool,
        typer.Option(
            "--attach-only", help="Run for an attached profiler; do not start nsys.", rich_help_panel=MEASURED
        ),
    ] = False,
) -> None:
    """Without nsys the session runs all the same, with its NVTX ranges."""
    if model.endswith(".toml") and is_there("chain"):
        from ortbench.features.chain.toml import candidate_of

        plan = candidate_of(Path(model), os.environ, given, command_line(), ())
    else:
        plan = planner_of(model, given)[1](model, given, command_line())
    plan = replace(plan, loop=replace(plan.loop, in_order=True))
    check(plan)
    from ortbench.features.profile import job

    raise SystemExit(job.profile(plan, attach_only, build(OutputOptions, given)))
