"""What fits one screen, 80 × 24: a heading, what is doubtful, a table, the first findings with one command, what failed, the conclusion.

Every default output is chosen by `fit`: that of a result (`ortbench.report.run.screen`), and any other report (`brief`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import NamedTuple

from ortbench.analysis.advice import Finding, Weight
from ortbench.core import units
from ortbench.report.model import (
    BAD,
    GOOD,
    KEY,
    SLO,
    UNCLEAR,
    Block,
    Cell,
    ComparedResults,
    Conclusion,
    Findings,
    Heading,
    Kind,
    Medium,
    Note,
    Notes,
    Paragraph,
    Report,
    SavedIn,
    Table,
    drop_empty_columns,
    numbers,
)
from ortbench.report.terminal import command_lines, shorten, wrap

# Tables for a screen: the columns that fit 80 characters, the most important ones, and so many rows


WIDTH = 80
_GAP = 2  # between columns
_LONGEST = 60  # characters of what names a row
_TAILS = ("p95", "p99")  # the first to go, the last of them first
_WITH_INTERVALS = ("ratio", "vs first")


def narrow_table(table: Table, wanted: Sequence[int]) -> Table:
    """A table with its key and as many of some columns as fit side by side, the most important first; one figure stays, and no ratio is
    without the interval behind it."""
    names = [at for at, it in enumerate(table.columns) if it.group == KEY]
    shown = table.with_names
    cells = [[it.name, table.unit if it.kind is Kind.TIME else ""] for it in shown.columns]
    for row in shown.rows:
        for at, cell in enumerate(row):
            cells[at].append(shorten(cell, _LONGEST) if at in names else cell)
    widths = [max(map(len, column)) + _GAP for column in cells]
    figures = [*wanted]
    while len(figures) > 1 and sum(widths[at] for at in (*names, *figures)) - _GAP > WIDTH:
        tail = _tail(table.columns[figures.pop()].name)
        # Of results side by side none has a tail without the others.
        while tail and len(figures) > 1 and _tail(table.columns[figures[-1]].name) == tail:
            figures.pop()
    if len(figures) < len(wanted) and len(figures) > 1 and table.columns[figures[-1]].name in _WITH_INTERVALS:
        figures.pop()
    kept = sorted([*names, *figures])
    return replace(
        table,
        columns=tuple(table.columns[at]._replace(group=min(table.columns[at].group, 1)) for at in kept),
        rows=tuple(tuple(shorten(row[at], _LONGEST) if at in names else row[at] for at in kept) for row in table.rows),
        bars=table.bars if len(table.rows) > 1 else (),  # which a terminal leaves out where they do not fit
    )


def fit_table(table: Table, most: int, first: Sequence[tuple[str, ...]] = (), is_asked: bool = False) -> Table:
    """A table with the columns that fit a screen, the tails last, and so many rows, `first` those with some names, each in its place; the
    rest is counted. Of one that `is_asked` for every metric has rows."""
    if table.shorter:
        return next((it for it in table.shorter if len(it.rows) <= most), table.shorter[-1])
    rows = [*range(len(table.rows))]
    if len(rows) > most:  # the figures that the first row has come first
        keys = [at for at, it in enumerate(table.columns) if it.group == KEY]
        names = [{row[at].partition(" (")[0] for at in keys} for row in table.rows]
        ranks = [next((at for at, it in enumerate(first) if row.issuperset(it)), len(first)) for row in names]
        chosen = _by_turns(table) if is_asked else alike(table)
        rows = sorted(sorted(chosen, key=lambda row: ranks[row])[:most])
    cut = replace(
        drop_empty_columns(_without_metric(table, rows)),
        bars=[table.bars[row] for row in rows] if table.bars else (),
        groups=_groups(table, rows),
        rest=_rest([row for number, row in enumerate(table.rows) if number not in rows]) or table.rest,
    )
    widest = _narrow(cut)
    if not {"ratio", "vs first"} & {it.name for it in cut.columns} or cut.groups:
        return widest
    for count in range(1, sum(it.group == KEY for it in cut.columns)):
        other = _narrow(_as_groups(cut, count))
        if _figures(other) > _figures(widest):
            widest = other
    return widest


def _narrow(table: Table) -> Table:
    """With the columns that fit: the first figure stays, the tails go first."""
    figures = [at for at, it in enumerate(table.columns) if it.group != KEY]
    return narrow_table(table, [*figures[:1], *sorted(figures[1:], key=lambda at: _tail(table.columns[at].name))])


def _figures(table: Table) -> int:
    """How many columns hold what was compared: neither names nor what is left out first."""
    return sum(it.group != KEY and not _tail(it.name) and not it.name.endswith("vs previous") for it in table.columns)


def _as_groups(table: Table, count: int) -> Table:
    """A table whose first so many columns stand above the rows in their place."""
    groups: list[tuple[int, str]] = []
    names = [""] * count
    for at, row in enumerate(table.rows):
        names = [cell or name for cell, name in zip(row[:count], names, strict=True)]
        if not groups or groups[-1][1] != ", ".join(names):
            groups.append((at, ", ".join(names)))
    return replace(
        table, columns=table.columns[count:], rows=tuple(row[count:] for row in table.rows), groups=(*groups,)
    )


def _rest(left: Sequence[Sequence[str]]) -> str:
    """How many rows are left out; those of checks, which begin with a verdict, are named."""
    if not left:
        return ""
    if isinstance(left[0][0], Cell):
        return _names_left("more", [row[0] for row in left], WIDTH)
    return f"{units.count(len(left), 'more row')}: -v"


def _groups(table: Table, rows: Sequence[int]) -> tuple[tuple[int, str], ...]:
    ends = [*(at for at, _ in table.groups[1:]), len(table.rows)]
    found = [
        (sum(row < at for row in rows), title)
        for (at, title), end in zip(table.groups, ends, strict=False)
        if any(at <= row < end for row in rows)
    ]
    return tuple(found)


def _tail(name: str) -> int:
    """0 of a column that is no tail, which stays longest."""
    return next((number for number, tail in enumerate(_TAILS, 1) if name.endswith(tail)), 0)


def _without_metric(table: Table, rows: Sequence[int]) -> Table:
    """A table of some rows; where all are of one metric, its name is above the figures."""
    kept = tuple(table.rows[row] for row in rows)
    names = [it.name for it in table.columns]
    of = {row[names.index("metric")] for row in kept} - {""} if {"metric", "value"} <= {*names} else set()
    if len(of) != 1:
        return replace(table, rows=kept)
    at = names.index("metric")
    columns = [it._replace(name=of.pop()) if it.name == "value" else it for it in table.columns]
    cells = (tuple(cell for number, cell in enumerate(row) if number != at) for row in kept)
    return replace(table, columns=tuple(columns[:at] + columns[at + 1 :]), rows=tuple(cells))


def _by_metric(table: Table) -> list[list[int]]:
    """The rows of each metric; one without a name of its own is of that above it, and what is no figure of the first metric."""
    at = next((at for at, it in enumerate(table.columns) if it.name == "metric"), None)
    if at is None or not table.rows:
        return [[*range(len(table.rows))]]
    metrics: dict[str, list[int]] = {}
    metric = ""
    for number, row in enumerate(table.rows):
        metric = row[at] or metric
        metrics.setdefault(table.rows[0][at] if metric == SLO else metric, []).append(number)
    return [*metrics.values()]


def alike(table: Table) -> list[int]:
    """The rows of the metric that the first row is of."""
    return _by_metric(table)[0]


def _by_turns(table: Table) -> list[int]:
    """The first row of each metric, the second of each, and so on."""
    return [row for turn in zip_longest(*_by_metric(table)) for row in turn if row is not None]


HEIGHT, BEFORE = 24, 5  # of a screen, and of what is told before what was measured
FINDINGS = 3  # with one command
_PROMPT = 1  # a line
# Rows of a table that stay in any case, that stay together, and that come before further findings.
_LEAST_ROWS, _FEW_ROWS, _ROWS = 3, 9, 6
_URGENT = 3  # notes of what failed or is unclear; others are counted
_SIGN, _NEXT, _PERIOD = 2, 8, 1  # characters before a text and a command, and behind a finding
_OF_A_HEAD, _OF_A_NOTE, _OF_A_FINDING, _OF_A_LIST = 3, 3, 4, 2  # lines of a text at most
_FEW = 3  # results side by side of which each has a line on what it is of
_VERDICTS = {BAD: "failed", UNCLEAR: "unclear", GOOD: "passed"}  # of checks
_ORDER = {BAD: 0, UNCLEAR: 1, GOOD: 3}  # of notes; those without a tone stand between


class Content(NamedTuple):
    """What a screen could have, the most important of each first."""

    head: Heading | ComparedResults | None
    doubts: Sequence[Finding]  # which stand above the table
    tables: Sequence[Table]
    findings: Sequence[Finding]
    notes: Sequence[Note]
    last: Sequence[Block]
    modes: Sequence[str] = ()  # whose rows come first, behind those of findings


class _Chosen(NamedTuple):
    """How much of that is shown."""

    rows: int = _LEAST_ROWS  # of each table at most
    findings: tuple[Finding, ...] = ()
    notes: tuple[Note, ...] = ()
    command: str = ""


def brief(report: Report, height: int = HEIGHT) -> Report:
    """A report as its default screen, in so many lines of 80 characters; ``--verbose`` prints the whole."""
    blocks = [it for part in report.parts for it in part if Medium.TERMINAL in it.media]
    findings = [it for block in blocks if isinstance(block, Findings) for it in block.findings]
    tables = [it for it in blocks if isinstance(it, Table)]
    content = Content(
        next((it for it in blocks if isinstance(it, (Heading, ComparedResults))), None),
        [it for it in findings if it.weight is Weight.DOUBT],
        tables[:1] + [it for it in tables[1:] if it.shorter],
        [it for it in findings if it.weight is not Weight.DOUBT],
        [it for block in blocks if isinstance(block, Notes) for it in block.notes],
        [it for it in blocks if isinstance(it, (Conclusion, SavedIn))],
    )
    return fit(report.title, content, height)


def fit(title: str, content: Content, height: int = HEIGHT) -> Report:
    """A screen of what fits: what failed and a table of few rows come before a finding with its command, and that before all else."""
    content, chosen = _shorten(content), _Chosen()

    def keep(*candidates: _Chosen) -> None:
        nonlocal chosen
        fitting = (it for it in candidates if _lines(_arrange(title, content, it)) <= height - _PROMPT)
        chosen = next(fitting, chosen)

    urgent = [it for it in content.notes if it.tone in (BAD, UNCLEAR)][:_URGENT]
    for note in urgent[:1]:
        keep(chosen._replace(notes=(note,)))
    compared = content.head if isinstance(content.head, ComparedResults) else None
    tables = [*content.tables, *([compared.table] if compared and compared.table else [])]
    is_asked = compared is not None and compared.is_asked
    rows = max((len(it.rows if is_asked else alike(it)) for it in tables), default=0)
    if is_asked or rows <= _FEW_ROWS:
        keep(*(chosen._replace(rows=count) for count in range(rows, chosen.rows, -1)))
    for finding in content.findings[:1]:
        keep(chosen._replace(findings=(finding,)))
    for finding in content.doubts:
        keep(chosen._replace(command=finding.next))
    for finding in [it for it in content.findings if it.next and not any(it.next for it in content.doubts)][:1]:
        keep(chosen._replace(findings=(finding,), command=finding.next), chosen._replace(findings=(finding,)))
    for note in urgent[1:]:
        keep(chosen._replace(notes=(*chosen.notes, note)))
    keep(*(chosen._replace(rows=count) for count in range(min(rows, _ROWS), chosen.rows, -1)))
    for finding in content.findings:
        there = tuple(it for it in content.findings if it is finding or it in chosen.findings)
        keep(chosen._replace(findings=there))
    rows = max((len(it.rows) for it in tables), default=0)
    keep(*(chosen._replace(rows=count) for count in range(min(rows, height), chosen.rows, -1)))
    for note in content.notes:
        if note not in chosen.notes and note.tone not in (BAD, UNCLEAR):
            keep(chosen._replace(notes=(*chosen.notes, note)))
    return _arrange(title, content, chosen)


def _arrange(title: str, content: Content, chosen: _Chosen) -> Report:
    """The screen of what was chosen; the command stands below the doubt or finding that has it."""
    owner = next((it for it in (*content.doubts, *chosen.findings) if it.next), None)
    doubts, findings = (
        [it._replace(next=chosen.command if it is owner else "") for it in some]
        for some in (content.doubts, chosen.findings)
    )
    first = [*(it.row for it in chosen.findings if it.row), *((mode,) for mode in content.modes)]
    left = [it for it in content.notes if it not in chosen.notes]
    count = len([it for it in left if it.tone in (BAD, UNCLEAR) and not it.name])
    more = [Note(f"{units.count(count, 'more note')}: -v", "!", UNCLEAR)] if count else []
    more += _name_checks(left)
    said: list[Block] = [Findings(findings)] if findings else []
    if notes := [*chosen.notes, *more]:
        said.append(Notes(notes))
    parts: list[Sequence[Block]] = [
        [] if content.head is None else [_with_rows(content.head, chosen.rows)],
        [Findings(doubts)] if doubts else [],
        *[[fit_table(it, chosen.rows, first)] for it in content.tables],
        said,
        content.last,
    ]
    return Report(title, [part for part in parts if part])


def _name_checks(notes: Sequence[Note]) -> list[Note]:
    """The checks whose texts have no room: those of each verdict counted, and named."""
    found = []
    for tone, verdict in _VERDICTS.items():
        if checks := [it for it in notes if it.name and it.tone == tone]:
            text = _names_left(verdict, [it.name for it in checks], WIDTH - _SIGN)
            found.append(Note(text, checks[0].sign, tone))
    return found


def _names_left(what: str, names: Sequence[str], width: int) -> str:
    """How many checks are left out, and which."""
    return _cut_text(f"{len(names)} {what}, see -v: {', '.join(names)}", width, _OF_A_LIST)


def _shorten(content: Content) -> Content:
    """With few findings, texts of a few lines, notes in their order, and no empty tables."""
    room = WIDTH - _SIGN
    doubts, findings = (
        [it._replace(what=_cut_text(it.what, room - _PERIOD, _OF_A_FINDING)) for it in some]
        for some in (content.doubts[:1], content.findings[:FINDINGS])
    )
    notes = [it._replace(text=_cut_text(it.text, room, _OF_A_NOTE)) for it in content.notes]
    return content._replace(
        head=None if content.head is None else _short_head(content.head),
        doubts=doubts,
        tables=[replace(it.shorter[0], shorter=it.shorter) if it.shorter else it for it in content.tables if it.rows],
        findings=findings,
        notes=sorted(notes, key=lambda it: _ORDER.get(it.tone, 2)),
    )


def _cut_text(text: str, width: int, lines: int) -> str:
    if len(wrap(text, width)) <= lines:
        return text
    return next(
        cut for end in range(width * lines, 0, -1) if len(wrap(cut := f"{text[:end].rstrip()} …", width)) <= lines
    )


def _short_head(head: Heading | ComparedResults) -> Heading | ComparedResults:
    """A heading of few lines; of results side by side what each is of, where they are few, and one table."""
    if isinstance(head, Heading):
        return replace(head, lines=[_cut_text(line, WIDTH, _OF_A_HEAD) for line in head.lines[:2]])
    lines = 1 if len(head.names) <= _FEW else 0
    headings = [[_cut_text(line, _room_beside(head.names), _OF_A_HEAD) for line in it[:lines]] for it in head.headings]
    shared = [_cut_text(line, WIDTH, _OF_A_HEAD) for line in head.shared[:2]]
    table = head.screen or head.table
    head = replace(head, shared=shared, headings=headings, more=(), table=table)
    if table is None or (not _stands_above(head.names) and _has_room_for_names(table)):
        return head
    labels = numbers(len(head.names))
    told = [[name, *it] for name, it in zip(head.names, headings, strict=True)]
    return replace(head, names=labels, headings=told, table=replace(table, results=()))


def _has_room_for_names(table: Table) -> bool:
    """Whether a table with the names of results has as much on a screen, in as few lines, as one with their numbers."""
    fitted = (fit_table(it, len(table.rows)) for it in (table, replace(table, results=())))
    of_named, of_numbered = ((_figures(table), -len(table.groups)) for table in fitted)
    return of_named >= of_numbered


def _with_rows(head: Heading | ComparedResults, rows: int) -> Heading | ComparedResults:
    if isinstance(head, Heading):
        return head
    return replace(head, table=head.table and fit_table(head.table, rows, (), head.is_asked))


# How many lines of 80 characters a terminal takes


def _lines(report: Report) -> int:
    return sum(sum(map(_lines_of, part)) for part in report.parts) + len(report.parts) - 1


def _lines_of(block: Block) -> int:
    match block:
        case Heading():
            return _count(block.lines)
        case Paragraph():
            return _count([block.text])
        case Conclusion():
            return _count([block.label + block.text])
        case SavedIn():
            return 0 if block.folder is None else _count([f"Saved in {block.folder}"])
        case Notes():
            commands = [it.command for it in block.notes if it.command]
            return _count([it.text for it in block.notes], WIDTH - _SIGN) + _count_commands(commands)
        case Findings():
            commands = [it.next for it in block.findings if it.next]
            return _count([it.text for it in block.findings], WIDTH - _SIGN) + _count_commands(commands)
        case Table():
            return _lines_of_table(block)
        case ComparedResults():
            own = sum(_count(it, _room_beside(block.names)) + _stands_above(block.names) for it in block.headings if it)
            table = 0 if block.table is None or not block.table.rows else 1 + _lines_of_table(block.table)
            return _count(block.shared) + own + table
    return 0


def _count(texts: Sequence[str], width: int = WIDTH) -> int:
    return sum(len(wrap(it, width)) for it in texts)


def _count_commands(commands: Sequence[str]) -> int:
    return sum(len(command_lines(it, WIDTH - _NEXT)) for it in commands)


def _lines_of_table(table: Table) -> int:
    if not table.rows:
        return 0
    has_unit = bool(table.unit) and any(it.kind is Kind.TIME for it in table.columns)
    return len(table.rows) + 1 + has_unit + len(table.groups) + _count([table.rest] if table.rest else [])


def _stands_above(names: Sequence[str]) -> bool:
    """Whether names of results take more than half of a line, so that what each is of stands below."""
    return max(map(len, names)) + _SIGN > WIDTH // 2


def _room_beside(names: Sequence[str]) -> int:
    return WIDTH - _SIGN - (0 if _stands_above(names) else max(map(len, names)))
