"""What is said of starts: their headline and their findings, of made-up results whose figures are known."""

from __future__ import annotations

from typing import Any

import pytest

from ortbench.analysis.findings.advice import headline
from ortbench.model.metrics import figure
from tests.results import sentences, series_of, start_result

SESSION = "Creating the session takes 71% of the time to ready (1.42 s of 2.00 s); import takes 500 ms."
LAUNCH = "Creating the process takes 1.00 ms, a part of interpreter."


@pytest.mark.parametrize(
    ("parts", "more", "expected"),
    [
        (
            (30, 500, 0.01, 1420, 1, 48.99),
            {"second_ms": 40},
            [SESSION, "Next: measure again with --opt-level all,basic,disable", LAUNCH],
        ),
        (
            (30, 500, 0.01, 1420, 1, 48.99),
            {"second_ms": 20, "command": ["ortbench", "start", "m.onnx"]},
            [
                SESSION,
                "Next: ortbench start m.onnx --opt-level all,basic,disable",
                "The first inference takes 49.0 ms, the second 20.0 ms.",
                LAUNCH,
            ],
        ),
        (
            (30, 600, 0.01, 10, 1, 1),
            {"launch_ms": 0},
            [
                "Importing onnxruntime and NumPy takes 93% of the time to ready (600 ms of 642 ms).",
                "Next: keep the process alive, or start it before it is needed",
            ],
        ),
    ],
)
def test_the_longest_part_is_named_and_what_to_try(
    parts: tuple[float, ...], more: dict[str, Any], expected: list[str]
) -> None:
    command = more.pop("command", None)
    result = start_result(*parts, **more, target__opt_level="all")
    if command is not None:
        result.command = command
    assert sentences(result) == expected


def test_a_start_has_its_parts_and_their_sum() -> None:
    result = start_result(30, 500, 0.01, 1420, 1, 48.99)
    assert headline(result) == "Ready 2.00 s after the start of the process"
    (case,) = result.cases
    assert case.whole == "start.ready"
    assert series_of(case, "start.ready").blocks == series_of(case).blocks
    assert len(series_of(case, "start.session").blocks) == 10
    assert case.median("start.ready") == sum(case.median(it) or 0 for it in PARTS)
    assert figure("start.ready").statistic == "median"


PARTS = [f"start.{it}" for it in ("interpreter", "import", "ep_load", "session", "inputs", "first_inference")]
