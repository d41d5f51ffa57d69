"""Requests about a freed copy of a model: make it, and prove that it is the model at the size that the model fixes."""

from __future__ import annotations

import gc
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ortbench.core.errors import BadInput, OrtbenchError
from ortbench.plan.target import Inputs, Target, inputs_from, target_from, with_own
from ortbench.worker.inputs.model_file import sentence
from ortbench.worker.proofs import outputs
from ortbench.worker.session import first_run, providers, session
from ortbench.worker.session.runtime import begin
from ortbench.worker.state import State

if TYPE_CHECKING:
    from ortbench.model import protocol
    from ortbench.model.schema import Freed, FreedDim
    from ortbench.worker.session.tensors import Value

_WAYS_OUT = "--shape, --dim, --range change them"
_TIMES = 2  # the size that is tried besides, in sizes that the model fixes


def free_dims(state: State, model: str, dims: dict[str, str], folder: str) -> protocol.FreedCopy:
    """Write the copy into a folder; see `ortbench.worker.freeing.model.free`."""
    from ortbench.worker.freeing.model import free  # an environment that only proves need not have the package onnx

    path, freed = free(model, dims, folder)
    return {"path": path, "freed": freed}


def prove_freed(
    state: State, model: str, copy: str, target: dict[str, Any], inputs: dict[str, Any], freed: Freed
) -> dict[str, object]:
    """Run the model and its copy on the same inputs, and the copy at another size; `BadInput`: the outputs differ, or at the other
    size the copy does not run, or its outputs have another."""
    begin()
    # What is captured, kept or bound is of no account for outputs.
    wanted = replace(target_from(target), engine_cache=None, cuda_graph=False, stream=None)
    wanted = replace(wanted, python=None, free_dims={})
    request, sizes = inputs_from(inputs), {it["name"]: it["size"] for it in freed["dims"]}
    fixed = _sized(request, freed["dims"], sizes)
    own = {name: size for name, size in fixed.dims.items() if name not in sizes}
    arrays, before = _run(model, wanted, replace(fixed, dims=own))
    _, after = _run(copy, wanted, fixed, arrays)
    first = freed["dims"][0]
    label = f"--free-dim {first['input']}:{first['axis']}={first['name']}"
    for name, value in before.items():
        wrong = outputs.difference(name, after[name], value, request.rtol, request.atol)
        if wrong is not None:
            raise BadInput(f"{label}: the outputs of the copy are not those of the model: {wrong}{sentence(model)}")
    for name, size in sizes.items():
        other = _sized(request, freed["dims"], {**sizes, name: size * _TIMES})
        try:
            _run(copy, wanted, other)
        except OrtbenchError as error:
            raise BadInput(f"--free-dim: the copy does not run with {name}={size * _TIMES}: {error}") from None
    gc.collect()
    return {}


def _sized(request: Inputs, dims: list[FreedDim], sizes: dict[str, int]) -> Inputs:
    """Random inputs whose freed dimensions have these sizes."""
    shapes = {name: list(shape) for name, shape in request.shapes.items()}
    for it in dims:
        if it["axis"] < len(shapes.get(it["input"], ())):
            shapes[it["input"]][it["axis"]] = sizes[it["name"]]
    made = {name: tuple(shape) for name, shape in shapes.items()}
    return replace(request, path=None, expect=None, shapes=made, dims={**request.dims, **sizes})


def _run(
    path: str, target: Target, request: Inputs, arrays: dict[str, Value] | None = None
) -> tuple[dict[str, Value], dict[str, Value]]:
    """Inputs and outputs of one run in a session of its own."""
    provider = providers.find(target)
    model = session.open_model(path, with_own(target, provider.name), provider)
    if arrays is None:
        data = first_run.make_data(path, model, request, _WAYS_OUT)
        arrays, found = data.arrays, data.reference
    else:
        found = first_run.run_once(model, arrays)
    return arrays, dict(zip(model.output_names, found, strict=True))
