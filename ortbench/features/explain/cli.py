from __future__ import annotations

from typing import Annotated

import typer

from ortbench.cli import commands
from ortbench.plan.options import RawOptions


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
    from ortbench.features.explain import job
    from ortbench.report.glossary import Entry, Group

    of_commands = tuple(
        Entry(name, Group.COMMANDS, command.sentence.removesuffix("."), f"ortbench {name} --help shows its options.", command.page, (f"ortbench {name}",))
        for name, command in commands().items()
    )  # fmt: skip
    (job.show_pages if more else job.explain)(words, of_commands)
