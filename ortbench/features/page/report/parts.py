"""What pages are made of: the blocks of a report as sections and notes, charts that are drawn, and the templates.

Jinja2 fills the templates beside it; the only place that imports it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from matplotlib.figure import Figure

from ortbench.analysis.advice import Finding
from ortbench.core.errors import BadInput
from ortbench.core.features import part_of
from ortbench.core.safe_text import visible_lines
from ortbench.features.page.report.chart_model import Chart
from ortbench.features.page.report.charts import (
    bandwidth,
    distribution,
    drift,
    latencies,
    phases,
)
from ortbench.features.page.report.drawings import draw, figure
from ortbench.features.page.report.sheet import PALETTE
from ortbench.model.kinds import kind_of
from ortbench.model.result import Result
from ortbench.report import model

_BEFORE_UNIT = re.compile(r"(?<=\d) (?=(?:[nµm]?s|[kMG]?B|GB/s|%)(?!\w))")
_FLUSH_LEFT = (model.Kind.WORD, model.Kind.WORDS, model.Kind.LONG_NAME)
_CLASSES = {model.BAD: "bad", model.UNCLEAR: "warn"}  # of notes, by their tones


def fill_template(template: str, **values: object) -> str:
    """A template of this folder with its values in it, every text of them escaped."""
    environment = Environment(
        loader=PackageLoader("ortbench.features.page.report", "."),
        autoescape=True,
        finalize=_visible_value,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["tied"] = lambda text: _BEFORE_UNIT.sub("\N{NO-BREAK SPACE}", text)
    environment.filters["toned"] = lambda note: _CLASSES.get(note.tone, "")
    # What a page is for needs not be said on it.
    environment.filters["followed"] = lambda note: note.next if isinstance(note, Finding) else ""
    environment.filters["unbroken"] = _keep_options_whole
    # The names of rows are headings, which are aligned left anyway.
    environment.tests["flush_left"] = lambda column: column.kind in _FLUSH_LEFT
    environment.tests["in_words"] = lambda column: column.kind is model.Kind.WORDS
    text: str = environment.get_template(template).render(palette=PALETTE, **values)
    return text


def _visible_value(value: object) -> object:
    """What the template shows of a value: of a text what can be seen of it, a picture as it is."""
    return visible_lines(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _keep_options_whole(command: str) -> Markup:
    """A command in which no line ends within an option."""
    words = (
        Markup("<span>{}</span>" if word.startswith("-") else "{}").format(word)
        for word in visible_lines(command).split(" ")
    )
    return Markup(" ").join(words)


@dataclass(frozen=True)
class Section:
    """A titled table with what stands above it and behind it; without columns it holds words and what they mean."""

    title: str
    table: model.Table | None
    paragraphs: tuple[str, ...] = ()
    below: tuple[str, ...] = ()


def sections(parts: Iterable[Sequence[model.Block]]) -> list[Section]:
    """A section for each table of a report's parts that a page shows, and for a title without any.

    What is said stands above the next table of its part, or below the last; of a part without any, below the table before.
    """
    found: list[Section] = []
    for part in parts:
        title, own, said = "", len(found), list[str]()
        for block in _page_blocks(part):
            match block:
                case model.Title():
                    title = block.text
                case model.Paragraph():
                    said.append(block.text)
                case model.Notes() if title:
                    said += [f"{note.text}." for note in block.notes]
                case model.Table() if block.rows:
                    heading = block.title if len(found) > own or not title else title
                    found.append(Section(heading, block, tuple(said), (block.rest,) * bool(block.rest)))
                    said = []
        if said and title and len(found) == own:
            found.append(Section(title, None, tuple(said)))
        elif said and found:
            found[-1] = replace(found[-1], below=(*found[-1].below, *said))
    return found


def notes(report: model.Report) -> list[model.Note | Finding]:
    """What a page says of a report before its tables: all findings, and the notes that belong to no section."""
    shown = [list(_page_blocks(part)) for part in report.parts]
    plain = [part for part in shown if not any(isinstance(block, model.Title) for block in part)]
    found: list[model.Note | Finding] = []
    for block in (block for part in plain for block in part):
        match block:
            case model.Notes():
                found += block.notes
            case model.Findings():
                found += block.findings
    return found


def tables(report: model.Report) -> list[model.Table]:
    return [block for part in report.parts for block in _page_blocks(part) if isinstance(block, model.Table)]


def _page_blocks(part: Sequence[model.Block]) -> Iterator[model.Block]:
    return (block for block in part if model.Medium.PAGE in block.media)


OfSeveral = Callable[[Sequence[Result], Sequence[str]], Chart | None]
_OF_ONE: dict[str, Callable[[Result], Chart | None]] = {
    "phases": phases,
    "distribution": distribution,
    "drift": drift,
    "bandwidth": bandwidth,
}


def charts_of(result: Result) -> list[Chart]:
    """The charts of one result, as many as it has samples for."""
    made = {**_OF_ONE, **part_of(result.kind, "page", "CHARTS", {})}
    several = _charts_of_several(result.kind)
    found = (made[it](result) if it in made else several[it]([result], [""]) for it in kind_of(result.kind).charts)
    return [chart for chart in found if chart is not None]


def _charts_of_several(kind: str) -> dict[str, OfSeveral]:
    """The charts that can hold several results, those of a kind too."""
    return {"latencies": latencies, **part_of(kind, "page", "CHARTS_OF_SEVERAL", {})}


def charts_of_many(results: Sequence[Result], names: Sequence[str]) -> list[Chart]:
    """The charts that hold several results side by side."""
    wanted = {key: _charts_of_several(it.kind)[key] for it in results for key in kind_of(it.kind).charts_of_many}
    found = (made(results, names) for made in wanted.values())
    return [chart for chart in found if chart is not None]


class Drawn(NamedTuple):
    """A picture as the template needs it."""

    chart: Chart
    svg: Markup


def draw_chart(chart: Chart, salt: str) -> Drawn:
    """Draw a chart; `salt` tells its ids from those of the others of the page."""
    return Drawn(replace(chart, table=model.drop_empty_columns(chart.table)), Markup(draw(chart.drawing, salt)))


def figure_of(result: Result, picture: str | None) -> Figure:
    """A picture of the page by its title, by default the first one; `BadInput`: there is no such one."""
    charts = {it.title: it for it in charts_of(result)}
    if picture is not None and charts and picture not in charts:
        raise BadInput(f"picture {picture!r}: there is no such one; there are {', '.join(map(repr, charts))}")
    return _first_figure(list(charts.values()) if picture is None else [charts[picture]] if charts else [])


def figure_of_several(results: Sequence[Result], names: Sequence[str]) -> Figure:
    return _first_figure(charts_of_many(results, names))


def _first_figure(charts: Sequence[Chart]) -> Figure:
    if not charts:
        raise BadInput("there is no picture of it: nothing was measured")
    return figure(charts[0].drawing)
