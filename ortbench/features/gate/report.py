"""The reports of a gate: the whole one, the default screen, and the verdict with its checks alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ortbench.analysis.comparison import Row, rows
from ortbench.analysis.series import Point
from ortbench.core.safe_text import capitalize
from ortbench.facts.comparison import is_repeated
from ortbench.facts.sentences import FAILED, PASSED, Check
from ortbench.facts.sentences import UNCLEAR as UNDECIDED
from ortbench.features.gate.gates.checks import Verdict, overall
from ortbench.model.metrics import Figure, figure
from ortbench.report import model
from ortbench.report.brief import brief
from ortbench.report.comparison import (
    compared_tables,
    head_of,
    off_target,
    placed_and_warned,
    remark_note,
    title,
    why_missing,
)
from ortbench.report.parts import doubt_part, noise_part, outputs_part

_CHANGES = (("gate-change", "one"), ("comparability", "changed"))

_SIGNS = {PASSED: ("✓", model.GOOD), FAILED: ("✗", model.BAD), UNDECIDED: ("?", model.UNCLEAR)}


def build_gate(verdict: Verdict) -> model.Report:
    """The report of a gate: its verdict, its checks, and the figures of both sides.

    A terminal ends with the verdict, right above the prompt; Markdown begins with it.
    """
    results, names = verdict.results[::-1], verdict.names[::-1]
    below = verdict.why.others if verdict.why else ()
    remarks = [remark_note(it) for it in verdict.differences if not is_repeated(it, below)]
    said = [*remarks, *placed_and_warned(results, names)]
    told = model.Notes([*_in_words(verdict), *said], media=model.MARKDOWN)
    table = compared_tables(
        results,
        names,
        judged=[(it.mode, figure(it.metric)) for it in verdict.checks if it.mode and it.metric and it.rounds],
    )
    conclusion, saved = _ending(verdict)
    checks = [model.Note(check.text, *_SIGNS[check.verdict]) for check in verdict.checks]
    last: list[model.Block] = [model.Notes([*said, *checks], media=model.TERMINAL), conclusion]
    why = verdict.why.parts if verdict.why else ()
    after: list[Sequence[model.Block]] = [*why, [saved]] if why else []
    last += [] if why else [saved]
    headline, off = f"ortbench gate: {verdict.sentence}", off_target(results, names)
    noise = noise_part(results, of_gate=verdict.folder is not None)  # a stored gate has no folder
    before: list[Sequence[model.Block]] = [*noise, *([off] if off else []), *doubt_part(results, names)]
    moved, compared = outputs_part(results, names), list[model.Block]()
    if len(results) > 1:
        compared = [model.Title(title(names), 1, media=model.MARKDOWN)]
        # No command: a gate's Markdown ends with the empty line that stands in its place.
        last = [model.Notes(why_missing(results, names)), model.Command(()), *last]
    return model.Report(headline, ([told], *before, [*compared, table], *moved, last, *after))


def _ending(verdict: Verdict) -> tuple[model.Conclusion, model.SavedIn]:
    tone = model.BAD if verdict.failed_cases else _SIGNS[overall(verdict.checks)][1]
    saved = model.SavedIn(None if verdict.folder is None else str(verdict.folder))
    return model.Conclusion(verdict.sentence, "gate: ", tone), saved


def verdict_report(verdict: Verdict) -> model.Report:
    """The verdict and its checks alone, which stand first on a page."""
    said = [] if verdict.sentence == verdict.word else [model.Note(capitalize(verdict.sentence))]
    own = [it for it in verdict.differences if it.key not in _CHANGES]  # changes stand beside the results
    return model.Report(f"Gate: {verdict.word}", [[model.Notes([*said, *_in_words(verdict), *map(remark_note, own)])]])


def _in_words(verdict: Verdict) -> list[model.Note]:
    """The checks with their verdicts in words, for those who read them alone, and what failed."""
    signs = ((it, *_SIGNS[it.verdict]) for it in verdict.checks)
    checks = [model.Note(f"{sign} {it.verdict}: {it.text}", tone=tone) for it, sign, tone in signs]
    return [*checks, *(model.Note(f"{_SIGNS[FAILED][0]} {line}", tone=model.BAD) for line in verdict.failed_cases)]


_COLUMNS = (
    model.Column("check", model.Kind.NAME, model.KEY),
    *model.columns(model.Kind.NUMBER, "baseline", "candidate", "ratio", "interval", "limit"),
)
_ROWS = (FAILED, UNDECIDED, PASSED)  # the order in which checks stand


def gate_screen(verdict: Verdict) -> model.Report:
    """What was checked, a row each, what makes the candidate slower, and the verdict: 80 × 24."""
    results, names = verdict.results[::-1], verdict.names[::-1]
    found = {(it.key.mode, it.key.point, it.key.figure): it for it in rows(results)} if len(results) > 1 else {}
    compared = [it for it in verdict.checks if _row_of(it, found) and it.ratio is not None and it.limit is not None]
    compared.sort(key=lambda it: _ROWS.index(it.verdict))
    rest = [model.Note(it.text, *_SIGNS[it.verdict], name=it.name) for it in verdict.checks if it not in compared]
    table = model.Table(_COLUMNS, tuple(_row(it, found) for it in compared))
    why = verdict.why.parts if verdict.why else ()
    answer = [note for part in why[:1] for it in part if isinstance(it, model.Notes) for note in it.notes]
    nodes = [it for part in why for it in part if isinstance(it, model.Table)]
    notes = [*answer, *rest, *why_missing(results, names), *map(remark_note, verdict.differences)]
    notes += placed_and_warned(results, names)
    return brief(
        model.Report(
            f"ortbench gate: {verdict.sentence}",
            (
                [head_of(results, names)],
                *noise_part(results, of_gate=verdict.folder is not None),
                [table, *nodes, *off_target(results, names), model.Notes(notes)],
                _ending(verdict),
            ),
        )
    )


def _row(check: Check, found: Mapping[tuple[str, Point, Figure], Row]) -> tuple[str, ...]:
    sign, tone = _SIGNS[check.verdict]
    row = _row_of(check, found)
    values = (
        [model.NOTHING] * 2 if row is None else [model.maybe(value, row.key.metric.unit.text) for value in row.values]
    )
    ends = None if check.low is None or check.high is None else (check.low, check.high)
    return (
        model.Cell(f"{sign} {check.name}", tone),
        *values,
        f"{check.ratio:.3f}",
        model.interval_text(ends, "{:.3f}".format),
        f"{check.limit:g}",
    )


def _row_of(check: Check, found: Mapping[tuple[str, Point, Figure], Row]) -> Row | None:
    """The figures of both sides that a check compares, where it does."""
    if not check.metric or not check.mode:
        return None
    return found.get((check.mode, tuple(check.point.items()), figure(check.metric)))
