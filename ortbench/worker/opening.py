"""Requests about a model as a whole: open it, alone or with several shapes, compare its outputs with those of another worker, let
it go; and about its file alone, for workers whose environment has nothing to read it with.

And warnings of defects of this version of ONNX Runtime, and of entries of its configuration and EP options that do nothing: it takes any
key, of the session and of runs, and says no word, and some EPs take any option. Whether a name means something is read from the strings of the libraries, which takes
some tenths of a second: only where an entry is not documented, or EP options were given.

What it knows is in its headers onnxruntime_session_options_config_keys.h and onnxruntime_run_options_config_keys.h, in the
strings of its library, and with every version there is more: what is unknown here is a warning and never refused.
"""

from __future__ import annotations

import gc
import mmap
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from difflib import get_close_matches
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import onnxruntime as ort

from ortbench.core.errors import BadInput, Unsupported
from ortbench.model.settings import OF_SESSION
from ortbench.plan.target import PARALLEL, Inputs, Target, inputs_from, target_from, with_own
from ortbench.worker import Stages, State, input_arrays, memory, providers, session, tensors
from ortbench.worker.first_run import Data
from ortbench.worker.libraries import set_up_onnxruntime, versions
from ortbench.worker.modes import Opened
from ortbench.worker.proofs import compare_outputs
from ortbench.worker.providers import Provider
from ortbench.worker.session import Model, describe_device, describe_placement, session_eps
from ortbench.worker.tensors import Array, TensorSpec, Value, describe_tensor, get_form, nbytes

if TYPE_CHECKING:
    from ortbench.model import protocol, schema
    from ortbench.model.schema import Warned


def open(state: State, model: str, target: dict[str, Any], inputs: dict[str, Any]) -> protocol.Opened:
    return open_as(state, model, target_from(target), inputs_from(inputs), Opened)


def open_as(
    state: State, path: str, wanted: Target, request: Inputs, kind: Callable[[str, Target, Inputs, Model], Opened]
) -> protocol.Opened:
    """The same of a `kind` of what can be open."""
    stages = Stages()
    set_up_onnxruntime()
    if wanted.input_memory is not None:
        from ortbench.worker import streams  # which few runs have

        streams.check(wanted.input_memory)
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
    # Memories are tried now: a worker that is lost in a trial of the first request is replaced.
    return {
        **described,
        "notes": [*described["notes"], *defect_notes(model)],
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


def defect_notes(model: Model) -> list[Warned]:
    """The defects of this ONNX Runtime that change what is measured of a session."""
    places = (model.locations.inputs, model.locations.outputs)
    if all(len({id(location.own) for location in own if not location.is_host_only}) < 2 for own in places):
        return []
    from ortbench.core.defects import LOST_STREAM  # which few sessions need, like the next one
    from ortbench.worker import streams

    what = LOST_STREAM.describe(ort.__version__)
    if what is None or streams.stream_problem(model.provider) is not None:
        return []
    message = f"{what}: so does cpu-tensors here, as tensors are on several devices"
    return [{"code": "runtime-defect", "message": message}]


def count_copies(where: schema.Placement, path: str, model: Model, arrays: dict[str, Array]) -> schema.Placement:
    """Where nodes are, with Memcpy nodes counted in a profiled session where ONNX Runtime does not tell of them
    otherwise."""
    if where["memcpy_nodes"] is not None or where["nodes"] is None:
        return where
    from ortbench.worker import nodes  # most models need none of it, and would wait for it

    return {**where, **nodes.count_copies(path, model.target, model.provider, arrays)}


def describe_loaded_ep(target: Target, provider: providers.Provider, stages: Stages) -> protocol.LoadedEp:
    """An EP for the result, with what is to be said of options that do nothing there."""
    described = providers.describe_ep(target, provider)
    if target.options or target.session_config or target.run_config:
        described["notes"] += option_warnings(target, provider)
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
    return {
        "saved": plain and input_arrays.save_arrays(Path(folder), specs, [arrays[spec.name] for spec in specs], "input")
    }


def save_outputs(state: State, folder: str) -> protocol.Saved:
    """Write the reference outputs for another worker to compare, of several sets of inputs those behind the first in folders of their
    own; false where they cannot be written as protobuf."""
    specs, reference = state.opened.references()
    if not reference:
        return {"saved": False}
    is_saved = True
    for number, outputs in enumerate(state.opened.outputs_of_all()):
        is_saved &= input_arrays.save_arrays(_folder_of_set(folder, number), specs, outputs, "output")
    return {"saved": is_saved}


def _folder_of_set(folder: str, number: int) -> Path:
    path = Path(folder, *[str(number)] * bool(number))
    path.mkdir(exist_ok=True)
    return path


def compare_saved_outputs(state: State, folder: str) -> protocol.OutputComparison:
    """What differs between the reference outputs here and those that another worker saved, and by how much."""
    (specs, _), request = state.opened.references(), state.opened.request

    def pairs() -> Iterator[tuple[str, Value, Value]]:
        for number, references in enumerate(state.opened.outputs_of_all()):
            others = input_arrays.load_saved_arrays(_folder_of_set(folder, number), specs, "output")
            yield from zip([spec.name for spec in specs], references, others, strict=False)

    try:
        comparison = compare_outputs(pairs(), request.rtol, request.atol, request.path is not None)
    except BadInput as error:
        return {"differs": str(error), "relative": None, "accepts": None, "distances": []}
    if comparison["differs"] is not None:
        comparison["differs"] += tensors.random_nodes_note(state.opened.path)
    return comparison


def release(state: State) -> dict[str, object]:
    """End the session, so that its EP saves what it keeps for the next one; nothing can be asked of it after that."""
    state.release()
    gc.collect()
    return {}


def index_sizes(state: State, model: str) -> dict[str, int]:
    return tensors.model_index_sizes(model)


SESSION, RUN = "--session-config", "--run-config"
# The codes of the warnings, by option.
CODES = {SESSION: "session-config-ignored", RUN: "run-config-ignored", "--ep-option": "ep-option-ignored"}


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# The keys of the two headers, as of ONNX Runtime 1.31. A compiler may leave one out of the strings of a library.
_SESSION_KEYS = _words(
    """
    ep.context_embed_mode ep.context_enable ep.context_file_path ep.context_model_external_initializers_file_name
    ep.context_node_name_prefix ep.share_ep_contexts ep.stop_share_ep_contexts
    mlas.enable_gemm_fastmath_arm64_bfloat16 mlas.use_lut_gemm
    optimization.disable_specified_optimizers optimization.enable_cast_chain_elimination
    optimization.enable_gelu_approximation optimization.enable_memory_probe_recompute_config
    optimization.memory_optimizer_config optimization.minimal_build_optimizations
    session.allow_released_opsets_only session.collect_node_memory_stats_to_file session.debug_layout_transformation
    session.disable_aot_function_inlining session.disable_cpu_ep_fallback session.disable_double_qdq_remover
    session.disable_model_compile session.disable_prepacking session.disable_quant_qdq session.dynamic_block_base
    session.enable_quant_qdq_cleanup session.fail_on_suboptimal_compiled_model session.force_spinning_stop
    session.graph_optimizations_loop_level session.inter_op.allow_spinning session.intra_op.allow_spinning
    session.intra_op_thread_affinities session.load_model_format session.model_external_initializers_file_folder_path
    session.node_partition_config_file session.optimized_model_external_initializers_file_name
    session.optimized_model_external_initializers_min_size_in_bytes session.qdq_matmulnbits_accuracy_level
    session.qdqisint8allowed session.record_ep_graph_assignment_info session.resource_cuda_partitioning_settings
    session.save_external_prepacked_constant_initializers session.save_model_format session.set_denormal_as_zero
    session.strict_shape_type_inference session.use_device_allocator_for_initializers session.use_env_allocators
    session.use_memory_mapped_ort_model session.use_ort_model_bytes_directly
    session.use_ort_model_bytes_for_initializers session.x64quantprecision
    """
)
_RUN_KEYS = _words(
    """
    disable_synchronize_execution_providers gpu_graph_id memory.enable_memory_arena_shrinkage
    qnn.htp_perf_mode qnn.htp_perf_mode_post_run qnn.lora_config qnn.rpc_control_latency
    """
)
_DOCUMENTED = {SESSION: _SESSION_KEYS, RUN: _RUN_KEYS}

# Attributes of Python's SessionOptions and RunOptions, which are no entries, and what of ortbench does the same.
_NO_OPTION = "ortbench has no option for it"
_PROFILED = "ortbench run --measure-nodes profiles some runs"
_ATTRIBUTES = {
    SESSION: {
        **{it.attribute: f"--{'no-' * (it.default is True)}{it.option} sets it" for it in OF_SESSION if it.attribute},
        "enable_profiling": _PROFILED,
        "profile_file_prefix": _PROFILED,
        **dict.fromkeys(
            _words(
                "enable_mem_reuse execution_order log_id log_severity_level log_verbosity_level logid "
                "use_deterministic_compute use_per_session_threads"
            ),
            _NO_OPTION,
        ),
    },
    RUN: dict.fromkeys(
        _words("log_severity_level log_verbosity_level logid only_execute_path_to_fetches run_tag terminate"),
        _NO_OPTION,
    ),
}
_CLASS = {SESSION: "SessionOptions", RUN: "RunOptions"}
_NEAR = 0.75  # of 1: how alike two names are of which one may be meant for the other
BETWEEN_OPERATORS = "session.inter_op."
_DYNAMIC = "ep.dynamic."


def is_of_ep(key: str) -> bool:
    """Whether a key is an EP's own, ``ep.<name>.<key>``: what it means only that EP knows."""
    return key.startswith("ep.") and key.count(".") > 1 and not key.startswith(_DYNAMIC)


def idle(option: str, key: str) -> str | None:
    """Why an entry of the `SESSION` or `RUN` certainly does nothing, in words; None where that is not certain."""
    name = re.sub(r"^(session\.)?(session_options\.)?(run\.)?(run_options\.)?", "", key)
    if (instead := _ATTRIBUTES[option].get(name)) is not None:
        return f"is an attribute of {_CLASS[option]} and no entry; {instead}"
    if option == SESSION and key.startswith(BETWEEN_OPERATORS):
        return "is about threads between operators, which --execution-mode parallel alone has"
    if key.startswith(_DYNAMIC):
        return f"is set on a session that is open (set_ep_dynamic_options); {_NO_OPTION}"
    other = RUN if option == SESSION else SESSION
    if key in _DOCUMENTED[other] and key not in _DOCUMENTED[option]:
        return f"is an entry of {_CLASS[other]}, which {other} sets"
    return None


def undocumented_keys(option: str, keys: Iterable[str]) -> list[str]:
    """The keys of which it is not known that they do something, or nothing: neither documented, nor an EP's, nor `idle`."""
    return [key for key in keys if not (key in _DOCUMENTED[option] or is_of_ep(key) or idle(option, key))]


def sentences(option: str, entries: Mapping[str, str], known: Collection[str], version: str) -> list[str]:
    """What is to be said of entries that do nothing; `known` are keys in the strings of the libraries."""
    found = [f"{option} {key} does nothing: it {why}" for key in entries if (why := idle(option, key))]
    for key in undocumented_keys(option, entries):
        if key not in known:
            hint = _hint(option, key, known)
            found.append(f"{option} {key} probably does nothing: ONNX Runtime {version} knows no such entry{hint}")
    return found


def _hint(option: str, key: str, known: Collection[str]) -> str:
    """The key that is meant, as far as that can be guessed: one that ends so, or is written nearly so."""
    attributes = [f"session.{name}" for name in _ATTRIBUTES[option]]
    names = sorted({*_DOCUMENTED[option], *known, *attributes})
    ending = sorted((it for it in names if it.endswith(f".{key}")), key=lambda it: idle(option, it) is not None)
    near = next(iter(ending or get_close_matches(key, names, 1, _NEAR)), None)
    if near is None:
        return ""
    why = idle(option, near)
    return f"; the nearest that it knows is {near}" if why is None else f"; the nearest is {near}, which {why}"


_KEY_PATTERN = rb"(?:session|optimization|memory|mlas|ep)\.[a-z0-9_.]*[a-z0-9_](?=\0)"
_SOURCE_FILE = re.compile(r"\.(?:h|hpp|c|cc|cpp)$")  # named in messages of errors: session.h
_PIECE = 8  # bytes that machine code holds at a time, where a compiler puts a text into the code and not beside it

T = TypeVar("T")


def option_warnings(target: Target, provider: Provider) -> list[Warned]:
    """A warning for everything that was asked for and does nothing, certainly or probably."""
    found: list[Warned] = []
    entries_read = target.session_config
    if target.execution_mode == PARALLEL:
        entries_read = {key: value for key, value in entries_read.items() if not key.startswith(BETWEEN_OPERATORS)}
    for option, entries in ((SESSION, entries_read), (RUN, target.run_config)):
        unsure = undocumented_keys(option, entries)
        known = {*_keys_of_onnxruntime(), *(_names_in_library(provider.library, unsure) or ())} if unsure else set()
        messages = sentences(option, entries, known, ort.__version__)
        found += [{"code": CODES[option], "message": message} for message in messages]
    offered = set() if provider.ep_device is None else {*provider.ep_device.ep_options}
    options = [name for name in target.options if name not in offered]
    if options and (named := _names_in_library(provider.library, options)) is not None:
        for name in sorted({*options} - named):
            where = f"{provider.name} took it without a word, and its library does not hold that name"
            message = f"--ep-option {name} probably does nothing: {where}"
            found.append({"code": CODES["--ep-option"], "message": message})
    return found


def _keys_of_onnxruntime() -> set[str]:
    """What looks like a key among the strings of ONNX Runtime's library."""
    from onnxruntime.capi import onnxruntime_pybind11_state as library

    def find_keys(content: mmap.mmap) -> set[str]:
        return {key for it in re.findall(_KEY_PATTERN, content) if not _SOURCE_FILE.search(key := it.decode())}

    return _search_library(library.__file__, find_keys) or set()


def _names_in_library(library: str | None, names: Sequence[str]) -> set[str] | None:
    """Those of some names that a library holds, whole or as pieces in its code; None where it cannot be read."""

    def find_names(content: mmap.mmap) -> set[str]:
        return {name for name in names if all(content.find(piece) >= 0 for piece in _pieces(name.encode(), content))}

    return _search_library(library, find_names)


def _pieces(name: bytes, content: mmap.mmap) -> Iterable[bytes]:
    """What must be there of a name: all of it, or where it is not, each of its whole pieces."""
    if len(name) < 2 * _PIECE or content.find(name) >= 0:
        return [name]
    return [name[at : at + _PIECE] for at in range(0, len(name) - _PIECE + 1, _PIECE)]


def _search_library(library: str | None, search: Callable[[mmap.mmap], T]) -> T | None:
    """What is found in a library; None where there is none, or it cannot be read."""
    if library is None:
        return None
    with (
        suppress(OSError, ValueError),
        Path(library).open("rb") as file,  # and not the request of that name
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content,
    ):
        return search(content)
    return None
