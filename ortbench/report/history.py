"""The report of results of many days: a row for each series, its steps, and what changed where they are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from ortbench.analysis.comparing.change_points import LEVEL, Shift
from ortbench.analysis.comparing.compare import COSTS, FASTER, LESS, MORE, SLOWER
from ortbench.analysis.comparing.history import FEWEST, Run, Series, Step, series
from ortbench.analysis.comparing.naming import called
from ortbench.analysis.comparing.series import Selection, point_text
from ortbench.core import units
from ortbench.model.kinds import KINDS
from ortbench.model.metrics import SHARE
from ortbench.model.result import Result
from ortbench.plan.compare_options import Compared
from ortbench.report.comparison import figure_text
from ortbench.report.composed import sparkline
from ortbench.report.model import (
    BAD,
    FILES,
    GOOD,
    KEY,
    NOTHING,
    PRINTED,
    TERMINAL,
    Block,
    Column,
    Heading,
    Kind,
    Note,
    Notes,
    Paragraph,
    Report,
    Table,
    Title,
    between,
    columns,
    filled,
)
from ortbench.report.phrases import heading, hint, remark, verdict_cell

_SERIES = (Column("series", Kind.NAME, KEY), Column("mode", Kind.WORD, KEY))
_COLUMNS = (
    *_SERIES,
    *columns(Kind.NUMBER, "results", "first", "last", "change", group=1),
    Column("over time", Kind.WORD, 2),
    *columns(Kind.NUMBER, "scatter", "change points", group=2),
)
_STEPS = (
    *_SERIES,
    Column("since", Kind.WORD, 1),
    *columns(Kind.NUMBER, "before", "after", "ratio", "95% CI", group=1),
    Column("verdict", Kind.WORD, 1),
    Column("results", Kind.NUMBER, 2),
)
_ROOM = 0.05  # of its middle that a curve's scale has at least on either side: scatter is not to look like mountains
_MOST = 5  # of what was left out is named
_MOST_GROUPS = 6  # that have a line each


@dataclass(frozen=True)
class Told:
    """Series of one group, and what they are called together."""

    name: str
    series: tuple[Series, ...]

    def title(self, one: Series) -> str:
        """What one of them is called by itself."""
        return " ".join((self.of(one), mode_cell(one)))

    def of(self, one: Series) -> str:
        return " ".join(filter(None, (self.name, point_text(one.key.point))))


def told(groups: Sequence[Sequence[Run]], only: Compared) -> list[Told]:
    """The groups that have series, with names that tell them apart."""
    chosen = Selection(only.modes, only.metrics)
    found = [(group, tuple(series(group, chosen, only.same))) for group in groups]
    found = [(group, of_group) for group, of_group in found if of_group]
    names = _names([group for group, _ in found])
    return [Told(name, of_group) for name, (_, of_group) in zip(names, found, strict=True)]


def _names(groups: Sequence[Sequence[Run]]) -> list[str]:
    """What groups are called: by what differs between them; one alone by its model."""
    last = [_lasting(group) for group in groups]
    if len(last) == 1:
        return [last[0].name or Path(last[0].model["path"]).stem]
    return called(last, [Path(group[-1].place) for group in groups])


def _lasting(group: Sequence[Run]) -> Result:
    """The last result of a group, with its name if all have that: of a day's own name nothing is to be learned."""
    last = group[-1].result
    return last if all(run.result.name == last.name for run in group) else replace(last, name=None)


def day(at: datetime) -> str:
    """When something was measured, in UTC."""
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M")


def mode_cell(one: Series) -> str:
    """A mode, and the metric if that is not the only one of which its kind has a history."""
    usual = KINDS[one.figures[-1].run.result.kind].view(dict(one.key.point)).history
    return one.key.mode if usual == (one.key.figure,) else f"{one.key.mode} {figure_text(one.key)}"


def verdict(one: Series, size: Shift) -> str:
    worse, better = (MORE, LESS) if one.key.metric.group in COSTS else (SLOWER, FASTER)
    return worse if size.ratio > 1 else better


# Tables


def series_table(found: Sequence[Told]) -> Table:
    rows = tuple(_row(group.of(one), one) for group in found for one in group.series)
    return filled(Table(_COLUMNS, rows, title="Over time"))


def _row(name: str, one: Series) -> tuple[str, ...]:
    values, show = [it.value for it in one.figures], one.key.metric.unit.text
    return (
        name,
        mode_cell(one),
        str(len(values)),
        NOTHING if len(values) == 1 else show(values[0]),
        show(values[-1]),
        NOTHING if len(values) == 1 or not values[0] else units.change(values[-1] / values[0]),
        NOTHING if len(values) == 1 else sparkline(values, _span(values)),
        NOTHING if one.scatter is None else f"±{SHARE.text(one.scatter)}",
        str(len(one.steps)) if one.is_searched else NOTHING,
    )


def _span(values: Sequence[float]) -> tuple[float, float]:
    middle = median(values)
    return min(*values, middle * (1 - _ROOM)), max(*values, middle * (1 + _ROOM))


def step_table(found: Sequence[Told]) -> Table:
    rows = tuple(_step_row(group.of(one), one, step) for group in found for one in group.series for step in one.steps)
    return Table(_STEPS, rows, title="Change points")


def _step_row(name: str, one: Series, step: Step) -> tuple[str, ...]:
    return (
        name,
        mode_cell(one),
        day(one.figures[step.at].run.at),
        one.key.metric.unit.text(step.before),
        one.key.metric.unit.text(step.after),
        units.change(step.size.ratio),
        between(step.size.ci95, units.change),
        verdict_cell(verdict(one, step.size)),
        " + ".join(map(str, step.runs)),
    )


def narrow(table: Table) -> Table:
    """A table of series for a terminal, where their names take too much room: the rows of one below its name; of a single one, which
    the heading names, without; a name that has a row of its own before it."""
    series, mode, *columns = table.columns
    names = [*dict.fromkeys(row[0] for row in table.rows)]
    if len(names) == len(table.rows) > 1:
        return replace(table, columns=(series, mode._replace(group=columns[0].group), *columns), media=TERMINAL)
    rows = sorted(table.rows, key=lambda row: names.index(row[0]))
    begins = {row[0]: at for at, row in reversed([*enumerate(rows)])}
    groups = tuple((begins[name], name) for name in names) if len(names) > 1 else ()
    return replace(table, columns=(mode, *columns), rows=tuple(row[1:] for row in rows), groups=groups, media=TERMINAL)


# Sentences


def step_notes(found: Sequence[Told]) -> list[Note]:
    """Where steps are, which, and what had changed there: those of a day at which the same had changed together, by time."""
    of_day: dict[tuple[str, tuple[str, ...]], list[tuple[Run, str, str, Step]]] = {}
    for group in found:
        for one in group.series:
            for step in one.steps:
                run = one.figures[step.at].run
                of_day.setdefault((day(run.at)[:10], step.changed), []).append(
                    (run, group.title(one), verdict(one, step.size), step)
                )
    together = (sorted(it, key=lambda each: each[0].at) for it in of_day.values())
    return [_note(it) for it in sorted(together, key=lambda it: it[0][0].at)]


def _note(steps: Sequence[tuple[Run, str, str, Step]]) -> Note:
    """Steps that belong together, the first of them at first."""
    first, _, _, step = steps[0]
    more = len({run.place for run, *_ in steps}) - 1
    where = f"{first.place} and {more} more" if more else first.place
    sizes = ", ".join(f"{name} {word}, ratio {units.change(it.size.ratio)}" for _, name, word, it in steps)
    what = "; ".join(step.changed) or "nothing that is recorded"
    worse = any(it.size.ratio > 1 for *_, it in steps)
    text = f"since {day(first.at)} ({where}): {sizes}; changed there: {what}"
    return Note(text, "✗" if worse else "✓", BAD if worse else GOOD)


def remarks(found: Sequence[Told], left_out: Sequence[str]) -> list[str]:
    every = [one for group in found for one in group.series]
    few = sum(not one.is_searched for one in every)
    said = [f"left out: {error}" for error in left_out[:_MOST]]
    said += [f"left out: {len(left_out) - _MOST} more"] if len(left_out) > _MOST else []
    if few:
        which = (
            "all series have" if few == len(every) else f"{few} of {len(every)} series {'has' if few == 1 else 'have'}"
        )
        said.append(f"{which} fewer results than the {FEWEST} that a change point needs")
    return said


def legend(same: float, shown: Iterable[str]) -> str:
    """What the columns mean that are there."""
    said = {
        "change": "the last result divided by the first",
        "scatter": "of results between two change points",
        "change points": f"found by E-divisive means (a false one in 1 of {round(1 / LEVEL)} series), their 95% CI beyond ±{same * 100:g} %",
        "ratio": "of the results after a change point to those before it, above 1 is slower",
    }
    there = "; ".join(f"{word}: {meaning}" for word, meaning in said.items() if word in shown)
    return f"Times are medians.{f' {there}.' if there else ''}"


def headline(found: Sequence[Told], count: int) -> str:
    """What it is of, and what was found, in a line."""
    every = [one for group in found for one in group.series]
    times = [it.run.at for one in every for it in (one.figures[0], one.figures[-1])]
    steps = sum(len(one.steps) for one in every)
    searched = any(one.is_searched for one in every)
    days = dict.fromkeys(f"{it:%Y-%m-%d}" for it in (min(times), max(times)))
    ends = " to ".join(days)
    what = f": {_counted(steps, 'change point')}" if searched else ""
    return f"{_counted(count, 'result')} {'of' if len(days) == 1 else 'from'} {ends}, {len(every)} series{what}"


def abouts(found: Sequence[Told]) -> list[str]:
    """What each group is of, in a line: the model, its shapes and the EP."""
    if len(found) > _MOST_GROUPS:  # their names say as much
        return []
    results = [(group.name, group.series[0].figures[-1].run.result) for group in found]
    return [f"{name}: {heading(result)[0]} on {result.target['ep']}" for name, result in results]


def _counted(count: int, what: str) -> str:
    return f"{count or 'no'} {what}{'' if count == 1 else 's'}"


def _shown(table: Table) -> list[Block]:
    return [replace(table, media=FILES), narrow(table)]


def build(found: Sequence[Told], count: int, same: float, left_out: Iterable[str] = ()) -> Report:
    """The report of what `told` found in `count` results; `left_out` says why files were."""
    steps = step_table(found)
    table = series_table(found)
    shown = {column.name for it in (table, steps) if it.rows for column in it.columns}
    parts: list[Sequence[Block]] = [[Heading([headline(found, count), *abouts(found)])], _shown(table)]
    if steps.rows:
        parts.append([Title("Change points"), *_shown(steps), Notes(step_notes(found), media=PRINTED)])
    said = Notes([remark(text) for text in remarks(found, [*left_out])])
    hinted = [word for word in ("over time", "scatter", "change points") if word in shown]
    parts.append([said, Paragraph(legend(same, shown)), *([hint(*hinted)] if hinted else [])])
    return Report("ortbench history", parts)


# For other programs


def records(found: Sequence[Told]) -> list[dict[str, Any]]:
    """A record for each series: what it is of, what every result has, and the steps; figures in the metric's unit."""
    return [_record(group.of(one), one) for group in found for one in group.series]


def _record(name: str, one: Series) -> dict[str, Any]:
    last = one.figures[-1].run.result
    return {
        "series": name,
        "model": last.model["path"],
        "ep": last.target["ep"],
        "mode": one.key.mode,
        "point": dict(one.key.point),
        "metric": one.key.figure.metric,
        "statistic": one.key.figure.statistic or None,
        "results": [
            {
                "created": it.run.at.isoformat(),
                "place": it.run.place,
                "value": it.value,
                "ci95": it.ci95 and [*it.ci95],
                "git_commit": it.run.result.environment.get("git_commit"),
            }
            for it in one.figures
        ],
        "scatter": one.scatter,
        "steps": [_step_record(one, step) for step in one.steps] if one.is_searched else None,
    }


def _step_record(one: Series, step: Step) -> dict[str, Any]:
    first = one.figures[step.at].run
    return {
        "result": step.at,
        "created": first.at.isoformat(),
        "place": first.place,
        "before": step.before,
        "after": step.after,
        "ratio": step.size.ratio,
        "ci95": step.size.ci95 and [*step.size.ci95],
        "verdict": verdict(one, step.size),
        "changed": [*step.changed],
    }
