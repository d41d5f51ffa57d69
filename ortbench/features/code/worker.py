"""The request for what a program has to do that runs a mode as it was set up: found out by opening and proving, not by a list."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import onnxruntime as ort

from ortbench.core.eps import NAMED_DEVICES, NVIDIA_EPS
from ortbench.core.errors import Unsupported
from ortbench.model.modes import CPU, HOST_ACCESSIBLE
from ortbench.plan.target import Inputs
from ortbench.worker import State, input_arrays, libraries, plugins, session, streams
from ortbench.worker.bound import BoundMode
from ortbench.worker.libraries import bundled_library, devices_of, is_accelerator, real_path
from ortbench.worker.memory import EpDeviceMemory, Location, host_accessible_memory
from ortbench.worker.modes import Opened
from ortbench.worker.plugins import find_plugin
from ortbench.worker.proofs import FLOAT8, TOLERANCES
from ortbench.worker.tensors import Array, TensorSpec, Value

if TYPE_CHECKING:
    from ortbench.features.code.model import Program, ProgramSession, ProgramTensor, ProgramWait, StepInput
    from ortbench.worker.sync import Sync


def program(state: State, mode: str) -> Program:
    """What a program does that runs a mode that is set up. Raises `Unsupported`: numpy alone cannot hold what the model
    takes or gives."""
    opened, made = state.opened, state.modes[mode]
    model, data = opened.model, opened.data
    for spec in (*model.inputs, *model.outputs):
        if not spec.is_native and mode != CPU:
            raise Unsupported(
                f"{spec.name!r} is {spec.type}, which numpy has not: a program is written for mode cpu-tensors alone"
            )
        if not spec.is_native and opened.loops:
            raise Unsupported(f"{spec.name!r} is {spec.type}, which numpy has not, and no loop is written for that")
    unshaped: set[str] = getattr(made, "unshaped_outputs", set())  # of those that bind
    arrays = [data.arrays[spec.name] for spec in model.inputs]
    found: Program = {
        "session": _session(opened),
        "inputs": _tensors(model.inputs, arrays, model.locations.inputs, mode, opened.request),
        "outputs": _tensors(model.outputs, data.reference, model.locations.outputs, mode, opened.request, unshaped),
        "has_pinned": host_accessible_memory(model.provider) is not None,
        "wait": _wait(made.sync),
        "wait_upload": None if made.h2d_sync is None else _wait(made.h2d_sync),
        "wait_download": None if made.d2h_sync is None else _wait(made.d2h_sync),
        "by_address": made.binding_error is not None,
        "captured": isinstance(made, BoundMode) and made.graph_id is not None,
        "external": made.external.describe() if isinstance(made, BoundMode) and made.external is not None else None,
        "dlpack": hasattr(ort.OrtValue, "from_dlpack"),
        "loop": None,
    }
    for loop in opened.loops:
        fill = opened.steps.fill  # type: ignore[attr-defined]
        found["loop"] = {
            "shapes": [[list(shape) for shape in shapes] for shapes in loop.shapes],
            "feeds": {name: [_step_input(step[name], fill.get(name)) for step in loop.feeds] for name in loop.feeds[0]},
            "gives": [[list(array.shape) for array in step] for step in loop.outputs],
            "given": []
            if opened.request.path is None
            else [*input_arrays.load_some_arrays(Path(opened.request.path), model.inputs)],
            "left_to_ort": getattr(made, "is_left_to_ort", False),
        }
    return found


def _session(opened: Opened) -> ProgramSession:
    provider, target = opened.model.provider, opened.target
    library, device, named, ep_device = provider.library, provider.device_index, None, provider.ep_device
    module = bundled_name = path = None
    if ep_device is None:
        named = None if provider.computes_on_host else NAMED_DEVICES.get(provider.name)
    else:
        devices = devices_of(provider.name, library)
        first = next((number for number, it in enumerate(devices) if is_accelerator(it)), 0)
        device = first if target.device is None else target.device
        if library is not None:
            plugin, bundled = find_plugin(real_path(library)), bundled_library(provider.name)
            if target.library is not None:
                path = os.path.abspath(target.library)  # ONNX Runtime looks for others beside itself
            elif plugin is not None and plugin.module:
                module = plugin.module
            elif bundled is not None and real_path(bundled) == real_path(library):
                bundled_name = Path(bundled).name
            else:
                path = library
    return {
        "ep": provider.name,
        "module": module,
        "bundled": bundled_name,
        "path": path,
        "preload": provider.name in NVIDIA_EPS,
        "device": device,
        "named": named,
        "by_name": ep_device is None,
        "options": _options(opened),
        "stream": target.stream,
        "cuda_device": 0 if target.stream is None else streams.cuda_index(provider),
        "engines": session.engine_folder(opened.path, target),
        "captures": target.cuda_graph,
        "device_type": None if ep_device is None else ep_device.device.type.name.lower(),
        "by_vendor": not libraries.SHARED_VALUES.is_there,
        "custom_ops": [
            {"module": ops.module, "path": ops.path} for ops in map(plugins.find_custom_ops, target.custom_ops)
        ],
        "onnxruntime": ort.__version__,
    }


def _options(opened: Opened) -> dict[str, str]:
    """The EP options of the session, but those of a stream, which every program makes anew."""
    found = {
        **session.engine_options(opened.path, opened.target, opened.model.provider.name),
        **opened.model.target.options,
    }
    return {name: value for name, value in found.items() if opened.target.stream is None or name not in streams.OPTIONS}


def _tensors(
    specs: Sequence[TensorSpec],
    arrays: Sequence[Value],
    memories: Sequence[Location],
    mode: str,
    request: Inputs,
    unshaped: Collection[str] = (),
) -> list[ProgramTensor]:
    return [
        {
            "name": spec.name,
            "dtype": "object" if spec.is_string else spec.dtype.name,
            "nested": not spec.is_tensor,
            "length": len(array) if isinstance(array, list) else None,
            "number": spec.onnx_number,
            "shape": _shape(array),
            "memory": _memory(memory, mode),
            "tolerance": _tolerance(spec, request),
            "unshaped": spec.name in unshaped,
        }
        for spec, array, memory in zip(specs, arrays, memories, strict=True)
    ]


def _shape(value: Value) -> list[int]:
    """That of an array, of the first of a sequence, and none of what holds nothing."""
    first = (value or [None])[0] if isinstance(value, list) else value
    return [] if first is None else list(first.shape)


def _memory(memory: Location, mode: str) -> str:
    """Where a mode has a tensor: ``stays``, ``array``, ``default``, ``shared`` or ``named``."""
    if memory.is_host_only:
        return "stays"
    own = memory.shared if mode == HOST_ACCESSIBLE and not memory.is_on_host else memory.own
    if isinstance(own, EpDeviceMemory):
        return "default" if own.info.device_mem_type.name == "DEFAULT" else "shared"
    return "array" if own is None or own.kind == "host" else "named"


def _wait(sync: Sync) -> ProgramWait:
    return {"kind": sync.kind, "by_token": sync.proof is not None and sync.proof.is_token_ordered}


def _step_input(array: Array, filled: str | None) -> StepInput:
    """An input of a step, which `--fill` may have filled. Raises `Unsupported`: its values along its last dimension do
    not grow evenly."""
    if filled is None or not array.size:
        return {"shape": list(array.shape), "fill": None if filled is None else [0, 0]}
    row = array.reshape(-1, array.shape[-1])[0] if array.ndim else array.reshape(-1)
    first, second = float(row[0]), float(row[min(1, row.size - 1)])
    if not np.allclose(row.astype(np.float64), first + (second - first) * np.arange(row.size)):
        raise Unsupported(f"--fill {filled}: a program is written for values that grow evenly along the last dimension")
    return {"shape": list(array.shape), "fill": [first, second - first]}


def _tolerance(spec: TensorSpec, request: Inputs) -> list[float] | None:
    """How far an output may be off, relatively and absolutely; None for one that must be the same."""
    if spec.is_string or spec.is_packed or spec.dtype.kind in "biu":
        return None
    rtol, atol = TOLERANCES.get(spec.dtype.name, FLOAT8)
    return [rtol if request.rtol is None else request.rtol, atol if request.atol is None else request.atol]
