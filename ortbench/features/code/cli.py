from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from ortbench.cli.options import Model, command_line
from ortbench.core.errors import BadInput
from ortbench.core.files import is_folder
from ortbench.features.code import DURATION_S
from ortbench.model.modes import CPU, DEVICE, HOST_ACCESSIBLE, MODES
from ortbench.plan.options import WRITTEN, RawOptions
from ortbench.plan.plan import Plan, check
from ortbench.plan.plan_builder import planner_of
from ortbench.plan.target import POLICIES

_REPLACEABLE = (HOST_ACCESSIBLE, DEVICE, CPU)  # modes, from the one that copies least


def code(
    given: RawOptions,
    model: Model,
    out: Annotated[
        str | None, typer.Option("--out", metavar="FILE", help="Write the program to a file.", rich_help_panel=WRITTEN)
    ] = None,
    notebook: Annotated[
        str | None,
        typer.Option(
            "--notebook",
            metavar="FILE",
            help="Write the program as a Jupyter notebook (.ipynb).",
            rich_help_panel=WRITTEN,
        ),
    ] = None,
) -> None:
    """The program needs onnxruntime and numpy alone; it checks its outputs and prints its median latency."""
    if model.endswith(".toml"):
        reason = "no program is written for a chain; write that of each stage by its model"
        raise BadInput(f"{model}: {reason} (see ortbench explain --more chains)")
    plan = planner_of(model, given)[1](model, {"duration": DURATION_S, **given}, command_line())
    if plan.work.tokens:
        reason = "no program is written of a model that generates; name its .onnx file, and --feedback as 'ortbench inspect' suggests"
        raise BadInput(f"{model}: {reason}")
    plan = replace(plan, modes=_possible_modes(given, plan))
    check(plan)
    if plan.target.ep in POLICIES:
        reason = "'ortbench run' with it says which EP ONNX Runtime chooses: name that one"
        raise BadInput(f"--ep {plan.target.ep}: a program names its EP; {reason}", "--ep")
    if plan.inputs.path is not None and is_folder(plan.inputs.path):
        reason = "a program with numpy alone reads an .npz, whose keys are the names of the inputs"
        raise BadInput(f"--input {plan.inputs.path}: {reason}", "--input")
    from ortbench.features.code import job

    raise SystemExit(job.write_code(plan, out, notebook))


def _possible_modes(given: RawOptions, plan: Plan) -> tuple[str, ...]:
    """The one mode; where none is asked for those to choose from, of which the first that the EP can do is taken: they take new
    inputs and return outputs in each inference, so that their program can replace any, but a loop's, whose state stays on the device.
    """
    if "mode" in given:
        return plan.modes
    if plan.work.parts:
        return (MODES[CPU].without_copies,)
    target = plan.target
    wanted = [
        *(["dynamic_outputs"] if target.dynamic_outputs else []),
        *(["external_inputs"] if target.input_memory is not None else []),
        *(["captured"] if target.cuda_graph else []),
    ]
    return tuple(mode for mode in _REPLACEABLE if all(getattr(MODES[mode], it) for it in wanted))
