"""Errors from one process to another, and what is made of their kind."""

from __future__ import annotations

from typing import Any

import pytest

from ortbench.core.errors import (
    BadInput,
    BenchmarkFailed,
    NotComparable,
    OrtbenchError,
    Unsupported,
    WrongOutputs,
    from_data,
    to_data,
)
from ortbench.measure.configuration import Configuration
from ortbench.model.result import FAILED
from ortbench.plan.plan import Plan
from ortbench.worker.libraries import LoadProblem, NotLoaded
from ortbench.worker.state import Worker

FUSED = (
    "Non-zero status code returned while running MyEP_7_0 node. Name:'MyEP_MyEP_7_0_0' Status Message: "
    + "it is too large " * 10
)


def test_an_error_is_of_the_same_kind_on_the_other_side() -> None:
    for kind in [BadInput, BenchmarkFailed, WrongOutputs, Unsupported]:
        error = from_data(to_data(kind("what is wrong")))
        assert type(error) is kind
        assert str(error) == "what is wrong"
    for error in [
        NotLoaded("SomeEP", LoadProblem("it is not there")),
        NotComparable("SomeEP does not load: it is not there"),
    ]:
        found = from_data(to_data(error))
        assert type(found) is BenchmarkFailed
        assert str(found) == "SomeEP does not load: it is not there"
    found = from_data(to_data(RuntimeError("[ONNXRuntimeError] : 1 : FAIL : it broke")))
    assert type(found) is BenchmarkFailed
    assert str(found) == "it broke"
    assert str(from_data(to_data(RuntimeError(FUSED)))) == f"{'it is too large ' * 10}(MyEP_7_0 node 'MyEP_MyEP_7_0_0')"
    worker = Worker()
    assert worker.answer({"do": "dance"})["kind"] == "BenchmarkFailed"
    assert worker.answer({"do": "finish", "mode": "cpu-tensors"})["kind"] == "BenchmarkFailed"


@pytest.mark.parametrize(
    ("error", "verdict"),
    [
        (WrongOutputs("output y was not written"), "failed"),
        (BenchmarkFailed("output y is what ONNX Runtime complains of"), None),
    ],
)
def test_outputs_are_wrong_where_the_worker_found_them_so(
    error: OrtbenchError, verdict: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ask(_self: Configuration, _do: str, **_: Any) -> Any:
        raise from_data(to_data(error))

    monkeypatch.setattr(Configuration, "ask", ask)
    side = Configuration(Plan("m.onnx"))
    side.prepare("device-tensors")
    case = next(case for case in side.result.cases if case.mode == "device-tensors")
    assert (case.status, case.reason) == (FAILED, str(error))
    assert (case.checks["outputs"]["verdict"] if case.checks else None) == verdict
