"""A check of a result: what was asked, and whether it holds, does not, or cannot be told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ortbench.facts.fact import Fact, record
from ortbench.model.metric_names import AxisValue
from ortbench.model.schema import Finding

PASSED, FAILED, UNCLEAR = "passed", "failed", "cannot tell"


@dataclass(frozen=True)
class Check:
    name: str  # what, in a few words; the same from run to run
    verdict: str  # `PASSED`, `FAILED` or `UNCLEAR`
    text: str  # the figures and the limit, for people: the sentences of its facts
    # ratio, low, high: of the figures, where two were compared, by the sequential test where there are `rounds`; else None
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    limit: float | None = None  # of the ratio
    rounds: int | None = None  # pairs of blocks it rests on; None for one that rests on stored medians
    doubt: str | None = None  # why nothing is told although the interval lies on one side of the limit, else None
    # metric, mode, point: of what it is, as ``--metric`` has them: ``latency.median``, ``cpu-tensors``, ``{"batch": 8}``
    metric: str | None = None
    mode: str | None = None
    point: Mapping[str, AxisValue] = field(default_factory=dict, hash=False)
    findings: Sequence[Finding] = field(default_factory=list, compare=False)  # the same as its text, as data

    def with_fact(self, fact: Fact, **changes: Any) -> Check:
        """The same check by another fact, and with what else is changed."""
        return replace(self, text=_phrase(fact), findings=[record(fact)], **changes)

    def and_fact(self, fact: Fact, **changes: Any) -> Check:
        """The same check by one more fact, and with what else is changed."""
        return self.and_sentence(_phrase(fact), [record(fact)], **changes)

    def and_sentence(self, sentence: str, findings: Sequence[Finding], **changes: Any) -> Check:
        """The same check with a further sentence in its line."""
        return replace(self, text=_line(self.text, sentence), findings=[*self.findings, *findings], **changes)


def check_by(name: str, verdict: str, *facts: Fact, **more: Any) -> Check:
    """A check that says what facts say."""
    return Check(name, verdict, _line(*map(_phrase, facts)), findings=[*map(record, facts)], **more)


def _line(*sentences: str) -> str:
    """The line of a check, which has the sentences of all its facts."""
    return "; ".join(sentences)


def _phrase(fact: Fact) -> str:
    from ortbench.facts.sentences import phrase  # which options need not wait for

    return phrase(fact)
