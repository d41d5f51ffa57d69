"""The first part of a page, to be shown inside another one, such as a notebook: headline, large figures, remarks, first picture."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256

from markupsafe import Markup

from ortbench.analysis.findings.advice import headline
from ortbench.model.result import Result
from ortbench.model.result_file import result_json
from ortbench.report.model import Table
from ortbench.report.page.charts import plots, sheet
from ortbench.report.page.facts import Fact, Remark, facts, remarks
from ortbench.report.page.page import filled_in
from ortbench.report.page.pictures.gallery import of_one
from ortbench.report.words import heading


@dataclass(frozen=True)
class FirstPart:
    """What is shown; all but the headline may be empty."""

    headline: str
    heading: Sequence[str] = ()
    facts: Sequence[Fact] = ()
    remarks: Sequence[Remark] = ()
    picture: Markup | None = None
    label: str = ""
    caption: str = ""
    tables: Sequence[Table] = ()


def of_result(result: Result) -> str:
    """The first part of the page of a result, as HTML."""
    first = next(iter(of_one(result)), None)
    part = FirstPart(headline(result), heading(result), list(facts(result)), list(remarks(result)))
    if first is None:
        return shown(part)
    salt = sha256(result_json(result).encode(errors="replace")).hexdigest()[
        :12
    ]  # other results of a notebook have ids too
    picture = Markup(plots.draw(first, sheet.WIDE, salt))
    return shown(FirstPart(part.headline, part.heading, part.facts, part.remarks, picture, first.label, first.caption))


def of_tables(title: str, tables: Iterable[Table], said: Iterable[Remark] = ()) -> str:
    """A headline, what is to be said, and tables, as HTML in the same dress."""
    return shown(FirstPart(title, remarks=list(said), tables=list(tables)))


def shown(part: FirstPart) -> str:
    """The HTML, with its style, which touches nothing else of the page that it is in."""
    return filled_in("first_part.html.j2", part=part, palette=sheet.PALETTE)
