"""`ortbench doctor`, `devices`, `inspect` and `explain`: what is here, and what words mean. Nothing is measured for a result."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from ortbench.cli.options import Model, takes
from ortbench.plan.options import RawOptions, check_values, make
from ortbench.plan.output_options import OutputOptions
from ortbench.plan.plan_builder import inspection_of, target_of
from ortbench.plan.target import Inputs, Target


@takes(Target, OutputOptions)
def doctor(
    given: RawOptions,
    no_noise: Annotated[
        bool, typer.Option("--no-noise", help="Leave out the seconds in which this machine's noise is measured.")
    ] = False,
) -> None:
    """Say what does not work here and why, and how far figures of this machine can be trusted.

    Packages, execution providers, CUDA, NVIDIA cards, the processor and its noise. Each line is good, worth knowing, or bad
    with what mends it.
    """
    target = target_of(given)
    check_values(target)
    from ortbench.jobs import look as job

    raise SystemExit(job.doctor(not no_noise, target.python, given.get("json")))


@takes(Target, OutputOptions)
def devices(given: RawOptions) -> None:
    """List the installed execution providers and their devices.

    Of each its memory, its streams and the modes it can do, or why it does not load.
    """
    target = target_of(given)
    check_values(target)
    check_values(make(OutputOptions, given))
    from ortbench.jobs import look

    sys.exit(look.devices(target.library, target.python, given.get("json"), given.get("check")))


@takes(Target, Inputs, OutputOptions)
def inspect(given: RawOptions, model: Model) -> None:
    """Say what a model takes, gives and consists of.

    With --ep also where its nodes would run.
    """
    plan, placed = inspection_of(model, given)
    from ortbench.jobs import look

    look.inspect(model, plan.target, placed, plan.inputs, given.get("json"))


@takes()
def explain(
    given: RawOptions,
    words: Annotated[
        list[str],
        typer.Argument(metavar="WORD", help="Words of a report, such as fence; without any, which there are."),
    ] = [],  # noqa: B006 - typer reads the default and never keeps it
) -> None:
    """Say what the words of a report mean."""
    from ortbench.jobs import explain as job

    job.explain(words)
