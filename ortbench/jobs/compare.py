"""What `ortbench compare` and `ortbench report` do with results that are there."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ortbench.analysis.comparable import comparability, names
from ortbench.analysis.compare import Selection
from ortbench.characters import visible
from ortbench.jobs.writing import check_place, summarise_job, write, write_json, write_page
from ortbench.report import comparison
from ortbench.report.markdown import markdown as as_markdown
from ortbench.result import load


def compare(
    results: Sequence[Path],
    modes: tuple[str, ...],
    phases: tuple[str, ...],
    same: float,
    force: bool,
    markdown: str | None,
    json_out: str | None,
) -> None:
    """Hold results against each other, show and write which differences are real.

    Args:
        results: at least two files, or folders that hold one.
        modes, phases: which to compare; empty for all.
        same: up to which share two are called the same.
        force: compare what is not comparable.
        markdown, json_out: files to write; ``-`` is standard output, None for none.

    Raises:
        NotComparable: they were not measured on the same thing, and it was not forced.
        BadInput: a file that is no result.
    """
    paths = [result_file(path) for path in results]
    loaded = [load(path) for path in paths]
    called = names(paths)
    remarks = comparability(loaded, called, force)
    only = Selection(modes, phases)
    found = comparison.build(loaded, called, same, in_order=True, only=only, remarks=remarks)
    text = as_markdown(found)
    summarise_job(text)
    if markdown is not None:
        write(markdown, text, "--markdown")
    if json_out is not None:
        write_json(comparison.records(loaded, called, same, only), json_out)
    if "-" not in (markdown, json_out):
        from ortbench.report.terminal.print import print_report

        print_report(found)


def report(results: Sequence[Path], html: str | None) -> None:
    """Make one page of results.

    Args:
        results: files, or folders that hold one.
        html: where to; ``-`` is standard output, None beside the result or, for several, in the current folder.

    Raises:
        BadInput: a file that is no result, or a place that cannot be written.
    """
    paths = [result_file(path) for path in results]
    place = html or str(paths[0].with_name("report.html") if len(paths) == 1 else "report.html")
    check_place(place, "--html")
    if write_page(place, [load(path) for path in paths], names(paths)) and place != "-":
        print(visible(f"Saved in {place}"))


def result_file(path: Path) -> Path:
    """A result file, or that of a run's folder."""
    return path / "result.json" if path.is_dir() else path
