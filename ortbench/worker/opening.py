"""Requests about a model as a whole: open it, alone or with several shapes, compare its outputs with those of another worker, let
it go; and about its file alone, for workers whose environment has nothing to read it with."""

from __future__ import annotations

import gc
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ortbench.core.errors import BadInput, Unsupported
from ortbench.plan.target import Inputs, Target, inputs_from, target_from, with_own
from ortbench.worker.inputs import files, model_file
from ortbench.worker.opened import Opened
from ortbench.worker.proofs.outputs import compare_outputs
from ortbench.worker.session import memory, providers, session
from ortbench.worker.session.first_run import Data
from ortbench.worker.session.libraries import set_up_onnxruntime, versions
from ortbench.worker.session.session import Model, describe_device, describe_placement, session_eps
from ortbench.worker.session.tensors import Array, TensorSpec, Value, describe_tensor, get_form, nbytes
from ortbench.worker.state import Stages, State

if TYPE_CHECKING:
    from collections.abc import Callable

    from ortbench.model import protocol, schema


def open(state: State, model: str, target: dict[str, Any], inputs: dict[str, Any]) -> protocol.Opened:
    return open_as(state, model, target_from(target), inputs_from(inputs), Opened)


def open_as(
    state: State, path: str, wanted: Target, request: Inputs, kind: Callable[[str, Target, Inputs, Model], Opened]
) -> protocol.Opened:
    """The same of a `kind` of what can be open."""
    stages = Stages()
    set_up_onnxruntime()
    if wanted.input_memory is not None:
        from ortbench.worker.modes import external_inputs  # which few runs have

        external_inputs.check(wanted.input_memory)
    wanted, made, cache = open_session(path, wanted, stages)
    opened = kind(path, wanted, request, made)
    state.opened = opened  # also where the first run fails: the session then ends with the process
    where = describe_placement(opened.model)
    unsupported = None
    try:
        opened.run_first()
    except Unsupported as error:
        unsupported = str(error)
    stages.end("inputs and first run")
    engines, data = cache.cache_state(), opened.data
    placed = where if unsupported is not None else count_copies(where, path, opened.model, data.arrays)
    if placed is not where:
        stages.end("counting Memcpy nodes in a profiled session")
    described = describe_loaded_ep(wanted, made.provider, stages)
    return {**describe_opened(opened, described, placed, unsupported, stages), "engine_cache": engines}


def open_session(path: str, target: Target, stages: Stages) -> tuple[Target, Model, session.EngineWatch]:
    """The session, the target with the options of its EP alone, and what watches the EP's engines."""
    provider = providers.find(target)
    own = with_own(target, provider.name)
    stages.end("loading the EP")
    cache = session.EngineWatch(path, own)
    model = session.open_model(path, own, provider, optimized_path=own.optimized_model)
    stages.end("creating the session")
    return own, model, cache


def describe_opened(
    opened: Opened,
    described: protocol.LoadedEp,
    counted: schema.Placement,
    unsupported: str | None,
    stages: Stages,
    eps: list[schema.EpOfSession] | None = None,
) -> protocol.Opened:
    """What a worker says of a model that is open; the EPs of its session where they are not known otherwise."""
    data, model = opened.data, opened.model
    _ = model.places  # memories are tried now: a worker that is lost in a trial of the first request is replaced
    return {
        **described,
        "ep_options": dict(opened.target.options),
        "device": describe_device(model),
        "memory": memory.describe_memory(model.provider),
        "eps": session_eps(model, counted["nodes"] or {}) if eps is None else eps,
        "placement": counted,
        "unsupported": unsupported,
        "inputs": [describe_input(spec, data.arrays.get(spec.name), data) for spec in model.inputs],
        "outputs": [describe_output(spec, array, data) for spec, array in zip_longest(model.outputs, data.reference)],
        "guessed_dims": data.guessed_dims,
        "expected": data.expected,
        "session_ns": model.session_ns,
        "engine_cache": None,
        "first_inference_ns": data.first_inference_ns,
        "stages": stages.spans,
        "runtime": versions(),
    }


def count_copies(where: schema.Placement, path: str, model: Model, arrays: dict[str, Array]) -> schema.Placement:
    """Where nodes are, with Memcpy nodes counted in a profiled session where ONNX Runtime does not tell of them
    otherwise."""
    if where["memcpy_nodes"] is not None or where["nodes"] is None:
        return where
    from ortbench.worker.inspection import nodes  # most models need none of it, and would wait for it

    return {**where, **nodes.count_copies(path, model.target, model.provider, arrays)}


def describe_loaded_ep(target: Target, provider: providers.Provider, stages: Stages) -> protocol.LoadedEp:
    """An EP for the result, with what is to be said of options that do nothing there."""
    described = providers.describe_ep(target, provider)
    if target.options or target.session_config or target.run_config:
        from ortbench.worker.session import config_keys  # most runs have none of them, and would wait for it

        described["notes"] += config_keys.warnings(target, provider)
        stages.end("looking for options that do nothing")
    return described


def describe_input(spec: TensorSpec, value: Value, data: Data) -> schema.Tensor:
    bounds = data.ranges.get(spec.name)
    found = describe_tensor(spec, get_form(value), None if value is None else nbytes(value))
    return {**found, "range": None if bounds is None else list(bounds)}


def describe_output(spec: TensorSpec, value: Value, data: Data) -> schema.Tensor:
    why = data.unshaped.get(spec.name)
    found: schema.Tensor = {**describe_input(spec, value, data), "range": None}  # which an input of that name may have
    return found if why is None else {**found, "unshaped": why}


def save_inputs(state: State, folder: str) -> protocol.Saved:
    """Write the inputs for a program to read; false where they cannot be written as numpy has them."""
    specs, arrays = state.opened.model.inputs, state.opened.data.arrays
    plain = all(spec.is_tensor and spec.is_native for spec in specs)
    return {"saved": plain and files.save_arrays(Path(folder), specs, [arrays[spec.name] for spec in specs], "input")}


def save_outputs(state: State, folder: str) -> protocol.Saved:
    """Write the reference outputs for another worker to compare; false where they cannot be written as protobuf."""
    specs, reference = state.opened.references()
    return {"saved": bool(reference) and files.save_arrays(Path(folder), specs, reference, "output")}


def compare_saved_outputs(state: State, folder: str) -> protocol.OutputComparison:
    """What differs between the reference outputs here and those that another worker saved, and by how much."""
    (specs, references), request = state.opened.references(), state.opened.request
    try:
        others = files.load_saved_arrays(Path(folder), specs, "output")
    except BadInput as error:
        return {"differs": str(error), "relative": None, "accepts": None, "distances": []}
    pairs = zip([spec.name for spec in specs], references, others, strict=False)
    comparison = compare_outputs(pairs, request.rtol, request.atol)
    if comparison["differs"] is not None:
        comparison["differs"] += model_file.random_nodes_note(state.opened.path)
    return comparison


def release(state: State) -> dict[str, object]:
    """End the session, so that its EP saves what it keeps for the next one; nothing can be asked of it after that."""
    state.release()
    gc.collect()
    return {}


def index_sizes(state: State, model: str) -> dict[str, int]:
    return model_file.model_index_sizes(model)
