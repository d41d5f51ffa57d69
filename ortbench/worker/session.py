"""A model opened on an EP: the session and its options, what to do about an EP's error that does not say it itself, the hardware that it
runs on, where its nodes were placed, and the folder in which an EP keeps the engines of one model with one set of options."""

from __future__ import annotations

import ctypes
import json
import re
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import onnxruntime as ort

from ortbench.core.eps import CPU_EP, CUDA_EP, NAMED_DEVICES, File, cache_options, is_warm
from ortbench.core.errors import BadInput, BenchmarkFailed, OrtbenchError, ort_text
from ortbench.core.files import context_makers, digest
from ortbench.core.safe_text import join_words
from ortbench.plan.target import ORT_OPT_LEVELS, Target
from ortbench.worker import environment
from ortbench.worker.libraries import bundled_library, load_problem
from ortbench.worker.memory import Locations, describe_memory, find_locations
from ortbench.worker.plugins import custom_ops_hint, register_custom_ops
from ortbench.worker.providers import Provider, devices_in_one_memory, find_in_session, take_choice_of_policy
from ortbench.worker.sync import Syncs
from ortbench.worker.tensors import TensorSpec, Value, make_specs

if TYPE_CHECKING:
    from ortbench.model.schema import Device, EngineCache, EpOfSession, Placement


# QNN computes by a library of its own, which its plugin finds by itself only for an NPU that is there.
_NO_BACKEND = "Could not determine default backend path"
_BACKENDS = ("Htp", "Gpu", "Cpu")


def fix_hint(text: str, library: str | None) -> str:
    """What is to be added to the text of QNN's error; "" for other errors."""
    if _NO_BACKEND not in text:
        return ""
    names = [name for stem in _BACKENDS for name in (f"libQnn{stem}.so", f"Qnn{stem}.dll")]
    paths = [] if library is None else [Path(library).with_name(name) for name in names]
    existing = [str(path) for path in paths if path.is_file()]
    if not existing:
        return "; name QNN's backend library with --ep-option backend_path=PATH"
    simulates = " (without Qualcomm's NPU it simulates one, far slower)" if "QnnHtp" in existing[0] else ""
    return f"; name a backend with --ep-option backend_path={existing[0]}{simulates}"


_EXECUTION_MODES = {"sequential": "ORT_SEQUENTIAL", "parallel": "ORT_PARALLEL"}
# What switches graph capture on: the EP options, by their documentation.
_CAPTURE_OPTIONS = {
    CUDA_EP: {"enable_cuda_graph": "1"},
    "TensorrtExecutionProvider": {"trt_cuda_graph_enable": "1"},
    "NvTensorRTRTXExecutionProvider": {"enable_cuda_graph": "1"},
    "WebGpuExecutionProvider": {"enableGraphCapture": "1"},
}
NOT_CAPTURED = -1
_ASSIGNMENT = "session.record_ep_graph_assignment_info"
_WEIGHTS_FOLDER = "session.model_external_initializers_file_folder_path"
_WRITTEN_WEIGHTS = "session.optimized_model_external_initializers_file_name"


class HoldsCompiledNodes(BenchmarkFailed):
    """A graph that ONNX Runtime does not write out, because an EP compiled parts of it."""


@dataclass
class Model:
    session: Any  # onnxruntime's InferenceSession
    provider: Provider  # the EP
    target: Target
    # what the model takes and gives
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    session_ns: int  # how long the session took to create
    stream: Any = None  # that its kernels run on, which must outlive the session; None for the EP's own
    plain_options: Any = None  # run options of a run that is not captured; None where there is nothing to say
    # a number of its own for each graph that is captured
    graph_ids: Iterator[int] = field(default_factory=lambda: count(1))
    syncs: Syncs = field(default_factory=Syncs)  # what is known of them on this session
    # gives the outputs of the next plain run, which then is not made; None where it is
    known_outputs: Callable[[Sequence[TensorSpec]], list[Value]] | None = None

    def run_options(self, graph_id: int | None) -> Any:
        """Run options for a mode alone, which may add to them."""
        return run_options(self.target, NOT_CAPTURED if graph_id is None and self.target.cuda_graph else graph_id)

    @property
    def output_names(self) -> list[str]:
        return [spec.name for spec in self.outputs]

    @cached_property
    def locations(self) -> Locations:
        found = find_locations(self.session, self.provider)
        if len(found.outputs) == len(self.outputs):
            return found
        names = [it.name for it in self.session.get_outputs()]  # one is listed twice
        return found._replace(outputs=list(dict(zip(names, found.outputs, strict=True)).values()))


def open_model(
    path: str,
    target: Target,
    provider: Provider,
    profile_prefix: str | None = None,
    graph_path: str | None = None,
    content: bytes | None = None,
    optimized_path: str | None = None,
) -> Model:
    """Create the session, without any fallback to another EP. The graph goes to `graph_path` for a session that only looks at it, or to
    `optimized_path` for one that is measured. Raises `BadInput`: not a model, or options ORT refuses; `BenchmarkFailed`: the EP cannot
    load or run it; `HoldsCompiledNodes`: its graph was to be written, and cannot be."""
    is_capturing = target.cuda_graph and profile_prefix is None and graph_path is None  # a replay shows no nodes
    _check_capture(target, provider, is_capturing)
    plain_options = run_options(target, NOT_CAPTURED if is_capturing else None)
    stream = None
    if target.stream is not None:
        from ortbench.worker import streams  # which few runs have

        stream = streams.make_compute_stream(target.stream, provider)
    cached = engine_options(path, target, provider.name)
    switched_on = {**(stream.options() if stream else {}), **(_CAPTURE_OPTIONS[provider.name] if is_capturing else {})}
    target = replace(target, options={**switched_on, **target.options})
    ep_options = {**cached, **target.options}
    options = make_session_options(target, provider, ep_options)
    if is_capturing:
        options.enable_mem_pattern = False  # it plans allocations anew, and WebGPU refuses to capture with it
    _set_files(options, path, profile_prefix, graph_path, has_content=content is not None)
    if optimized_path is not None:
        options.optimized_model_filepath = optimized_path
    names = _provider_names(provider, ep_options)
    source = path if content is None else content
    start = time.perf_counter_ns()
    try:
        with environment.announce("creating the session"):
            session = ort.InferenceSession(source, options, providers=names, enable_fallback=0)
    except Exception as error:
        raise _session_error(error, path, provider, target, optimized_path) from None
    session_ns = time.perf_counter_ns() - start
    if provider.policy is not None:
        take_choice_of_policy(provider, session)
    if provider.name not in session.get_providers():
        # ORT only warns when a built-in EP does not load, and runs on the CPU.
        raise BenchmarkFailed(
            f"{provider.name} does not load; ONNX Runtime would have used the CPU instead. {_load_problem(provider)}"
        )
    return Model(
        session=session,
        provider=provider,
        target=target,
        inputs=make_specs(session.get_inputs(), path),
        outputs=make_specs(session.get_outputs(), path),
        session_ns=session_ns,
        stream=stream,
        plain_options=plain_options,
    )


def _check_capture(target: Target, provider: Provider, is_capturing: bool) -> None:
    if is_capturing and provider.name not in _CAPTURE_OPTIONS:
        raise BadInput(f"--cuda-graph: {provider.name} captures no graphs; {', '.join(_CAPTURE_OPTIONS)} do")
    if provider.name == CUDA_EP and not target.cuda_graph and target.options.get("enable_cuda_graph", "0") != "0":
        # It then captures every run, and copies from ordinary memory inside a run cannot be captured.
        raise BadInput("--ep-option enable_cuda_graph: use --cuda-graph, which captures only where addresses are fixed")


def _set_files(options: Any, path: str, profile_prefix: str | None, graph_path: str | None, has_content: bool) -> None:
    """What a session writes, and where it finds weights."""
    if profile_prefix is not None:
        options.enable_profiling = True
        options.profile_file_prefix = profile_prefix
    if graph_path is not None:
        options.optimized_model_filepath = graph_path
        options.add_session_config_entry(_WRITTEN_WEIGHTS, f"{Path(graph_path).name}.weights")
    if has_content:  # weights in files of their own stay where they are
        options.add_session_config_entry(_WEIGHTS_FOLDER, str(Path(path).parent))


def _provider_names(provider: Provider, ep_options: dict[str, str]) -> list[Any] | None:
    """EPs by name with their options, for one that has no EP device; None where ORT knows it from the options."""
    if provider.ep_device is not None or provider.policy is not None:
        return None
    own = dict(ep_options)
    if provider.device_index:
        own["device_id"] = str(provider.device_index)
    return [(provider.name, own)] if provider.name == CPU_EP else [(provider.name, own), CPU_EP]


def run_options(target: Target, graph_id: int | None) -> Any:
    """Run options as they were asked for; None where there is nothing to say. Of graphs `NOT_CAPTURED` captures and replays none, and None
    says nothing. Raises `BadInput`: an entry that ONNX Runtime refuses."""
    if graph_id is None and not target.run_config:
        return None
    options = ort.RunOptions()
    try:
        for key, value in target.run_config.items():
            options.add_run_config_entry(key, value)
    except Exception as error:
        raise BadInput(f"--run-config: {ort_text(error)}", "--run-config") from None
    if graph_id is not None:
        options.add_run_config_entry("gpu_graph_id", str(graph_id))
    return options


def make_session_options(target: Target, provider: Provider, ep_options: dict[str, str]) -> Any:
    """Those of a target, with its EP where that has an EP device. Raises `BadInput`: ONNX Runtime refuses them."""
    options = ort.SessionOptions()
    options.log_severity_level = 2
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, ORT_OPT_LEVELS[target.opt_level])
    options.execution_mode = getattr(ort.ExecutionMode, _EXECUTION_MODES[target.execution_mode])
    options.enable_cpu_mem_arena, options.enable_mem_pattern = target.cpu_mem_arena, target.mem_pattern
    if target.intra_op_threads is not None:
        options.intra_op_num_threads = target.intra_op_threads
    if target.inter_op_threads is not None:
        options.inter_op_num_threads = target.inter_op_threads
    if target.custom_ops:
        register_custom_ops(options, target.custom_ops)
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


_BAD_ORT = r"ORT model verification failed|ORT format model"


def _session_error(
    error: Exception, path: str, provider: Provider, target: Target, written: str | None
) -> OrtbenchError:
    kind = type(error).__name__
    failed = HoldsCompiledNodes if "compiled nodes" in str(error) else BenchmarkFailed
    if failed is HoldsCompiledNodes and written is not None:
        reason = f"{provider.name} compiled parts of the graph, which ONNX Runtime then writes to no file; leave it out"
        return failed(f"--optimized-model: {reason}")
    # What is wrong with a file in ORT format has no kind of its own.
    if kind in ("InvalidProtobuf", "InvalidGraph", "NoModel", "NoSuchFile") or re.search(_BAD_ORT, str(error)):
        # A plugin EP can leave an invalid graph of a valid one.
        on_ep = f" with {provider.name}" if kind == "InvalidGraph" and provider.name != CPU_EP else ""
        return BadInput(f"{path} is not a model ONNX Runtime can load{on_ep}: {ort_text(error)}")
    if kind == "InvalidArgument" and "model" in str(error).lower():
        return BadInput(f"{path} cannot be loaded: {ort_text(error)}")
    if "EPContext" in str(error) and (makers := context_makers(Path(path)) - {provider.name}):
        made = f"{path} was compiled ahead of time by {join_words(sorted(makers))}"
        return failed(f"{made}, which {provider.name} cannot open: choose that EP with --ep")
    if kind == "NotImplemented":
        return failed(f"{provider.name} cannot run {path}: {ort_text(error)}")
    more = fix_hint(str(error), provider.library) or custom_ops_hint(str(error), target.custom_ops)
    return failed(f"{provider.name} could not open {path}: {ort_text(error)}{more}")


def _load_problem(provider: Provider) -> str:
    library = bundled_library(provider.name)
    if library is None:
        return "It does not say why."
    try:
        ctypes.CDLL(library)
    except OSError as error:
        return load_problem(error).text
    return "Its library loads; a library that it needs later does not."


def engine_options(model: str, target: Target, ep_name: str) -> dict[str, str]:
    """The EP options of a session: the user's, and those of the engine cache if there is to be one; makes its folder. Raises `BadInput`:
    the EP builds no engine, or the folder cannot be made."""
    if target.engine_cache is None:
        return dict(target.options)
    folder = _engine_folder(model, target)
    found = cache_options(ep_name, str(folder.absolute()), target.options)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"--engine-cache {target.engine_cache}: cannot be used: {error.strerror}") from None
    return {**found, **target.options}


def engine_folder(model: str, target: Target) -> str | None:
    return None if target.engine_cache is None else str(_engine_folder(model, target).absolute())


class EngineWatch:
    """What becomes of the cache while a session opens and runs once."""

    def __init__(self, model: str, target: Target) -> None:
        self._folder = None if target.engine_cache is None else _engine_folder(model, target)
        self._before = self._files()

    def cache_state(self) -> EngineCache | None:
        """``path`` and ``warm``: whether the engine was there; None without a cache."""
        if self._folder is None:
            return None
        return {"path": str(self._folder), "warm": is_warm(self._before, self._files())}

    def _files(self) -> frozenset[File]:
        if self._folder is None or not self._folder.is_dir():
            return frozenset()
        states = ((path, path.stat()) for path in self._folder.iterdir())
        return frozenset((path.name, state.st_size, state.st_mtime_ns) for path, state in states)


def _engine_folder(model: str, target: Target) -> Path:
    """Its own for each model and all that engines follow from, of which EPs tell them apart by a part alone: so neither another model's
    engine is taken, nor, in a gate of EP options, that of the other configuration."""
    path = Path(model)
    found = digest(path)
    follows_from: list[object] = [ort.__version__, target.ep, target.options, target.session_config, target.opt_level]
    if target.library is not None:  # another build of an EP may build other engines
        follows_from.append(target.library)
    found.update(json.dumps(follows_from, sort_keys=True).encode())
    return Path(target.engine_cache or "") / f"{path.stem}-{found.hexdigest()[:12]}"


def describe_device(model: Model) -> Device:
    """The hardware the session runs on, as the session itself names it (vendor and vendor id are read, not assumed)."""
    device = None
    try:
        devices = [found for found in model.session.get_input_epdevices() if found is not None]
        if model.provider.ep_device is not None:  # another EP of the session may read the first input
            devices = [found for found in devices if found.ep_name == model.provider.name]
        device = devices[0] if devices else None
    except Exception:  # a session without inputs or an older ORT
        device = None
    if device is None or (device.device.type.name == "CPU" and model.provider.ep_device is not None):
        # All inputs may be read on the CPU; the EP's device stays what it was given.
        found = provider_device(model.provider)
    else:
        found = describe_ep_device(device)
    if found["type"] == "GPU" and (software := software_renderer(loaded_libraries())) is not None:
        found["software"] = software
    return found


# Parts of names of libraries: drivers that compute on the CPU, with what they are called, and drivers of GPUs.
_SOFTWARE = {"vk_swiftshader": "SwiftShader", "vulkan_lvp": "lavapipe", "swrast": "llvmpipe"}
_OF_GPUS = ("libvulkan_", "nvidia", "libcuda.", "amdvlk")


def software_renderer(libraries: Collection[str]) -> str | None:
    """The software renderer of a process that has loaded these libraries; None where there is none, or a GPU's driver too."""
    software = {name for it in libraries for part, name in _SOFTWARE.items() if part in it}
    drivers = [it for it in libraries if any(part in it for part in _OF_GPUS) and "lvp" not in it]
    return software.pop() if len(software) == 1 and not drivers else None


def loaded_libraries() -> set[str]:
    """The names of the files that this process has mapped; none where the system does not tell."""
    try:
        lines = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return set()
    return {line.rpartition("/")[2] for line in lines if "/" in line}


def provider_device(provider: Provider) -> Device:
    """The hardware of an EP, by its EP device or by the name that ORT has for it."""
    if provider.ep_device is not None:
        return describe_ep_device(provider.ep_device)
    name = NAMED_DEVICES.get(provider.name)
    return {"type": "CPU" if name is None else "GPU", "name": name or "cpu", "index": provider.device_index}


def session_eps(model: Model, nodes: Mapping[str, int]) -> list[EpOfSession]:
    """Every EP that has nodes, where several beside the CPU EP have; else none."""
    if len(nodes.keys() - {CPU_EP}) < 2:
        return []
    own, found = model.provider, []
    for name in sorted(nodes, key=lambda name: -nodes[name]):
        provider = own if name == own.name else find_in_session(name, model.session)
        found.append(session_ep(provider, provider_device(provider), nodes))
    return found


def session_ep(provider: Provider, device: Device, nodes: Mapping[str, int]) -> EpOfSession:
    """One of several EPs, with its part of the nodes."""
    count = nodes.get(provider.name, 0)
    return {
        "ep": provider.name,
        "ep_version": provider.version,
        "device": device,
        "memory": describe_memory(provider),
        "nodes": count,
        "share": round(count / max(sum(nodes.values()), 1), 4),
    }


def describe_ep_device(ep_device: Any) -> Device:
    """The hardware of an EP device; where its EP keeps several in one memory, all of those that may compute, by their names."""
    several = [describe_hardware(it.device) for it in devices_in_one_memory(ep_device)]
    if len(several) < 2:
        return describe_hardware(ep_device.device)
    names = [f"{it['vendor']} {it['vendor_id']:04x}:{it['device_id']:04x}".lstrip() for it in several]
    return {"type": ep_device.device.type.name, "name": " or ".join(dict.fromkeys(names)), "index": None}


def describe_hardware(device: Any) -> Device:
    return {
        "type": device.type.name,
        "vendor": device.vendor,
        "vendor_id": device.vendor_id,
        "device_id": device.device_id,
        "metadata": dict(device.metadata),
    }


def node_placements(model: Model) -> list[tuple[str, str, str]] | None:
    """EP, name and operator of every node as the EPs were asked for them (of compiled subgraphs the nodes taken, not the fused ones); None
    where ORT does not say."""
    try:
        subgraphs = model.session.get_provider_graph_assignment_info()
    except Exception:  # an ORT without it
        return None
    placements = [
        (subgraph.ep_name, node.name, node.op_type) for subgraph in subgraphs for node in subgraph.get_nodes()
    ]
    return placements or None  # a model in ORT format has nodes, and nothing is said of them


def describe_placement(model: Model) -> Placement:
    """Where the nodes were placed: ``nodes`` per EP, and ``cpu_operators`` (name → count) where another EP was asked for. ``memcpy_nodes``
    is 0 where nothing can need any, else None until a profile has counted them."""
    placements = node_placements(model)
    if placements is None:
        return {"nodes": None, "memcpy_nodes": None, "cpu_operators": {}}
    nodes = Counter(ep for ep, _, _ in placements)
    operators = Counter(op for ep, _, op in placements if ep == CPU_EP != model.provider.name)
    memcpy = 0 if len(nodes) < 2 else None  # with one EP there is nothing to copy between
    return {"nodes": dict(nodes), "memcpy_nodes": memcpy, "cpu_operators": dict(operators.most_common())}
