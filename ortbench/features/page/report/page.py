"""Results as one HTML page that needs nothing else: no script, no network, readable and printable anywhere.

A page is made from results alone, and the same results give the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256

from markupsafe import Markup

from ortbench.analysis.advice import Finding
from ortbench.analysis.outputs import mark_doubtful
from ortbench.core import __version__
from ortbench.core.errors import BadInput
from ortbench.core.safe_text import visible_lines
from ortbench.facts.comparison import bests, ep_facts, headline_of_many
from ortbench.facts.run import facts_of, findings_of, headline
from ortbench.facts.sentences import LargeFigure, large_figures
from ortbench.features.page.report.drawings import draw
from ortbench.features.page.report.overview import overview
from ortbench.features.page.report.parts import (
    charts_of,
    draw_chart,
    fill_template,
    notes,
    sections,
    tables,
)
from ortbench.model.kinds import kind_of
from ortbench.model.result import Result
from ortbench.model.result_file import result_json
from ortbench.report.glossary import Entry, Group, entries
from ortbench.report.model import DERIVED, Block, Note, Report, Table
from ortbench.report.phrases import heading, remark, result_name
from ortbench.report.records import Publication
from ortbench.report.run import build


def html_file(publication: Publication, _: str) -> str:
    measured = [(part.result, part.name) for part in publication.parts if part.result is not None]
    if not measured:
        raise BadInput("--html: no case has a result to show", "--html")
    failures = [(part.name, part.failure) for part in publication.parts if part.result is None and part.name]
    return build_page(
        [result for result, _ in measured],
        [name for _, name in measured],
        [f"{name} failed: {failure.reason}" for name, failure in failures if failure is not None],
        publication.before,
        publication.first,
    )


def build_page(
    results: Sequence[Result],
    names: Sequence[str],
    errors: Sequence[str] = (),
    before: Sequence[Sequence[Block]] = (),
    first: Report | None = None,
) -> str:
    """The page. `errors` say what became of results that are not there; `before` stands before the results, and the title and the
    notes of `first`, such as a gate's verdict, before everything."""
    many = len(results) > 1
    name = "" if many else result_name(results[0])
    names = [visible_lines(name) for name in names]
    reports = [build(result) for result in results]
    given = zip(results, reports, names, strict=True)
    parts = [_part(result, report, name, number) for number, (result, report, name) in enumerate(given, 1)]
    beside = overview(results, names, judged=first is not None) if many else None
    own_tables = [table for report in reports for table in tables(report)]
    own_tables += [it.table for it in (beside.sections if beside else ()) if it.table is not None]
    return fill_template(
        "page.html.j2",
        version=__version__,
        title=_title(results, [first.title] if first else names if many else [name] if name else []),
        name=name,
        first=first and FirstPart(first.title, notes=notes(first)),
        headline=_headline_of_many(results, names, first is not None) if many else parts[0]["headline"],
        errors=errors,
        before=sections(before),
        parts=parts,
        overview=beside,
        words=_glossary(results, own_tables),
    )


def _headline_of_many(results: Sequence[Result], names: Sequence[str], judged: bool) -> str:
    """What there is to say first of several results: of configurations on the same work the best one, unless a verdict stands above."""
    if not kind_of(results[0].kind).is_of_speed:
        return headline_of_many(results)
    found = ep_facts(results) or ([] if judged else [it.fact for it in bests(results, names)])
    is_one = len({result.model["path"] for result in results}) == 1
    return findings_of(found[:1])[0].what if found and is_one else headline_of_many(results)


_ALWAYS = {"sync", "95% CI"}  # words that stand outside of tables too
_OF_ALL = (Group.MODES, Group.METRICS, Group.COSTS, Group.WORDS)


def _glossary(results: Sequence[Result], own_tables: Sequence[Table]) -> Table:
    """What the words mean that the page has: the modes that were asked for, the columns that there are. Each word once: of a kind's own
    columns before others."""
    there = _ALWAYS | {case.mode for result in results for case in result.cases}
    there |= {column.name for table in own_tables for column in table.columns}
    if any(cell.startswith(DERIVED) for it in own_tables for row in it.rows for cell in row):
        there.add(DERIVED)
    kinds = {result.kind for result in results}
    groups = [Group[it.upper()] for it in sorted(kinds) if it.upper() in Group.__members__]
    groups += [Group.RUN] * (kinds != {"load"})  # load points have other words
    groups += [*_OF_ALL, *[Group.COMPARISON] * (len(results) > 1)]
    groups += [Group.NODES] * any(result.nodes is not None for result in results)
    there |= {"state", "feedback"} if Group.LOOP in groups else set()
    found: dict[str, str] = {}
    for group in groups:
        for entry in entries():
            for word in sorted(_headings(entry) & there) if entry.group is group else ():
                found.setdefault(word, entry.sentence)
    works = {kind_of(kind).work for kind in kinds}
    per = f"per {works.pop()}" if len(works) == 1 else "per inference"
    return Table((), tuple((word, said.replace("per inference", per)) for word, said in found.items()))


def _headings(entry: Entry) -> set[str]:
    """What a table may call an entry's column: a metric has several names."""
    return {entry.word, *entry.also} if entry.group is Group.METRICS else {entry.word}


def _title(results: Sequence[Result], names: Sequence[str]) -> str:
    models = list(dict.fromkeys(result.model["path"] for result in results))
    eps = list(dict.fromkeys(result.target["ep"] for result in results))
    before = f"{', '.join(names[:3])}: " if names else ""
    return f"{before}{', '.join(models[:3])} on {', '.join(eps[:3])} · ortbench"


def _part(result: Result, report: Report, name: str, number: int) -> dict[str, object]:
    """What the template shows of a result."""
    interrupted = result.stopped is not None and result.stopped["reason"] == "interrupted"
    return {
        "name": mark_doubtful(result, name),
        "about": result.model["path"],
        "anchor": f"result-{number}",
        "headline": headline(result),
        "heading": heading(result),
        "facts": large_figures(facts_of(result)),
        "notes": [*[remark("interrupted: what was measured until then is shown")] * interrupted, *notes(report)],
        "pictures": [draw_chart(chart, f"{number} {at}") for at, chart in enumerate(charts_of(result))],
        "sections": sections(report.parts),
        "command": " ".join(result.command),
        "provenance": _provenance(result),
    }


def _provenance(result: Result) -> str:
    commit, seed = result.environment.get("git_commit"), result.setup.get("seed")
    parts = [f"Measured {result.created} by ortbench {result.tool['version']}"]
    parts += [f"model SHA-256 {result.model['sha256']}"]
    parts += [f"in a checkout at {commit}"] if commit else []
    parts += [f"seed {seed}"] if seed is not None else []
    return "; ".join(parts) + "."


@dataclass(frozen=True)
class FirstPart:
    """What is shown; all but the headline may be empty."""

    headline: str
    heading: Sequence[str] = ()
    facts: Sequence[LargeFigure] = ()
    notes: Sequence[Note | Finding] = ()
    picture: Markup | None = None
    caption: str = ""
    tables: Sequence[Table] = ()


def first_part_html(result: Result) -> str:
    part = FirstPart(headline(result), heading(result), large_figures(facts_of(result)), notes(build(result)))
    for first in charts_of(result)[:1]:
        # Other results of a notebook have ids too.
        salt = sha256(result_json(result).encode(errors="replace")).hexdigest()[:12]
        picture = Markup(draw(first.drawing, salt))
        part = replace(part, picture=picture, caption=first.caption)
    return fill_template("first_part.html.j2", part=part)


def tables_html(title: str, tables: Iterable[Table], said: Iterable[str] = ()) -> str:
    """A headline, what is to be said, and tables, as HTML in the same dress, whose style touches nothing else of a page."""
    part = FirstPart(title, notes=[*map(Note, said)], tables=list(tables))
    return fill_template("first_part.html.j2", part=part)
