"""What GitHub reads: the JSON of github-action-benchmark, and the summary of a job.

The action tells series apart by name alone, compares a value with that of the commit before under the same name, and
puts names in code spans of a Markdown table (its ``src/write.ts`` and ``src/extract.ts``).
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Mapping, Sequence
from io import FileIO

from ortbench.analysis.compare_levels import COMPARED
from ortbench.analysis.levels import RUNS_PER_S, at, figure, interval, is_measured
from ortbench.errors import BadInput, one_line
from ortbench.modes import is_rate
from ortbench.report.costs.numbers import Number
from ortbench.report.exports.junit import plain_line, samples_text
from ortbench.report.exports.series import labels, medians, numbers
from ortbench.report.model import NOTHING
from ortbench.result import Case, Result
from ortbench.schema import Level
from ortbench.stats import SAMPLES_FOR, Stats

ACTION_UNIT = "ms"
# Of a number its unit here, how much that is, and what to say of it.
_UNITS = {"B": ("MB", 1e6, "at most, in a worker of its own"), "J": ("J", 1, "of a run, less the idle draw")}
_NS_PER_ACTION_UNIT = 1e6
# GitHub's runner drops the whole summary of a step that is larger: actions/runner, `CreateStepSummaryCommand`.
SUMMARY_LIMIT = 1024 * 1024
SUMMARY_CUT = "Cut here: GitHub takes at most 1 MiB of summary from a step. The whole report is saved with the result."


def action_json(results: Sequence[Result], settings: Sequence[str] = ()) -> str:
    """Every median that was measured, and what it costs besides, as github-action-benchmark reads it with ``tool:
    customSmallerIsBetter``.

    A JSON list with one object for each phase of each mode that is ok, ``total`` first, of a loop ``loop`` and ``step``, of a
    chain ``chain`` and each ``stage.NAME``, then ``submit`` and ``cpu_time``: ``name``; ``unit``, "ms"; ``value``, the median in
    ms; ``range``, "± x" with x in ms, as far as the farther end of its 95 % interval; ``extra``, lines for the tooltip. Where
    inference is all there is to a mode, its total stands for both. The list is empty if nothing was measured, which the action
    takes for an error. Of a load each level has its latencies and, with so many callers, the time per run, which is 1 s divided
    by runs/s. A sweep has the figures of each shape, under the shape's name. Where they were asked for, ``memory.device`` and
    ``memory.host`` in "MB", without a ``range``, and ``energy`` in "J".

    A name is that of the model's file, the EP, the device, the mode and the phase: no figure, time or version, so it is
    the same in the next run. The device is part of it because times of two machines are no history of each other. Input
    shapes are added only where a model and EP have several results here; then a number tells apart what is still alike.

    Args:
        results: any number of them.
        settings: of each what it was measured with, in a few words, where it is one of several; then this stands in place
            of the shapes.
    """
    entries = [_entry(*it) for it in medians(results, settings)]
    entries += [_number_entry(*it) for it in numbers(results, settings)]
    entries += [
        _level_entry(label, result, level, stat)
        for label, result in zip(labels(results, settings), results, strict=True)
        for level in result.levels
        if is_measured(level)
        for stat in COMPARED[at(level).kind]
    ]
    return json.dumps(entries, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _entry(name: str, result: Result, case: Case, phase: str, stats: Stats) -> dict[str, str | float]:
    beyond = max(abs(end - stats.median_ns) for end in stats.ci95_ns)
    return {
        "name": name,
        "unit": ACTION_UNIT,
        "value": stats.median_ns / _NS_PER_ACTION_UNIT,
        "range": f"± {_decimal(beyond)}",
        "extra": _extra(result, case, phase, stats),
    }


def _number_entry(name: str, result: Result, number: Number) -> dict[str, str | float]:
    unit, each, said = _UNITS[number.unit]
    entry: dict[str, str | float] = {"name": name, "unit": unit, "value": number.value / each}
    if number.ci95 is not None:
        entry["range"] = f"± {max(abs(end - number.value) for end in number.ci95) / each:.3g}"
    return entry | {"extra": _told(said, result)}


def _level_entry(label: str, result: Result, level: Level, stat: str) -> dict[str, str | float]:
    """A figure of a level in ms: runs/s as the time per run, so that smaller is better."""
    value, inside = figure(level, stat), interval(level, stat)
    ends = [value, *(inside or ())]
    ns, *beyond = ([1e9 / max(it, 1e-9) for it in ends]) if stat == RUNS_PER_S else ends
    spread = round(max((abs(end - ns) for end in beyond), default=0.0))
    return {
        "name": f"{label}: {level['mode']} {at(level).phrase} {'time per run' if stat == RUNS_PER_S else stat}",
        "unit": ACTION_UNIT,
        "value": round(ns) / _NS_PER_ACTION_UNIT,
        "range": f"± {_decimal(spread)}",
        "extra": _told(f"of {level['n']} runs", result),
    }


def _decimal(ns: int) -> str:
    """Nanoseconds in ms, to the last digit and without an exponent."""
    return f"{ns / _NS_PER_ACTION_UNIT:.6f}".rstrip("0").rstrip(".")


def _extra(result: Result, case: Case, phase: str, stats: Stats) -> str:
    known = stats.n >= SAMPLES_FOR["p95"] and not is_rate(case.mode, phase)
    p95 = f"{_decimal(stats.p95_ns)} {ACTION_UNIT}" if known else NOTHING
    return _told(f"median of {samples_text(case, phase, stats)}, p95 {p95}", result)


def _told(first: str, result: Result) -> str:
    """A line, and those that say with what it was measured and how."""
    versions = [
        f"ortbench {result.tool['version']}",
        f"ONNX Runtime {result.environment['onnxruntime']}",
        " ".join(filter(None, (result.target["ep"], result.target.get("ep_version")))),
    ]
    lines = [
        first,
        ", ".join(versions),
        shlex.join(result.command),
    ]
    return "\n".join(plain_line(line) for line in lines if line)


def step_summary(markdown: str, environ: Mapping[str, str]) -> bool:
    """Append a report to the summary of a GitHub Actions step, where there is one.

    A step has `SUMMARY_LIMIT` bytes, of which earlier commands may have used some; what does not fit is left out by whole
    lines, and a last line says so.

    Args:
        markdown: the report.
        environ: environment variables; ``GITHUB_STEP_SUMMARY`` names the file.

    Returns:
        Whether something was written: False without the variable, or where not even the last line fits.

    Raises:
        BadInput: the file cannot be written; then nothing of the report is in it.
    """
    path = environ.get("GITHUB_STEP_SUMMARY")
    if not path:
        return False
    text = markdown.encode(errors="replace")
    if not text.endswith(b"\n"):
        text += b"\n"
    try:
        with open(path, "a+b", buffering=0) as file:  # bytes, because bytes are what is counted
            size = file.seek(0, os.SEEK_END)
            if size > 0:
                file.seek(size - 1)
                text = text if file.read(1) == b"\n" else b"\n" + text
            text = _fitting(text, SUMMARY_LIMIT - size)
            _append(file, text, size)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or one_line(error)
        raise BadInput(f"GITHUB_STEP_SUMMARY: cannot write {path!r}: {reason}") from None
    return bool(text)


def _append(file: FileIO, text: bytes, size: int) -> None:
    """Write all of a text to a file's end, or nothing of it."""
    try:
        while text:
            text = text[file.write(text) :]
    except OSError:
        file.truncate(size)
        raise


def _fitting(text: bytes, room: int) -> bytes:
    if len(text) <= room:
        return text
    cut = f"\n{SUMMARY_CUT}\n".encode()  # the blank line ends a table
    if len(cut) > room:
        return b""
    return text[: text.rfind(b"\n", 0, room - len(cut)) + 1] + cut
