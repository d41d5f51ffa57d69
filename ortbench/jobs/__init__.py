"""What a command came to, in every form that is wanted: printed, in files, for CI systems, and as its exit code."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ortbench.core import features, files, output, safe_text
from ortbench.core.errors import BENCHMARK_FAILED, DONE, INTERRUPTED, BadInput, OrtbenchError
from ortbench.core.files import Kind, is_folder, kind_of, may
from ortbench.core.safe_text import complain

if TYPE_CHECKING:
    from ortbench.model.protocol import Timeline
    from ortbench.model.result import Result
    from ortbench.plan.plan import OutputOptions
    from ortbench.report.model import Report
    from ortbench.report.records import Publication


@dataclass(frozen=True)
class Measured:
    results: list[Result]  # of the configurations that opened; of a sweep one
    folders: list[Path]  # where each was saved; none where nothing is to be saved
    interrupted: bool  # by Ctrl-C or its like, see `ortbench.core.signals`
    names: list[str] = field(default_factory=list)  # of the configurations; none for one without a name of its own
    not_opened: list[tuple[str, OrtbenchError]] = field(default_factory=list)  # and why
    # Each with what it is called and whose it is: of a sweep those of the shapes that opened, as runs of their own, else those of
    # the results, which are called nothing.
    timelines: list[tuple[str, Result, Timeline]] = field(default_factory=list)
    samples: list[Callable[[], Any]] = field(default_factory=list)  # give those that each result itself has not
    model_files: list[files.ModelFiles] = field(default_factory=list)  # of the configurations

    @property
    def result(self) -> Result:
        return self.results[0]

    @property
    def folder(self) -> Path | None:
        return self.folders[0] if self.folders else None


def publish(
    wanted: OutputOptions,
    reports: Sequence[Report],
    json: Callable[[], str],
    *,
    markdown: str | None = None,
    publication: Callable[[], Publication] | None = None,
    screens: Sequence[Report] | None = None,
) -> None:
    """Write and print what a command came to, as far as that is wanted; a file that cannot be written is noted.

    `json` gives what ``--json`` writes, `publication` what features write in forms of their own; `markdown` is of the whole, by default
    of the reports; without ``--verbose`` `screens` are printed, by default the reports in brief.
    """
    whole = None if publication is None or not wanted.files else publication()
    write_files(whole, wanted, after_screen=False)
    if markdown is None:
        from ortbench.report.records import markdown as as_markdown

        markdown = "\n".join(as_markdown(report) for report in reports)
    for feature, record in features.features().items():
        for variable, module in record.report_takers.items():
            if os.environ.get(variable):
                features.function_of(features.module_of(feature, module), "take_report")(markdown)
    if wanted.markdown is not None:
        write(wanted.markdown, markdown, "--markdown")
    if wanted.json is not None:
        write(wanted.json, json(), "--json")
    if not wanted.quiet and not wanted.on_stdout:
        from ortbench.report.terminal import print_report

        if not wanted.verbose:
            from ortbench.report.brief import HEIGHT, brief

            reports = [brief(it, HEIGHT // len(reports)) for it in reports] if screens is None else screens
        for number, report in enumerate(reports):
            if number:
                print()
            print_report(report)
    write_files(whole, wanted, after_screen=True)
    if (warning := output.warning(where_shown=True)) and not wanted.quiet:
        complain(warning)


def write_files(publication: Publication | None, wanted: OutputOptions, after_screen: bool) -> list[str]:
    """Write what features write, before the screen or after it; the paths of what could be written."""
    paths = []
    for flag, path in wanted.files.items():
        writer = features.writers()[flag]
        if publication is not None and writer.after_screen == after_screen and _write_as(flag, publication, path):
            paths.append(path)
            if writer.message and not wanted.quiet and not wanted.on_stdout:
                print(safe_text.visible(writer.message.format(path=path)))
    return paths


def _write_as(flag: str, publication: Publication, path: str) -> bool:
    """Write a file that an option names; whether it was written."""
    _error_files.pop(flag, None)
    if publication.seconds is None:
        publication = publication._replace(seconds=time.monotonic() - _began)
    content = features.function_of(features.writers()[flag].module, f"{flag}_file")(publication, path)
    return write(path, content, f"--{flag}")


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
    from ortbench.report.brief import BEFORE, HEIGHT, brief
    from ortbench.report.run import build, screen

    room = HEIGHT - BEFORE * len(before)

    def publication() -> Publication:
        from ortbench.report.records import Failure, Part, Publication

        names = found.names or [folder.name for folder in found.folders]
        parts = [Part(*it) for it in zip(found.results, names, labels or [""] * len(found.results), strict=True)]
        for name, error in found.not_opened:
            parts.append(Part(None, name, group=f"{model} on {name}", failure=Failure(name, str(error))))
        title = f"ortbench {found.result.kind or 'run'}"
        return Publication(title, parts, timelines=found.timelines)

    publish(
        wanted,
        [*before, *([build(found.result, str(found.folder))] if reports is None else reports)],
        json or (lambda: result_json(found.result)),
        markdown=markdown,
        publication=publication,
        screens=[
            *(brief(it, BEFORE) for it in before),
            *([screen(found.result, str(found.folder), room)] if reports is None else [brief(reports[-1], room)]),
        ],
    )
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
    from ortbench.analysis.items import failures_of, nothing_measured
    from ortbench.model.result import FAILED, OK

    statuses = [case.status for case in result.cases]
    for failure in failures_of(result):
        complain(f"{where}{failure}")
    if OK not in statuses and FAILED not in statuses:
        complain(f"{where}{nothing_measured(result)}")
    return DONE if OK in statuses and FAILED not in statuses else BENCHMARK_FAILED


def json_text(data: Any) -> str:
    import json

    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


def write_json(data: Any, json_out: str | None) -> bool:
    """Write data as JSON where that was asked for; True if it went to standard output, where nothing else may go."""
    if json_out is not None:
        write(json_out, json_text(data), "--json")
    return json_out == "-"


# By option, where a command that ends with an error is to say so; none that is written.
_error_files: dict[str, str] = {}
_began = time.monotonic()  # when the command did


def await_error_files(paths: Mapping[str, str]) -> None:
    """A command begins, and where it is to write errors, by option."""
    global _began
    _began = time.monotonic()
    _error_files.clear()
    _error_files.update(paths)


def write_error(command: str, message: str) -> None:
    """Write that a command ended with an error before it came to anything, to the files that still await it."""
    for flag, path in [*_error_files.items()]:
        try:
            check_writable(path, f"--{flag}")
        except BadInput:  # there is no place to write it
            continue
        from ortbench.report.records import Failure, Part, Publication

        part = Part(None, group="before measuring", failure=Failure(command, message))
        _write_as(flag, Publication(f"ortbench {command}", [part]), path)
        for line in files.not_written():  # the error itself decides how the command ends
            complain(line)


def check_wanted(wanted: OutputOptions) -> None:
    """Refuse with `BadInput`, before anything is measured, what cannot be written or read at its end."""
    for flag, path in wanted.paths.items():
        check_writable(path, f"--{flag}")
        if path == "-" and flag in wanted.files and not features.writers()[flag].to_stdout:
            raise BadInput(f"--{flag} -: name a file")
    if len(wanted.on_stdout) > 1:
        first, second, *_ = wanted.on_stdout
        raise BadInput(f"--{first} and --{second} cannot both go to standard output")


def check_writable(path: str | None, option: str) -> None:
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


def write(path: str, content: str | bytes, option: str) -> bool:
    """Write something for other programs to a file or, with ``-``, to standard output: texts in UTF-8 in either case.

    Returns whether it was written; if not, that is noted, see `ortbench.core.files.write_or_note`.
    """
    if path == "-":
        sys.stdout.flush()
        sys.stdout.buffer.write(safe_text.encode(content) if isinstance(content, str) else content)
        sys.stdout.flush()
        return True
    file, name = Path(path), f"{option} {path}"
    if not _is_special(file):
        return files.write_or_note(file, content, name)
    try:
        file.write_bytes(safe_text.encode(content) if isinstance(content, str) else content)
    except OSError as error:
        files.note(name, error)
        return False
    return True


def _is_special(file: Path) -> bool:
    """Whether it is there and is a pipe or a device, which must be written to and not be replaced by a file."""
    with suppress(BadInput):  # it cannot be written either, which is said then
        return kind_of(file) in (Kind.PIPE, Kind.DEVICE)
    return False
