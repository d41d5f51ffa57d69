"""A model that is compiled ahead of time: its nodes on the EP become EPContext nodes, which the EP opens without compiling again."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import onnxruntime as ort

from ortbench.core.errors import Unsupported, ort_text
from ortbench.worker import environment
from ortbench.worker.session import make_session_options

if TYPE_CHECKING:
    from ortbench.features.start.model import Compiled
    from ortbench.worker import State


def compile_ahead(state: State, path: str) -> Compiled:
    """Compile the open model into a file, with what the EP compiled beside it; `Unsupported`: the EP compiles none of it so."""
    opened = state.opened
    provider = opened.model.provider
    failed = f"{provider.name} compiles no part of this model ahead of time"
    if provider.ep_device is None:
        raise Unsupported(failed)
    options = make_session_options(opened.target, provider, dict(opened.target.options))
    start = time.perf_counter_ns()
    try:
        with environment.announce("compiling the model ahead of time"):
            needs_nodes = ort.OrtCompileApiFlags.ERROR_IF_NO_NODES_COMPILED
            ort.ModelCompiler(options, opened.path, flags=needs_nodes).compile_to_file(path)
    except Exception as error:
        raise Unsupported(f"{failed}: {ort_text(error)}") from None
    took = time.perf_counter_ns() - start
    files = [it for it in Path(path).parent.iterdir() if it.name.startswith(Path(path).stem)]
    return {"compile_ns": took, "bytes": sum(it.stat().st_size for it in files)}
