"""Results as one HTML page that needs nothing else: no script, no network, readable and printable anywhere.

Jinja2 fills the template beside it; the only place that imports it. The page is made from results alone and the same
results give the same bytes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from ortbench.analysis.findings.advice import headline, headline_of_many
from ortbench.core.safe_text import visible_lines
from ortbench.core.version import __version__
from ortbench.model.kinds import KINDS
from ortbench.model.result import LOAD, LOOP, SWEEP, Result
from ortbench.report import sweep
from ortbench.report.costs.section import cost_tables
from ortbench.report.glossary import Entry, Group, entries
from ortbench.report.model import DERIVED, Column, Kind, Table
from ortbench.report.page.charts import sheet
from ortbench.report.page.drawn import Drawn, drawn
from ortbench.report.page.facts import Fact, Remark, facts, remarks
from ortbench.report.page.overview import overview
from ortbench.report.page.pictures.gallery import of_one
from ortbench.report.page.sections import Section, sections
from ortbench.report.run import derived_mark, main_tables
from ortbench.report.words import heading, result_name

_BEFORE_UNIT = re.compile(r"(?<=\d) (?=(?:[nµm]?s|[kMG]?B|GB/s|%)(?!\w))")


@dataclass(frozen=True)
class Part:
    """All there is to say about one result."""

    name: str
    about: str
    anchor: str
    headline: str
    heading: list[str]
    facts: list[Fact]
    remarks: list[Remark]
    pictures: list[Drawn]
    sections: list[Section]
    command: str
    provenance: str


def build_page(results: Sequence[Result], names: Sequence[str], errors: Sequence[str] = ()) -> str:
    """The page.

    Args:
        results: at least one.
        names: of the results, each once; shown where there are several.
        errors: what became of results that are not there, in sentences.
    """
    many = len(results) > 1
    name = "" if many else result_name(results[0])
    names = [visible_lines(name) for name in names]
    parts = [_part(result, name, number) for number, (result, name) in enumerate(zip(results, names, strict=True), 1)]
    return filled_in(
        "page.html.j2",
        version=__version__,
        palette=sheet.PALETTE,
        title=_title(results, names if many else [name] if name else []),
        name=name,
        headline=headline_of_many(results) if many else parts[0].headline,
        errors=errors,
        parts=parts,
        overview=overview(results, names) if many else None,
        words=_glossary(results),
    )


def filled_in(template: str, **values: object) -> str:
    """A template of this folder with its values in it, every text of them escaped."""
    environment = Environment(
        loader=PackageLoader("ortbench.report.page", "."),
        autoescape=True,
        finalize=_shown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["tied"] = _tied
    environment.tests["flush_left"] = _is_flush_left
    environment.tests["in_words"] = lambda column: column.kind is Kind.WORDS
    text: str = environment.get_template(template).render(**values)
    return text


_ALWAYS = {"fence", "95% CI"}  # words that stand outside of tables too
_GROUPS = (Group.MODES, Group.METRICS, Group.SWEEP, Group.RUN, Group.LOOP, Group.LOAD, Group.COSTS, Group.WORDS)
_OF_KINDS = {
    Group.LOOP: {LOOP},
    Group.LOAD: {LOAD},
    Group.SWEEP: {SWEEP},
    Group.RUN: KINDS.keys() - {LOAD},  # load points have other words
}


def _glossary(results: Sequence[Result]) -> Table:
    """What the words mean that the page has: the modes that were asked for, the columns that there are."""
    tables = [table for result in results for table in (*main_tables(result), *cost_tables(result))]
    tables += [table for result in results for table in sweep.tables(result)]
    there = _ALWAYS | {case.mode for result in results for case in result.cases}
    there |= {column.name for table in tables for column in table.columns}
    there |= {DERIVED} if any(map(derived_mark, tables)) else set()
    kinds = {result.kind for result in results}
    groups = [group for group in _GROUPS if _OF_KINDS.get(group, kinds) & kinds]
    there |= {"state", "feedback"} if Group.LOOP in groups else set()
    words = [(it, word) for group in groups for it in entries() if it.group is group for word in _headings(it) & there]
    return Table((), tuple((word, it.sentence) for it, word in words))


def _headings(it: Entry) -> set[str]:
    """What a table may call an entry's column: a metric has several names."""
    return {it.word, *it.also} if it.group is Group.METRICS else {it.word}


def _shown(value: object) -> object:
    """What the template shows of a value: of a text what can be seen of it, a picture as it is."""
    return visible_lines(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _tied(text: str) -> str:
    """A text in which no line ends between a number and its unit."""
    return _BEFORE_UNIT.sub("\N{NO-BREAK SPACE}", text)


def _is_flush_left(column: Column) -> bool:
    """Whether a column of a table is aligned left; that of the rows' names, which are headings, needs not be told so."""
    return column.kind in (Kind.WORD, Kind.WORDS, Kind.LONG_NAME)


def _title(results: Sequence[Result], names: Sequence[str]) -> str:
    models = list(dict.fromkeys(result.model["path"] for result in results))
    eps = list(dict.fromkeys(result.target["ep"] for result in results))
    before = f"{', '.join(names[:3])}: " if names else ""
    return f"{before}{', '.join(models[:3])} on {', '.join(eps[:3])} · ortbench"


def _part(result: Result, name: str, number: int) -> Part:
    return Part(
        name=name,
        about=f"{result.model['path']} on {result.target['ep']}",
        anchor=f"result-{number}",
        headline=headline(result),
        heading=heading(result),
        facts=list(facts(result)),
        remarks=list(remarks(result)),
        pictures=[drawn(picture, f"{number} {at}") for at, picture in enumerate(of_one(result))],
        sections=list(sections(result)),
        command=" ".join(result.command),
        provenance=_provenance(result),
    )


def _provenance(result: Result) -> str:
    commit, seed = result.environment.get("git_commit"), result.setup.get("seed")
    parts = [f"Measured {result.created} by ortbench {result.tool['version']}"]
    parts += [f"model SHA-256 {result.model['sha256']}"]
    parts += [f"in a checkout at {commit}"] if commit else []
    parts += [f"seed {seed}"] if seed is not None else []
    return "; ".join(parts) + "."
