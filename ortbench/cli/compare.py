"""`ortbench compare`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ortbench.cli.options import Force, JsonOut, Mode
from ortbench.errors import BadInput
from ortbench.modes import MODES
from ortbench.plan import SAME, parse_share


def compare(
    results: Annotated[
        list[Path], typer.Argument(metavar="RESULT.json", help="Two or more result files, or folders that hold one.")
    ],
    mode: Mode = [],  # noqa: B006
    phase: Annotated[
        list[str],
        typer.Option("--phase", metavar="NAME", help="upload, inference, download, total; repeatable. Default: all."),
    ] = [],  # noqa: B006
    same: Annotated[
        str, typer.Option("--same", metavar="P", help="Up to which difference two are called the same.")
    ] = SAME,
    force: Force = False,
    markdown: Annotated[
        str | None, typer.Option("--markdown", metavar="PATH", help="Write it as Markdown; '-' is standard output.")
    ] = None,
    json_out: JsonOut = None,
) -> None:
    """Hold results against each other: which differences are real."""
    from ortbench.result import PHASE_NAMES

    if len(results) < 2:
        raise BadInput("compare needs at least two result files")
    for name in mode:
        if name not in MODES:
            raise BadInput(f"--mode {name!r}: there is no such mode; choose from {', '.join(MODES)}")
    for name in phase:
        if name not in PHASE_NAMES:
            raise BadInput(f"--phase {name!r}: there is no such phase; choose from {', '.join(PHASE_NAMES)}")
    margin = parse_share(same, "--same")
    from ortbench.jobs import compare as job

    job.compare(results, tuple(mode), tuple(phase), margin, force, markdown, json_out)
