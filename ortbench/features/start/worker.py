"""A model that is compiled ahead of time: its nodes on the EP become EPContext nodes, which the EP opens without compiling again."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import onnxruntime as ort

from ortbench.core.errors import BenchmarkFailed, Unsupported, ort_text
from ortbench.worker import environment
from ortbench.worker.session import make_session_options, node_placements, open_model

if TYPE_CHECKING:
    from ortbench.features.start.model import Compiled
    from ortbench.worker import State


EMBED_MODE = "ep.context_embed_mode"
CONTEXT = "EPContext"  # the operator of a node that was compiled


def compile_ahead(state: State, path: str) -> Compiled:
    """Compile the open model into a file, with what the EP compiled in it or beside it, and see what of that the EP takes from there;
    `Unsupported`: the EP compiles none of it so."""
    opened = state.opened
    provider = opened.model.provider
    if any(operator == CONTEXT for _, _, operator in node_placements(opened.model) or ()):
        raise Unsupported("this model was compiled ahead of time already: start it without --compile-cache ahead")
    options = make_session_options(opened.target, provider, dict(opened.target.options))
    start = time.perf_counter_ns()
    try:
        with environment.announce("compiling the model ahead of time"):
            needs_nodes = ort.OrtCompileApiFlags.ERROR_IF_NO_NODES_COMPILED
            embeds = opened.target.session_config.get(EMBED_MODE) == "1"  # which the compiler sets itself
            # As a session does, so that the EP compiles the same graph; the compiler's own default optimises none of it.
            optimization = {"graph_optimization_level": options.graph_optimization_level}
            if provider.ep_device is None:
                options.add_provider(provider.name, dict(opened.target.options))
            compiler = ort.ModelCompiler(options, opened.path, embeds, flags=needs_nodes, **optimization)
            compiler.compile_to_file(path)
    except Exception as error:
        failed = f"{provider.name} compiles no part of this model ahead of time"
        raise Unsupported(f"{failed}: {ort_text(error)}") from None
    took = time.perf_counter_ns() - start
    files = [it for it in Path(path).parent.iterdir() if it.name.startswith(Path(path).stem)]
    try:
        placed = node_placements(open_model(path, opened.target, provider)) or []
    except BenchmarkFailed as error:
        raise Unsupported(f"what {provider.name} compiled ahead of time does not open: {error}") from None
    own = [operator for ep, _, operator in placed if ep == provider.name]
    taken = own.count(CONTEXT)
    size = sum(it.stat().st_size for it in files)
    return {"compile_ns": took, "bytes": size, "context_nodes": taken, "other_nodes": len(own) - taken}
