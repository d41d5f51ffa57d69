"""The page of `ortbench doctor`: a line for each finding, and what mends it."""

from __future__ import annotations

from collections.abc import Sequence

from ortbench.analysis.doctor import BAD as IS_BAD
from ortbench.analysis.doctor import GOOD as IS_GOOD
from ortbench.analysis.doctor import KNOW, VERDICTS, Finding, Section
from ortbench.report.model import BAD, GOOD, UNCLEAR, Block, Conclusion, Note, Notes, Report, Title

_SIGNS = {IS_GOOD: ("good", GOOD), KNOW: ("know", UNCLEAR), IS_BAD: ("bad", BAD)}


def build(sections: Sequence[Section]) -> Report:
    """The report, a part for each section."""
    parts: list[Sequence[Block]] = [
        (Title(section.title), Notes([_note(it) for it in section.findings])) for section in sections
    ]
    return Report("What may be wrong here", [*parts, (_conclusion(sections),)])


def _note(finding: Finding) -> Note:
    sign, tone = _SIGNS[finding.verdict]
    return Note(finding.text + (f"; try: {finding.command}" if finding.command else ""), f"{sign:4}", tone)


def _conclusion(sections: Sequence[Section]) -> Conclusion:
    verdicts = [finding.verdict for section in sections for finding in section.findings]
    counts = ", ".join(f"{verdicts.count(verdict)} {verdict}" for verdict in VERDICTS)
    tone = BAD if IS_BAD in verdicts else GOOD
    return Conclusion(counts, tone=tone)
