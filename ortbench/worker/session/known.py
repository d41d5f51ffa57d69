"""What stands for the outputs of plain runs where these must not be made, since they would leave a trace in memory."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ortbench.worker.session.tensors import TensorSpec, Value

Form = (
    list[int] | list[list[int]] | None
)  # the shape of a tensor, those of a sequence; None for an optional without one


def form_of(value: Value) -> Form:
    """Of an output."""
    if value is None:
        return None
    return [list(array.shape) for array in value] if isinstance(value, list) else list(value.shape)


class KnownOutputs:
    """Zeros in the forms that plain runs are known to give; behind the last of these all are like it.

    Args:
        runs: of each run the forms of its outputs, in the model's order.
    """

    def __init__(self, runs: Sequence[Sequence[Form]]) -> None:
        self._runs = [*runs]

    def take(self, specs: Sequence[TensorSpec]) -> list[Value]:
        """The outputs of the next run."""
        forms = self._runs.pop(0) if len(self._runs) > 1 else self._runs[0]
        return [_zeros(spec, form) for spec, form in zip(specs, forms, strict=True)]


def _zeros(spec: TensorSpec, form: Form) -> Value:
    if form is None:
        return None
    if spec.is_sequence:
        return [np.zeros(shape, spec.dtype) for shape in form]
    return np.full(form, "", object) if spec.is_string else np.zeros(form, spec.dtype)
