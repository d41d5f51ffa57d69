"""What a result says of a loop besides its figures."""

from __future__ import annotations

from typing import Any

from ortbench.core.files import ModelFiles
from ortbench.features.loop.analysis import generation_of
from ortbench.features.loop.model import FinishedLoop, OpenedLoop
from ortbench.model.result import Case, Result
from ortbench.plan.plan import Plan


def describe_opened(result: Result, plan: Plan, files: ModelFiles, answer: OpenedLoop) -> Plan:
    if (loop := answer.get("loop")) is not None:
        result.kind, result.own["loop"] = plan.work.kind, loop
    return plan


def describe_finished(result: Result, case: Case, answer: FinishedLoop) -> None:
    case.set_metric("next_token", answer.get("next_token_ns"))


def complete_request(result: Result, asked: dict[str, Any]) -> None:
    """Say what the worker that measured has found out: whether the model can have one buffer for past and present."""
    if (made := generation_of(result)) is not None:
        asked["steps"]["decoder"]["shared"] = made["fixed_cache"]
