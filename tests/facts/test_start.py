"""What is said of starts: their headline and their findings, of results whose figures are known."""

from __future__ import annotations

from typing import Any

import pytest

from tests.results import fact, keys, series_of, start_result, values

USUAL = (30, 500, 0.01, 1420, 1, 48.99)
LEVELS = "ortbench start m.onnx --opt-level all,basic,disable"


@pytest.mark.parametrize(
    ("parts", "more", "part", "after", "others"),
    [
        (USUAL, {"second_ms": 40}, "session", LEVELS, []),
        (USUAL, {"second_ms": 20}, "session", LEVELS, ["first-inference"]),
        ((30, 600, 0.01, 10, 1, 1), {"launch_ms": 0}, "import", "", []),
    ],
)
def test_the_longest_part_and_a_slow_first_inference(
    parts: tuple[float, ...], more: dict[str, Any], part: str, after: str, others: list[str]
) -> None:
    result = start_result(*parts, **more, target__opt_level="all")
    result.command = ["ortbench", "start", "m.onnx"]
    assert [code for code, *_ in keys(result)] == ["start-part", *others]
    longest = fact(result, "start-part")
    assert (longest.values["part"], longest.next) == (part, after)


def test_a_start_has_its_parts_and_their_sum() -> None:
    result = start_result(*USUAL)
    assert values(fact(result, "start-part"))["whole"] == pytest.approx(2_000_000_000)
    (case,) = result.cases
    assert (case.whole, case.median("start.ready")) == ("start.ready", 2_000_000_000)
    assert series_of(case, "start.ready").blocks == series_of(case).blocks
    assert len(series_of(case, "start.session").blocks) == 10


def test_a_model_that_was_compiled_ahead_says_how_long_that_took_and_its_size() -> None:
    result = start_result(*USUAL)
    result.part["compiled"] = {"compile_ns": 120_000_000, "bytes": 214_000}
    assert values(fact(result, "compiled-ahead")) == {"time": 120_000_000, "size": 214_000}
