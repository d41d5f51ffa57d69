"""`ortbench code`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from ortbench.cli.options import Model, command_line, takes
from ortbench.core.errors import BadInput
from ortbench.model.modes import ALL_MODES, CPU, MODES
from ortbench.plan.options import WRITTEN, Given
from ortbench.plan.plan import CODE_DURATION_S, PLAN, Plan, check
from ortbench.plan.plan_builder import plan_of
from ortbench.plan.target import POLICIES


@takes(*PLAN)
def code(
    given: Given,
    model: Model,
    out: Annotated[
        str | None,
        typer.Option("--out", metavar="FILE", help="Write the program to a file.", rich_help_panel=WRITTEN),
    ] = None,
    notebook: Annotated[
        str | None,
        typer.Option(
            "--notebook", metavar="FILE", help="Write it as a Jupyter notebook (.ipynb).", rich_help_panel=WRITTEN
        ),
    ] = None,
) -> None:
    """Print the program that does what a mode does, in onnxruntime and numpy alone.

    With this model on this EP, and with what waits for this device; it checks its outputs and prints its median.
    """
    if model.endswith(".toml"):
        reason = "no program is written for a chain; write that of each stage by its model"
        raise BadInput(f"{model}: {reason}, docs/chains.md says how one hands on to the next")
    plan = replace(plan_of(model, given, command_line()), modes=(_mode(given),))
    plan = replace(plan, loop=replace(plan.loop, duration_s=given.get("duration", CODE_DURATION_S)))
    check(plan)
    _check(plan)
    from ortbench.jobs import code as job

    raise SystemExit(job.code(plan, out, notebook))


def _mode(given: Given) -> str:
    """The one mode.

    Raises:
        BadInput: there are several.
    """
    added = [name for name, mode in ALL_MODES.items() if mode.option and mode.option in given]
    modes = list(dict.fromkeys([*given.get("mode", ()), *added]))
    if len(modes) > 1:
        raise BadInput(f"a program does one mode, and these are {len(modes)}: {', '.join(modes)}", "--mode")
    return modes[0] if modes else MODES[CPU].without_copies


def _check(plan: Plan) -> None:
    """Refuse what no program is written for.

    Raises:
        BadInput: why.
    """
    if plan.target.ep in POLICIES:
        reason = "'ortbench run' with it says which EP ONNX Runtime chooses: name that one"
        raise BadInput(f"--ep {plan.target.ep}: a program names its EP; {reason}", "--ep")
    if plan.inputs.path is not None and Path(plan.inputs.path).is_dir():
        reason = "a program with numpy alone reads an .npz, whose keys are the names of the inputs"
        raise BadInput(f"--input {plan.inputs.path}: {reason}", "--input")
