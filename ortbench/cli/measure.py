"""`ortbench run`, `loop`, `start`, `soak`, `chain` and `code`: a model or a chain as one plan has it."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from ortbench.cli.options import Model, ModelOrFolder, command_line, refuse_json, takes
from ortbench.core.errors import BadInput
from ortbench.core.paths import is_folder
from ortbench.model.modes import CPU, DEVICE, HOST_ACCESSIBLE, MODES
from ortbench.plan.configurations import side_plans
from ortbench.plan.options import WRITTEN, RawOptions, make
from ortbench.plan.output_options import OutputOptions
from ortbench.plan.plan import CODE_DURATION_S, PLAN, Plan, check, check_amount
from ortbench.plan.plan_builder import generates, loop_of, plan_of, run_of, soak_of, start_of, tried
from ortbench.plan.target import POLICIES

ModelOrChain = Annotated[
    str, typer.Argument(metavar="MODEL", help="The model, an .onnx or .ort file, or a chain, a TOML file.")
]


@takes(*PLAN, OutputOptions)
def run(given: RawOptions, model: Model) -> None:
    """An I/O mode is a way to pass inputs and get outputs: see 'ortbench explain mode'.
    Results are folders in reports/.
    """
    _measure(given, partial(run_of, model, command=command_line()), "run")


@takes(*PLAN, OutputOptions)
def loop(given: RawOptions, model: ModelOrFolder) -> None:
    """A decoder generates tokens; with --feedback, outputs are inputs of the next step, as a recurrent state is."""
    _measure(given, partial(loop_of, model, command=command_line()), "loop")


@takes(*PLAN, OutputOptions)
def start(given: RawOptions, model: Model) -> None:
    """Each start is a program that imports onnxruntime, creates the session and runs the model."""
    _measure(given, partial(start_of, model, command=command_line()), "start")


@takes(*PLAN, OutputOptions)
def soak(given: RawOptions, model: Model) -> None:
    """Several shapes (--dim NAME=16,64,512) are one stream of inferences. Ctrl-C ends it and keeps everything."""
    _measure(given, partial(soak_of, model, command=command_line()))


def _measure(given: RawOptions, planned: Callable[[RawOptions], Plan], command: str = "") -> None:
    """Carry a command out; one that is named measures lists of settings side by side."""
    check_amount(given)
    from ortbench.jobs import run as job
    from ortbench.jobs.publishing import check_wanted

    wanted = make(OutputOptions, given)
    check_wanted(wanted)
    plans = side_plans(given, command, planned) if command else tried(planned(given))
    refuse_json(plans, wanted)
    for plan in plans:
        check(plan)
    raise SystemExit(job.run(plans, wanted))


@takes(*PLAN, OutputOptions)
def chain(
    given: RawOptions, file: Annotated[Path, typer.Argument(metavar="FILE", help="The chain, a TOML file.")]
) -> None:
    """A TOML file names the models and which output is which input of a later one."""
    from ortbench.suite import chain_file

    _measure(given, partial(chain_file.plan_of, file, os.environ, command=command_line()))


@takes(*PLAN)
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
    if generates(model, given):
        reason = "no program is written of a model that generates; name its .onnx file, and --feedback as 'ortbench inspect' suggests"
        raise BadInput(f"{model}: {reason}")
    plan = plan_of(model, {"duration": CODE_DURATION_S, **given}, command_line())
    plan = replace(plan, modes=_modes_of_code(given, plan))
    check(plan)
    _check_code(plan)
    from ortbench.jobs import look as job

    raise SystemExit(job.code(plan, out, notebook))


def _modes_of_code(given: RawOptions, plan: Plan) -> tuple[str, ...]:
    """The one mode; where none is asked for those to choose from, of which the first that the EP can do is taken: they take new
    inputs and return outputs in each inference, so that their program can replace any, but a loop's, whose state stays on the device.
    """
    if "mode" in given:
        return plan.modes
    if plan.steps is not None:
        return (MODES[CPU].without_copies,)
    target = plan.target
    wanted = [
        *(["dynamic_outputs"] if target.dynamic_outputs else []),
        *(["external_inputs"] if target.input_memory is not None else []),
        *(["captured"] if target.cuda_graph else []),
    ]
    return tuple(mode for mode in _REPLACEABLE if all(getattr(MODES[mode], it) for it in wanted))


_REPLACEABLE = (HOST_ACCESSIBLE, DEVICE, CPU)  # from the one that copies least


def _check_code(plan: Plan) -> None:
    """Refuse what no program is written for (`BadInput`)."""
    if plan.target.ep in POLICIES:
        reason = "'ortbench run' with it says which EP ONNX Runtime chooses: name that one"
        raise BadInput(f"--ep {plan.target.ep}: a program names its EP; {reason}", "--ep")
    if plan.inputs.path is not None and is_folder(plan.inputs.path):
        reason = "a program with numpy alone reads an .npz, whose keys are the names of the inputs"
        raise BadInput(f"--input {plan.inputs.path}: {reason}", "--input")
