"""A model opened on an EP: the session, where its nodes were placed, its inputs and its reference outputs."""

from __future__ import annotations

import ctypes
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort

from ortbench.errors import BadInput, BenchmarkFailed, OrtbenchError, ort_text
from ortbench.plan import CPU_EP, Inputs, Target
from ortbench.worker.proofs import outputs as output_arrays
from ortbench.worker.session import compute_stream, engine_cache
from ortbench.worker.session import inputs as input_arrays
from ortbench.worker.session.providers import (
    CUDA_EP,
    NAMED_DEVICES,
    PACKAGES,
    Provider,
    bundled_library,
    load_problem,
    settle,
)
from ortbench.worker.session.tensors import Array, TensorSpec, host_value, host_view, specs

_OPT_LEVELS = {
    "disable": "ORT_DISABLE_ALL",
    "basic": "ORT_ENABLE_BASIC",
    "extended": "ORT_ENABLE_EXTENDED",
    "layout": "ORT_ENABLE_LAYOUT",
    "all": "ORT_ENABLE_ALL",
}
# What switches graph capture on: the EP options, by their documentation.
_CAPTURE = {
    CUDA_EP: {"enable_cuda_graph": "1"},
    "TensorrtExecutionProvider": {"trt_cuda_graph_enable": "1"},
    "NvTensorRTRTXExecutionProvider": {"enable_cuda_graph": "1"},
    "WebGpuExecutionProvider": {"enableGraphCapture": "1"},
}
NOT_CAPTURED = -1
_ASSIGNMENT = "session.record_ep_graph_assignment_info"
_WEIGHTS_FOLDER = "session.model_external_initializers_file_folder_path"
_WRITTEN_WEIGHTS = "session.optimized_model_external_initializers_file_name"


@dataclass
class Model:
    """An open session with everything the modes need.

    Attributes:
        session: onnxruntime's InferenceSession.
        native: the session object under it: the same calls without Python's checks.
        provider: the EP.
        target: what was asked for.
        inputs, outputs: what the model takes and gives.
        session_ns: how long the session took to create.
        stream: that its kernels run on, which must outlive the session; None for the EP's own.
        plain_options: run options of a run that is not captured; None where nothing is captured.
        graph_ids: a number of its own for each graph that is captured.
    """

    session: Any
    native: Any
    provider: Provider
    target: Target
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    session_ns: int
    stream: Any = None
    plain_options: Any = None
    graph_ids: Iterator[int] = field(default_factory=lambda: count(1))

    @property
    def output_names(self) -> list[str]:
        """The names of the outputs, in the model's order."""
        return [spec.name for spec in self.outputs]

    def on_host(self, memory_infos: Any) -> list[bool]:
        """For each input or output, whether the session wants it in ordinary host memory."""
        return [info is None or info.name == "Cpu" for info in memory_infos]


@dataclass
class Data:
    """The arrays of a run.

    Attributes:
        arrays: inputs by name, in host memory.
        reference: outputs in the model's order: the ones to hold every mode against.
        guessed_dims: symbolic dimensions that were set to 1.
        ranges: of the random values, by input.
        first_run_ns: how long the first run took (with what EPs do once: kernel search, compilation).
        expected: whether the reference was compared with expected outputs.
    """

    arrays: dict[str, Array]
    reference: list[Array]
    guessed_dims: list[str]
    ranges: dict[str, tuple[float, float]]
    first_run_ns: int
    expected: bool


def open_model(
    path: str,
    target: Target,
    provider: Provider,
    profile_prefix: str | None = None,
    graph_path: str | None = None,
    content: bytes | None = None,
) -> Model:
    """Create the session, without any fallback to another EP.

    Args:
        path: of the model.
        target: options.
        provider: the EP, loaded.
        profile_prefix: where ORT's profile goes, for a session that is never timed.
        graph_path: where ORT writes the graph as it will run it, with its weights in a file beside it.
        content: the model itself, in place of what `path` holds.

    Raises:
        BadInput: not a model, or options ORT refuses.
        BenchmarkFailed: the EP cannot load or run it.
    """
    given = target
    capturing = target.cuda_graph and profile_prefix is None and graph_path is None  # a replay shows no nodes
    if capturing and provider.name not in _CAPTURE:
        raise BadInput(f"--cuda-graph: {provider.name} captures no graphs; {', '.join(_CAPTURE)} do")
    if provider.name == CUDA_EP and not target.cuda_graph and target.options.get("enable_cuda_graph", "0") != "0":
        # It then captures every run, and copies from ordinary memory inside a run cannot be captured.
        raise BadInput("--ep-option enable_cuda_graph: use --cuda-graph, which captures only where addresses are fixed")
    if capturing:
        target = replace(target, options={**_CAPTURE[provider.name], **target.options})
    stream = None if target.stream is None else compute_stream.make(target.stream, provider)
    if stream is not None:
        target = replace(target, options={**stream.options(), **target.options})
    ep_options = {**engine_cache.options(path, given, provider.name), **target.options}
    options = _options(target, provider, ep_options)
    options.enable_mem_pattern = not capturing  # it plans allocations anew, and WebGPU refuses to capture with it
    if profile_prefix is not None:
        options.enable_profiling = True
        options.profile_file_prefix = profile_prefix
    if graph_path is not None:
        options.optimized_model_filepath = graph_path
        options.add_session_config_entry(_WRITTEN_WEIGHTS, f"{Path(graph_path).name}.weights")
    if content is not None:  # weights in files of their own stay where they are
        options.add_session_config_entry(_WEIGHTS_FOLDER, str(Path(path).parent))
    names: list[Any] | None = None
    if provider.ep_device is None and provider.policy is None:
        own = dict(ep_options)
        if provider.device_index:
            own["device_id"] = str(provider.device_index)
        names = [(provider.name, own)] if provider.name == CPU_EP else [(provider.name, own), CPU_EP]
    start = time.perf_counter_ns()
    try:
        session = ort.InferenceSession(
            path if content is None else content, options, providers=names, enable_fallback=0
        )
    except Exception as error:
        raise _session_error(error, path, provider) from None
    took = time.perf_counter_ns() - start
    if provider.policy is not None:
        settle(provider, session, target.library)
    if provider.name not in session.get_providers():
        # ORT only warns when a built-in EP does not load, and runs on the CPU.
        raise BenchmarkFailed(
            f"{provider.name} does not load; ONNX Runtime would have used the CPU instead. {_why(provider)}"
        )
    return Model(
        session=session,
        native=session._sess,
        provider=provider,
        target=target,
        inputs=specs(session.get_inputs()),
        outputs=specs(session.get_outputs()),
        session_ns=took,
        stream=stream,
        plain_options=graph_options(NOT_CAPTURED) if capturing else None,
    )


def graph_options(number: int) -> Any:
    """Run options that choose a captured graph; `NOT_CAPTURED` captures none and replays none."""
    options = ort.RunOptions()
    options.add_run_config_entry("gpu_graph_id", str(number))
    return options


def _options(target: Target, provider: Provider, ep_options: dict[str, str]) -> Any:
    options = ort.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, _OPT_LEVELS[target.opt_level])
    if target.threads is not None:
        options.intra_op_num_threads = target.threads
    try:
        options.add_session_config_entry(_ASSIGNMENT, "1")
        for key, value in target.session_config.items():
            options.add_session_config_entry(key, value)
        if provider.policy is not None:
            options.set_provider_selection_policy(provider.policy)
        elif provider.ep_device is not None:
            options.add_provider_for_devices([provider.ep_device], ep_options)
    except Exception as error:
        raise BadInput(f"the session options were refused: {ort_text(error)}") from None
    return options


def _session_error(error: Exception, path: str, provider: Provider) -> OrtbenchError:
    kind = type(error).__name__
    if kind in ("InvalidProtobuf", "InvalidGraph", "NoModel", "NoSuchFile"):
        return BadInput(f"{path} is not a model ONNX Runtime can load: {ort_text(error)}")
    if kind == "InvalidArgument" and "model" in str(error).lower():
        return BadInput(f"{path} cannot be loaded: {ort_text(error)}")
    if kind == "NotImplemented":
        return BenchmarkFailed(f"{provider.name} cannot run {path}: {ort_text(error)}")
    return BenchmarkFailed(f"{provider.name} could not open {path}: {ort_text(error)}")


def _why(provider: Provider) -> str:
    library = bundled_library(provider.name)
    if library is None:
        return "It does not say why."
    try:
        ctypes.CDLL(library)
    except OSError as error:
        return load_problem(error)
    return "Its library loads; a library that it needs later does not."


def placed(model: Model) -> list[tuple[str, str, str]] | None:
    """EP, name and operator of every node as the EPs were asked for them; None where ORT does not say.

    An EP that compiles subgraphs counts the nodes it took, not the fused ones.
    """
    try:
        subgraphs = model.session.get_provider_graph_assignment_info()
    except Exception:  # an ORT without it
        return None
    found = [(subgraph.ep_name, node.name, node.op_type) for subgraph in subgraphs for node in subgraph.get_nodes()]
    return found or None  # a model in ORT format has nodes, and nothing is said of them


def placement(model: Model) -> dict[str, Any]:
    """Where the nodes were placed: ``nodes`` per EP, and ``cpu_operators`` (name → count) where another EP was asked for.

    ``memcpy_nodes`` is 0 where nothing can need any, else None until a profile has counted them.
    """
    found = placed(model)
    if found is None:
        return {"nodes": None, "memcpy_nodes": None, "cpu_operators": {}}
    nodes = Counter(ep for ep, _, _ in found)
    operators = Counter(op for ep, _, op in found if ep == CPU_EP != model.provider.name)
    memcpy = 0 if len(nodes) < 2 else None  # with one EP there is nothing to copy between
    return {"nodes": dict(nodes), "memcpy_nodes": memcpy, "cpu_operators": dict(operators.most_common())}


def make_inputs(
    path: str, model: Model, request: Inputs
) -> tuple[dict[str, Array], list[str], dict[str, tuple[float, float]]]:
    """The arrays of a run, the dimensions that were set to 1, and the ranges of random values; see `Data`.

    Raises:
        BadInput: inputs that do not fit.
        Unsupported: inputs that are not tensors.
    """
    for spec in model.inputs:
        spec.check()
    sizes = input_arrays.index_sizes(path, model.inputs) if request.path is None else {}
    return input_arrays.make(model.inputs, request, sizes)


_WAYS_OUT = "--shape, --dim, --range change them, --input gives real ones"


def make_data(path: str, model: Model, request: Inputs, ways_out: str = _WAYS_OUT) -> Data:
    """The inputs, and the outputs of a first plain run.

    Args:
        path, model: what is run.
        request: the inputs.
        ways_out: what a user can do where made-up ones are not what the model takes.

    Raises:
        BadInput: inputs that do not fit, or that the model refuses.
        BenchmarkFailed: the run fails, or its outputs are not the expected ones.
        Unsupported: inputs or outputs that are not tensors.
    """
    for spec in (*model.inputs, *model.outputs):
        spec.check()
    arrays, guessed, ranges = make_inputs(path, model, request)
    expected = input_arrays.expected(request, model.outputs)
    start = time.perf_counter_ns()
    try:
        reference = run_once(model, arrays)
    except Exception as error:
        raise _run_error(error, request, ways_out) from None
    took = time.perf_counter_ns() - start
    if expected is not None:
        for spec, got in zip(model.outputs, reference, strict=True):
            wrong = output_arrays.difference(spec.name, got, expected[spec.name], request.rtol, request.atol)
            if wrong is not None:
                raise BenchmarkFailed(f"the outputs are not the expected ones: {wrong}{_tf32(model.provider)}")
        reference = [expected[spec.name] for spec in model.outputs]
    return Data(arrays, reference, guessed, ranges, took, expected is not None)


def _tf32(provider: Provider) -> str:
    """What may be behind outputs that are nearly the expected ones."""
    # https://onnxruntime.ai/docs/execution-providers/CUDA-ExecutionProvider.html#use_tf32
    return " (float32 may be computed as TF32: --ep-option use_tf32=0, or --rtol)" if provider.name == CUDA_EP else ""


def _run_error(error: Exception, request: Inputs, ways_out: str) -> OrtbenchError:
    hint = "" if request.path else f" with made-up inputs ({ways_out})"
    if type(error).__name__ == "InvalidArgument":
        return BadInput(f"the model refuses to run{hint}: {ort_text(error)}")
    if "cuDNN is unavailable" in str(error):
        hint = f", as cuDNN is missing (it comes with: pip install '{PACKAGES[CUDA_EP]}')"
    return BenchmarkFailed(f"the first run failed{hint}: {ort_text(error)}")


def run_once(model: Model, arrays: dict[str, Array]) -> list[Array]:
    """One plain run with arrays in host memory; outputs in the model's order, as arrays of their own."""
    call, feeds, options = cpu_call(model, arrays)
    return cpu_arrays(model, call(feeds, options))


def cpu_call(model: Model, arrays: dict[str, Array]) -> tuple[Callable[[Any, Any], Any], dict[str, Any], Any]:
    """The call of mode `cpu`: plain `run` with arrays, or with OrtValues where numpy has no such dtype.

    Args:
        arrays: inputs by name; they must outlive the call.

    Returns:
        The call and its two arguments, feeds and run options.
    """
    names = model.output_names
    if all(spec.native for spec in (*model.inputs, *model.outputs)):
        return partial(model.native.run, names), arrays, model.plain_options
    natives = {spec.name: host_value(spec, arrays[spec.name])._get_c_value() for spec in model.inputs}
    run = model.native.run_with_ort_values
    return (lambda feeds, options: run(feeds, names, options)), natives, model.plain_options


def cpu_arrays(model: Model, results: Any) -> list[Array]:
    """What `cpu_call` returned, as arrays."""
    arrays = []
    for spec, result in zip(model.outputs, results, strict=True):
        if isinstance(result, np.ndarray):
            arrays.append(result)
        elif isinstance(result, np.generic):
            arrays.append(np.asarray(result))
        else:
            arrays.append(host_view(spec, ort.OrtValue(result)).copy())
    return arrays


def describe_device(model: Model) -> dict[str, Any]:
    """The hardware the session runs on, as the session itself names it (vendor and vendor id are read, not assumed)."""
    device = None
    try:
        devices = [found for found in model.session.get_input_epdevices() if found is not None]
        device = devices[0].device if devices else None
    except Exception:  # a session without inputs or an older ORT
        device = None
    if device is None or (device.type.name == "CPU" and model.provider.ep_device is not None):
        return device_of(
            model.provider
        )  # all inputs may be read on the CPU; the EP's device stays the one it was given
    return hardware(device)


def device_of(provider: Provider) -> dict[str, Any]:
    """The hardware of an EP, by its EP device or by the name that ORT has for it."""
    if provider.ep_device is not None:
        return hardware(provider.ep_device.device)
    name = NAMED_DEVICES.get(provider.name)
    return {"type": "CPU" if name is None else "GPU", "name": name or "cpu", "index": provider.device_index}


def hardware(device: Any) -> dict[str, Any]:
    """An OrtHardwareDevice as plain data."""
    return {
        "type": device.type.name,
        "vendor": device.vendor,
        "vendor_id": device.vendor_id,
        "device_id": device.device_id,
        "metadata": dict(device.metadata),
    }
