"""`ortbench report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ortbench.cli.compare import result_file
from ortbench.cli.writing import check_place, write_page


def report(
    results: Annotated[
        list[Path], typer.Argument(metavar="RESULT.json …", help="Result files, or folders that hold one.")
    ],
    html: Annotated[
        str | None,
        typer.Option(
            "--html",
            metavar="PATH",
            help="Where to; '-' is standard output. Default: report.html, beside the result or, for several, right here.",
        ),
    ] = None,
) -> None:
    """Make one page of one or many results: verdict, plots, tables, and how they came about. It opens anywhere, offline."""
    from ortbench.analysis.compare import names
    from ortbench.result import load

    paths = [result_file(path) for path in results]
    place = html or str(paths[0].with_name("report.html") if len(paths) == 1 else "report.html")
    check_place(place, "--html")
    write_page(place, [load(path) for path in paths], names(paths))
    if place != "-":
        print(f"Saved in {place}")
