"""What GitHub reads: the JSON of github-action-benchmark, and the summary of a job.

The action tells series apart by name alone, compares a value with that of the commit before under the same name, and
puts names in code spans of a Markdown table (its ``src/write.ts`` and ``src/extract.ts``).
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from io import FileIO

from ortbench.analysis.compare import parts
from ortbench.analysis.compare_levels import COMPARED
from ortbench.analysis.levels import RUNS_PER_S, at, figure, interval, is_measured
from ortbench.analysis.pairs import timed_phase
from ortbench.analysis.points import apart
from ortbench.errors import BadInput, one_line
from ortbench.modes import PHASE_NAMES, TOTAL, is_rate
from ortbench.report.exports.junit import plain_line, samples_text, told_apart
from ortbench.report.model import NOTHING
from ortbench.report.words import device_name
from ortbench.result import OK, Case, Result
from ortbench.schema import Level
from ortbench.stats import SAMPLES_FOR, Stats

ACTION_UNIT = "ms"
_PHASES = (TOTAL, *(name for name in PHASE_NAMES if name != TOTAL))
_NS_PER_ACTION_UNIT = 1e6
# GitHub's runner drops the whole summary of a step that is larger: actions/runner, `CreateStepSummaryCommand`.
SUMMARY_LIMIT = 1024 * 1024
SUMMARY_CUT = "Cut here: GitHub takes at most 1 MiB of summary from a step. The whole report is saved with the result."


def action_json(results: Sequence[Result], settings: Sequence[str] = ()) -> str:
    """Every median that was measured, as github-action-benchmark reads it with ``tool: customSmallerIsBetter``.

    A JSON list with one object for each phase of each mode that is ok, ``total`` first, of a loop ``loop`` and ``step``, of a chain ``chain`` and each ``stage.NAME``: ``name``; ``unit``, always
    "ms"; ``value``, the median in ms; ``range``, "± x" with x in ms, as far as the farther end of its 95 % interval;
    ``extra``, lines for the tooltip. Where inference is all there is to a mode, its total stands for both. The list is
    empty if nothing was measured, which the action takes for an error. Of a load each level has its latencies and, with so many
    callers, the time per run, which is 1 s divided by runs/s. A sweep has the medians of each shape, under the shape's name.

    A name is that of the model's file, the EP, the device, the mode and the phase: no figure, time or version, so it is
    the same in the next run. The device is part of it because times of two machines are no history of each other. Input
    shapes are added only where a model and EP have several results here; then a number tells apart what is still alike.

    Args:
        results: any number of them.
        settings: of each what it was measured with, in a few words, where it is one of several; then this stands in place
            of the shapes.
    """
    entries = [_entry(*it) for it in medians(results, settings)]
    results, settings = apart(results, settings)
    labels = _labels(results, settings)
    entries += [
        _level_entry(label, result, level, stat)
        for label, result in zip(labels, results, strict=True)
        for level in result.levels
        if is_measured(level)
        for stat in COMPARED[at(level).kind]
    ]
    return json.dumps(entries, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def medians(results: Sequence[Result], settings: Sequence[str] = ()) -> Iterator[tuple[str, Result, Case, str, Stats]]:
    """Every median that was measured, but of loads: its name, the result, the case, the phase and the statistics; see
    `action_json`."""
    results, settings = apart(results, settings)
    for label, result in zip(_labels(results, settings), results, strict=True):
        for case in result.cases if result.load is None else ():
            for phase in (parts([result]) or _PHASES) if case.status == OK else ():
                stats = case.stats(phase)
                if stats is not None and timed_phase(case.mode, phase) == phase:
                    yield f"{label}: {case.mode} {phase}", result, case, phase, stats


def _entry(name: str, result: Result, case: Case, phase: str, stats: Stats) -> dict[str, str | float]:
    beyond = max(abs(end - stats.median_ns) for end in stats.ci95_ns)
    return {
        "name": name,
        "unit": ACTION_UNIT,
        "value": stats.median_ns / _NS_PER_ACTION_UNIT,
        "range": f"± {_decimal(beyond)}",
        "extra": _extra(result, case, phase, stats),
    }


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


def _labels(results: Sequence[Result], settings: Sequence[str]) -> list[str]:
    """For each result: model, EP, device, and what else tells it apart from the others."""
    paths = [str(result.model["path"]) for result in results]
    files = [re.split(r"[/\\]", path)[-1] for path in paths]
    homonyms = Counter(file for _, file in set(zip(paths, files, strict=True)))
    # model.onnx is what many models are called: then the folder is what tells them apart.
    models = [path if homonyms[file] > 1 else file for path, file in zip(paths, files, strict=True)]
    targets = [(model, result.target["ep"]) for model, result in zip(models, results, strict=True)]
    several = Counter(targets)
    labels = []
    for (model, ep), result, setting in zip(targets, results, settings, strict=True):
        what = f" ({setting})" if setting else _shapes(result) if several[model, ep] > 1 else ""
        # Names stand in code spans of a Markdown table.
        labels.append(re.sub("[`|]", "_", plain_line(f"{model}{what} on {ep} ({device_name(result)})")))
    return told_apart([("", label) for label in labels])


def _shapes(result: Result) -> str:
    shapes = {tensor["name"]: tensor["shape"] for tensor in result.model["inputs"] if tensor["shape"] is not None}
    listed = ", ".join(f"{name} {'x'.join(map(str, shape)) or 'scalar'}" for name, shape in shapes.items())
    return f" ({listed})" if listed else ""


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
