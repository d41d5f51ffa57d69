"""`ortbench run`, `compare` and `report`, and what carries out the plans of a command."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from ortbench.cli.options import Model, ModelOrFolder, command_line, refuse_json
from ortbench.core.features import plan_function, record_of
from ortbench.plan.options import RawOptions, build
from ortbench.plan.plan import OutputOptions, Plan, check
from ortbench.plan.plan_builder import compared_of, plan_configurations, run_of


def run(given: RawOptions, model: Model) -> None:
    """An I/O mode is a way to pass inputs and get outputs: see 'ortbench explain mode'.
    Results are folders in reports/.
    """
    measure_plans(given, partial(run_of, model, command=command_line()), "run")


def __getattr__(name: str) -> Callable[..., None]:
    """The command of a feature whose record names what makes the plan of a model, and nothing else."""
    record = record_of(name)
    if not record.plan:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def command(given: RawOptions, model: str) -> None:
        planned = partial(plan_function(name, record.plan), model, command=command_line())
        if record.plans_of:
            measure_plans(given, planned, plans_of=plan_function(name, record.plans_of))
        measure_plans(given, planned, name)

    command.__doc__ = record.note
    command.__annotations__["model"] = ModelOrFolder if record.takes_folder else Model
    return command


def measure_plans(
    given: RawOptions,
    planned: Callable[[RawOptions], Plan],
    command: str = "",
    plans_of: Callable[[Plan], list[Plan]] = lambda plan: [plan],
) -> None:
    """Carry a command out; one that is named measures lists of settings side by side, another what its plan comes to."""
    from ortbench.jobs import run as job
    from ortbench.jobs.publishing import check_wanted

    wanted = build(OutputOptions, given)
    check_wanted(wanted)
    plans = plan_configurations(given, command, planned) if command else plans_of(planned(given))
    refuse_json(plans, wanted)
    for plan in plans:
        check(plan)
    raise SystemExit(job.run(plans, wanted, given))


def compare(
    given: RawOptions,
    results: Annotated[
        list[Path],
        typer.Argument(metavar="RESULT.json...", help="Result files, or folders of results: two or more in all."),
    ],
) -> None:
    """Results of one model, measured on the same machine, or with --force on any."""
    only = compared_of(given)
    from ortbench.jobs import compare as job

    job.compare(results, only, given, build(OutputOptions, given))


def report(
    given: RawOptions,
    results: Annotated[
        list[Path],
        typer.Argument(metavar="RESULT.json …", help="Result files, or folders of results, such as a suite's."),
    ],
) -> None:
    """An HTML file with verdict, plots, tables and how they were measured."""
    from ortbench.jobs import compare as job

    job.report(results, build(OutputOptions, given))
