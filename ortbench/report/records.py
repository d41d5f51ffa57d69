"""The figures of results for other programs: a flat record a case, as CSV and as a data frame. Every figure is one of the catalogue."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from csv import DictWriter
from typing import TYPE_CHECKING, Any, NamedTuple

from ortbench.core.safe_text import visible_lines
from ortbench.core.stats import Stats, Value
from ortbench.model.metrics import USUAL, in_order, known_or_plain
from ortbench.model.result import Case, Result

if TYPE_CHECKING:
    import pandas

_STATISTICS = ("n", USUAL, "p95", "p99", "min", "max", "mean", "stdev")
_ENDS = ("ci95_low", "ci95_high")
_FIRST = ("mode", "status", "reason")


class _Column(NamedTuple):
    """A statistic of a metric, one end of its interval, or "" where it is one number, with the name of its column and its unit."""

    metric: str
    statistic: str
    name: str
    unit: str


def records(*results: Result) -> list[dict[str, Any]]:
    """A flat record for each case; None for what is not known.

    First are ``mode``, ``status`` and ``reason``, then its place on the axes, one column an axis, then every metric that any case
    has, in the order of the catalogue, and last the verdict of each check. Of samples there are the number, some statistics, and
    the ends of the interval of the median; of one number itself, and the ends of its interval where any case has one.
    """
    cases = [case for result in results for case in result.cases]
    found, checks = _columns(cases), dict.fromkeys(name for case in cases for name in case.checks)
    axes = _axes(cases, {*_FIRST, *(it.name for it in found), *map(_of_check, checks)})
    return [
        {
            **{name: getattr(case, name) for name in _FIRST},
            **{column: case.point.get(axis) for axis, column in axes.items()},
            **{it.name: _figure(_metrics(case).get(it.metric), it.statistic) for it in found},
            **{_of_check(name): case.checks[name]["verdict"] if name in case.checks else None for name in checks},
        }
        for case in cases
    ]


def _metrics(case: Case) -> dict[str, Stats | Value]:
    return case.metrics if case.speedup is None else {**case.metrics, "speedup": case.speedup}


def _of_check(name: str) -> str:
    return f"{name}_check"


def _axes(cases: Iterable[Case], taken: set[str]) -> dict[str, str]:
    """The column of each axis; a dimension of a model may be called as another column is."""
    names = dict.fromkeys(name for case in cases for name in case.point)
    return {name: f"axis_{name}" if name in taken else name for name in names}


def _columns(cases: Sequence[Case]) -> list[_Column]:
    """Of all metrics that any of the cases has."""
    known: dict[str, list[Stats | Value]] = {}
    for case in cases:
        for key, it in _metrics(case).items():
            known.setdefault(key, []).append(it)
    found = []
    for key in in_order(known):
        metric, of = known_or_plain(key), known[key]
        statistics = _STATISTICS if any(isinstance(it, Stats) for it in of) else (metric.usual,)
        ends = _ENDS if any(it.ci95 is not None for it in of) else ()
        for it in (*statistics, *ends):
            found.append(_Column(key, it, metric.column(it), "1" if it == "n" else metric.unit.symbol))
    return found


def _figure(found: Stats | Value | None, statistic: str) -> float | None:
    if found is None:
        return None
    if statistic in _ENDS:
        return None if found.ci95 is None else found.ci95[_ENDS.index(statistic)]
    if isinstance(found, Stats):
        value: float = getattr(found, statistic)
        return value
    return found.value if statistic in ("", USUAL) else None


def records_csv(result: Result) -> str:
    """The records of a result as CSV."""
    found = records(result)
    return csv_text(list(found[0]) if found else _FIRST, found)


def frame(results: Sequence[Result]) -> pandas.DataFrame:
    """The records of many results, with when each was measured, its model and its EP; units are in ``frame.attrs["units"]``.

    Columns have pandas' nullable dtypes.
    """
    import pandas

    heads = [
        {"created": result.created, "model": result.model.get("path"), "ep": result.target["ep"]}
        for result in results
        for _ in result.cases
    ]
    lines = [{**head, **record} for head, record in zip(heads, records(*results), strict=True)]
    made = pandas.DataFrame(lines).convert_dtypes()
    axes = {axis["name"]: axis["unit"] for result in results for axis in result.axes if axis["name"] in made}
    found = {it.name: it.unit for it in _columns([case for result in results for case in result.cases])}
    made.attrs["units"] = {name: unit for name, unit in {**axes, **found}.items() if unit not in ("", "1", None)}
    return made


_FORMULA = ("=", "+", "-", "@")


def csv_text(columns: Sequence[str], records: Iterable[Mapping[str, Any]]) -> str:
    """Flat records as CSV; None and what is not there is left empty, what no column is for is left out.

    Texts are `ortbench.core.safe_text.visible_lines`, and none is a formula.
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
