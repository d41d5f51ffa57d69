"""Inferences of several shapes in mode `cpu-tensors`, or in a session that is closed and opened again now and then."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from dataclasses import replace
from time import perf_counter_ns

from ortbench.core.errors import BadInput
from ortbench.core.units import size
from ortbench.plan.target import Inputs
from ortbench.worker.inputs.arrays import resolve_shapes
from ortbench.worker.inputs.model_file import index_sizes
from ortbench.worker.proofs.sync import Syncs
from ortbench.worker.session import first_run, session
from ortbench.worker.session.session import Model
from ortbench.worker.session.tensors import Value
from ortbench.worker.timing import TimedCall

MOST_BYTES = 2 * 10**9  # of all inputs

Arrays = dict[str, Value]


def sized(path: str, model: Model, requests: Sequence[Inputs]) -> list[Inputs]:
    """The same, which know how many entries integers index into; `BadInput` where the inputs of all take too much."""
    held = 0
    for it in requests:
        shapes, _ = resolve_shapes(model.inputs, it.shapes, it.dims)
        held += sum(spec.nbytes(shapes[spec.name]) for spec in model.inputs if spec.name in shapes)
    if held > MOST_BYTES:
        reason = f"{size(held)}, more than {size(MOST_BYTES)}: give fewer or smaller shapes"
        raise BadInput(f"the inputs of all {len(requests)} shapes take {reason}")
    sizes = index_sizes(path, model.inputs) if requests and requests[0].index_sizes is None else None
    return [it if sizes is None else replace(it, index_sizes=sizes) for it in requests]


def made(path: str, model: Model, requests: Sequence[Inputs]) -> list[Arrays]:
    """The inputs of all shapes; `BadInput` as `sized`, and where they do not fit."""
    return [first_run.make_inputs(path, model, it)[0] for it in sized(path, model, requests)]


def closed(model: Model) -> Model:
    """The same without its session."""
    return replace(model, session=None, native=None, syncs=Syncs())


class Stream:
    """Calls, one a shape. With `reopen` the session ends after so many of them; nobody else may have it then."""

    def __init__(self, path: str, model: Model, arrays: Sequence[Arrays], reopen: int | None) -> None:
        self._path, self._model, self._arrays = path, model, arrays
        self._reopen = self._left = reopen
        self._calls = self._made_calls()

    def _made_calls(self) -> list[TimedCall]:
        return [first_run.cpu_call(self._model, arrays) for arrays in self._arrays]

    def run(self, order: Sequence[int], starts: list[int] | None = None) -> list[int]:
        """The durations of calls, ns, in an order of shapes; when they began is added to `starts`."""
        samples = []
        for at in order:
            if self._left is not None:
                if self._left == 0:
                    self._open_again()
                self._left = (self._left or self._reopen or 1) - 1
            start, took = _timed(self._calls[at])
            samples.append(took)
            if starts is not None:
                starts.append(start)
        return samples

    def _open_again(self) -> None:
        self._calls.clear()
        self._model = closed(self._model)
        gc.collect()
        self._model = session.open_model(self._path, self._model.target, self._model.provider)
        self._calls = self._made_calls()


def _timed(timed: TimedCall) -> tuple[int, int]:
    call, a, b = timed
    start = perf_counter_ns()
    kept = call(a, b)
    end = perf_counter_ns()
    del kept  # outside the clock
    return start, end - start
