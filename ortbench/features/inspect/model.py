"""What the worker says of a model that is only looked at: ``inspect``."""

from __future__ import annotations

from typing import TypedDict

from ortbench.model import schema
from ortbench.model.schema import NotRequired


class Inspected(TypedDict):
    """``inspect``: see `ortbench.features.inspect.worker.inspect`; where the model was placed on an EP, also its ``ep``.
    ``loop`` is added by the side that asks: what looks like its state, or null."""

    path: str
    inputs: list[schema.Tensor]
    outputs: list[schema.Tensor]
    bytes_in: int | None
    bytes_out: int | None
    guessed_dims: list[str]
    not_run: str | None
    # what the model's file consists of; all None for ONNX Runtime's own format
    operators: dict[str, int] | None
    opsets: dict[str, int] | None
    parameters_bytes: int | None
    loop: NotRequired[schema.SuggestedLoop | None]
    ep: NotRequired[str]
    device: NotRequired[schema.Device]
    memory: NotRequired[schema.Memory]
    modes: NotRequired[dict[str, str | None]]
    placement: NotRequired[schema.Placement]
    copies: NotRequired[schema.InnerCopies | None]
    warnings: NotRequired[list[schema.Warned]]
