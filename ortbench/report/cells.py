"""Cells of tables that are figures of the catalogue."""

from __future__ import annotations

from collections.abc import Iterable

from ortbench.model.metrics import known_or_plain
from ortbench.model.result import Case
from ortbench.report.model import DERIVED, NOTHING


def cell(case: Case, key: str, mark: bool = False) -> str:
    """The one number of a metric with its unit; where it was derived behind the `mark` of that."""
    value = case.value(key)
    return NOTHING if value is None else f"{DERIVED if mark else ''}{known_or_plain(key).unit.text(value)}"


def cells(case: Case, keys: Iterable[str]) -> list[str]:
    """The cells of metrics that are one number each."""
    return [cell(case, key) for key in keys]
