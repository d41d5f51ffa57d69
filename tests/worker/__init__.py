"""What tests of the worker's parts share: models of ONNX's text form, opened with the CPU EP in this process."""

from __future__ import annotations

from pathlib import Path

import onnx

from ortbench.plan.target import Target
from ortbench.worker import providers, session


def saved(path: Path, text: str, opset: int = 17) -> Path:
    """A model without its head, in a file."""
    onnx.save(onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : {opset}]> {text}'), path)
    return path


def opened(path: Path | str) -> session.Model:
    """A model's session on the CPU EP."""
    target = Target(ep="cpu")
    return session.open_model(str(path), target, providers.find(target))
