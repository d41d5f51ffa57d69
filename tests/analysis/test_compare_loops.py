"""Loops side by side: which may be compared, what differs between them, and their rows."""

from __future__ import annotations

from typing import Any

import pytest

from ortbench.analysis.comparing.comparable import changes, mismatches, sameness
from ortbench.analysis.comparing.rows import rows
from ortbench.analysis.comparing.series import Selection
from ortbench.model.metric_names import parse_metric
from ortbench.report import comparison
from tests.expect import there
from tests.results import OVERHEAD, level, loop_of, loop_result, measured, result_of, steady


def test_which_loops_are_comparable_and_what_differs() -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"fill": {"mask": "1"}}, "values: none → mask 1"),
        ({"keep": ["logits"]}, "kept on the device: none → logits"),
        ({"resident": ["noise", "text"]}, "copied once: none → noise, text"),
    ]
    for changed, said in cases:
        one, other = loop_result(level("cpu-tensors")), loop_result(level("cpu-tensors"), loop=loop_of(**changed))
        assert mismatches(one, other) == []
        assert changes(one, other) == [said]
        assert sameness(one, other) is None
        assert sameness(one, loop_result(level("cpu-tensors"))) is not None
    one, other = loop_result(level("cpu-tensors")), loop_result(level("cpu-tensors"), model__sha256="b" * 64)
    assert mismatches(one, other) == [f"model: m.onnx ({'a' * 12}) and m.onnx ({'b' * 12})"]
    single = result_of(measured("cpu-tensors", latency=steady([1])), model__sha256="b" * 64)
    kinds = "kind: a loop of 4 steps and single inferences"
    assert mismatches(one, single) == [f"model: m.onnx ({'a' * 12}) and m.onnx ({'b' * 12})", kinds]


def test_rows_of_loops_are_the_whole_and_its_steps() -> None:
    results = [
        loop_result(level("shared"), level("cpu-tensors")),
        loop_result(level("cpu-tensors", 1.5), level("shared", 0.5)),
    ]
    found = rows(results)
    assert [(row.key.mode, row.key.figure.metric) for row in found] == [
        ("cpu-tensors", "loop"), ("cpu-tensors", "step"), ("shared", "loop"), ("shared", "step")
    ]  # fmt: skip
    assert found[1].values == (1_000_250, 1_500_375)
    assert found[0].values == (4_001_000 + OVERHEAD, 6_001_500 + OVERHEAD)
    spread = there(found[3].since_first[1])
    assert spread.ratio == pytest.approx(0.5)
    assert [(row.key.mode, row.key.figure.metric) for row in rows(results, Selection(("cpu-tensors",), (parse_metric("latency"), parse_metric("step"))))] == [
        ("cpu-tensors", "latency"), ("cpu-tensors", "step")
    ]  # fmt: skip
    results = [loop_result(level("cpu-tensors")), result_of(measured("cpu-tensors", latency=steady([1_000_000] * 24)))]
    assert [(row.key.mode, row.key.figure.metric) for row in rows(results)] == [("cpu-tensors", "latency")]


def test_the_table_of_two_loops_and_of_three() -> None:
    results = [loop_result(level("cpu-tensors", factor)) for factor in (1.0, 1.0, 2.0)]
    (two,) = comparison.tables([results[0], results[2]], ["a", "b"], 0.05, in_order=True)
    assert [row[:5] for row in two.rows] == [
        ("cpu-tensors", "loop", "4.00", "8.00", "2.00"), ("cpu-tensors", "step", "1.00", "2.00", "2.00")
    ]  # fmt: skip
    (three,) = comparison.tables(results, ["a", "b", "c"], 0.05, in_order=True)
    assert [row[:4] + row[-5:-4] for row in three.rows] == [
        ("cpu-tensors", "loop", "a", "4.00", "–"), ("", "", "b", "4.00", "1.000"), ("", "", "c", "8.00", "2.00"),
        ("cpu-tensors", "step", "a", "1.00", "–"), ("", "", "b", "1.00", "1.000"), ("", "", "c", "2.00", "2.00"),
    ]  # fmt: skip
    assert [row[-2:] for row in three.rows[:3]] == [("–", "–"), ("1.000", "same"), ("2.00", "slower")]
    results = [loop_result(level("cpu-tensors")), loop_result(level("cpu-tensors", 2.0))]
    shown = comparison.side_by_side(results, ["a", "b"])
    assert shown.shared[1] == "loop of 4 steps: hidden_out → hidden"
    assert shown.shared[2].endswith("; 2026-01-01T00:00:00Z")
    assert (len(shown.shared), shown.headings) == (3, [[], []])
    results = [loop_result(level("cpu-tensors")), loop_result(level("cpu-tensors", 2.0))]
    found = comparison.records(results, ["a", "b"], 0.05)
    assert [(it["metric"], it["result"], it["value"]) for it in found] == [
        ("loop", "a", 4_002_000), ("loop", "b", 8_003_000), ("step", "a", 1_000_250), ("step", "b", 2_000_500)
    ]  # fmt: skip
