"""The report of a gate."""

from __future__ import annotations

from ortbench.gate.limits import FAILED, PASSED, UNCLEAR, overall
from ortbench.gate.verdict import Verdict
from ortbench.report import comparison, model
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
from ortbench.report.words import warnings

_SIGNS = {PASSED: ("✓", model.GOOD), FAILED: ("✗", model.BAD), UNCLEAR: ("?", model.UNCLEAR)}


def build(verdict: Verdict) -> Report:
    """The report of a gate: its verdict, its checks, and the figures of both sides.

    A terminal ends with the verdict, right above the prompt; Markdown begins with it.
    """
    results, names = verdict.results[::-1], verdict.names[::-1]
    sides = comparison.side_by_side(results, names)
    last: list[Block] = [
        Notes(_checked(verdict), media=TERMINAL),
        Conclusion(verdict.sentence, "gate: ", model.BAD if verdict.failed else _SIGNS[overall(verdict.checks)][1]),
        SavedIn(None if verdict.folder is None else str(verdict.folder)),
    ]
    parts: list[list[Block]] = [[Notes(_told(verdict), media=MARKDOWN)], [sides], last]
    if len(results) > 1:
        title, legend = comparison.title(names), comparison.legend(results, None)
        missing = Notes(comparison.why_missing(results, names))
        parts[1:] = [[Title(title, 1, media=MARKDOWN), sides], [missing, Paragraph(legend, media=MARKDOWN), *last]]
        parts.append([Command(())])
    return Report(f"ortbench gate: {verdict.sentence}", parts)


def _told(verdict: Verdict) -> list[Note]:
    """The checks with their verdicts in words, for those who read them alone."""
    checks = [Note(f"{_SIGNS[check.verdict][0]} {check.verdict}: {check.text}") for check in verdict.checks]
    failed = [Note(f"{_SIGNS[FAILED][0]} {line}") for line in verdict.failed]
    return [*checks, *failed, *map(Note, verdict.remarks)]


def _checked(verdict: Verdict) -> list[Note]:
    checks = [Note(check.text, *_SIGNS[check.verdict]) for check in verdict.checks]
    found = [warning for result in verdict.results for warning in warnings(result)]
    return [*checks, *map(Note, verdict.remarks), *found]
