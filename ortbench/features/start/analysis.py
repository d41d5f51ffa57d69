"""What follows from the samples of starts, and what two of them differ in. Pure."""

from __future__ import annotations

from typing import Any

from ortbench.core.stats import summarise
from ortbench.features.start.model import SETTINGS
from ortbench.model.modes import LATENCY, SECOND_INFERENCE, START_MEMORY, START_PARTS, WHOLE_START
from ortbench.model.result import Case, Result
from ortbench.model.settings import setting_pairs


def put_figures(case: Case, _: Any) -> None:
    """Put the statistics of the parts of starts into a case."""
    if (latency := case.stats(LATENCY)) is not None:
        case.metrics[WHOLE_START] = latency
    for part in (*START_PARTS, SECOND_INFERENCE, START_MEMORY):
        if samples := case.samples.get(part):
            case.metrics[part] = summarise(samples, [size for _, size, _ in case.blocks[part]])


def changes(one: Result, other: Result) -> list[tuple[str, Any, Any]]:
    return setting_pairs(SETTINGS, one.part, other.part)
