"""What a command came to, in every form that is wanted: printed, in files, for CI systems, and as its exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ortbench.core import files, printed, safe_text
from ortbench.core.errors import BENCHMARK_FAILED, DONE, INTERRUPTED, BadInput
from ortbench.core.paths import Kind, check_readable, is_folder, kind_of, may
from ortbench.core.safe_text import complain

if TYPE_CHECKING:
    from ortbench.jobs.measuring import Measured
    from ortbench.model.result import Result
    from ortbench.plan.output_options import OutputOptions
    from ortbench.features.junit.report import Outcome
    from ortbench.report.model import Block, Report


class Exports(NamedTuple):
    """What CI systems read."""

    suite: str  # the name of the JUnit suite
    outcomes: Callable[[], Sequence[Outcome]]  # gives its cases
    results: Sequence[Result]  # whose figures are exported
    labels: Sequence[str] = ()  # which of several configurations each is of; "" where its EP says it


def publish(
    wanted: OutputOptions,
    reports: Sequence[Report],
    json: Callable[[], str],
    *,
    markdown: str | None = None,
    exports: Exports | None = None,
    page: Callable[[], str] | None = None,
    screens: Sequence[Report] | None = None,
) -> None:
    """Write and print what a command came to, as far as that is wanted; a file that cannot be written is noted.

    `json` and `page` give what ``--json`` and ``--html`` write; `markdown` is of the whole, by default of the reports; without
    ``--verbose`` `screens` are printed, by default the reports in brief.
    """
    if exports is not None:
        _write_exports(exports, wanted)
    if markdown is None:
        from ortbench.report.markdown import markdown as as_markdown

        markdown = "\n".join(as_markdown(report, wanted.verbose) for report in reports)
    summarise_job(markdown)
    if wanted.markdown is not None:
        write(wanted.markdown, markdown, "--markdown")
    if wanted.json is not None:
        write(wanted.json, json(), "--json")
    if not wanted.quiet and "-" not in (wanted.markdown, wanted.json, wanted.html):
        from ortbench.report.terminal.print import print_report

        if not wanted.verbose:
            from ortbench.report.screens.brief import HEIGHT, brief

            reports = [brief(it, HEIGHT // len(reports)) for it in reports] if screens is None else screens
        for number, report in enumerate(reports):
            if number:
                print()
            print_report(report, wanted.verbose)
    if wanted.html is not None and page is not None:
        write(wanted.html, page(), "--html")
    if (warning := printed.warning(where_shown=True)) and not wanted.quiet:
        complain(warning)


def page_of(
    results: Sequence[Result],
    names: Sequence[str],
    errors: Sequence[str] = (),
    before: Sequence[Sequence[Block]] = (),
    first: Report | None = None,
) -> str:
    from ortbench.features.page.report.page import build_page

    return build_page(results, names, errors, before, first)


def publish_results(
    found: Measured,
    model: str,
    wanted: OutputOptions,
    reports: Sequence[Report] | None = None,
    markdown: str | None = None,
    labels: Sequence[str] = (),
    json: Callable[[], str] | None = None,
    before: Sequence[Report] = (),
) -> int:
    """Publish what was measured on a model, whose file is called as it was typed; by default the one result, behind `before`. The default
    screen is the last report in brief. The exit code."""
    from ortbench.model.result_file import result_json
    from ortbench.report.run import build
    from ortbench.report.screens.brief import BEFORE, HEIGHT, brief
    from ortbench.report.screens.screen import screen

    room = HEIGHT - BEFORE * len(before)
    labels = labels or [""] * len(found.results)

    def outcomes() -> list[Outcome]:
        from ortbench.features.junit.report import ERROR, Outcome, outcomes_of_run

        done = [
            it for result, label in zip(found.results, labels, strict=True) for it in outcomes_of_run(result, label)
        ]
        return done + [Outcome(f"{model} on {ep}", ep, ERROR, str(error), 0.0) for ep, error in found.not_opened]

    def page() -> str:
        names = found.names or [folder.name for folder in found.folders]
        return page_of(found.results, names, [f"{name} failed: {error}" for name, error in found.not_opened])

    publish(
        wanted,
        [*before, *([build(found.result, str(found.folder))] if reports is None else reports)],
        json or (lambda: result_json(found.result)),
        markdown=markdown,
        exports=Exports(f"ortbench {found.result.kind or 'run'}", outcomes, found.results, labels),
        page=page,
        screens=[
            *(brief(it, BEFORE) for it in before),
            *([screen(found.result, str(found.folder), room)] if reports is None else [brief(reports[-1], room)]),
        ],
    )
    if wanted.trace is not None:
        _write_trace(found, labels, wanted.trace, wanted.quiet or "-" in (wanted.json, wanted.html))
    return INTERRUPTED if found.interrupted else _exit_code(found)


def _exit_code(found: Measured) -> int:
    """1 as soon as a case failed or nothing could be measured, which is said on standard error."""
    names = [f"{name}: " for name in found.names] if len(found.results) > 1 else [""]
    codes = [say_failures(result, name) for name, result in zip(names, found.results, strict=True)]
    for name, error in found.not_opened:
        complain(f"{name}: {error}")
    return BENCHMARK_FAILED if found.not_opened or BENCHMARK_FAILED in codes else DONE


def say_failures(result: Result, where: str = "") -> int:
    """Say on standard error which modes, load points or shapes failed, or that none could be measured; the exit code that
    follows from it. `where` stands before each line: whose result it is."""
    from ortbench.gates.verdict import failures_of, nothing_measured
    from ortbench.model.result import FAILED, OK

    statuses = [case.status for case in result.cases]
    for failure in failures_of(result):
        complain(f"{where}{failure}")
    if OK not in statuses and FAILED not in statuses:
        complain(f"{where}{nothing_measured(result)}")
    return DONE if OK in statuses and FAILED not in statuses else BENCHMARK_FAILED


# Forms


def _write_exports(exports: Exports, wanted: OutputOptions) -> None:
    if wanted.junit is not None:
        write_junit(wanted.junit, exports.suite, exports.outcomes())
    if wanted.action_json is not None:
        from ortbench.features.services.report import action_json

        write(wanted.action_json, action_json(exports.results, exports.labels), "--action-json")
    if wanted.bmf is not None:
        from ortbench.features.services.report import bmf

        write(wanted.bmf, bmf(exports.results, exports.labels), "--bmf")


def _write_trace(found: Measured, labels: Sequence[str], path: str, quiet: bool) -> None:
    """Write a timeline; what it lacks is said in a line each, and where it is unless that is to be quiet."""
    import gzip

    from ortbench.features.trace.report import chrome_trace, trace_json

    names, results, timelines = map(list, zip(*found.timelines, strict=True))
    if found.taken:
        from ortbench.analysis.loads.load_levels import load_blocks

        for timeline, taken in zip(timelines, found.taken, strict=True):
            timeline.load += load_blocks(taken)
    trace = chrome_trace(results, timelines, labels=names if any(names) else labels)
    text = trace_json(trace)
    content = gzip.compress(safe_text.encoded(text), mtime=0) if path.endswith(".gz") else text
    written = _write_file(path, content, "--trace")
    for words in trace["otherData"]["missing"]:
        complain(f"--trace lacks: {words}")
    if written and not quiet:
        print(safe_text.visible(f"Timeline in {path}; open it at ui.perfetto.dev or in chrome://tracing"))


def summarise_job(markdown: str) -> None:
    """GitHub's job summary, where there is one to write to; that it could not be written is noted."""
    if os.environ.get("GITHUB_STEP_SUMMARY"):
        from ortbench.features.services.report import step_summary

        try:
            step_summary(markdown, os.environ)
        except BadInput as error:
            files.note("the job summary", str(error))


def json_text(data: Any) -> str:
    import json

    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


def write_json(data: Any, json_out: str | None) -> bool:
    """Write data as JSON where that was asked for; True if it went to standard output, where nothing else may go."""
    if json_out is not None:
        write(json_out, json_text(data), "--json")
    return json_out == "-"


# JUnit XML of a command: what it came to, or why it came to nothing

_awaited: list[str] = []  # where a file is to be, as long as it has not been written


def await_junit(path: str | None) -> None:
    """A command begins that is to write JUnit XML there; None: to nowhere."""
    _awaited[:] = [] if path is None else [path]


def write_junit(path: str, name: str, outcomes: Sequence[Outcome]) -> None:
    from ortbench.features.junit.report import junit

    await_junit(None)
    write(path, junit(name, outcomes), "--junit")


def write_error(command: str, message: str) -> None:
    """Write that a command ended with an error before it came to anything, if its file is still awaited."""
    if not _awaited:
        return
    try:
        check_place(_awaited[0], "--junit")
    except BadInput:  # there is no place to write it
        return
    from ortbench.features.junit.report import ERROR, Outcome

    write_junit(_awaited[0], f"ortbench {command}", [Outcome("before measuring", command, ERROR, message, 0.0)])
    for line in files.not_written():  # the error itself decides how the command ends
        complain(line)


# Files


_WRITTEN = ("html", "trace", "json", "junit", "action_json", "bmf", "markdown")


def check_wanted(wanted: OutputOptions) -> None:
    """Refuse with `BadInput`, before anything is measured, what cannot be written or read at its end."""
    for name in _WRITTEN:
        check_place(getattr(wanted, name), f"--{name.replace('_', '-')}")
    if wanted.json == "-" and wanted.html == "-":
        raise BadInput("--json and --html cannot both go to standard output")
    if wanted.trace == "-":
        raise BadInput("--trace -: name a file")
    if wanted.bandwidth is not None:
        check_readable(wanted.bandwidth, "--bandwidth", "file or folder", folders=True)


def check_place(path: str | None, option: str) -> None:
    """Refuse with `BadInput`, before anything is measured, a file that cannot be written at the end."""
    if path is None or path == "-":
        return
    file = Path(path)
    if is_folder(file, option):
        raise BadInput(f"{option} {path}: name a file")
    if not is_folder(file.parent, option):
        raise BadInput(f"{option} {path}: there is no folder {file.parent}")
    if not _is_special(file) and not may(file.parent, os.W_OK):
        raise BadInput(f"{option} {path}: the folder {file.parent} cannot be written")


def write(path: str, text: str, option: str) -> bool:
    """Write a text for other programs to a file or, with ``-``, to standard output: in UTF-8 in either case.

    Returns whether it was written; if not, that is noted, see `ortbench.core.files.write_or_note`.
    """
    if path == "-":
        sys.stdout.flush()
        sys.stdout.buffer.write(safe_text.encoded(text))
        sys.stdout.flush()
        return True
    return _write_file(path, text, option)


def _write_file(path: str, content: str | bytes, option: str) -> bool:
    place, name = Path(path), f"{option} {path}"
    if not _is_special(place):
        return files.write_or_note(place, content, name)
    try:
        place.write_bytes(safe_text.encoded(content) if isinstance(content, str) else content)
    except OSError as error:
        files.note(name, error)
        return False
    return True


def _is_special(file: Path) -> bool:
    """Whether it is there and is a pipe or a device, which must be written to and not be replaced by a file."""
    with suppress(BadInput):  # it cannot be written either, which is said then
        return kind_of(file) in (Kind.PIPE, Kind.DEVICE)
    return False
