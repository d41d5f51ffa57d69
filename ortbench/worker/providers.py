"""Execution providers: which one a run is to use, on which of its devices; and what can be done with a memory of an
EP's device: tried, since what its kind of hardware suggests has been wrong three times.

EPs have offered DEFAULT memory that is plain host memory, memory without copies, and memory whose first use ends the
process. A trial makes one value, copies a pattern in and out, and looks at the answer; nothing of it stays allocated.
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import onnxruntime as ort
from onnxruntime.capi import _pybind_state as ort_native

from ortbench.core.eps import CPU_EP, NO_DEVICE, NVIDIA_EPS, OPENVINO_EP, PACKAGES, SHARED, SHORT_NAMES
from ortbench.core.errors import BadInput, BenchmarkFailed, ort_text
from ortbench.plan.target import POLICIES, Target, own
from ortbench.worker import environment, libraries
from ortbench.worker.environment import with_its_pip
from ortbench.worker.libraries import (
    NotLoaded,
    built_in_eps,
    bundled_library,
    devices_of,
    ep_devices,
    is_accelerator,
    library_of,
    real_path,
    register,
    register_library,
)
from ortbench.worker.plugins import (
    find_candidates,
    find_ep,
    has_nvidia_gpu,
    load_candidate,
    origin,
    package_name,
    registered_name,
    shared_name_note,
)
from ortbench.worker.tensors import Array, TensorSpec, host_value, host_view

if TYPE_CHECKING:
    from ortbench.model.protocol import LoadedEp
    from ortbench.model.schema import Warned


_AUTO = "auto"
# EPs that compute on the CPU in ordinary memory, known by name; others are known by their EP device.
_HOST_EPS = {CPU_EP, "DnnlExecutionProvider", "XnnpackExecutionProvider", "ACLExecutionProvider"}


@dataclass
class Provider:
    name: str  # full EP name
    ep_device: Any = None  # its OrtEpDevice, or None where it is used by name alone
    device_index: int = 0  # the device's number, for EPs that are used by name
    library: str | None = None  # path of its library, or None for one that is built in
    version: str | None = None  # of the EP library or package, or None
    notes: list[Warned] = field(default_factory=list)  # what a reader should know about how it was chosen
    # by which ORT chooses when it creates a session, which is when the rest becomes known; else None
    policy: Any = None
    is_on_cpu_by_option: bool = False  # it is used by name, and its options have it compute on the CPU

    @property
    def computes_on_host(self) -> bool:
        """Whether the EP computes in ordinary host memory: by the trial of its DEFAULT memory, or as a CPU's without memory of its own."""
        if self.ep_device is not None:
            default, shared = memory_infos(self.ep_device)
            if default is not None:
                return try_memory(self.ep_device, default).is_on_host
            return bool(self.ep_device.device.type.name == "CPU") and shared is None
        return self.name in _HOST_EPS or self.is_on_cpu_by_option


def library_name(target: Target, provider: Provider) -> str | None:
    """A library's path for the result: as the user gave it, or inside the package it comes from: where the user's Python lives is nobody's
    business."""
    if provider.library is None:
        return None
    if target.library is not None and real_path(target.library) == real_path(provider.library):
        return target.library
    path = Path(provider.library)
    around = [folder for folder in map(Path, filter(None, sys.path)) if path.is_relative_to(folder)]
    if around:  # an environment may lie in another folder of the path, as .venv does in that of a project
        return str(path.relative_to(max(around, key=lambda folder: len(folder.parts))))
    return path.name


def describe_ep(target: Target, provider: Provider) -> LoadedEp:
    return {
        "ep": provider.name,
        "library": library_name(target, provider),
        "version": provider.version,
        "notes": [*environment.package_warnings(), *provider.notes],
    }


def find(target: Target) -> Provider:
    """The EP and device that a run asks for, loaded. Raises `BadInput`: no such EP, no such device of it, or options that are not its own;
    `BenchmarkFailed`: the EP is not installed, does not load, or finds no device."""
    if target.ep in POLICIES:
        provider = _find_by_policy(target)
    elif target.library is not None:
        provider = _find_in_library(target, target.library)
    else:
        provider = _find_accelerator(target) if target.ep == _AUTO else _find_by_name(target)
    options = own(target.options, provider.name, target.several_eps)
    if provider.name == CPU_EP and options:
        raise BadInput(f"--ep-option: {CPU_EP} has no options (ONNX Runtime would ignore them)")
    provider.is_on_cpu_by_option = provider.ep_device is None and is_on_cpu_by_option(provider.name, options)
    return provider


def _find_by_name(target: Target) -> Provider:
    name, plugin, note = find_ep(target.ep)
    if name == CPU_EP:
        return _cpu_provider(target)
    if plugin is not None:
        provider = _provider_on_device(registered_name(name, plugin), target.device, plugin.library, plugin.version)
    elif devices_of(name, None):
        provider = _provider_on_device(name, target.device, None, None)
    elif name in built_in_eps():
        try:
            provider = _built_in_provider(name, target.device)
        except NotLoaded as error:
            raise BenchmarkFailed(str(error) if note is None else f"{error}; {note}") from None
    else:
        package = PACKAGES.get(name)
        quoted = " ".join(f"'{it}'" for it in (package or "").split())
        advice = (
            with_its_pip(f"install it with: pip install {quoted}") if package else "install the package that brings it"
        )
        raise BenchmarkFailed(f"{name} is not installed; {advice}, or name its library with --ep-library")
    return _with_note(provider, note)


def _with_note(provider: Provider, note: str | None) -> Provider:
    if note is not None:
        provider.notes.append({"code": SHARED, "message": note})
    return provider


def _cpu_provider(target: Target) -> Provider:
    if target.device:
        raise BadInput(f"--device {target.device}: {CPU_EP} has 1 device(s), numbered from 0")
    return Provider(CPU_EP, version=ort.__version__)


def is_on_cpu_by_option(name: str, options: Mapping[str, str]) -> bool:
    """Whether an EP's options have it compute on the CPU: OpenVINO's inside an onnxruntime wheel does so by default."""
    return name == OPENVINO_EP and options.get("device_type", "CPU").upper() == "CPU"


def _built_in_provider(name: str, device: int | None) -> Provider:
    """An EP of the onnxruntime package: by its EP device where it has one, else by name."""
    library = bundled_library(name)
    provider = Provider(name, device_index=device or 0, library=library, version=ort.__version__)
    if library is None:
        return provider
    try:
        register(name, library)
        if devices_of(name, library):
            return _provider_on_device(name, device, library, ort.__version__)
        why = "offers no EP device here"
    except NotLoaded as error:
        if error.is_library_missing:  # the classic way would need the same one, and fail in silence
            raise
        why = f"has no EP device here ({error})"
    provider.notes.append({"code": "named-device", "message": f"{name} {why}; it is used by name"})
    return provider


def _provider_on_device(name: str, index: int | None, library: str | None, version: str | None) -> Provider:
    """The EP of a library on its device number `index`; without a number on its first GPU or NPU, else its first device."""
    devices = devices_of(name, library)
    if not devices:
        raise BenchmarkFailed(f"{name} is loaded and {NO_DEVICE}")
    if index is None:
        chosen = next((device for device in devices if is_accelerator(device)), devices[0])
    elif index < len(devices):
        chosen = devices[index]
        if len(devices_in_one_memory(chosen)) > 1:
            reason = (
                f"{name} keeps its {len(devices)} devices in one memory and computes on the one that it chooses itself"
            )
            raise BadInput(f"--device {index}: {reason}: leave --device out", "--device")
    else:
        raise BadInput(f"--device {index}: {name} has {len(devices)} device(s), numbered from 0")
    return Provider(name, chosen, library=library, version=version or chosen.ep_metadata.get("version"))


def _find_in_library(target: Target, library: str) -> Provider:
    names = register_library(library)
    if target.ep == _AUTO:
        return _provider_on_device(names[0], target.device, library, None)
    for name in names:
        if target.ep.lower() in (name.lower(), name.lower().removesuffix("executionprovider")) or (
            SHORT_NAMES.get(target.ep.lower()) == name
        ):
            return _provider_on_device(name, target.device, library, None)
    raise BadInput(f"--ep {target.ep!r}: {library} brings {', '.join(names)}")


def _find_accelerator(target: Target) -> Provider:
    """The first EP with a GPU or NPU, else the CPU EP with the reasons of those that could not be loaded."""
    problems = []
    for candidate in find_candidates():
        try:
            devices = load_candidate(candidate)
        except BenchmarkFailed as error:
            problems.append(str(error))
            continue
        device = next(filter(is_accelerator, devices), None)
        if device is not None:
            return _with_note(
                _provider_on_device(device.ep_name, target.device, candidate.library, candidate.version),
                shared_name_note(device.ep_name),
            )
    provider = _cpu_provider(target)
    if problems and has_nvidia_gpu():
        message = f"no EP with a GPU or NPU could be loaded: {'; '.join(problems)}"
        provider.notes.append({"code": "auto-cpu", "message": message})
    return provider


def _find_by_policy(target: Target) -> Provider:
    """A provider that ORT is to choose from all that can be registered; `take_choice_of_policy` says which it is. Of several EPs of one
    name only the first is there: the user's, that of onnxruntime, those of packages."""
    problems = []
    if target.library is not None:
        register_library(target.library)
    for candidate in find_candidates():
        if len(ep_devices(candidate.ep)) > len(devices_of(candidate.ep, candidate.library)):
            problems.append(
                f"the {candidate.ep} of {package_name(candidate.library)} has the name of one that is loaded already"
            )
            continue
        try:
            load_candidate(candidate)
        except BenchmarkFailed as error:
            if candidate.ep not in NVIDIA_EPS or has_nvidia_gpu():
                problems.append(str(error))
    policy = getattr(ort.OrtExecutionProviderDevicePolicy, POLICIES[target.ep])
    prefix = "ONNX Runtime could not choose: "
    notes: list[Warned] = [{"code": "policy-candidates", "message": f"{prefix}{problem}"} for problem in problems]
    return Provider("the EP that ONNX Runtime chooses", policy=policy, notes=notes)


def take_choice_of_policy(provider: Provider, session: Any) -> None:
    """Fill in what ORT chose by a policy: the EP that was given most nodes, the CPU's only if there is no other."""
    counts: Counter[str] = Counter()
    for subgraph in session.get_provider_graph_assignment_info():
        counts[subgraph.ep_name] += len(subgraph.get_nodes())
    names = [name for name, _ in counts.most_common()] or session.get_providers()  # models in ORT format tell no nodes
    others = [name for name in names if name != CPU_EP]
    chosen = find_in_session(others[0] if others else CPU_EP, session)
    provider.name, provider.version, provider.ep_device = chosen.name, chosen.version, chosen.ep_device
    provider.library = chosen.library


def find_in_session(name: str, session: Any) -> Provider:
    """An EP of a session by its name: on the device that the session reads inputs on, else on its first GPU or NPU, or first device."""
    if name == CPU_EP:
        return Provider(name, version=ort.__version__)
    input_devices = [
        device for device in session.get_input_epdevices() if device is not None and device.ep_name == name
    ]
    devices = input_devices or ep_devices(name)
    if not devices:
        return Provider(name, library=bundled_library(name), version=ort.__version__)
    device = next(filter(is_accelerator, devices), devices[0])
    library, version = origin(device)
    return Provider(name, device, library=library, version=version or device.ep_metadata.get("version"))


LIMIT_S = 20.0  # of one trial, which takes a millisecond where the device's context is there
_IDENTITY = ("name", "device_mem_type", "device_vendor_id", "device_id")  # of what a memory info says
_WORD = TensorSpec("word", "tensor(float)", (16,))
# ... "between source and destination device was not found": it is not offered.
_NO_COPY = "Data transfer implementation"


class TrialResult(NamedTuple):
    problem: str | None = None  # why no value can be made in the memory, in words; None if one can
    copy_problem: str | None = None  # why values cannot be copied to and from it; None if they can
    is_on_host: bool = False  # it is ordinary host memory, which is written and read in place, without copies
    has_failed: bool = False  # the problem is of what was offered, which is a defect and not a limit of the EP


_results: dict[str, TrialResult] = {}


def add_lost_trials(reasons: Mapping[str, str]) -> None:
    """Take what is known of trials, by key, that ended or held up a worker before this one."""
    _results.update(
        {key: TrialResult(problem=reason, copy_problem=reason, has_failed=True) for key, reason in reasons.items()}
    )


def try_memory(ep_device: Any, info: Any) -> TrialResult:
    """What can be done with a memory of an EP device; it is tried once."""
    kind = info.device_mem_type.name
    if kind != "DEFAULT" and not libraries.SHARED_VALUES.is_there:
        return TrialResult(problem=libraries.version_note(libraries.SHARED_VALUES), copy_problem="")
    what = f"the {kind} memory {info.name}"
    return try_once(ep_device, what, lambda: _run_trial(info, ep_device.device.type.name))


def try_once(ep_device: Any, what: str, trial: Callable[[], TrialResult]) -> TrialResult:
    """The answer of a trial of something that an EP device offers. Where it ends or holds up the worker, that is the answer."""
    number = next((info.device_id for info in memory_infos(ep_device) if info is not None), 0)
    key = f"{library_of(ep_device)} {ep_device.ep_name} {number} {what}"
    if key not in _results:
        with environment.announce(f"trying {what} of {ep_device.ep_name}", LIMIT_S, key):
            _results[key] = trial()
    return _results[key]


def memory_infos(ep_device: Any) -> tuple[Any, Any]:
    """The OrtMemoryInfo of an EP device's DEFAULT and of its HOST_ACCESSIBLE memory, each None where it has none."""
    kinds = ort.OrtDeviceMemoryType
    return ep_device.memory_info(kinds.DEFAULT), ep_device.memory_info(kinds.HOST_ACCESSIBLE)


def devices_in_one_memory(ep_device: Any) -> list[Any]:
    """An EP device and the others of its EP with the same DEFAULT memory, between which neither ONNX Runtime nor the EP tells: onnxruntime-ep-webgpu
    up to 0.4.0 computes on the adapter that is its default, whichever device a session is given."""
    own, _ = memory_infos(ep_device)
    if own is None:
        return [ep_device]
    found = [(it, memory_infos(it)[0]) for it in devices_of(ep_device.ep_name, library_of(ep_device))]
    return [it for it, info in found if info is not None and is_same_memory(info, own)]


def is_same_memory(info: Any, other: Any) -> bool:
    return all(getattr(info, key) == getattr(other, key) for key in _IDENTITY)


def memory_label(info: Any) -> str:
    return f"{info.name} ({info.device_mem_type.name})"


def make_value(info: Any, device_type: str, shape: Sequence[int], spec: TensorSpec) -> Any:
    """An uninitialised OrtValue in a memory. Raises `BenchmarkFailed`: there is no such memory left; `Exception`: what ORT raises."""
    if libraries.SHARED_VALUES.is_there:
        arguments = {"memory_info": info}
    else:  # by the device's vendor, which names its DEFAULT memory
        arguments = {
            "device_type": device_type.lower(),
            "device_id": info.device_id,
            "vendor_id": info.device_vendor_id,
        }
    value = ort.OrtValue.ortvalue_from_shape_and_type(list(shape), spec.element_type, **arguments)
    size = math.prod(shape) * spec.dtype.itemsize
    # ORT takes a null pointer from an EP's allocator for memory; the first use would crash the worker.
    if size and value.data_ptr() == 0:
        raise BenchmarkFailed(f"{memory_label(info)} could not allocate {size} bytes for {spec.name!r}")
    return value


def _run_trial(info: Any, device_type: str) -> TrialResult:
    sent: Array = np.arange(1, 17, dtype=np.float32)
    try:
        value = make_value(info, device_type, _WORD.shape, _WORD)  # type: ignore[arg-type]
    except Exception as error:
        return TrialResult(ort_text(error), ort_text(error), has_failed=libraries.SHARED_VALUES.is_there)
    is_default, is_cpu = info.device_mem_type.name == "DEFAULT", value.device_name() == "cpu"
    if is_default and is_cpu and info.device_vendor_id == 0:
        return _host_result(value, sent)  # the CPU EP's own memory; some EPs' transfers copy there, too
    received = np.zeros_like(sent)
    problems = {
        way: problem
        for way, source, target in (
            ("to", host_value(_WORD, sent), value),
            ("from", value, host_value(_WORD, received)),
        )
        if (problem := _copy_problem(source, target)) is not None
    }
    if not problems:
        other_bytes = "a copy to it and back gives other bytes"
        is_right = np.array_equal(sent, received)
        return TrialResult() if is_right else TrialResult(copy_problem=other_bytes, has_failed=True)
    is_offered = any(_NO_COPY not in problem for problem in problems.values())
    if is_default and is_cpu and not is_offered and len(problems) == 2:
        return _host_result(value, sent)
    reason = f"no copies {' and '.join(problems)} it: {next(iter(problems.values()))}"
    return TrialResult(copy_problem=reason, has_failed=is_offered)


def _host_result(value: Any, sent: Array) -> TrialResult:
    """Of ordinary host memory, which is written as that of the CPU EP; a mode's outputs show whether a run sees it."""
    host_view(_WORD, value)[:] = sent
    return TrialResult(is_on_host=True)


def _copy_problem(source: Any, target: Any) -> str | None:
    try:
        ort_native.copy_tensors([source._get_c_value()], [target._get_c_value()], None)
    except Exception as error:
        return ort_text(error)
    return None
