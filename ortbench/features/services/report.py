"""What services that keep a history read: Bencher's metric format, the JSON of github-action-benchmark, and the summary of a job.

Bencher's is https://bencher.dev/docs/reference/bencher-metric-format/. The action tells series apart by name alone, compares a
value with that of the commit before under the same name, and puts names in code spans of a Markdown table (its ``src/write.ts``
and ``src/extract.ts``).
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from io import FileIO

from ortbench.analysis.series import Series, point_text, series
from ortbench.core import files
from ortbench.core.errors import BadInput, one_line
from ortbench.core.stats import SAMPLES_FOR, Value
from ortbench.model.metrics import USUAL
from ortbench.model.modes import is_rate
from ortbench.model.result import Result
from ortbench.report.model import NOTHING
from ortbench.report.phrases import device_name
from ortbench.report.records import Publication, number_repeated, plain_line, samples_text


def action_json_file(publication: Publication, _: str) -> str:
    return action_json(publication.results, publication.labels)


def bmf_file(publication: Publication, _: str) -> str:
    return bmf(publication.results, publication.labels)


def take_report(markdown: str) -> None:
    """GitHub's job summary, where there is one to write to; that it could not be written is noted."""
    try:
        step_summary(markdown, os.environ)
    except BadInput as error:
        files.note("the job summary", str(error))


def figures(results: Sequence[Result], settings: Sequence[str] = ()) -> Iterator[tuple[str, Result, Series]]:
    """Every figure that a comparison of such results has, as far as it was measured and not derived: what it is of, the result and
    the figure; `figure_name` goes behind the former."""
    # With what has no figures: a name stays the same when a mode fails.
    every = [(at, tuple(case.point.items())) for at, result in enumerate(results) for case in result.cases]
    points = list(dict.fromkeys(every))
    texts = [f"{settings[at] if settings else ''} {point_text(point)}".strip() for at, point in points]
    called = dict(zip(points, labels([results[at] for at, _ in points], texts), strict=True))
    for at, result in enumerate(results):
        for one in _measured_series(result):
            yield f"{called[at, one.key.point]}: {one.key.mode}", result, one


def _measured_series(result: Result) -> Iterator[Series]:
    for key, one in series(result, lambda view: view.compared).items():
        found = one.case.metrics.get(key.figure.metric)
        if not (isinstance(found, Value) and found.derived):
            yield one


def figure_name(one: Series) -> str:
    """A metric, and which statistic of it where that is not the usual one: ``latency``, ``latency.p99``."""
    metric, statistic = one.key.figure
    return metric if statistic == one.key.metric.usual else f"{metric}.{statistic}"


def labels(results: Sequence[Result], settings: Sequence[str]) -> list[str]:
    """For each result: model, EP, device, and what else tells it apart from the others; see `action_json`."""
    settings = settings or [""] * len(results)
    paths = [str(result.model["path"]) for result in results]
    files = [re.split(r"[/\\]", path)[-1] for path in paths]
    homonyms = Counter(file for _, file in set(zip(paths, files, strict=True)))
    # model.onnx is what many models are called: then the folder is what tells them apart.
    models = [path if homonyms[file] > 1 else file for path, file in zip(paths, files, strict=True)]
    targets = [(model, result.target["ep"]) for model, result in zip(models, results, strict=True)]
    several = Counter(targets)
    found = []
    for (model, ep), result, setting in zip(targets, results, settings, strict=True):
        what = f" ({setting})" if setting else _shapes(result) if several[model, ep] > 1 else ""
        # Names stand in code spans of a Markdown table.
        found.append(re.sub("[`|]", "_", plain_line(f"{model}{what} on {ep} ({device_name(result)})")))
    return number_repeated([("", label) for label in found])


def _shapes(result: Result) -> str:
    shapes = {tensor["name"]: tensor["shape"] for tensor in result.model["inputs"] if tensor["shape"] is not None}
    listed = ", ".join(f"{name} {'x'.join(map(str, shape)) or 'scalar'}" for name, shape in shapes.items())
    return f" ({listed})" if listed else ""


def bmf(results: Sequence[Result], settings: Sequence[str] = ()) -> str:
    """Every figure that a comparison has, as ``bencher run --adapter json --file`` takes it: by the names that `action_json` gives them,
    the measure of the figure's unit in the catalogue with ``value`` and the ends of its 95 % interval, where it has one."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for name, _, one in figures(results, settings):
        ends = {} if one.ci95 is None else dict(zip(("lower_value", "upper_value"), one.ci95, strict=True))
        found[f"{name} {figure_name(one)}"] = {one.key.metric.unit.measure: {"value": one.value, **ends}}
    return json.dumps(found, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


# GitHub


# What figures have here in place of the catalogue's units, and how much that is.
_UNITS = {"ns": ("ms", 1e6), "B": ("MB", 1e6)}
_ONE = {"inf/s": "inference", "items/s": "item"}  # of what there are many a second
# GitHub's runner drops the whole summary of a step that is larger: actions/runner, `CreateStepSummaryCommand`.
SUMMARY_LIMIT = 1024 * 1024
SUMMARY_CUT = "Cut here: GitHub takes at most 1 MiB of summary from a step. The whole report is saved with the result."


def action_json(results: Sequence[Result], settings: Sequence[str] = ()) -> str:
    """Every figure that a comparison has, as github-action-benchmark reads it with ``tool: customSmallerIsBetter``.

    An object for each figure of each mode that is ok, at each point, in "ms", "MB" or the catalogue's unit, with "± x" as far as the
    farther end of its 95 % interval and lines for the tooltip. Where inference is all there is to a mode, its latency stands for
    both. Of what is better when it is more there is the time for one. An empty list the action takes for an error.

    A name is that of the model's file, the EP, the device, the mode and the metric: no figure, time or version, so it is
    the same in the next run. The device is part of it because times of two machines are no history of each other. The point on
    the axes and what the result was measured with (`settings`), or else its input shapes, are added only where a model and EP
    have several results here; then a number tells apart what is still alike.
    """
    # The action divides by the last value: a count that is 0 in most runs would be an alert without end.
    entries = [_entry(*it) for it in figures(results, settings) if not it[2].key.metric.often_zero]
    return json.dumps(entries, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _entry(name: str, result: Result, one: Series) -> dict[str, str | float]:
    metric, what, values = one.key.metric, figure_name(one), [one.value, *(one.ci95 or ())]
    symbol = metric.unit.symbol
    if metric.better == "higher":
        what, symbol, values = f"time per {_ONE[symbol]}", "ns", [1e9 / max(value, 1e-9) for value in values]
    unit, size = _UNITS.get(symbol, (symbol, 1))
    value, *ends = (found / size for found in values)
    entry: dict[str, str | float] = {"name": f"{name} {what}", "unit": unit, "value": round(value, 6)}
    if ends:
        off = max(abs(end - value) for end in ends)
        entry["range"] = "± " + f"{off:.6f}".rstrip("0").rstrip(".")
    return entry | {"extra": _tooltip(_describe_samples(one), result)}


def _describe_samples(one: Series) -> str:
    metric, statistic = one.key.figure
    stats = one.case.stats(metric)
    if stats is None:
        return one.key.metric.meaning
    text = f"{statistic} of {samples_text(one.case, metric, stats)}"
    if statistic != USUAL:
        return text
    known = stats.n >= SAMPLES_FOR["p95"] and not is_rate(one.case.mode, metric)
    return f"{text}, p95 {one.key.metric.unit.text(stats.p95) if known else NOTHING}"


def _tooltip(first: str, result: Result) -> str:
    """A line, and those that say with what it was measured and how."""
    versions = [
        f"ortbench {result.tool['version']}",
        f"ONNX Runtime {result.environment['onnxruntime']}",
        " ".join(filter(None, (result.target["ep"], result.target.get("ep_version")))),
    ]
    lines = [first, ", ".join(versions), shlex.join(result.command)]
    return "\n".join(plain_line(line) for line in lines if line)


def step_summary(markdown: str, environ: Mapping[str, str]) -> bool:
    """Append a report to the summary of a GitHub Actions step, where ``GITHUB_STEP_SUMMARY`` names it; gives whether something was
    written. `BadInput`: the file cannot be written; then nothing of the report is in it.

    A step has `SUMMARY_LIMIT` bytes, of which earlier commands may have used some; what does not fit is left out by whole
    lines, and a last line says so, if that fits.
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
            text = _cut_to(text, SUMMARY_LIMIT - size)
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


def _cut_to(text: bytes, room: int) -> bytes:
    if len(text) <= room:
        return text
    cut = f"\n{SUMMARY_CUT}\n".encode()  # the blank line ends a table
    if len(cut) > room:
        return b""
    return text[: text.rfind(b"\n", 0, room - len(cut)) + 1] + cut
