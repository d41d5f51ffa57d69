"""`ortbench compare` and `gate`: which differences are real, and what is let pass."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ortbench.cli.options import command_line
from ortbench.plan.compare_options import compared_of
from ortbench.plan.options import RawOptions, build
from ortbench.plan.output_options import OutputOptions


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


def gate(
    given: RawOptions,
    result: Annotated[
        Path | None,
        typer.Argument(metavar="RESULT.json", help="A result file, or its folder; without one the gate is live."),
    ] = None,
) -> None:
    """A live gate (--model) measures candidate and baseline in turns until the verdict is clear.
    Exit codes: 0 passed, 3 regression, 4 cannot tell, 5 not comparable.
    """
    from ortbench.jobs import gate as job
    from ortbench.jobs.gate import asked_gate

    asked, wanted = asked_gate(given, result is not None, command_line()), build(OutputOptions, given)
    if result is not None:
        raise SystemExit(job.check_stored_result(result, asked, wanted))
    raise SystemExit(job.measure_until_decided(asked, wanted))
