"""The names under which figures of results have a history elsewhere, and the figures that have one.

A name is that of the model's file, the EP, the device, the mode and the figure: no time or version, so it is the same in the
next run.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from ortbench.analysis.compare import parts
from ortbench.analysis.pairs import timed_phase
from ortbench.analysis.points import apart
from ortbench.modes import COSTS, PHASE_NAMES, TOTAL
from ortbench.report.costs.numbers import Number, numbers_of
from ortbench.report.exports.junit import plain_line, told_apart
from ortbench.report.words import device_name
from ortbench.result import OK, Case, Result
from ortbench.stats import Stats

_PHASES = (TOTAL, *(name for name in PHASE_NAMES if name != TOTAL))


def medians(results: Sequence[Result], settings: Sequence[str] = ()) -> Iterator[tuple[str, Result, Case, str, Stats]]:
    """Every median that was measured, but of loads: its name, the result, the case, the phase and the statistics; what a run
    takes of the host (`ortbench.modes.COSTS`) is among them."""
    results, settings = apart(results, settings)
    for label, result in zip(labels(results, settings), results, strict=True):
        for case in result.cases if result.load is None else ():
            for phase in (*(parts([result]) or _PHASES), *COSTS) if case.status == OK else ():
                stats = case.stats(phase)
                if stats is not None and timed_phase(case.mode, phase) == phase:
                    yield f"{label}: {case.mode} {phase}", result, case, phase, stats


def numbers(results: Sequence[Result], settings: Sequence[str] = ()) -> Iterator[tuple[str, Result, Number]]:
    """What modes cost besides time, as far as it was asked for: its name, the result and the number."""
    results, settings = apart(results, settings)
    for label, result in zip(labels(results, settings), results, strict=True):
        for case in result.cases if result.load is None else ():
            for it in numbers_of(case) if case.status == OK else ():
                yield f"{label}: {case.mode} {it.name}", result, it


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
