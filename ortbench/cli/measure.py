"""`ortbench run`, `loop`, `chain`, `profile` and `code`: a model or a chain as one plan has it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from ortbench.cli.options import Model, command_line, takes
from ortbench.core.errors import BadInput
from ortbench.model.modes import ALL_MODES, CPU, DEVICE, HOST_ACCESSIBLE, MODES
from ortbench.plan.configurations import sides_of
from ortbench.plan.loop_plan import steps_of
from ortbench.plan.options import MEASURED, WRITTEN, RawOptions, make, options_of
from ortbench.plan.output_options import OutputOptions
from ortbench.plan.plan import CODE_DURATION_S, PLAN, Plan, check, check_amount
from ortbench.plan.plan_builder import plan_of
from ortbench.plan.target import POLICIES

ModelOrChain = Annotated[
    str, typer.Argument(metavar="MODEL", help="The model, an .onnx or .ort file, or a chain, a TOML file.")
]


@takes(*PLAN, OutputOptions)
def run(given: RawOptions, model: Model) -> None:
    """Results are folders in reports/; compare, gate, history and report read them."""
    _measure(model, given, "run")


@takes(*PLAN, OutputOptions)
def loop(given: RawOptions, model: Model) -> None:
    """Outputs are inputs of the next step, as --feedback says: a decoder's KV cache, a recurrent state."""
    steps_of(given, needed=True)
    _measure(model, given, "loop")


def _measure(model: str, given: RawOptions, command: str) -> None:
    """Carry a command out that measures several settings side by side."""
    check_amount(given)
    from ortbench.jobs import run as job
    from ortbench.jobs.publishing import check_wanted

    wanted = make(OutputOptions, given)
    check_wanted(wanted)
    plans = _plans(model, given, command)
    if len(plans) > 1 and wanted.json is not None:
        raise BadInput("--json is for one result: every side has a result.json in a folder of its own", "--json")
    for plan in plans:
        check(plan)
    raise SystemExit(job.run(plans, wanted))


def _plans(model: str, given: RawOptions, command: str) -> list[Plan]:
    """A plan for each side.

    Raises:
        BadInput: an option that cannot be read, or that is for one EP where there are several.
    """
    sides = sides_of(given, [it.of(command) for it in options_of(*PLAN) if command in it.commands])
    eps = list(dict.fromkeys(side["ep"] for side in sides if "ep" in side))
    if len(eps) > 1 and ("ep-library" in given or "device" in given):
        raise BadInput("with several --ep give a library as an --ep of its own, and no --device")
    plans = []
    for side in sides:
        if "ep-option" in side and len(eps) > 1:
            side = {**side, "ep-option": _options_for(side["ep"], eps, side["ep-option"])}
        plan = plan_of(model, side, command_line())
        plans.append(replace(plan, target=replace(plan.target, several_eps=len(eps) > 1)))
    return plans


def _options_for(ep: str, eps: Sequence[str], ep_option: Mapping[str, str]) -> dict[str, str]:
    """The EP options of one of several EPs: ``cuda:key=value`` is for that EP alone, ``key=value`` for all."""
    found = {}
    for key, value in ep_option.items():
        owner, colon, rest = key.partition(":")
        if not colon or owner not in eps:
            found[key] = value
        elif owner == ep:
            found[rest] = value
    return found


@takes(*PLAN, OutputOptions)
def chain(
    given: RawOptions,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The chain, a TOML file.")],
) -> None:
    """A TOML file names the models and which output is which input of a later one."""
    check_amount(given)
    from ortbench.jobs import run as job
    from ortbench.jobs.publishing import check_wanted
    from ortbench.suite import chain_file

    wanted = make(OutputOptions, given)
    check_wanted(wanted)
    plan = chain_file.plan_of(file, os.environ, given, command_line())
    check(plan)
    raise SystemExit(job.run([plan], wanted))


@takes(*PLAN, OutputOptions)
def profile(
    given: RawOptions,
    model: ModelOrChain,
    attach_only: Annotated[
        bool,
        typer.Option(
            "--attach-only",
            help="Run for an attached profiler; do not start nsys.",
            rich_help_panel=MEASURED,
        ),
    ] = False,
) -> None:
    """Without nsys the session runs all the same, with its NVTX ranges."""
    if model.endswith(".toml"):
        from ortbench.suite import chain_file

        plan = chain_file.gated_plan_of(Path(model), os.environ, given, command_line(), ())
    else:
        plan = plan_of(model, given, command_line())
    plan = replace(plan, loop=replace(plan.loop, in_order=True))
    check(plan)
    from ortbench.jobs import profile as job

    raise SystemExit(job.profile(plan, attach_only, make(OutputOptions, given)))


@takes(*PLAN)
def code(
    given: RawOptions,
    model: Model,
    out: Annotated[
        str | None,
        typer.Option("--out", metavar="FILE", help="Write the program to a file.", rich_help_panel=WRITTEN),
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
    plan = plan_of(model, given, command_line())
    plan = replace(plan, modes=_modes_of_code(given, plan))
    plan = replace(plan, loop=replace(plan.loop, duration_s=given.get("duration", CODE_DURATION_S)))
    check(plan)
    _check_code(plan)
    from ortbench.jobs import look as job

    raise SystemExit(job.code(plan, out, notebook))


def _modes_of_code(given: RawOptions, plan: Plan) -> tuple[str, ...]:
    """The one mode; where none is asked for those to choose from, of which the first that the EP can do is taken: they take new
    inputs and return outputs in each inference, so that their program can replace any, but a loop's, whose state stays on the device.

    Raises:
        BadInput: there are several.
    """
    added = [name for name, mode in ALL_MODES.items() if mode.option and mode.option in given]
    modes = list(dict.fromkeys([*given.get("mode", ()), *added]))
    if len(modes) > 1:
        raise BadInput(f"a program does one mode, and these are {len(modes)}: {', '.join(modes)}", "--mode")
    if modes:
        return (modes[0],)
    if plan.steps is not None:
        return (MODES[CPU].without_copies,)
    target = plan.target
    wanted = [
        *(["dynamic_outputs"] if target.dynamic_outputs else []),
        *(["external_inputs"] if target.external is not None else []),
        *(["captured"] if target.cuda_graph else []),
    ]
    return tuple(mode for mode in _REPLACEABLE if all(getattr(MODES[mode], it) for it in wanted))


_REPLACEABLE = (HOST_ACCESSIBLE, DEVICE, CPU)  # from the one that copies least


def _check_code(plan: Plan) -> None:
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
