"""The pictures of a page as its template needs them."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from ortbench.report.model import Table, filled
from ortbench.report.page.charts import plots, sheet
from ortbench.report.page.pictures.gallery import Picture


@dataclass(frozen=True)
class Drawn:
    """A picture as the template needs it: drawn twice, for a screen and for a phone."""

    title: str
    label: str
    caption: str
    table: Table
    wide: Markup
    narrow: Markup


def drawn(picture: Picture, salt: str) -> Drawn:
    """Draw a picture; `salt` tells its ids from those of the others of the page."""
    wide, narrow = (Markup(plots.draw(picture, width, f"{salt} {width}")) for width in (sheet.WIDE, sheet.NARROW))
    return Drawn(picture.title, picture.label, picture.caption, filled(picture.table()), wide, narrow)
