"""Execution providers: which one a run is to use, on which of its devices."""

from __future__ import annotations

import platform
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import onnxruntime as ort

from ortbench.errors import BadInput, BenchmarkFailed
from ortbench.plan import CPU_EP, POLICIES, Target
from ortbench.worker.session import distributions
from ortbench.worker.session.ep_names import CUDA_EP, NVIDIA_EPS, OPENVINO_EP, PACKAGES, SHORT_NAMES
from ortbench.worker.session.libraries import (
    NotLoaded,
    all_ep_devices,
    bundled_library,
    ep_devices,
    is_accelerator,
    register,
    register_library,
)
from ortbench.worker.session.plugins import Plugin, plugins

if TYPE_CHECKING:
    from ortbench.answers import LoadedEp
    from ortbench.schema import Warned

# EPs that compute on the CPU in ordinary memory, known by name; others are known by their EP device.
_HOST_EPS = {CPU_EP, "DnnlExecutionProvider", "XnnpackExecutionProvider", "ACLExecutionProvider"}


@dataclass
class Provider:
    """The EP of a run.

    Attributes:
        name: full EP name.
        ep_device: its OrtEpDevice, or None where it is used by name alone.
        device_index: the device's number, for EPs that are used by name.
        library: path of its library, or None for one that is built in.
        version: of the EP library or package, or None.
        notes: what a reader should know about how it was chosen (code, message).
        on_cpu_by_option: it is used by name, and its options have it compute on the CPU.
        policy: by which ORT chooses when it creates a session, which is when the rest becomes known; else None.
    """

    name: str
    ep_device: Any = None
    device_index: int = 0
    library: str | None = None
    version: str | None = None
    notes: list[tuple[str, str]] = field(default_factory=list)
    policy: Any = None
    on_cpu_by_option: bool = False

    @property
    def computes_on_host(self) -> bool:
        """Whether the EP computes in ordinary host memory, so that there is no device to copy to.

        A CPU may have memory of its own all the same, where its EP wants inputs and outputs to be.
        """
        if self.ep_device is not None:
            kinds = (ort.OrtDeviceMemoryType.DEFAULT, ort.OrtDeviceMemoryType.HOST_ACCESSIBLE)
            has_memory = any(self.ep_device.memory_info(kind) is not None for kind in kinds)
            return bool(self.ep_device.device.type.name == "CPU") and not has_memory
        return self.name in _HOST_EPS or self.on_cpu_by_option


def library_name(target: Target, provider: Provider) -> str | None:
    """A library's path for the result: as the user gave it, or inside the package it comes from.

    A result is shared; where the user's Python lives is nobody's business.
    """
    if provider.library is None or target.library is not None:
        return target.library
    path = Path(provider.library)
    around = [folder for folder in map(Path, filter(None, sys.path)) if path.is_relative_to(folder)]
    if around:  # an environment may lie in another folder of the path, as .venv does in that of a project
        return str(path.relative_to(max(around, key=lambda folder: len(folder.parts))))
    return path.name


def describe(target: Target, provider: Provider) -> LoadedEp:
    """``ep``, ``library``, ``version`` and ``notes`` for the result."""
    notes: list[Warned] = [{"code": code, "message": message} for code, message in provider.notes]
    return {
        "ep": provider.name,
        "library": library_name(target, provider),
        "version": provider.version,
        "notes": [*distributions.warnings(), *notes],
    }


def full_name(name: str) -> str:
    """The full EP name of what the user wrote: a short name, a full name, or a plugin package's or module's name.

    Raises:
        BadInput: no EP is called that.
    """
    if name.lower() in SHORT_NAMES:
        return SHORT_NAMES[name.lower()]
    known = set(ort.get_all_providers()) | {device.ep_name for device in all_ep_devices()}
    for plugin in plugins():
        known.update(plugin.ep_names)
        if name.lower().replace("-", "_") in (plugin.module.lower(), plugin.distribution.lower().replace("-", "_")):
            if not plugin.ep_names:
                raise BenchmarkFailed(f"the package {plugin.distribution} does not load: {plugin.problem}")
            return plugin.ep_names[0]
    for ep_name in known:
        if name.lower() == ep_name.lower():
            return str(ep_name)
    if _plugin_of(name) is not None:  # whether it has such an EP shows when it is loaded
        return name
    raise BadInput(
        f"--ep {name!r}: no such execution provider; the library of one that is no package is named with --ep-library; "
        f"known are {', '.join(sorted(SHORT_NAMES))}, full names such as "
        f"{CPU_EP}, and installed plugin packages ('ortbench devices' lists them)"
    )


def find(target: Target) -> Provider:
    """The EP and device that a run asks for, loaded.

    Raises:
        BadInput: no such EP, or no such device of it.
        BenchmarkFailed: the EP is not installed, does not load, or finds no device.
    """
    if target.ep in POLICIES:
        return _by_policy(target)
    if target.library is not None:
        return _from_library(target, target.library)
    if target.ep == "auto":
        return _auto(target)
    name = full_name(target.ep)
    if name == CPU_EP:
        return _cpu(target)
    plugin = _plugin_of(name)
    if plugin is not None:
        register(name, plugin.library)
        return _with_device(name, target.device, plugin.library, plugin.version)
    if ep_devices(name):
        return _with_device(name, target.device, None, None)
    if name in ort.get_available_providers():
        provider = _built_in(name, target.device)
        provider.on_cpu_by_option = provider.ep_device is None and _on_cpu_by_option(name, target.options)
        return provider
    package = PACKAGES.get(name)
    quoted = " ".join(f"'{it}'" for it in (package or "").split())
    how = f"install it with: pip install {quoted}" if package else "install the package that brings it"
    raise BenchmarkFailed(f"{name} is not installed; {how}, or name its library with --ep-library")


def _cpu(target: Target) -> Provider:
    if target.device:
        raise BadInput(f"--device {target.device}: {CPU_EP} has 1 device(s), numbered from 0")
    if target.options:
        raise BadInput(f"--ep-option: {CPU_EP} has no options (ONNX Runtime would ignore them)")
    return Provider(CPU_EP, version=ort.__version__)


def _on_cpu_by_option(name: str, options: Mapping[str, str]) -> bool:
    """Whether an EP's options have it compute on the CPU: OpenVINO's inside an onnxruntime wheel does so by default."""
    return name == OPENVINO_EP and options.get("device_type", "CPU").upper() == "CPU"


def _built_in(name: str, device: int | None) -> Provider:
    """An EP of the onnxruntime package: by its EP device where it has one, else by name."""
    library, index = bundled_library(name), device or 0
    if library is None:
        return Provider(name, device_index=index, version=ort.__version__)
    try:
        register(name, library)
    except NotLoaded as error:
        if error.lacks_library:  # the classic way would need the same one, and fail in silence
            raise
        note = ("named-device", f"{name} has no EP device here ({error}); it is used by name")
        return Provider(name, device_index=index, library=library, version=ort.__version__, notes=[note])
    if not ep_devices(name):
        note = ("named-device", f"{name} offers no EP device here; it is used by name")
        return Provider(name, device_index=index, library=library, version=ort.__version__, notes=[note])
    return _with_device(name, device, library, ort.__version__)


def _with_device(name: str, index: int | None, library: str | None, version: str | None) -> Provider:
    """The EP on its device number `index`; without a number on its first GPU or NPU, else its first device."""
    devices = ep_devices(name)
    if not devices:
        raise BenchmarkFailed(f"{name} is loaded and finds no device it can use on this machine")
    if index is None:
        chosen = next((device for device in devices if is_accelerator(device)), devices[0])
    elif index < len(devices):
        chosen = devices[index]
    else:
        raise BadInput(f"--device {index}: {name} has {len(devices)} device(s), numbered from 0")
    return Provider(name, chosen, library=library, version=chosen.ep_metadata.get("version") or version or None)


def _from_library(target: Target, library: str) -> Provider:
    """A plugin EP from a library."""
    names = register_library(library)
    if target.ep == "auto":
        return _with_device(names[0], target.device, library, None)
    for name in names:
        if target.ep.lower() in (name.lower(), name.lower().removesuffix("executionprovider")) or (
            SHORT_NAMES.get(target.ep.lower()) == name
        ):
            return _with_device(name, target.device, library, None)
    raise BadInput(f"--ep {target.ep!r}: {library} brings {', '.join(names)}")


def _auto(target: Target) -> Provider:
    """The first EP with a GPU or NPU, else the CPU EP with the reasons of those that could not be loaded."""
    problems = []
    for name, load in _candidates():
        try:
            load()
        except BenchmarkFailed as error:
            problems.append(str(error))
            continue
        if any(is_accelerator(device) for device in ep_devices(name)):
            return _with_device(name, target.device, *_origin(name))
    provider = _cpu(target)
    if problems and _has_nvidia_gpu():
        provider.notes.append(("auto-cpu", f"no EP with a GPU or NPU could be loaded: {'; '.join(problems)}"))
    return provider


def _by_policy(target: Target) -> Provider:
    """A provider that ORT is to choose from all that can be registered; `settle` says which it is.

    Raises:
        BenchmarkFailed: the library that was named does not load.
    """
    problems = []
    for name, load in _candidates():
        try:
            load()
        except BenchmarkFailed as error:
            if name not in NVIDIA_EPS or _has_nvidia_gpu():
                problems.append(str(error))
    if target.library is not None:
        register_library(target.library)
    policy = getattr(ort.OrtExecutionProviderDevicePolicy, POLICIES[target.ep])
    notes = [("policy-candidates", f"ONNX Runtime could not choose: {problem}") for problem in problems]
    return Provider("the EP that ONNX Runtime chooses", policy=policy, notes=notes)


def settle(provider: Provider, session: Any, library: str | None) -> None:
    """Fill in what ORT chose by a policy: the EP that was given most nodes, the CPU's only if there is no other.

    Args:
        provider: with a policy.
        session: that was created with it.
        library: that the user named, or None.
    """
    counts: Counter[str] = Counter()
    for subgraph in session.get_provider_graph_assignment_info():
        counts[subgraph.ep_name] += len(subgraph.get_nodes())
    ran = [name for name, _ in counts.most_common()] or session.get_providers()  # models in ORT format tell no nodes
    others = [name for name in ran if name != CPU_EP]
    chosen = of_session(others[0] if others else CPU_EP, session)
    provider.name, provider.version, provider.ep_device = chosen.name, chosen.version, chosen.ep_device
    provider.library = None if provider.name == CPU_EP else chosen.library or library


def of_session(name: str, session: Any) -> Provider:
    """An EP of a session by its name: on the device that the session reads inputs on, else on its first GPU or NPU, or its
    first device."""
    if name == CPU_EP:
        return Provider(name, version=ort.__version__)
    library, version = _origin(name)
    read = [device for device in session.get_input_epdevices() if device is not None and device.ep_name == name]
    of_ep = read or ep_devices(name)
    if not of_ep:
        return Provider(name, library=library, version=version)
    device = next(filter(is_accelerator, of_ep), of_ep[0])
    return Provider(name, device, library=library, version=device.ep_metadata.get("version") or version)


def _candidates() -> Iterator[tuple[str, Any]]:
    for device in all_ep_devices():
        if device.ep_name != CPU_EP:
            yield device.ep_name, lambda: None
    library = bundled_library(CUDA_EP)
    if library is not None:
        yield CUDA_EP, lambda: register(CUDA_EP, library)
    for plugin in plugins():
        for name in plugin.ep_names:
            yield name, lambda name=name, plugin=plugin: register(name, plugin.library)


def _origin(name: str) -> tuple[str | None, str | None]:
    plugin = _plugin_of(name)
    if plugin is not None:
        return plugin.library, plugin.version
    return bundled_library(name), ort.__version__


def _plugin_of(name: str) -> Plugin | None:
    """The package that brings an EP: it says the EP's name, or what stands before a dot in it (OpenVINO's brings
    OpenVINOExecutionProvider.AUTO, too)."""
    return next((plugin for plugin in plugins() if {name, name.partition(".")[0]} & set(plugin.ep_names)), None)


def _has_nvidia_gpu() -> bool:
    return Path("/proc/driver/nvidia/version").exists() or platform.system() == "Windows"
