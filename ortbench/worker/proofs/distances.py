"""How far outputs are from those that they are compared with: errors, SQNR, cosine, top-1 agreement."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from ortbench.analysis import precision
from ortbench.worker.proofs.outputs import difference, distance, with_distance
from ortbench.worker.session.tensors import Array, Value

if TYPE_CHECKING:
    from ortbench.model import protocol, schema

_SCORES = re.compile(r"logit|prob|score|softmax|class", re.IGNORECASE)
_CHUNK = 1 << 22  # elements at a time, so that a large output needs no large temporary
_ROWS = 1 << 12  # rows of scores that are looked at, to see whether they are probabilities


def compared(
    outputs: Iterable[tuple[str, Value, Value]], rtol: float | None, atol: float | None
) -> protocol.HeldOutputs:
    """What differs, of outputs by name, between what there is and what it is compared with, beyond the tolerances in words, and by how
    much all of them do."""
    found: protocol.HeldOutputs = {"differs": None, "relative": 0.0, "accepts": None, "distances": []}
    for name, got, reference in outputs:
        found["distances"].append(moved(name, got, reference))
        wrong = difference(name, got, reference, rtol, atol)
        if wrong is None:
            continue
        far = distance(got, reference, rtol, atol)
        if found["differs"] is None:
            found["differs"] = with_distance(wrong, far)
            found["accepts"] = None if far is None else precision.accepting(far.relative, far.rtol, far.atol)
        known = found["relative"]
        found["relative"] = None if far is None or known is None else max(known, far.relative)
    return found


def moved(name: str, got: Value, reference: Value) -> schema.OutputDistance:
    """How far an output is from its reference; all None where nobody can tell: no numbers, another shape, or not finite in the
    same places.

    The SQNR is 10 log10(sum(r^2) / sum((g - r)^2)), as ONNX Runtime's quantization tools have it
    (``compute_signal_to_quantization_noice_ratio`` in onnxruntime/quantization/qdq_loss_debug.py); None where there is no error.
    Top-1 agreement is the share of rows whose largest value is at the same place, of outputs that look like scores: those called
    so, those of two dimensions, and rows of probabilities. Of several largest values any will do.
    """
    found: schema.OutputDistance = {
        "name": name, "max_error": None, "mean_error": None, "sqnr": None, "cosine": None, "top1": None,
    }  # fmt: skip
    if not isinstance(got, np.ndarray) or not isinstance(reference, np.ndarray):
        return found
    if got.shape != reference.shape or got.dtype.kind in "Ob" or reference.dtype.kind in "Ob" or not got.size:
        return found
    most = total = noise = signal = power = product = 0.0
    a, b = got.reshape(-1), reference.reshape(-1)
    for start in range(0, a.size, _CHUNK):
        x, y = (it[start : start + _CHUNK].astype(np.float64) for it in (a, b))
        finite = np.isfinite(x) & np.isfinite(y)
        if not finite.all():
            if not np.array_equal(x[~finite], y[~finite], equal_nan=True):
                return found
            x, y = x[finite], y[finite]
        with np.errstate(over="ignore"):
            off = np.abs(x - y)
            most, total = max(most, float(off.max(initial=0.0))), total + float(off.sum())
            noise, signal, power = noise + float(off @ off), signal + float(y @ y), power + float(x @ x)
            product += float(x @ y)
    found["max_error"], found["mean_error"] = _finite(most), _finite(total / a.size)
    if noise > 0 and signal > 0 and math.isfinite(noise + signal):
        found["sqnr"] = 10 * (math.log10(signal) - math.log10(noise))
    if most == 0:
        found["cosine"] = 1.0
    elif power > 0 and signal > 0 and math.isfinite(power + signal):
        found["cosine"] = max(-1.0, min(1.0, product / math.sqrt(power) / math.sqrt(signal)))
    if _are_scores(name, reference):
        found["top1"] = _top1(got, reference)
    return found


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _are_scores(name: str, array: Array) -> bool:
    if array.ndim < 1 or array.shape[-1] < 2 or array.dtype.kind in "iu":
        return False
    if array.ndim == 2 or _SCORES.search(name):
        return True
    rows = array.reshape(-1, array.shape[-1])[:_ROWS].astype(np.float64)
    return bool((rows >= 0).all() and np.allclose(rows.sum(axis=1), 1, atol=1e-2))


def _top1(got: Array, reference: Array) -> float:
    """The share of rows in which the place of the largest value has the largest value of the reference too."""
    x, y = (it.reshape(-1, it.shape[-1]) for it in (got, reference))
    there = np.take_along_axis(y, x.argmax(axis=1)[:, None], axis=1)[:, 0]
    return float(np.mean(there == y.max(axis=1)))
