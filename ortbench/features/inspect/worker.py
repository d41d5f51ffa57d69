"""What a model takes, gives and consists of, and where an EP would place it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ortbench.analysis.node_times import Timed
from ortbench.core.errors import OrtbenchError, Unsupported
from ortbench.plan.target import Inputs, Target, inputs_from, target_from, with_own
from ortbench.worker import State, first_run, inspection, memory, nodes, opening, providers, session
from ortbench.worker.input_arrays import resolve_shapes
from ortbench.worker.libraries import set_up_onnxruntime
from ortbench.worker.modes import unsupported_modes
from ortbench.worker.session import describe_device, describe_placement
from ortbench.worker.tensors import Array, Form, TensorSpec, describe_tensor, get_form, read_model

if TYPE_CHECKING:
    from ortbench.features.inspect.model import Inspected
    from ortbench.model.schema import Tensor

_WAYS_OUT = "--shape and --dim change their shapes; ortbench run --measure-nodes takes real ones"


def inspect(
    state: State, model: str, target: dict[str, Any] | None, inputs: dict[str, Any], custom_ops: Sequence[str] = ()
) -> Inspected:
    """Describe a model, with custom operators where no target has them. Raises `BadInput`: not a model, or shapes that do not fit; `BenchmarkFailed`: the EP does not
    load."""
    set_up_onnxruntime()
    request = inputs_from(inputs)
    if target is None:
        plain = Target(ep="cpu", custom_ops=tuple(custom_ops), opt_level="disable")
        return _describe(model, session.open_model(model, plain, providers.find(plain)), request, needs_run=False)[0]
    asked = target_from(target)
    provider = providers.find(asked)
    asked = with_own(asked, provider.name)
    content = inspection.name_nodes(model)
    with nodes.open_recorder(model, asked, provider, content) as recorder:
        where = describe_placement(recorder.model)
        several = where["memcpy_nodes"] is None and where["nodes"] is not None
        found, arrays = _describe(model, recorder.model, request, needs_run=several)
        timed: list[Timed] = []
        if several and arrays is not None:
            with suppress(OrtbenchError):  # what the placement says is said without the nodes of a run
                recorder.run(arrays, 1)
                timed = recorder.times()
    copies = nodes.outline(model, asked, recorder.model, content, timed) if where["nodes"] is not None else None
    if copies is not None and (copies["problem"] is None or timed):
        where["memcpy_nodes"] = len(copies["memcpy"])
    device = describe_device(recorder.model)
    warnings = opening.option_warnings(asked, provider)
    return {
        **found, "ep": provider.name, "device": device, "memory": memory.describe_memory(provider),
        "modes": unsupported_modes(provider), "placement": where, "copies": copies, "warnings": warnings,
    }  # fmt: skip


def _describe(
    path: str, model: session.Model, request: Inputs, needs_run: bool
) -> tuple[Inspected, dict[str, Array] | None]:
    """What there is to say of an open model, and the inputs of its run, if it was run."""
    shapes, guessed = resolve_shapes(model.inputs, request.shapes, request.dims)
    data, why = None, None
    if needs_run or not all(map(_is_static, model.outputs)):
        try:
            data = first_run.make_data(path, model, request, _WAYS_OUT)
        except OrtbenchError as error:  # synthetic inputs need not be valid: then some things stay unknown
            why = str(error)
    if data is not None:
        guessed = [name for name, size in data.guessed_dims.items() if size == 1]  # others follow from the outputs
    inputs = []
    for spec in model.inputs:
        made_up = _synthetic_form(spec, shapes[spec.name], request)
        inputs.append(_tensor(spec, made_up if data is None else get_form(data.arrays[spec.name])))
    outputs = [_output(spec, index, data) for index, spec in enumerate(model.outputs)]
    file = read_model(path)
    content = None if file is None else inspection.model_content(file)
    found: Inspected = {
        "path": path,
        "inputs": inputs,
        "outputs": outputs,
        "bytes_in": _sum(inputs),
        "bytes_out": _sum(outputs),
        "guessed_dims": guessed,
        "not_run": why,
        "operators": content and content["operators"],
        "opsets": content and content["opsets"],
        "parameters_bytes": content and sum(it["bytes"] for it in content["weights"]),
    }
    return found, None if data is None else data.arrays


def _is_static(spec: TensorSpec) -> bool:
    # ORT gives scalars and tensors of unknown rank the same empty shape, so that only a run tells them apart.
    return spec.is_tensor and bool(spec.shape) and all(isinstance(dim, int) for dim in spec.shape)


def _synthetic_form(spec: TensorSpec, shape: tuple[int, ...], request: Inputs) -> Form:
    """The form of an input that is made up; not known of a sequence of which nobody has said how long it is."""
    if not spec.is_sequence:
        return list(shape)
    length = request.lengths.get(spec.name)
    return None if length is None else [list(shape)] * length


def _output(spec: TensorSpec, index: int, data: first_run.Data | None) -> Tensor:
    """An output with the form that it has in a run, or else what the model states."""
    if data is None:
        return _tensor(spec, [*spec.shape] if _is_static(spec) else None)
    found = _tensor(spec, get_form(data.reference[index]))
    why = data.unshaped.get(spec.name)
    return found if why is None else {**found, "unshaped": why}


def _tensor(spec: TensorSpec, form: Form) -> Tensor:
    shapes = [] if form is None else form if spec.is_sequence else [form]
    try:
        size = None if form is None or spec.element == "string" else sum(map(spec.nbytes, shapes))
    except Unsupported:
        size, form = None, None
    return describe_tensor(spec, form, size)


def _sum(tensors: list[Tensor]) -> int | None:
    sizes = [tensor["bytes"] for tensor in tensors]
    return None if None in sizes else sum(size or 0 for size in sizes)
