"""How far outputs moved: every figure against its formula, with values that are known."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ortbench.worker import proofs
from ortbench.worker.proofs import compare_outputs, error_metrics

NOTHING = {"max_error": None, "mean_error": None, "sqnr": None, "cosine": None, "top1": None}


def figures(got: Any, reference: Any, name: str = "y") -> dict[str, Any]:
    found: dict[str, Any] = {**error_metrics(name, got, reference)}
    assert found.pop("name") == name
    return found


def array(*values: float, dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    return np.array(values, dtype)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, ml_dtypes.bfloat16], ids=str)
@pytest.mark.parametrize("chunk", [7, 1 << 22])
def test_the_formulas(dtype: Any, chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole arrays in float64 give what chunks of them give."""
    monkeypatch.setattr(proofs, "_CHUNK", chunk)
    random = np.random.default_rng(1)
    r = random.standard_normal((5, 4, 3)).astype(dtype)
    g = (r.astype(np.float64) * (1 + 0.1 * random.standard_normal(r.shape))).astype(dtype)
    x, y = g.astype(np.float64).ravel(), r.astype(np.float64).ravel()
    assert figures(g, r) == {
        "max_error": pytest.approx(np.max(np.abs(x - y))),
        "mean_error": pytest.approx(np.mean(np.abs(x - y))),
        "sqnr": pytest.approx(20 * np.log10(np.linalg.norm(y) / np.linalg.norm(y - x))),
        "cosine": pytest.approx(x @ y / (np.linalg.norm(x) * np.linalg.norm(y))),
        "top1": None,
    }


@pytest.mark.parametrize(
    ("got", "reference", "expected"),
    [
        (array(3, 4, 0.5), array(3, 4, 0), {"max_error": 0.5, "mean_error": pytest.approx(0.5 / 3), "sqnr": pytest.approx(20.0),
         "cosine": pytest.approx(25 / (5 * math.sqrt(25.25)))}),
        (array(1, 2), array(1, 2), {"max_error": 0.0, "mean_error": 0.0, "cosine": 1.0}),
        (array(math.nan, 2, math.inf), array(math.nan, 1, math.inf),
         {"max_error": 1.0, "mean_error": pytest.approx(1 / 3), "sqnr": 0.0, "cosine": 1.0}),
        (array(math.inf, 2), array(-math.inf, 2), {}),
        (array(math.nan, 2), array(1, 2), {}),
        (array(1), array(0), {"max_error": 1.0, "mean_error": 1.0}),  # no signal, so no ratio
        (array(-1, dtype=np.int8), array(100, dtype=np.int8), {"max_error": 101.0, "mean_error": 101.0, "cosine": -1.0,
         "sqnr": pytest.approx(10 * math.log10(1e4 / 101**2))}),
        (array(1e300, dtype=np.float64), array(-1e300, dtype=np.float64), {"max_error": 2e300, "mean_error": 2e300}),
        (array(1, 2), array(1), {}),
        (np.array(["a"], object), np.array(["b"], object), {}),
        (array(1, dtype=bool), array(0, dtype=bool), {}),
        ([array(1)], [array(2)], {}),
        (None, array(1), {}),
        (array(), array(), {}),
    ],
)  # fmt: skip
def test_what_has_which_figures(got: Any, reference: Any, expected: dict[str, Any]) -> None:
    assert figures(got, reference) == {**NOTHING, **expected}


@pytest.mark.parametrize(
    ("got", "reference", "name", "share"),
    [
        ([[1, 3, 2], [5, 4, 0]], [[1, 9, 2], [4, 5, 0]], "y", 0.5),
        ([[1, 3, 2]], [[7, 1, 7]], "y", 0.0),
        ([[1, 2, 3]], [[7, 1, 7]], "y", 1.0),  # of two largest either will do
        ([[[0.25, 0.75]]], [[[0.5, 0.5]]], "y", 1.0),  # rows of probabilities
        ([[[3, 4]]], [[[4, 3]]], "y", None),  # neither by name nor by form
        ([[[3, 4]]], [[[4, 3]]], "logits", 0.0),
        ([3, 4], [4, 3], "class_scores", 0.0),
        ([[3], [4]], [[4], [3]], "logits", None),
    ],
)
def test_top1_agreement_of_scores(got: Any, reference: Any, name: str, share: float | None) -> None:
    assert figures(np.array(got, np.float32), np.array(reference, np.float32), name)["top1"] == share


def test_all_outputs_count() -> None:
    near, far = array(1, 2.02), array(1, 4)
    base = array(1, 2)
    found = compare_outputs([("a", base, base), ("b", near, base), ("c", base, base)], None, None)
    assert found["differs"] is not None
    assert found["differs"].startswith("1 of 2 values of output b differ")
    assert found["relative"] == pytest.approx(0.01, rel=1e-3)
    assert (found["accepts"] or "").startswith("--rtol 0.0")
    assert [it["name"] for it in found["distances"]] == ["a", "b", "c"]
    assert compare_outputs([("b", near, base), ("c", far, base)], None, None)["relative"] == pytest.approx(1.0)
    whole = [("b", near, base), ("n", array(1, dtype=np.int64), array(2, dtype=np.int64))]
    assert compare_outputs(whole, None, None)["relative"] is None  # of integers nobody can tell
    assert compare_outputs([("b", near, base)], 0.02, None) == {
        "differs": None, "relative": 0.0, "accepts": None, "distances": [error_metrics("b", near, base)],
    }  # fmt: skip
