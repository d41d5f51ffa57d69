"""Requests about a model's file alone, for workers whose environment has nothing to read it with."""

from __future__ import annotations

from ortbench.worker.inputs.index_sizes import of_model
from ortbench.worker.state import State


def index_sizes(state: State, model: str) -> dict[str, int]:
    """How many entries each integer input indexes into; see `ortbench.worker.inputs.index_sizes`."""
    return of_model(model)
