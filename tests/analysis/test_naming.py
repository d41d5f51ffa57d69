"""What results are called where several are shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ortbench.analysis.naming import by_path, natural, short_names
from ortbench.model.result import Result
from tests.results import measured, result_of, steady, tensor


def names(*results: Result, paths: list[str] | None = None) -> list[str]:
    """Of results in folders that ortbench has named."""
    stamped = [f"reports/m-some-20260101-00000{number}/result.json" for number in range(len(results))]
    return short_names(results, [Path(path) for path in paths or stamped])


def named(name: Any, **changed: Any) -> Result:
    made = result_of(**changed)
    made.name = name
    return made


def of_batch(size: int) -> Result:
    return result_of(model__inputs=[{**tensor("x", [size, 3]), "model_shape": ["batch", 3]}])


def test_names_that_a_file_may_have() -> None:
    for name, shown in (
        ("a\nb\x1b[31m", "a b\ufffd[31m"), ("x" * 5000, "x" * 199 + "…"), ("\u202egpj", "\ufffdgpj"), (5, "5"), (["a"], "['a']"), (" ", "#1"),
        (None, "#1"),
    ):  # fmt: skip
        assert names(named(name), named("other"))[0] == shown


@pytest.mark.parametrize(
    ("path", "values", "found"),
    [
        ("target__intra_op_threads", [None, 8, 2], ["default", "intra-op-threads=8", "intra-op-threads=2"]),
        ("target__cuda_graph", [True, False], ["cuda-graph", "default"]),
        ("target__ep_options", [{"path": it + "x" * 100} for it in "ab"], [f"path={it}{'x' * 33}…" for it in "ab"]),
        ("target__ep", ["CPUExecutionProvider", "CUDAExecutionProvider"], ["CPU", "CUDA"]),
        ("target__ep_library", ["x/a/ep.so", "x/b/ep.so"], ["a/ep", "b/ep"]),
        ("environment__onnxruntime", ["1.28.0", "1.31.1"], ["onnxruntime 1.28.0", "onnxruntime 1.31.1"]),
        ("model__path", ["a/model.onnx", "b/model.onnx"], ["a/model", "b/model"]),
        ("model__sha256", ["a" * 64, "b" * 64], ["model aaaaaaa", "model bbbbbbb"]),
        ("model__inputs", [[tensor("x", [size, 3])] for size in (1, 8)], ["x 1x3", "x 8x3"]),
        ("environment__git_commit", ["a" * 40, "b" * 40], ["commit aaaaaaa", "commit bbbbbbb"]),
    ],
)
def test_what_differs_names_them(path: str, values: list[Any], found: list[str]) -> None:
    assert names(*(result_of(**{path: value}) for value in values)) == found


def test_names_that_several_have_are_told_apart() -> None:
    deep = [result_of(measured("pipelined", latency=steady([1]))) for _ in range(2)]
    for depth, result in enumerate(deep, 2):
        result.cases[0].pipeline = {"depth": depth}  # type: ignore[assignment]
    eps = [named("before", target__ep=ep) for ep in ("A", "B")]  # as one run has
    for results, found in (
        (deep, ["depth=2", "depth=3"]),
        ([of_batch(1), of_batch(8)], ["batch=1", "batch=8"]),
        (eps, ["A", "B"]),
        ([*eps, named("after")], ["before A", "before B", "after"]),
        ([named("a"), named("a"), named("b")], ["a #1", "a #2", "b"]),
        ([named("a\u200b"), named("a\u200c"), named("b")], ["a\ufffd #1", "a\ufffd #2", "b"]),
    ):
        assert names(*results) == found
    folders = ["out/a-b/result.json", "out/a-b-2/result.json", "out/c/result.json"]
    assert names(named("a b"), named("a b"), named("c"), paths=folders) == ["a-b", "a-b-2", "c"]
    same = ["suites/monday/tiny--cpu/result.json", "suites/tuesday/tiny--cpu/result.json"]
    assert names(named("tiny--cpu"), named("tiny--cpu"), paths=same) == ["monday", "tuesday"]
    assert names(result_of(), result_of(), paths=["old.json", "new.json"]) == ["old", "new"]


def test_paths_tell_results_apart_and_numbers_sort_as_numbers() -> None:
    for paths, found in (
        (["a/result.json", "b/result.json"], ["a", "b"]),
        (["a/x/1.json", "a/y/1.json"], ["x", "y"]),
        (["ort-1.27/result.json", "ort-1.28/result.json"], ["ort-1.27", "ort-1.28"]),
        (["x.json", "x.json"], ["1 x", "2 x"]),
    ):
        assert by_path([Path(path) for path in paths]) == found
    ordered = ["9", "10", "a", "b=2", "b=2 t=9", "b=2 t=10", "b=10", "m-1.9", "m-1.28", "²"]
    assert sorted(sorted(ordered), key=natural) == ordered
