"""What Bencher reads: its metric format, https://bencher.dev/docs/reference/bencher-metric-format/"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence

from ortbench.analysis.comparing.series import Series, point_text, series
from ortbench.core.stats import Value
from ortbench.model.metrics import USUAL
from ortbench.model.result import Result
from ortbench.report.exports.junit import plain_line, told_apart
from ortbench.report.words import device_name


def figures(results: Sequence[Result], settings: Sequence[str] = ()) -> Iterator[tuple[str, Result, Series]]:
    """Every figure that a comparison of such results has, as far as it was measured and not derived: what it is of, the result and
    the figure; `figure_name` goes behind the former."""
    # With what has no figures: a name stays the same when a mode fails.
    every = [(at, tuple(case.point.items())) for at, result in enumerate(results) for case in result.cases]
    points = list(dict.fromkeys(every))
    texts = [f"{settings[at] if settings else ''} {point_text(point)}".strip() for at, point in points]
    called = dict(zip(points, labels([results[at] for at, _ in points], texts), strict=True))
    for at, result in enumerate(results):
        for it in _measured(result):
            yield f"{called[at, it.key.point]}: {it.key.mode}", result, it


def _measured(result: Result) -> Iterator[Series]:
    for key, it in series(result, lambda view: view.compared).items():
        found = it.case.metrics.get(key.figure.metric)
        if not (isinstance(found, Value) and found.derived):
            yield it


def figure_name(it: Series) -> str:
    """A metric, and which statistic of it where that is not the usual one: ``latency``, ``latency.p99``."""
    metric, statistic = it.key.figure
    return metric if statistic in ("", USUAL) else f"{metric}.{statistic}"


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
    return told_apart([("", label) for label in found])


def _shapes(result: Result) -> str:
    shapes = {tensor["name"]: tensor["shape"] for tensor in result.model["inputs"] if tensor["shape"] is not None}
    listed = ", ".join(f"{name} {'x'.join(map(str, shape)) or 'scalar'}" for name, shape in shapes.items())
    return f" ({listed})" if listed else ""


def bmf(results: Sequence[Result], settings: Sequence[str] = ()) -> str:
    """Every figure that a comparison has, as ``bencher run --adapter json --file`` takes it.

    A JSON object: by the names that `ortbench.report.exports.github.action_json` gives them, the measure of the figure's unit in
    the catalogue, such as ``latency`` in ns, ``size`` in bytes or ``energy`` in J, with ``value`` and, where it has one, the ends of
    its 95 % interval, ``lower_value`` and ``upper_value``. It is empty if nothing was measured.

    Args:
        results: any number of them.
        settings: of each what it was measured with, where it is one of several; see `action_json`.
    """
    found: dict[str, dict[str, dict[str, float]]] = {}
    for name, _, it in figures(results, settings):
        ends = {} if it.ci95 is None else dict(zip(("lower_value", "upper_value"), it.ci95, strict=True))
        found[f"{name} {figure_name(it)}"] = {it.key.metric.unit.measure: {"value": it.value, **ends}}
    return json.dumps(found, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
