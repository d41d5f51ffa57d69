"""`ortbench suite` and `ortbench merge`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from ortbench.cli.options import command_line, takes
from ortbench.core.safe_text import plain_name, visible
from ortbench.plan.options import WRITTEN, Given, make
from ortbench.plan.output_options import REPORTS, Wanted


@takes(Wanted)
def suite(
    given: Given,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The suite, a TOML file.")],
    shard: Annotated[
        str | None,
        typer.Option("--shard", metavar="I/N", help="Only the I-th of N parts; 'ortbench merge' joins them."),
    ] = None,
    only: Annotated[
        list[str], typer.Option("--only", metavar="PATTERN", help="Only cases whose ids match, as *--cuda; repeatable.")
    ] = [],  # noqa: B006 - typer reads the default and never keeps it
    list_: Annotated[bool, typer.Option("--list", help="Print the cases, and run none.")] = False,
    ray: Annotated[
        str | None,
        typer.Option("--ray", metavar="ADDRESS", help="Spread the cases over a Ray cluster: auto, or its address."),
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Run again what is done.")] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="DIR",
            help="The suite's folder, taken up where it is there. Default: reports/NAME.",
            rich_help_panel=WRITTEN,
        ),
    ] = None,
) -> None:
    """Run models, EPs and shapes as a TOML file says.

    With gates; what is done is not run again.
    """
    from ortbench.jobs import suite as job
    from ortbench.suite import cases
    from ortbench.suite.job import jobs_of

    found = cases.read(file, os.environ)
    chosen = job.chosen(found, jobs_of(found, command_line(), elsewhere=ray is not None), shard, only)
    if list_:
        for it in chosen:
            print(visible(it.case.id + (f" (skipped: {it.case.skip})" if it.case.skip else "")))
        return
    place = REPORTS / plain_name(found.name) if out is None else out
    raise SystemExit(job.suite(found, chosen, place, fresh, make(Wanted, given), ray))


@takes(Wanted)
def merge(
    given: Given,
    folders: Annotated[list[Path], typer.Argument(metavar="DIR", help="The folders of the shards.")],
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="The folder of the whole.", rich_help_panel=WRITTEN)
    ],
) -> None:
    """Put the shards of a suite together: one summary, one verdict."""
    from ortbench.jobs import suite as job

    raise SystemExit(job.merge(folders, out, make(Wanted, given)))
