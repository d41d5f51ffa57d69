"""What is said of starts: their headline and their findings, of made-up results whose figures are known."""

from __future__ import annotations

from typing import Any

import pytest

from ortbench.model.metrics import figure
from tests.results import fact, keys, series_of, start_result, values


@pytest.mark.parametrize(
    ("parts", "more", "found"),
    [
        ((30, 500, 0.01, 1420, 1, 48.99), {"second_ms": 40}, [("start-part", "longest")]),
        ((30, 500, 0.01, 1420, 1, 48.99), {"second_ms": 20}, [("start-part", "longest"), ("first-inference", "slow")]),
        ((30, 600, 0.01, 10, 1, 1), {"launch_ms": 0}, [("start-part", "longest")]),
    ],
)
def test_the_longest_part_and_a_slow_first_inference(
    parts: tuple[float, ...], more: dict[str, Any], found: list[tuple[str, str]]
) -> None:
    result = start_result(*parts, **more, target__opt_level="all")
    result.command = ["ortbench", "start", "m.onnx"]
    assert [(code, verdict) for code, verdict, _ in keys(result)] == found
    levels = "ortbench start m.onnx --opt-level all,basic,disable"
    longest = fact(result, "start-part")
    assert (longest.values["part"], longest.next) == (("import", "") if parts[1] == 600 else ("session", levels))


def test_a_start_has_its_parts_and_their_sum() -> None:
    result = start_result(30, 500, 0.01, 1420, 1, 48.99)
    assert values(fact(result, "start-part"))["whole"] == pytest.approx(2_000_000_000)
    (case,) = result.cases
    assert case.whole == "start.ready"
    assert series_of(case, "start.ready").blocks == series_of(case).blocks
    assert len(series_of(case, "start.session").blocks) == 10
    assert case.median("start.ready") == sum(case.median(it) or 0 for it in PARTS)
    assert figure("start.ready").statistic == "median"


PARTS = [f"start.{it}" for it in ("interpreter", "import", "ep_load", "session", "inputs", "first_inference")]
