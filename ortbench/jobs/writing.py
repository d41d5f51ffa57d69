"""What commands write besides what they print."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ortbench.core import files, safe_text
from ortbench.core.errors import BENCHMARK_FAILED, DONE, BadInput

if TYPE_CHECKING:
    from ortbench.model.result import Result
    from ortbench.model.timeline import Timeline


def summarise_job(markdown: str) -> None:
    """GitHub's job summary, where there is one to write to; that it could not be written is noted."""
    if os.environ.get("GITHUB_STEP_SUMMARY"):
        from ortbench.report.exports.github import step_summary

        try:
            step_summary(markdown, os.environ)
        except BadInput as error:
            files.note("the job summary", str(error))


def write(path: str, text: str, option: str) -> bool:
    """Write a text for other programs to a file or, with ``-``, to standard output: in UTF-8 in either case.

    Returns:
        Whether it was written; if not, that is noted, see `ortbench.core.files.write_or_note`.
    """
    if path == "-":
        sys.stdout.flush()
        sys.stdout.buffer.write(safe_text.encoded(text))
        sys.stdout.flush()
        return True
    return _write_file(path, text, option)


def write_compressible(path: str, text: str, option: str) -> bool:
    """Write a text to a file, compressed by gzip if its name ends in ``.gz``; whether it was written, as `write`."""
    import gzip

    return _write_file(path, gzip.compress(safe_text.encoded(text), mtime=0) if path.endswith(".gz") else text, option)


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
    return file.exists() and not file.is_file() and not file.is_dir()


def check_place(path: str | None, option: str) -> None:
    """Refuse a file that cannot be written at the end, before anything is measured.

    Raises:
        BadInput: why.
    """
    if path is None or path == "-":
        return
    file = Path(path)
    if file.is_dir():
        raise BadInput(f"{option} {path}: name a file")
    if not file.parent.is_dir():
        raise BadInput(f"{option} {path}: there is no folder {file.parent}")
    if not _is_special(file) and not os.access(file.parent, os.W_OK):
        raise BadInput(f"{option} {path}: the folder {file.parent} cannot be written")


def write_page(path: str, results: Sequence[Result], names: Sequence[str], errors: Sequence[str] = ()) -> bool:
    """Write results as a page, see `ortbench.report.page.page.build_page`; whether it was written, as `write`.

    Only then are its libraries loaded.
    """
    quieten_matplotlib()
    from ortbench.report.page.page import build_page

    return write(path, build_page(results, names, errors), "--html")


def quieten_matplotlib() -> None:
    """Before it is imported: where it keeps its font cache, which it tells then, is no business of a benchmark's user."""
    import logging

    logging.getLogger("matplotlib").setLevel(logging.ERROR)


def write_json(data: Any, json_out: str | None) -> bool:
    """Write data as JSON where that was asked for; True if it went to standard output, where nothing else may go."""
    import json

    if json_out is None:
        return False
    write(json_out, json.dumps(data, indent=2, ensure_ascii=False) + "\n", "--json")
    return json_out == "-"


def say_failures(result: Result, where: str = "") -> int:
    """Say on standard error which modes, levels of a load or shapes of a sweep failed, or that none could be measured; the
    exit code that follows from it.

    Args:
        result: of a run or a profiled session.
        where: before each line: whose result it is.
    """
    from ortbench.gate.verdict import failures_of, nothing_measured
    from ortbench.model.result import FAILED, OK

    statuses = [case.status for case in result.cases]
    for failure in failures_of(result):
        safe_text.complain(f"{where}{failure}")
    if OK not in statuses and FAILED not in statuses:
        safe_text.complain(f"{where}{nothing_measured(result)}")
    return DONE if OK in statuses and FAILED not in statuses else BENCHMARK_FAILED


def write_trace(
    results: Sequence[Result], timelines: Sequence[Timeline], labels: Sequence[str], path: str, quiet: bool
) -> None:
    """Write a timeline; what it lacks is said in a line each.

    Args:
        results, timelines, labels: see `ortbench.report.exports.chrome_trace.chrome_trace`.
        path: of the file.
        quiet: do not say where it is.
    """
    from ortbench.report.exports.chrome_trace import chrome_trace, trace_json

    trace = chrome_trace(results, timelines, labels=labels)
    written = write_compressible(path, trace_json(trace), "--trace")
    for words in trace["otherData"]["missing"]:
        safe_text.complain(f"--trace lacks: {words}")
    if written and not quiet:
        print(safe_text.visible(f"Timeline in {path}; open it at ui.perfetto.dev or in chrome://tracing"))
