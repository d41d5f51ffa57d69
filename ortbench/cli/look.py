"""`ortbench devices`, `inspect` and `explain`: what is here, and what words mean. Nothing is measured."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from ortbench.cli import commands
from ortbench.cli.options import Model, command_line, takes
from ortbench.plan.options import RawOptions, check_values, make
from ortbench.plan.output_options import OutputOptions
from ortbench.plan.plan_builder import inspection_of, target_of
from ortbench.plan.target import Inputs, Target


@takes(Target, OutputOptions)
def devices(given: RawOptions) -> None:
    """An EP that does not load is listed with the reason."""
    target = target_of(given)
    check_values(target)
    check_values(make(OutputOptions, given))
    from ortbench.jobs import look

    sys.exit(
        look.devices(target.library, target.python, given.get("json"), given.get("check"), given.get("verbose", False))
    )


@takes(Target, Inputs, OutputOptions)
def inspect(given: RawOptions, model: Model) -> None:
    """With --ep also on which EP its nodes would run."""
    plan, placed = inspection_of(model, given, command_line())
    from ortbench.jobs import look

    look.inspect(plan, placed, given.get("json"), given.get("verbose", False))


@takes()
def explain(
    given: RawOptions,
    words: Annotated[
        list[str], typer.Argument(metavar="WORD", help="Words of a report or commands, such as sync; none: list them.")
    ] = [],  # noqa: B006 - typer reads the default and never keeps it
    more: Annotated[
        bool, typer.Option("--more", help="Show the section of the documentation; WORD may be a page.")
    ] = False,
) -> None:
    """Words may be of several entries; --more alone shows the list of pages."""
    from ortbench.jobs import explain as job
    from ortbench.report.glossary import Entry, Group

    of_commands = tuple(
        Entry(name, Group.COMMANDS, it.sentence.removesuffix("."), f"ortbench {name} --help shows its options.", it.page, (f"ortbench {name}",))
        for name, it in commands().items()
    )  # fmt: skip
    (job.show_pages if more else job.explain)(words, of_commands)
