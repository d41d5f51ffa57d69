"""Requests of `ortbench doctor`: which packages are installed, and what ONNX Runtime makes of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ortbench.worker.session import distributions
from ortbench.worker.state import State

if TYPE_CHECKING:
    from ortbench.model.doctor_schema import Installed, Packages


def packages(state: State) -> Packages:
    """The packages that bring the module ``onnxruntime``, which need not load for this."""
    return distributions.packages()


def examine(state: State) -> Installed:
    """Every EP and whether it loads, and the libraries of CUDA that came with them."""
    from ortbench.worker import looking
    from ortbench.worker.looks import cuda

    found = looking.devices(state)
    package, built_for = cuda.built()
    return {**found, "package": package, "cuda": None if built_for is None else cuda.cuda(built_for)}
