"""Results as Python shows them: figures and parts of a page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ortbench.core.errors import BadInput
from ortbench.model.result import Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ortbench.features.page.report.chart_data.model import Chart, Drawing
    from ortbench.report.model import Table


def page_of(results: Sequence[Result], names: Sequence[str]) -> str:
    from ortbench.features.page.report.page import build_page

    return build_page(results, names)


def first_part_of(result: Result) -> str:
    from ortbench.features.page.report.page import first_part_html

    return first_part_html(result)


def tables_of(title: str, tables: Sequence[Table], notes: Sequence[str]) -> str:
    from ortbench.features.page.report.page import tables_html

    return tables_html(title, tables, notes)


def figure_of(result: Result, picture: str | None) -> Figure:
    """A picture of the page by its title, by default the first one; `BadInput`: there is no such one."""
    from ortbench.features.page.report.parts import charts_of

    charts = {it.title: it for it in charts_of(result)}
    if picture is not None and charts and picture not in charts:
        raise BadInput(f"picture {picture!r}: there is no such one; there are {', '.join(map(repr, charts))}")
    return _figure(list(charts.values()) if picture is None else [charts[picture]] if charts else [])


def figure_of_several(results: Sequence[Result], names: Sequence[str]) -> Figure:
    from ortbench.features.page.report.parts import charts_of_many

    return _figure(charts_of_many(results, names))


def figure(drawing: Drawing) -> Figure:
    from ortbench.features.page.report.chart_svg.draw import figure

    return figure(drawing)


def _figure(charts: Sequence[Chart]) -> Figure:
    if not charts:
        raise BadInput("there is no picture of it: nothing was measured")
    return figure(charts[0].drawing)
