"""How far outputs are from those that they are compared with, over all inputs."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from ortbench.worker.tensors import CHUNK, Array, Value

if TYPE_CHECKING:
    from ortbench.model import schema

_ROWS = 1 << 12  # rows of scores that are looked at, to see whether they are probabilities
_SCORES = re.compile(r"logit|prob|score|softmax|class", re.IGNORECASE)


@dataclass
class OutputErrors:
    """How far an output is from its reference, over all inputs: nothing is known where there are no numbers, another shape, or values that
    are not finite in the same places.

    The SQNR is 10 log10(sum(r^2) / sum((g - r)^2)), as ONNX Runtime's quantization tools have it
    (``compute_signal_to_quantization_noice_ratio`` in onnxruntime/quantization/qdq_loss_debug.py); None where there is no error.
    Top-1 agreement is the share of rows whose largest value is at the same place, of outputs that look like scores: those called
    so, those of two dimensions, and rows of probabilities. Of several largest values any will do. What is largest for one synthetic
    input says nothing.
    """

    name: str
    inputs: int = 0
    is_known: bool = True
    are_scores: bool = True
    size: int = 0
    most: float = 0.0
    total: float = 0.0
    noise: float = 0.0
    signal: float = 0.0
    power: float = 0.0
    product: float = 0.0
    best: list[Array] = field(default_factory=list)  # whether rows agree, of each input

    def add(self, got: Value, reference: Value) -> None:
        self.inputs += 1
        self.is_known &= self._add(got, reference)
        if self.is_known and isinstance(got, np.ndarray) and isinstance(reference, np.ndarray):
            self.are_scores &= _are_scores(self.name, reference)
            self.best += [_top1(got, reference)] if self.are_scores else []

    def _add(self, got: Value, reference: Value) -> bool:
        if not isinstance(got, np.ndarray) or not isinstance(reference, np.ndarray):
            return False
        if got.shape != reference.shape or got.dtype.kind in "Ob" or reference.dtype.kind in "Ob" or not got.size:
            return False
        self.size += got.size
        a, b = got.reshape(-1), reference.reshape(-1)
        for start in range(0, a.size, CHUNK):
            x, y = (it[start : start + CHUNK].astype(np.float64) for it in (a, b))
            finite = np.isfinite(x) & np.isfinite(y)
            if not finite.all():
                if not np.array_equal(x[~finite], y[~finite], equal_nan=True):
                    return False
                x, y = x[finite], y[finite]
            with np.errstate(over="ignore"):
                off = np.abs(x - y)
                self.most, self.total = max(self.most, float(off.max(initial=0.0))), self.total + float(off.sum())
                self.noise, self.signal = self.noise + float(off @ off), self.signal + float(y @ y)
                self.power, self.product = self.power + float(x @ x), self.product + float(x @ y)
        return True

    def distance(self, are_real: bool = True) -> schema.OutputDistance:
        found: schema.OutputDistance = {
            "name": self.name, "inputs": self.inputs, "max_error": None, "mean_error": None, "sqnr": None, "cosine": None, "top1": None,
        }  # fmt: skip
        if not self.is_known:
            return found
        noise, signal, power = self.noise, self.signal, self.power
        found["max_error"], found["mean_error"] = _finite(self.most), _finite(self.total / self.size)
        if noise > 0 and signal > 0 and math.isfinite(noise + signal):
            found["sqnr"] = 10 * (math.log10(signal) - math.log10(noise))
        if self.most == 0:
            found["cosine"] = 1.0
        elif power > 0 and signal > 0 and math.isfinite(power + signal):
            found["cosine"] = max(-1.0, min(1.0, self.product / math.sqrt(power) / math.sqrt(signal)))
        if self.are_scores and are_real:
            found["top1"] = float(np.concatenate(self.best).mean())
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


def _top1(got: Array, reference: Array) -> Array:
    """Whether the place of the largest value of a row has the largest value of the reference too, shape (rows,)."""
    x, y = (it.reshape(-1, it.shape[-1]) for it in (got, reference))
    best = np.take_along_axis(y, x.argmax(axis=1)[:, None], axis=1)[:, 0]
    agree: Array = best == y.max(axis=1)
    return agree
