"""Results side by side: the reports of a comparison and of a gate, and flat records."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from ortbench.analysis.advice import Finding, Weight
from ortbench.analysis.comparison import RatioEstimate, Row, in_both, rows, word
from ortbench.analysis.outputs import mark_doubtful
from ortbench.analysis.series import EVERYTHING, Key, Selection, Series, point_text
from ortbench.core.stats import SAMPLES_FOR
from ortbench.facts import Explanation, Fact
from ortbench.facts.comparison import (
    FEW_RESULTS,
    Best,
    alone_facts,
    bests,
    between_runs_facts,
    ep_facts,
    items_facts,
    lacking_facts,
    mode_facts,
    ratio_facts,
    setting_facts,
)
from ortbench.facts.run import findings_of, placement_of, repeated_warnings
from ortbench.facts.sentences import phrase, sentence_of
from ortbench.model.kinds import kind_of
from ortbench.model.metrics import LATENCY, Figure, figure
from ortbench.model.result import Result
from ortbench.report.comparison_cells import (
    figure_cell,
    figure_format,
    figure_text,
    own_cells,
    ratio_cells,
    tail_of,
    with_own_rows,
)
from ortbench.report.model import (
    EVERYWHERE,
    FILES,
    KEY,
    NOTHING,
    RESULT,
    UNCLEAR,
    Block,
    Column,
    ComparedResults,
    Findings,
    Kind,
    Medium,
    Note,
    Notes,
    Report,
    SavedIn,
    Table,
    columns,
    drop_empty_columns,
    numbers,
)
from ortbench.report.parts import TITLE, doubt_part, noise_part, outputs_part
from ortbench.report.phrases import (
    HINT,
    heading,
    not_measured,
    own_line,
    remark,
    said_once,
    warnings,
)

_MODE = Column("mode", Kind.NAME, KEY)
_LATENCY = figure(LATENCY)
Judged = Collection[tuple[str, Figure]]  # figures of modes
_PREVIOUS = (Column("vs previous", Kind.NUMBER, 3), Column("verdict vs previous", Kind.WORD, 3))


def tables(
    results: Sequence[Result],
    names: Sequence[str],
    same: float | None,
    in_order: bool,
    only: Selection = EVERYTHING,
    judged: Judged = (),
    figures: Sequence[Row] = (),
) -> list[Table]:
    """Results side by side, two with every figure, more with the most telling ones: a table of times and rates and one of costs,
    where there are any; in `in_order`, each is compared with the one before it too. Without `same` there are no words for ratios,
    and none of what was `judged`, by another ratio than that of the two figures."""
    found = in_both(results, figures or rows(results, only))
    times, costs = [it for it in found if not it.is_cost], [it for it in found if it.is_cost]
    made = [_table(times, results, names, same, in_order, "metric", "Side by side", judged)]
    return made + ([_table(costs, results, names, same, in_order, "cost", TITLE, judged)] if costs else [])


def _figures_beside(results: Sequence[Result]) -> set[Figure]:
    """What a kind has on the screen of several results, where that is not their times and rates."""
    return {it for result in results for view in kind_of(result.kind).views for it in view.beside}


def _table(
    found: Sequence[Row],
    results: Sequence[Result],
    names: Sequence[str],
    same: float | None,
    in_order: bool,
    what: str,
    title: str,
    judged: Judged,
    names_metric: bool = False,  # which a default screen does, in short units
) -> Table:
    """A row for each figure; of more than two results one for each of them."""
    count = len(results)
    labels = [mark_doubtful(*it) for it in zip(results, numbers(count), strict=True)]
    has_points = any(it.key.point for it in found)
    of_latency = not names_metric and (has_points or count > 2) and {it.key.figure for it in found} == {_LATENCY}
    unit, show = figure_format(found, is_short=names_metric)
    keys = [_MODE, *([Column("point", Kind.WORD, KEY)] if has_points else [])]
    keys += [] if of_latency else [Column(what, Kind.WORD, KEY)]
    kind = Kind.TIME if unit else Kind.NUMBER
    verdict = () if same is None else (Column("verdict", Kind.WORD, 2),)

    def label(key: Key) -> list[str]:
        cells = [key.mode, *([point_text(key.point)] if has_points else []), figure_text(key)]
        return cells[: len(keys)]

    every = [it for row in found for it in row.found if it is not None]
    rows_of = {it.key.figure for it in every}
    tails = [
        name
        for name in SAMPLES_FOR
        if any(tail_of(it, name) is not None and Figure(it.key.figure.metric, name) not in rows_of for it in every)
    ]

    def tail_cells(series: Series | None) -> list[str]:
        if series is None:
            return [NOTHING] * len(tails)
        return [figure_cell(series.key.metric, tail_of(series, name), show) for name in tails]

    own = own_cells(found)
    if count == 2:
        lines = tuple(
            (
                *label(row.key),
                *(figure_cell(row.key.metric, value, show) for value in row.values),
                *ratio_cells(row, None if (row.key.mode, row.key.figure) in judged else row.since_first[1], same),
                *(cell for pair in zip(*map(tail_cells, row.found), strict=True) for cell in pair),
            )
            for row in found
        )
        lines = with_own_rows(lines, found, own, len(keys))
        headed = (
            *keys,
            *columns(kind, *labels),
            *columns(Kind.NUMBER, "ratio", "95% CI", group=2),
            *verdict,
            *columns(kind, *(f"{label} {it}" for it in tails for label in labels), group=3),
        )
        table = Table(headed, lines, unit, title=title, results=names)
        return drop_empty_columns(table) if judged else table
    against = (*columns(Kind.NUMBER, "vs first", "95% CI", group=2), *verdict)
    headed = (
        *keys,
        Column(RESULT, Kind.WORD, KEY),
        *columns(kind, "median" if of_latency else "value", *tails),
        *columns(Kind.WORD, *own),
        *against,
        *(_PREVIOUS if in_order else ()),
    )
    of_results: list[tuple[str, ...]] = []
    for row in found:
        there = [number for number, value in enumerate(row.values) if value is not None]
        for number in there:  # what a result lacks has no row
            before = label(row.key) if number == there[0] else [""] * len(keys)
            cells = [figure_cell(row.key.metric, row.values[number], show), *tail_cells(row.found[number])]
            cells += [cells_of[row.key.mode, row.key.point][number] for cells_of in own.values()]
            cells += ratio_cells(row, row.since_first[number], same)
            if in_order:
                ratio, _, *words = ratio_cells(row, row.since_last[number], same)
                cells += [ratio, *words]
            of_results.append((*before, labels[number], *cells))
    return Table(headed, tuple(of_results), unit, title=title, results=names)


def build(
    results: Sequence[Result],
    names: Sequence[str],
    same: float,
    in_order: bool,
    only: Selection = EVERYTHING,
    remarks: Sequence[Fact] = (),
    doubt_on: frozenset[Medium] = EVERYWHERE,
    explanation: Explanation | None = None,
    best: Sequence[Best] = (),
    comparison: Comparison | None = None,
) -> Report:
    """The report of a comparison; see `tables`. `remarks` say what the results differ in; `doubt_on` media it says which figures
    are doubtful, where nothing else does; `explanation` is of the first two; `best` says which is best for what."""
    figures, said, lacking, alone = comparison or compare(results, names, same, only, best)
    settings = [Note(phrase(it)) for it in setting_facts(results, names, best)]
    remarked = map(remark_note, [*remarks, *alone])
    compared = compared_tables(results, names, same, in_order, only, figures=figures)
    off = off_target(results, names)
    found, few = findings_of(said), findings_of(lacking)
    last: list[Block] = [
        *([Findings(found)] if found else []),
        *([Findings(few)] if few else []),
        Notes([*settings, *why_missing(results, names), *remarked]),
        HINT,
    ]
    before = [*([off] if off else ()), *doubt_part(results, names, doubt_on)]
    after = explanation.parts if explanation else ()
    return Report(title(names), (*before, [compared], *outputs_part(results, names), last, *after))


class Comparison(NamedTuple):
    figures: list[Row]
    said: list[Fact]  # the fastest EP and the best configurations, else what differs, and each one's fastest modes
    lacking: list[Fact]
    alone: list[Fact]  # what not all have


def compare(
    results: Sequence[Result], names: Sequence[str], same: float | None, only: Selection, best: Sequence[Best] = ()
) -> Comparison:
    """Results side by side: their figures, computed once for all that shows them, and what these say; without `same` nothing of
    ratios."""
    figures = rows(results, only)
    said = [*ep_facts(results), *(it.fact for it in best)]
    if not said and same is not None:
        said = ratio_facts(results, names, figures, same)
    said += [*items_facts(results, names, only.modes)]
    said += mode_facts(results, names) if len(results) <= FEW_RESULTS else []
    lacking = [*lacking_facts(results, names, figures), *between_runs_facts(results, figures)]
    return Comparison(figures, said, lacking, [*alone_facts(results, names, only.modes)])


def remark_note(fact: Fact) -> Note:
    """What results differ in, or one has alone; what makes them incomparable is to be borne in mind."""
    return Note(phrase(fact), *(("!", UNCLEAR) if sentence_of(fact).weight is Weight.DOUBT else ()))


def build_alone(names: Sequence[str]) -> Report:
    """The report of results beside which there is nothing that they may be compared with."""
    text = f"not compared, nothing else here was measured on the same thing: {', '.join(names)} (--force compares all)"
    return Report("ortbench compare: the rest", ([Notes([remark(text)])],))


def title(names: Sequence[str], what: str = "") -> str:
    """What a comparison of results is called, with what it is of where there are several."""
    return f"ortbench compare: {what}: {', '.join(names)}" if what else f"ortbench compare: {', '.join(names)}"


def compared_tables(
    results: Sequence[Result],
    names: Sequence[str],
    same: float | None = None,
    in_order: bool = False,
    only: Selection = EVERYTHING,
    judged: Judged = (),
    figures: Sequence[Row] = (),
) -> ComparedResults:
    """What each result is of and, where there are several, the tables of them; see `tables`."""
    head = head_of(results, names)
    if len(results) == 1:
        return head
    table, *more = tables(results, names, same, in_order, only, judged, figures)
    if same is None:
        return replace(head, table=table)
    found = in_both(results, figures or rows(results, only))
    if not only.metrics:
        of_kind = _figures_beside(results)
        chosen = [it for it in found if it.key.figure in of_kind] if of_kind else [it for it in found if not it.is_cost]
        found = chosen or found
    screen = _table(found, results, names, same, in_order, "metric", "Side by side", (), names_metric=True)
    is_asked = bool(only.metrics or _figures_beside(results))
    return replace(head, table=table, more=more, screen=screen, is_asked=is_asked)


def head_of(results: Sequence[Result], names: Sequence[str]) -> ComparedResults:
    """What all results are of, in lines, and what each is of besides, what ran where, and when; without a table."""
    # What the lines of headings are of that tell results apart.
    heads = [["model", *["kind"] * bool(own_line(result)), "ep"] for result in results]
    said = [dict(zip(head, heading(result), strict=False)) for head, result in zip(heads, results, strict=True)]
    when = [result.created for result in results]
    same = [line for key, line in said[0].items() if all(it.get(key) == line for it in said)]
    own = [[line for line in it.values() if line not in same] for it in said]
    if len(set(when)) > 1:
        return ComparedResults(names, same, [[*lines, at] for lines, at in zip(own, when, strict=True)])
    return ComparedResults(names, [*same[:-1], "; ".join([*same[-1:], when[0]])], own)


def why_missing(results: Sequence[Result], names: Sequence[str]) -> list[Note]:
    """Why a mode of one result has no figures."""
    return [note for name, result in zip(names, results, strict=True) for note in not_measured(result, name)]


def records(
    results: Sequence[Result],
    names: Sequence[str],
    same: float,
    only: Selection = EVERYTHING,
    figures: Sequence[Row] = (),
) -> list[dict[str, Any]]:
    """A comparison as flat records, one a figure of a mode at a point and result: the axes' values, ``metric``, ``statistic`` (None of
    one number), ``value`` in the metric's unit, and what it is against the first and the previous result."""
    axes = list(dict.fromkeys(axis["name"] for result in results for axis in result.axes))
    found = []
    for row in figures or rows(results, only):
        point = dict(row.key.point)
        of = {"mode": row.key.mode, **{axis: point.get(axis) for axis in axes}}
        of |= {"metric": row.key.figure.metric, "statistic": row.key.figure.statistic or None}
        for number, name in enumerate(names):
            record: dict[str, Any] = {**of, "result": name, "value": row.values[number]}
            for key, ratio in (("vs_first", row.since_first[number]), ("vs_previous", row.since_last[number])):
                record[key] = ratio and _ratio_record(ratio, word(ratio, same, row.is_cost))
            found.append(record)
    return found


def _ratio_record(found: RatioEstimate, verdict: str) -> dict[str, Any]:
    """A ratio in a flat record; none where it is not that of the two figures."""
    cells: dict[str, Any] = {**found._asdict(), "verdict": verdict}
    for key in ("doubted", "apart", "floored"):  # which the verdict and the figures say
        del cells[key]
    return cells | dict.fromkeys(("ratio", "low", "high") if found.floored else ())


def off_target(results: Sequence[Result], names: Sequence[str]) -> list[Notes]:
    """That most ran elsewhere than on the EP that was asked for, which stands before any figure; no block where it did not."""
    found = _merge_notes(
        results, names, lambda result: [remark(it.text) for it in findings_of(placement_of(result)) if _is_off(it)]
    )
    return [Notes(found)] if found else []


def placed_and_warned(results: Sequence[Result], names: Sequence[str]) -> list[Note]:
    """What is copied inside the graphs, and what the results warn of besides."""

    def notes_of(result: Result) -> Iterable[Note]:
        inside = [Note(it.text) for it in findings_of(placement_of(result)) if not _is_off(it)]
        return [*inside, *warnings(result, repeated_warnings(placement_of(result)))]

    return _merge_notes(results, names, notes_of)


def _is_off(found: Finding) -> bool:
    return found.weight is Weight.DOUBT


def _merge_notes(
    results: Sequence[Result], names: Sequence[str], said: Callable[[Result], Iterable[Note]]
) -> list[Note]:
    """The notes of all results, each once; with the names of those that it is of, where it is not of all."""
    found = said_once((note, name) for name, result in zip(names, results, strict=True) for note in said(result))
    return [
        note if len(of) == len(results) else note._replace(text=f"{', '.join(of)}: {note.text}")
        for note, of in found.items()
    ]


def build_configurations(
    results: Sequence[Result],
    names: Sequence[str],
    same: float,
    folder: str | None = None,
    only: Selection = EVERYTHING,
) -> Report:
    """The comparison of at least two configurations; with the `folder` of all of them also what is copied inside their graphs and what they
    warn of, where nothing else says it."""
    compared = build(
        results,
        names,
        same,
        in_order=False,
        only=only,
        doubt_on=FILES if folder is None else EVERYWHERE,
        best=bests(results, names),
    )
    noise = noise_part(results)
    if folder is None:
        return Report(compared.title, (*noise, *compared.parts))
    *parts, last = compared.parts
    return Report(compared.title, [*noise, *parts, [Notes(placed_and_warned(results, names)), *last, SavedIn(folder)]])
