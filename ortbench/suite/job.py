"""What is to be done for a case of a suite."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from ortbench.gate.limits import Limits
from ortbench.plan import Plan
from ortbench.suite.cases import SuiteCase


@dataclass(frozen=True)
class Job:
    """What is to be done for a case.

    Attributes:
        case: of the suite.
        plans: of the candidate and, in a live gate, the baseline; none where the case is skipped.
        limits: what the candidate must keep to; empty ones without a gate.
        force: compare what is not comparable.
        baseline: this case's folder of an earlier suite, or None.
    """

    case: SuiteCase
    plans: tuple[Plan, ...] = ()
    limits: Limits = field(default_factory=Limits)
    force: bool = False
    baseline: Path | None = None
