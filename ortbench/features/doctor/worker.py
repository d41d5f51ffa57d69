"""What the worker answers: the packages that bring ONNX Runtime, every EP, and the libraries of CUDA."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from ortbench.worker.session import distributions

if TYPE_CHECKING:
    from ortbench.features.doctor.model import Installed
    from ortbench.model.protocol import Packages
    from ortbench.worker.state import State


def packages(_: object) -> Packages:
    """Where the module is, and every package on the search path that brings one."""
    folders = dict.fromkeys(os.path.abspath(folder) for folder in sys.path if folder)
    found = [it for folder in folders for it in distributions.find_distributions(folder)]
    return {"module": distributions.module_folder(), "distributions": found, "numpy": distributions.version("numpy")}


def examine(state: State) -> Installed:
    """Every EP and whether it loads, and the libraries of CUDA that came with them."""
    from ortbench.features.devices.worker import devices
    from ortbench.features.doctor import cuda  # which loads ONNX Runtime; `packages` says why that cannot be

    found = devices(state)
    package, built_for = cuda.built()
    return {**found, "package": package, "cuda": None if built_for is None else cuda.cuda(built_for)}
