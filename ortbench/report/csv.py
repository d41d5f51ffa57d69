"""Statistics as CSV. Python's own writer: pandas takes longer to import than a short benchmark takes to run.

Spreadsheets take a text that begins with ``=``, ``+``, ``-`` or ``@`` for a formula, quoted or not, and some run what it
says. An apostrophe before it, which they take for "this is text", keeps it a text. Names as they are stand in result.json.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from csv import DictWriter
from typing import Any

from ortbench.characters import visible_lines
from ortbench.result import Case
from ortbench.stats import Stats

_FORMULA = ("=", "+", "-", "@")


def statistics(phase: str, stats: Stats | None) -> dict[str, int | None]:
    """The columns of a phase: every statistic of it in ns; None where it was not timed."""
    keys = ("n", "median_ns", "p95_ns", "p99_ns", "min_ns", "max_ns", "mean_ns", "stdev_ns")
    found = {f"{phase}_{key}": None if stats is None else getattr(stats, key) for key in keys}
    low, high = (None, None) if stats is None else stats.ci95_ns
    return {**found, f"{phase}_ci95_low_ns": low, f"{phase}_ci95_high_ns": high}


def ratio(case: Case) -> dict[str, float | None]:
    """The columns of how many times as fast as `cpu` a mode is, with the interval; None where not known."""
    low, high = (case.vs_cpu and case.vs_cpu["ci95"]) or (None, None)
    return {"vs_cpu": case.vs_cpu and case.vs_cpu["ratio"], "vs_cpu_ci95_low": low, "vs_cpu_ci95_high": high}


def csv_text(columns: Sequence[str], records: Iterable[Mapping[str, Any]]) -> str:
    """Flat records as CSV; None and what is not there is left empty, what no column is for is left out.

    Texts are `ortbench.characters.visible_lines`, and none is a formula.
    """
    text = io.StringIO()
    writer = DictWriter(text, columns, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: _cell(value) for key, value in record.items()} for record in records)
    return text.getvalue()


def _cell(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    shown = visible_lines(value)
    return f"'{shown}" if shown.lstrip().startswith(_FORMULA) else shown
