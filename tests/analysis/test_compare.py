"""Results side by side: whether they may be compared, by how much they differ, and whether that is real."""

from __future__ import annotations

from typing import Any

import pytest

from ortbench.analysis.comparable import are_alike, changes, mismatches
from ortbench.analysis.comparison import (
    Row,
    in_both,
    rows,
)
from ortbench.analysis.series import Selection
from ortbench.core.errors import NotComparable
from ortbench.facts.comparison import alone_facts, ratio_facts, remark_facts
from ortbench.facts.sentences import phrase, sentence
from ortbench.model.metric_names import parse_metric
from ortbench.model.result import UNSUPPORTED, Case, Result
from tests.results import (
    measured,
    result_of,
    serving,
    steady,
    sweep_result,
    without,
)

# May they be compared?

OTHER_SETUPS: list[tuple[str, Any, str]] = [
    ("model__sha256", "b" * 64, "model: m.onnx (aaaaaaaaaaaa) and m.onnx (bbbbbbbbbbbb)"),
    ("model__inputs", [{"name": "x", "shape": [8, 3]}], "shapes: x 1x3, y none and x 8x3"),
    ("target__ep", "CPUExecutionProvider", "EP: SomeExecutionProvider and CPUExecutionProvider"),
    (
        "target__device",
        {"type": "NPU", "vendor_id": 1},
        "device: type GPU, vendor_id 0x0001, device_id 0x0002 and type NPU, vendor_id 0x0001",
    ),
    (
        "target__device__device_id",
        9,
        "device: type GPU, vendor_id 0x0001, device_id 0x0002 and type GPU, vendor_id 0x0001, device_id 0x0009",
    ),
    ("environment__cpu__model", "Other CPU", "CPU: Some CPU and Other CPU"),
    ("environment__cpu__usable_cores", 2, "cores: 4 and 2"),
    ("environment__gpus", [], "GPUs: Some GPU and none"),
    ("environment__gpus", [{"name": "Some GPU"}, {"name": "B"}], "GPUs: Some GPU and Some GPU, B"),
]


def test_what_makes_results_incomparable_and_what_does_not() -> None:
    for path, value, text in OTHER_SETUPS:
        assert mismatches(result_of(), result_of(**{path: value})) == [text]
    other = result_of(target__ep="B", environment__cpu__usable_cores=1)
    assert mismatches(result_of(), other) == ["EP: SomeExecutionProvider and B", "cores: 4 and 1"]
    for path, value in HARMLESS:
        assert mismatches(result_of(), result_of()) == []
        assert mismatches(result_of(), result_of(**{path: value})) == []
    changed = {path: value for path, value, _ in OTHER_SETUPS}
    assert mismatches(result_of(run_id="1"), result_of(run_id="1", **changed)) == []
    assert len(mismatches(result_of(run_id="1"), result_of(run_id="2", **changed))) == 7
    assert len(mismatches(result_of(), result_of(**changed))) == 7


HARMLESS: list[tuple[str, Any]] = [
    ("model__path", "elsewhere/m.onnx"),
    ("target__device__index", 1),
    ("environment__cpu__cores", 16),
    ("environment__gpus", [{"name": "Some GPU", "driver": "2"}]),
    ("environment__onnxruntime", "1.29.0"),
]


def test_changes() -> None:
    changed: list[tuple[str, Any, str]] = [
        ("environment__onnxruntime", "1.29.0", "ONNX Runtime: 1.28.0 → 1.29.0"),
        ("target__ep_version", "1.1", "EP version: 1.0 → 1.1"),
        ("target__ep_options", {"a": "1", "b": "2"}, "EP options: none → a 1, b 2"),
        ("target__session_config", {"a": "1"}, "session config: none → a 1"),
        ("target__intra_op_threads", 4, "intra-op threads: default → 4"),
        ("target__opt_level", "basic", "optimisation: all → basic"),
        ("environment__python", "3.13.0", "Python: 3.12.0 → 3.13.0"),
        ("environment__os", "Windows", "OS: Linux → Windows"),
    ]
    for path, value, text in changed:
        assert changes(result_of(), result_of(**{path: value})) == [text]
    for one, other, said in [
        ("a/ep.so", "b/ep.so", ["EP library: a/ep.so → b/ep.so"]),
        (None, "b/ep.so", ["EP library: ONNX Runtime's own → b/ep.so"]),
        ("a/ep.so", "a/ep.so", []),
        (None, None, []),
    ]:
        sides = result_of(target__ep_library=one), result_of(target__ep_library=other)
        assert changes(*sides) == said
        assert are_alike(*sides) == (one == other)
    assert changes(result_of(), result_of(target__ep_library="a/ep.so")) == []
    assert changes(result_of(run_id="1"), result_of(run_id="2", environment__git_commit="abc")) == []


def test_sides_that_are_the_same_in_everything() -> None:
    """However the EP was asked for, and whatever its sync was found to cost."""
    again = result_of(target__ep_requested="some", target__policy="PREFER_GPU", target__sync={"cost_ns": 5})
    assert are_alike(result_of(target__ep_requested="auto"), again)
    cases: list[tuple[str, Any]] = [
        ("model__sha256", "b" * 64),
        ("target__ep", "OtherExecutionProvider"),
        ("target__ep_library", "other.so"),
        ("target__ep_version", "1.1"),
        ("target__ep_options", {"a": "b"}),
        ("target__session_config", {"a": "b"}),
        ("target__device", {"type": "CPU"}),
        ("environment__onnxruntime", "1.29.0"),
        ("environment__onnxruntime_build", "another"),
        ("environment__python", "3.13.0"),
        ("environment__numpy", "2.0"),
    ]
    for path, value in cases:
        assert not are_alike(result_of(), result_of(**{path: value}))


def test_comparability_is_refused_or_forced() -> None:
    results = [result_of(), result_of(target__opt_level="basic"), result_of(target__ep="B")]
    with pytest.raises(NotComparable, match=r"^a and c are not comparable: EP: SomeExecutionProvider and B .*--force"):
        remark_facts(results, "abc", force=False)
    assert [phrase(it) for it in remark_facts(results, "abc", force=True)] == [
        "what differs (a → b): optimisation: all → basic",
        "not comparable, forced: a and c: EP: SomeExecutionProvider and B",
    ]
    assert remark_facts(results[:1], "a", force=False) == []


# A result of an earlier run


# Results of one run


# In a word


# Rows


def named(found: list[Row]) -> list[tuple[str, str]]:
    return [(row.key.mode, row.key.figure.metric) for row in found]


def of_device(ns: int) -> Case:
    return measured("device-tensors", **{phase: steady([ns] * 8) for phase in ("latency", "d2h", "inference", "h2d")})


def of(mode: str, ns: int) -> Case:
    return measured(mode, latency=steady([ns] * 8))


DEVICE_ROWS = [("device-tensors", phase) for phase in ("latency", "h2d", "inference", "d2h")]


def test_rows_are_in_the_usual_order_and_can_be_chosen() -> None:
    results = [
        result_of(of("device-resident", 1), of_device(1), of("cpu-tensors", 1)),
        result_of(of("host-accessible", 1)),
    ]
    expected = [
        ("cpu-tensors", "latency"),
        *DEVICE_ROWS,
        ("device-resident", "latency"),
        ("host-accessible", "latency"),
    ]
    assert named(rows(results)) == expected
    result = result_of(of("device-resident", 1), of_device(1), of("cpu-tensors", 1))
    results = [result, result]
    assert named(rows(results, Selection(modes=("device-tensors",)))) == DEVICE_ROWS
    assert named(rows(results, Selection((), (parse_metric("h2d"),)))) == [("device-tensors", "h2d")]
    assert named(rows(results, Selection((), (parse_metric("inference"),)))) == [
        ("device-tensors", "inference"),
        ("device-resident", "inference"),
    ]
    assert named(rows(results, Selection(("cpu-tensors",), (parse_metric("latency"),)))) == [("cpu-tensors", "latency")]
    assert rows(results, Selection(("cpu-tensors",), (parse_metric("h2d"),))) == []
    assert rows(results, Selection(("host-accessible",))) == []


def alone_in(results: list[Result], names: str, of: list[str] | None = None) -> list[str]:
    return [phrase(it) for it in alone_facts(results, names, of or [])]


def test_modes_that_one_of_two_results_was_not_asked_for_are_named_and_have_no_row() -> None:
    times = {"cpu-tensors": 100, "device-tensors": 200, "pipelined": 300}
    pair = [result_of(*(of(mode, ns) for mode, ns in times.items())), result_of(of("cpu-tensors", 212))]
    assert [it.key.mode for it in in_both(pair, rows(pair))] == ["cpu-tensors"]
    assert alone_in(pair, "ab") == ["only a has: device-tensors, pipelined"]
    assert alone_in(pair[::-1], "ba", ["pipelined"]) == ["only a has: pipelined"]
    (fact,) = ratio_facts(pair, ["a", "b"], rows(pair), 0.02)
    assert sentence(fact) == "b is slower than a with cpu-tensors: latency 2.12× (2.06–2.18)."
    same = [result_of(*(of(mode, ns) for mode, ns in times.items())) for _ in "ab"]
    assert [sentence(it) for it in ratio_facts(same, "ab", rows(same), 0.05)] == [
        "b and a are the same within 5% with cpu-tensors, device-tensors, pipelined."
    ]
    tried = result_of(of("cpu-tensors", 100), Case("device-tensors", UNSUPPORTED, "no copies"))
    assert alone_in([pair[0], tried], "ab") == ["only a has: pipelined"]
    apart = [pair[0], result_of(of("device-resident", 100))]
    assert in_both(apart, found := rows(apart)) == found
    assert alone_in(apart, "ab") == []
    assert ratio_facts(apart, "ab", found, 0.02) == []


def test_points_that_not_all_results_have_are_named() -> None:
    whole = sweep_result()
    assert alone_in([without(whole, 4), whole, without(whole, 1)], "abc") == [
        "only in a: batch=1", "only in b: batch=1; batch=4", "only in c: batch=4",
    ]  # fmt: skip
    assert alone_in([whole, whole], "ab") == alone_in([result_of(), result_of()], "ab") == []
    fewer = serving()
    fewer.cases = [it for it in fewer.cases if it.point != {"concurrency": 8}]
    assert alone_in([fewer, serving()], "ab") == ["only in b: concurrency=8"]
    # A set of real inputs that has other sizes now is another point: nothing is said of the two together.
    other = sweep_result()
    other.shapes[2].shape = {"batch": 5}
    assert alone_in([whole, other], "ab") == ["only in a: batch=4", "only in b: batch=4"]
    assert {row.key.point for row in rows([whole, other]) if row.since_first[1] is None} == {(("batch", 4),)}
