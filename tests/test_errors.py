"""Errors from one process to another, and what is made of their kind."""

from __future__ import annotations

import errno
import os
from typing import Any

import pytest

from ortbench.core import errors
from ortbench.core.errors import BadInput, BenchmarkFailed, OrtbenchError, Unsupported, WrongOutputs, from_data, to_data
from ortbench.core.processes import startable
from ortbench.measure.configuration import Configuration
from ortbench.model.result import FAILED
from ortbench.plan.plan import Plan
from ortbench.worker import Worker
from ortbench.worker.libraries import LoadProblem, NotLoaded

LONG = "it is too large " * 10
FUSED = f"Non-zero status code returned while running MyEP_7_0 node. Name:'MyEP_MyEP_7_0_0' Status Message: {LONG}"


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        *((kind("what is wrong"), kind, "what is wrong") for kind in (BadInput, BenchmarkFailed, WrongOutputs, Unsupported)),
        (NotLoaded("SomeEP", LoadProblem("it is not there")), BenchmarkFailed, "SomeEP does not load: it is not there"),
        (errors.NotComparable("it is another"), BenchmarkFailed, "it is another"),
        (RuntimeError("[ONNXRuntimeError] : 1 : FAIL : it broke"), BenchmarkFailed, "it broke"),
        (RuntimeError(FUSED), BenchmarkFailed, f"{LONG}(MyEP_7_0 node 'MyEP_MyEP_7_0_0')"),
    ],
)  # fmt: skip
def test_an_error_is_of_the_same_kind_on_the_other_side(error: Exception, kind: type[OrtbenchError], text: str) -> None:
    received = from_data(to_data(error))
    assert (type(received), str(received)) == (kind, text)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ValueError("embedded null byte"), "embedded null byte"),
        (FileNotFoundError(errno.ENOENT, "in words of its own", "a file"), os.strerror(errno.ENOENT)),
        (RuntimeError("can't start new thread"), os.strerror(errno.EAGAIN)),
    ],
)
def test_a_program_that_cannot_be_started_says_why(error: Exception, reason: str) -> None:
    with pytest.raises(BenchmarkFailed) as failed, startable("it"):
        raise error
    assert str(failed.value).startswith(f"it cannot be started: {reason}")


def test_a_worker_answers_what_cannot_be_done() -> None:
    for request in ({"do": "dance"}, {"do": "finish", "mode": "cpu-tensors"}):  # unknown, too early
        assert Worker().answer(request)["kind"] == "BenchmarkFailed"


@pytest.mark.parametrize(
    ("error", "verdict"),
    [(WrongOutputs("output y was not written"), "failed"), (BenchmarkFailed("output y is what ONNX Runtime complains of"), None)],
)  # fmt: skip
def test_outputs_are_wrong_where_the_worker_found_them_so(
    error: OrtbenchError, verdict: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ask(_self: Configuration, _do: str, **_: Any) -> Any:
        raise from_data(to_data(error))

    monkeypatch.setattr(Configuration, "ask", ask)
    configuration = Configuration(Plan("m.onnx"))
    configuration.prepare("device-tensors")
    case = next(case for case in configuration.result.cases if case.mode == "device-tensors")
    assert (case.status, case.reason) == (FAILED, str(error))
    assert (case.checks["outputs"]["verdict"] if case.checks else None) == verdict
