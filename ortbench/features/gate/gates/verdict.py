"""What a gate found, whole: its verdict, exit code, and its Markdown and JSON; a regression that fresh workers confirm. Pure."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ortbench.analysis.items import failures_of
from ortbench.core.errors import BENCHMARK_FAILED, CANNOT_TELL, DONE, REGRESSION
from ortbench.facts.checks import FAILED, PASSED, UNCLEAR, Check
from ortbench.facts.fact import Explanation, Fact, Values, record
from ortbench.facts.sentences import phrase
from ortbench.facts.shared import noise_facts
from ortbench.features.gate.facts import gate_fact
from ortbench.features.gate.gates.ratio_tests import CONFIDENCE, ratio_of
from ortbench.model.kinds import kind_of
from ortbench.model.result import Result

NAMES = ("candidate", "baseline")
CODES = {PASSED: DONE, FAILED: REGRESSION, UNCLEAR: CANNOT_TELL}
AGAIN = "again"  # the folder of what was measured once more


@dataclass(frozen=True)
class Verdict:
    results: Sequence[Result]  # of the candidate and, where there is one, of the baseline
    checks: Sequence[Check]  # what was checked
    differences: Sequence[Fact] = ()  # what differs between the two
    folder: Path | None = None  # where it was saved, if it was
    alike: bool = False  # nothing that was recorded differs between the two, as its remark says
    why: Explanation | None = None  # what makes the candidate slower, where that was looked for
    not_confirmed: str = ""  # why a regression could not be measured once more

    @property
    def names(self) -> tuple[str, ...]:
        return NAMES[: len(self.results)]

    @property
    def remarks(self) -> list[str]:
        """What differs between the two, in sentences."""
        return [*map(phrase, self.differences)]

    @property
    def failed(self) -> list[str]:
        """The cases that failed, which no verdict can be built on: one sentence for sides that failed alike."""
        sides: dict[str, list[str]] = {}
        for name, failure in self.failures:
            sides.setdefault(failure, []).append(name)
        return [f"{' and '.join(names)}: {failure}" for failure, names in sides.items()]

    @property
    def failures(self) -> list[tuple[str, str]]:
        return [
            (name, text) for name, result in zip(self.names, self.results, strict=True) for text in failures_of(result)
        ]

    @property
    def word(self) -> str:
        """``passed``, ``failed``, ``cannot tell`` or ``benchmark failed``."""
        return "benchmark failed" if self.failed else overall(self.checks)

    @property
    def fact(self) -> Fact:
        """What it came to."""
        kind, has_baseline = kind_of(self.results[0].kind), bool(self.results[1:])
        return gate_fact(
            overall(self.checks),
            is_broken=bool(self.failed),
            # What has no interval is not noisy: its check says what it lacks.
            is_lacking=all(check.low is None for check in self.checks if check.verdict == UNCLEAR),
            not_confirmed=self.not_confirmed,
            is_stored=kind.live and has_baseline and self.folder is None,
        )

    @property
    def sentence(self) -> str:
        return phrase(self.fact)

    @property
    def code(self) -> int:
        """The exit code; a case that failed outweighs every check."""
        return BENCHMARK_FAILED if self.failed else CODES[overall(self.checks)]


def overall(checks: Sequence[Check]) -> str:
    """One verdict: failed if any failed, else cannot tell if any could not be told."""
    verdicts = {check.verdict for check in checks}
    return next((verdict for verdict in (FAILED, UNCLEAR) if verdict in verdicts), PASSED)


def facts_of(verdict: Verdict) -> list[Fact]:
    """What a gate says: its verdict, what makes the candidate slower, and what was wrong with the machine."""
    why = verdict.why
    return [verdict.fact, *(why.facts if why else ()), *noise_facts(verdict.results[0]), *verdict.differences]


def verdict_json(verdict: Verdict) -> str:
    """The gate as JSON: verdict, exit code, checks, what could not be measured, remarks, and the model and EP of each side."""
    data: dict[str, Any] = {
        "verdict": verdict.word,
        "exit_code": verdict.code,
        "checks": [asdict(it) for it in verdict.checks],
        "not_measured": verdict.failed,
        "remarks": verdict.remarks,
        "findings": [record(it) for it in facts_of(verdict)],
    }
    for name, result in zip(verdict.names, verdict.results, strict=True):
        data[name] = {"model": result.model["path"], "sha256": result.model["sha256"], "ep": result.target["ep"]}
        if result.outputs:
            data[name] |= {"outputs": result.outputs}
    if verdict.why is not None:
        data |= verdict.why.data
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


# A regression is one when other processes show it too. Where the system puts a process and its memory can make it slower for as
# long as it lives, on a busy machine by half and more, and every block of it says so: no number of rounds tells that from a
# regression. So a gate that would fail is held once more with fresh workers, which are put elsewhere, and fails if they come to
# the same.


def confirmed(
    checks: Sequence[Check], regressions: Collection[str], again: Sequence[Check], why_not: str | None = None
) -> list[Check]:
    """The checks of a gate after it was held once more, or `why_not`: of `regressions` that did not show again nothing is told."""
    others = {check.name: check for check in again}
    return [
        _confirmed(check, others.get(check.name), why_not) if check.name in regressions else check for check in checks
    ]


def _confirmed(check: Check, again: Check | None, why_not: str | None) -> Check:
    values: Values = {"why": why_not or ""}
    if again is None or (again.ratio is None and again.verdict != FAILED):
        said = "broken" if why_not else "missing"
    elif again.ratio is None:
        said = "the-same"
    else:
        values |= {
            "ratio": ratio_of(again.ratio, again.low, again.high),
            "confidence": CONFIDENCE,
            "rounds": again.rounds or 0,
        }
        said = "few-rounds" if again.low is None else "confirmed" if again.verdict == FAILED else "other"
        ends = [it for it in (check.low, check.high, again.low, again.high) if it is not None]
        values["both"] = ratio_of(again.ratio, min(ends, default=None), max(ends, default=None))
    fact = Fact("check-again", said, check.mode or "", values)
    return check.and_fact(fact, verdict=FAILED if said in ("confirmed", "the-same") else UNCLEAR)
