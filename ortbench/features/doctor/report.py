from __future__ import annotations

from collections.abc import Sequence

from ortbench.core.safe_text import join_words
from ortbench.features.doctor.facts import BAD as IS_BAD
from ortbench.features.doctor.facts import GOOD as IS_GOOD
from ortbench.features.doctor.facts import KNOW, VERDICTS, Finding, Section
from ortbench.report import model

_SIGNS = {IS_GOOD: ("good", model.GOOD), KNOW: ("note", model.UNCLEAR), IS_BAD: ("bad", model.BAD)}


def build_doctor(sections: Sequence[Section], eps: Sequence[str]) -> model.Report:
    """The report, a part for each section; `eps` can be measured on."""
    parts: list[Sequence[model.Block]] = [
        (model.Title(section.title), model.Notes([_note(it) for it in section.findings])) for section in sections
    ]
    return model.Report("What may be wrong here", [*parts, (_conclusion(sections, eps),)])


def _note(finding: Finding) -> model.Note:
    sign, tone = _SIGNS[finding.verdict]
    return model.Note(finding.text, f"{sign:4}", tone, finding.command)


def _conclusion(sections: Sequence[Section], eps: Sequence[str]) -> model.Conclusion:
    verdicts = [finding.verdict for section in sections for finding in section.findings]
    counts = ", ".join(f"{verdicts.count(verdict)} {_SIGNS[verdict][0]}" for verdict in VERDICTS)
    is_bad = IS_BAD in verdicts
    what = "mend what is bad" if is_bad else "nothing to mend"
    can = (
        f"models can be measured with {join_words([f'--ep {it}' for it in eps])}" if eps else "no EP can be measured on"
    )
    return model.Conclusion(f"{counts}: {what}; {can}", tone=model.BAD if is_bad else model.GOOD)
