"""What `ortbench history` does: results of many days, from folders or from commits, as a table, as JSON and as a page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from ortbench.analysis.comparing.history import Run, groups, run_of
from ortbench.core.errors import BadInput, OrtbenchError
from ortbench.jobs.compare import results_at
from ortbench.jobs.git_results import is_revision, results_in
from ortbench.jobs.writing import check_place, quieten_matplotlib, summarise_job, write, write_json
from ortbench.model.door import content_of
from ortbench.model.result_file import parse
from ortbench.plan.compare_options import Compared
from ortbench.plan.output_options import Wanted
from ortbench.report import history as shown
from ortbench.report.markdown import markdown


def history(places: Sequence[str], only: Compared, force: bool, wanted: Wanted) -> None:
    """Show and write what became of every case over time, and where it stepped.

    What is found and cannot be read, or is no result of cases, is left out and named.

    Args:
        places: files and folders; or revisions of git, with files and folders in their trees.
        only: these modes and metrics, and up to which share two levels are called the same.
        force: results of other machines are in one series too.
        wanted: of which ``html``, ``json`` and ``markdown``.

    Raises:
        BadInput: nothing is there, or nothing of what was asked for; a place that cannot be written.
    """
    check_place(wanted.html, "--html")
    runs, left_out = _runs(places)
    told = shown.told(groups(runs, force), only)
    if not told:
        asked = ", ".join([*only.modes, *(it.text for it in only.metrics)])
        raise BadInput(f"none of {len(runs)} results has figures{f' of {asked}' if asked else ''}")
    report = shown.build(told, len(runs), only.same, left_out)
    text = markdown(report)
    summarise_job(text)
    if wanted.markdown is not None:
        write(wanted.markdown, text, "--markdown")
    if wanted.html is not None:
        quieten_matplotlib()
        from ortbench.report.page.page import build_history

        write(wanted.html, build_history(told, len(runs), only.same, left_out), "--html")
    write_json(shown.records(told), wanted.json)
    if "-" not in (wanted.markdown, wanted.html, wanted.json):
        from ortbench.report.terminal.print import print_report

        print_report(report)


def _runs(places: Sequence[str]) -> tuple[list[Run], list[str]]:
    """All results, and why others are left out."""
    runs: list[Run] = []
    errors: list[OrtbenchError] = []
    for name, content in _contents(places):
        try:
            runs.append(run_of(parse(content, name), name))
        except OrtbenchError as error:
            errors.append(error)
    if not runs:
        raise errors[0]
    return runs, [str(error) for error in errors]


def _contents(places: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    """The result files at places, each once: what they are called, and what is in them."""
    revisions = [place for place in places if not Path(place).exists() and is_revision(place)]
    if revisions:
        yield from results_in(revisions, [place for place in places if place not in revisions])
        return
    for place in places:
        if not Path(place).exists():
            raise BadInput(f"{place}: there is no such file or folder, and no such commits here that git knows")
    for file in {path.resolve(): path for path in results_at([Path(place) for place in places])}.values():
        yield str(file), content_of(file)
