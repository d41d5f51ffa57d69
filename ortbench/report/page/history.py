"""Results of many days as one page that needs nothing else: what stepped, the table, and a picture of each series."""

from __future__ import annotations

from collections.abc import Sequence

from ortbench.core.version import __version__
from ortbench.report.glossary import Group, entries
from ortbench.report.history import Told, abouts, headline, legend, remarks, series_table, step_notes, step_table
from ortbench.report.model import BAD, Table
from ortbench.report.page.charts import sheet
from ortbench.report.page.drawn import drawn
from ortbench.report.page.facts import Remark
from ortbench.report.page.page import filled_in
from ortbench.report.page.pictures.over_time import OverTime
from ortbench.report.page.sections import Section


def build_history(found: Sequence[Told], count: int, same: float, left_out: Sequence[str] = ()) -> str:
    """The page; for the arguments see `ortbench.report.history.build`."""
    tables = [table for table in (series_table(found), step_table(found)) if table.rows]
    pictures = [OverTime(group.title(one), one) for group in found for one in group.series if len(one.figures) > 1]
    return filled_in(
        "history.html.j2",
        version=__version__,
        palette=sheet.PALETTE,
        title=f"{', '.join(group.name for group in found[:3])} over time · ortbench",
        headline=f"{headline(found, count)}.",
        abouts=abouts(found),
        remarks_of_steps=[Remark(note.text, "bad" if note.tone == BAD else "") for note in step_notes(found)],
        remarks_of_all=[Remark(text, "warn") for text in remarks(found, left_out)],
        sections=[Section(table.title, table, (legend(same),) * (at == 0)) for at, table in enumerate(tables)],
        pictures=[drawn(picture, str(at)) for at, picture in enumerate(pictures)],
        words=_glossary(tables),
    )


def _glossary(tables: Sequence[Table]) -> Table:
    """What the words mean that the page has."""
    there = {column.name for table in tables for column in table.columns} | {"95% CI", "median", "mode"}
    found = [it for it in entries() if it.group in (Group.HISTORY, Group.WORDS) and it.word in there]
    return Table((), tuple((entry.word, entry.sentence) for entry in found))
