"""Outputs of a gate's sides: how far they may have moved, and that nothing is told of figures that are doubtful. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from ortbench.analysis.outputs import doubt, worst
from ortbench.core.errors import BadInput
from ortbench.gate.limits import FAILED, PASSED, UNCLEAR, Check, Limits
from ortbench.model.metrics import metric
from ortbench.model.result import Result


def check_outputs(result: Result, limits: Limits) -> Iterator[Check]:
    """How far the outputs of a candidate moved; `BadInput` where they were compared with none."""
    for key, limit in limits.outputs.items():
        if not result.outputs:
            reason = "the outputs were compared with none: give a --baseline-model with the same inputs, or --expect"
            raise BadInput(f"--limit {key}: {reason}", "--limit")
        yield _check(key, limit, result)


def _check(key: str, limit: float, result: Result) -> Check:
    assert result.outputs is not None
    it = metric(key)
    found = worst([one for compared in result.outputs for one in compared["distances"]]).get(key.partition(".")[2])
    at_most = it.better == "lower"
    bound = f"must be at {'most' if at_most else 'least'} {it.unit.text(limit)}"
    if found is None or found == -math.inf:
        wrong = next((compared["differs"] for compared in result.outputs if compared["differs"]), "no output has it")
        return Check(key, FAILED if found is not None else UNCLEAR, f"{key}: {wrong}; {bound}", metric=key)
    passed = found <= limit if at_most else found >= limit
    said = "no output moved" if found == math.inf else it.unit.text(found)
    return Check(key, PASSED if passed else FAILED, f"{key}: {said}, {bound}", metric=key)


def without_doubtful(checks: Sequence[Check], *results: Result) -> list[Check]:
    """Checks of a candidate and its baseline, of which nothing is told where the figures of either are doubtful."""
    if not any(map(doubt, results)):
        return [*checks]
    return [it if it.limit is None else _left_out(it) for it in checks]


def _left_out(check: Check) -> Check:
    text = f"{check.name}: not judged, as the outputs differ by a lower precision"
    return replace(check, verdict=UNCLEAR, text=text, ratio=None, low=None, high=None, rounds=None, doubt=None)
