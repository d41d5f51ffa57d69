from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from ortbench.cli.options import command_line
from ortbench.core.features import hooks
from ortbench.core.safe_text import plain_name, visible
from ortbench.plan.options import WRITTEN, RawOptions, build
from ortbench.plan.plan import REPORTS, OutputOptions


def suite(
    given: RawOptions,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The suite, a TOML file.")],
    shard: Annotated[
        str | None,
        typer.Option("--shard", metavar="I/N", help="Measure the I-th of N parts; 'ortbench suite merge' joins them."),
    ] = None,
    only: Annotated[
        list[str],
        typer.Option("--only", metavar="PATTERN", help="Measure cases whose ids match, as *--cuda. Repeatable."),
    ] = [],  # noqa: B006 - typer reads the default and never keeps it
    list_: Annotated[bool, typer.Option("--list", help="List the cases, and measure none.")] = False,
    fresh: Annotated[bool, typer.Option("--fresh", help="Measure cases again that are done.")] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="DIR",
            help="Write to this folder, or resume in it. Default: reports/NAME.",
            rich_help_panel=WRITTEN,
        ),
    ] = None,
) -> None:
    """With gates, in one folder; cases that are done are not measured again."""
    from ortbench.features.suite.job import cases, runs
    from ortbench.features.suite.job.jobs import jobs_of

    runner = next(filter(None, (runner_for(given) for runner_for in hooks("case_runner"))), None)
    found = cases.read(file, os.environ)
    chosen = runs.choose_jobs(found, jobs_of(found, command_line(), elsewhere=runner is not None), shard, only)
    if list_:
        for job in chosen:
            print(visible(job.case.id + (f" (skipped: {job.case.skip})" if job.case.skip else "")))
        return
    folder = REPORTS / plain_name(found.name) if out is None else out
    raise SystemExit(runs.run_suite(found, chosen, folder, fresh, build(OutputOptions, given), runner))


def suite_merge(
    given: RawOptions,
    folders: Annotated[list[Path], typer.Argument(metavar="DIR", help="The folders of the shards.")],
    out: Annotated[
        Path,
        typer.Option("--out", metavar="DIR", help="Write the merged suite to this folder.", rich_help_panel=WRITTEN),
    ],
) -> None:
    """The shards are folders of 'ortbench suite --shard'."""
    from ortbench.features.suite.job import runs

    raise SystemExit(runs.merge_shards(folders, out, build(OutputOptions, given)))
