"""The report of a gate."""

from __future__ import annotations

from ortbench.gate.limits import FAILED, PASSED, UNCLEAR, overall
from ortbench.gate.verdict import Verdict
from ortbench.report import comparison, model
from ortbench.report.comparison import off_target, placed_and_warned
from ortbench.report.model import (
    MARKDOWN,
    TERMINAL,
    Block,
    Command,
    Conclusion,
    Note,
    Notes,
    Paragraph,
    Report,
    SavedIn,
    Title,
)
from ortbench.report.words import remark

_SIGNS = {PASSED: ("✓", model.GOOD), FAILED: ("✗", model.BAD), UNCLEAR: ("?", model.UNCLEAR)}


def build(verdict: Verdict) -> Report:
    """The report of a gate: its verdict, its checks, and the figures of both sides.

    A terminal ends with the verdict, right above the prompt; Markdown begins with it.
    """
    results, names = verdict.results[::-1], verdict.names[::-1]
    told = Notes(_told(verdict), media=MARKDOWN)
    sides = comparison.side_by_side(results, names)
    tone = model.BAD if verdict.failed else _SIGNS[overall(verdict.checks)][1]
    last: list[Block] = [
        Notes(_checked(verdict), media=TERMINAL),
        Conclusion(verdict.sentence, "gate: ", tone),
        SavedIn(None if verdict.folder is None else str(verdict.folder)),
    ]
    title, off = f"ortbench gate: {verdict.sentence}", off_target(results, names)
    before = [off] if off else []
    if len(results) == 1:
        return Report(title, ([told], *before, [sides], last))
    compared = Title(comparison.title(names), 1, media=MARKDOWN)
    legend = Paragraph(comparison.legend(results, None), media=MARKDOWN)
    missing = Notes(comparison.why_missing(results, names))
    # No command: a gate's Markdown ends with the empty line that stands in its place.
    return Report(title, ([told], *before, [compared, sides], [missing, legend, Command(()), *last]))


def _told(verdict: Verdict) -> list[Note]:
    """The checks with their verdicts in words, for those who read them alone."""
    checks = [Note(f"{_SIGNS[check.verdict][0]} {check.verdict}: {check.text}") for check in verdict.checks]
    failed = [Note(f"{_SIGNS[FAILED][0]} {line}") for line in verdict.failed]
    return [*checks, *failed, *_remarks(verdict), *_warnings(verdict)]


def _checked(verdict: Verdict) -> list[Note]:
    checks = [Note(check.text, *_SIGNS[check.verdict]) for check in verdict.checks]
    return [*checks, *_remarks(verdict), *_warnings(verdict)]


def _warnings(verdict: Verdict) -> list[Note]:
    """Of both sides, each once."""
    return placed_and_warned(verdict.results[::-1], verdict.names[::-1])


def _remarks(verdict: Verdict) -> list[Note]:
    """What differs between the sides; that nothing does is to be borne in mind."""
    return [remark(text) if verdict.alike else Note(text) for text in verdict.remarks]
