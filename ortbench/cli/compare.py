"""`ortbench compare`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ortbench.cli.options import SAME, Force, JsonOut, Mode
from ortbench.cli.writing import summarise_job, write, write_json
from ortbench.errors import BadInput
from ortbench.modes import MODES
from ortbench.plan import parse_share


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
    from ortbench.analysis import compare as comparing
    from ortbench.report import comparison
    from ortbench.result import PHASE_NAMES, load

    if len(results) < 2:
        raise BadInput("compare needs at least two result files")
    for name in mode:
        if name not in MODES:
            raise BadInput(f"--mode {name!r}: there is no such mode; choose from {', '.join(MODES)}")
    for name in phase:
        if name not in PHASE_NAMES:
            raise BadInput(f"--phase {name!r}: there is no such phase; choose from {', '.join(PHASE_NAMES)}")
    margin = parse_share(same, "--same")
    paths = [result_file(path) for path in results]
    loaded = [load(path) for path in paths]
    names = comparing.names(paths)
    remarks = comparing.comparability(loaded, names, force)
    only = comparing.Selection(tuple(mode), tuple(phase))
    text = comparison.comparison_markdown(loaded, names, margin, in_order=True, only=only, remarks=remarks)
    summarise_job(text)
    if markdown is not None:
        write(markdown, text, "--markdown")
    if json_out is not None:
        write_json(comparison.comparison_records(loaded, names, margin, only), json_out)
    if "-" not in (markdown, json_out):
        from ortbench.report.terminal.print import print_comparison

        print_comparison(loaded, names, margin, in_order=True, only=only, remarks=remarks)


def result_file(path: Path) -> Path:
    """A result file, or that of a run's folder."""
    return path / "result.json" if path.is_dir() else path
