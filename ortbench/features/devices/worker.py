"""Every EP that is installed, what hardware it finds, and which modes it can do there; and for `ortbench devices --check` what a
device must do: allocate, copy, give streams, run in several threads."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Barrier
from typing import Any

import numpy as np
import onnxruntime as ort

from ortbench.core import eps
from ortbench.core.eps import CPU_EP
from ortbench.core.errors import BenchmarkFailed, Unsupported, one_line, ort_text
from ortbench.features.devices.model import FAILED, NOT_OFFERED, PASSED, Check, Listed
from ortbench.model.protocol import EpDevice, ListedEp
from ortbench.worker import State, environment, first_run, libraries, providers, session, streams
from ortbench.worker.libraries import (
    NotLoaded,
    all_ep_devices,
    built_in_eps,
    bundled_library,
    devices_of,
    library_of,
    own_package,
    real_path,
    register,
    register_library,
    set_up_onnxruntime,
)
from ortbench.worker.memory import EpDeviceMemory, Location, Memory, copy_tensors, describe_memory, ep_device_memories
from ortbench.worker.modes import unsupported_modes
from ortbench.worker.plugins import Plugin, ask_packages, find_plugin, name_warnings, register_and_list_eps
from ortbench.worker.proofs import FIRST, difference, poison
from ortbench.worker.providers import Provider, is_on_cpu_by_option
from ortbench.worker.session import describe_hardware, provider_device
from ortbench.worker.tensors import Array, TensorSpec

_NO_COPIES = "does not use DEFAULT memory of a non-CPU device"  # ONNX Runtime's words for an EP on the CPU, say
# Not hardware: an EP that sends a model to a service, listed by every onnxruntime wheel.
_NOT_LOCAL = {"AzureExecutionProvider"}


def devices(state: State, library: str | None = None) -> Listed:
    """EPs of a library, of those installed and of a plugin EP's `library`; several libraries can bring EPs of one name."""
    set_up_onnxruntime()
    return {
        "eps": _list_eps(library),
        "runtime": libraries.versions(),
        "abilities": libraries.abilities(),
        "warnings": [*environment.package_warnings(), *name_warnings()],
    }


def _list_eps(library: str | None) -> list[ListedEp]:
    built_in = [name for name in built_in_eps() if name not in _NOT_LOCAL]
    entries = [_entry(CPU_EP, None, ort.__version__, own_package())]
    if library is not None:
        entries += [_entry(name, library) for name in register_library(library)]
    for plugin in ask_packages(eps.everywhere()):
        for name in _names(plugin):
            if not _is_listed(entries, name, plugin.library):
                entries.append(_plugin_entry(name, plugin))
    for name in built_in:
        if name != CPU_EP:
            bundled = bundled_library(name)
            problem = None if bundled is None else _problem(name, bundled)
            entry = _entry(name, bundled, ort.__version__, own_package(), problem)
            if bundled is None and not entry["devices"]:  # ORT knows it by its name alone
                provider = Provider(name, is_on_cpu_by_option=is_on_cpu_by_option(name, {}))
                entry["devices"] = [_device(provider, None)]
            entries.append(entry)
    for device in all_ep_devices():
        name, path = device.ep_name, library_of(device)
        if not _is_listed(entries, name, path):
            # One that nobody has named, as OpenVINO's package brings one called …AUTO, too.
            package = None if path is None else find_plugin(path)
            entries.append(_entry(name, path) if package is None else _plugin_entry(name, package))
    return entries


def _names(plugin: Plugin) -> Sequence[str]:
    """A package's EPs: as they are called, or where none has a device, as the package says."""
    said = plugin.ep_names or (plugin.registered_as,)
    if plugin.problem:
        return said
    try:
        true = register_and_list_eps(plugin)
    except NotLoaded:
        return said
    return [name for name in said if name in true] or true or said


def _is_listed(entries: Sequence[ListedEp], name: str, library: str | None) -> bool:
    path = library and real_path(library)
    return any(it["name"] == name and (it["library"] and real_path(it["library"])) == path for it in entries)


def _plugin_entry(name: str, plugin: Plugin) -> ListedEp:
    problem = plugin.problem or _problem(name, plugin.library, plugin.registered_as)
    return _entry(name, plugin.library or None, plugin.version, plugin.distribution, problem)


def _problem(name: str, library: str, registered_as: str | None = None) -> NotLoaded | None:
    try:
        register(name, library, registered_as)
    except NotLoaded as error:
        return error
    return None


def _entry(
    name: str,
    library: str | None,
    version: str | None = None,
    package: str | None = None,
    problem: NotLoaded | str | None = None,
) -> ListedEp:
    found = devices_of(name, library)
    return {
        "name": name,
        "library": library,
        # The package's where there is one: the EP of onnxruntime-qnn 2.7.0 says 0.1.0.
        "version": version or next((it.ep_metadata["version"] for it in found if "version" in it.ep_metadata), version),
        "package": package,
        "problem": problem.reason if isinstance(problem, NotLoaded) else problem,
        "missing": problem.missing if isinstance(problem, NotLoaded) else None,
        "devices": [] if problem else [_device(Provider(name, None if name == CPU_EP else it), it) for it in found],
    }


def _device(provider: Provider, device: Any) -> EpDevice:
    """One of an EP's devices; None stands for what an EP uses that has no EP device."""
    why = streams.stream_problem(provider)
    if why is not None and _NO_COPIES in why:
        why = "they are for copies to a device's DEFAULT memory"
    return {
        "hardware": provider_device(provider) if device is None else describe_hardware(device.device),
        "memory": describe_memory(provider),
        "streams": {"offered": why is None, "why": why},
        "modes": unsupported_modes(provider),
    }


_TYPES = ("float", "float16", "double", "int8", "uint8", "int32", "int64", "bool")
_SIZES = (0, 1, 3, 1000, 1 << 20)  # elements
_AT_ONCE = 100  # values


def check_device(state: State, library: str, number: int) -> list[Check]:
    """Every check of one of a library's devices that needs no session."""
    set_up_onnxruntime()
    register_library(library)
    device = [it for it in all_ep_devices() if library_of(it) == real_path(library)][number]
    provider = Provider(device.ep_name, device, library=library)
    found: list[Check] = []
    for memory, kind in zip(ep_device_memories(device), ("DEFAULT", "HOST_ACCESSIBLE"), strict=True):
        found += _check_memory(device, memory, kind)
    problem = streams.stream_problem(provider)
    verdict = PASSED if problem is None else NOT_OFFERED
    return [*found, _check("streams", "a copy on a stream arrives", verdict, problem or "")]


def check_runs(state: State, threads: int, own: bool, runs: int) -> dict[str, str | None]:
    """Run a model with arrays in several threads at a time: what goes wrong, in words, or null."""
    opened = state.opened
    model = opened.model
    models = [
        session.open_model(opened.path, opened.target, model.provider) if own and number else model
        for number in range(threads)
    ]
    requests = [replace(opened.request, seed=opened.request.seed + it) for it in range(threads)]
    data = [first_run.make_data(opened.path, *pair) for pair in zip(models, requests, strict=True)]

    together = Barrier(threads)

    def differs(number: int) -> str | None:
        one, own_data = models[number], data[number]
        together.wait()  # or the first is done before the second begins
        for _ in range(runs):
            found = one.session.run(None, own_data.arrays)
            for name, got, reference in zip(one.output_names, found, own_data.reference, strict=True):
                if (wrong := difference(name, got, reference, source=FIRST)) is not None:
                    return wrong
        return None

    with ThreadPoolExecutor(threads) as pool:
        return {"wrong": next(filter(None, pool.map(differs, range(threads))), None)}


def check_shapes(state: State) -> dict[str, str | None]:
    """Run a model with outputs that are bound in one more row than they have: what is wrong if the run does not fail, in words, or
    null. Raises `Unsupported`: the EP has no memory to bind them in."""
    model, data = state.opened.model, state.opened.data
    binding = model.session.io_binding()
    for spec, location in zip(model.inputs, model.locations.inputs, strict=True):
        memory = _bindable(location)
        value = memory.allocate(spec, data.arrays[spec.name].shape)
        memory.upload([spec], [data.arrays[spec.name]], [value])()
        binding.bind_ortvalue_input(spec.name, value)
    ((spec, location, reference),) = zip(model.outputs, model.locations.outputs, data.reference, strict=True)
    rows, *others = reference.shape
    value = _bindable(location).allocate(spec, (rows + 1, *others))
    binding.bind_ortvalue_output(spec.name, value)
    try:
        model.session.run_with_iobinding(binding)
    except Exception:
        return {"wrong": None}
    return {"wrong": f"one of shape {value.shape()} was accepted for an output of shape {list(reference.shape)}"}


def _bindable(location: Location) -> Memory:
    if location.own is None:
        raise Unsupported("ONNX Runtime offers no memory of it to bind")
    return location.own


def _check_memory(device: Any, memory: EpDeviceMemory | None, kind: str) -> Iterator[Check]:
    if memory is None:
        yield _check("allocate", f"{kind} memory", NOT_OFFERED, f"memory_info({kind}) is None")
        return
    answer = providers.try_memory(device, memory.info)
    yield _try_memory("allocate", f"{kind} memory, sizes from 0 elements to 1 MiB", _allocate, memory)
    yield _try_memory("allocate", f"{kind} memory, {_AT_ONCE} values at a time", _allocate_many, memory)
    if answer.is_on_host:
        yield _check("copy", f"{kind} memory", NOT_OFFERED, "it is host memory, which is bound in place")
        return
    if answer.copy_problem is not None and not answer.has_failed:
        yield _check("copy", f"{kind} memory", NOT_OFFERED, answer.copy_problem)
        return
    yield _try_memory("copy", f"{kind} memory in and out, {', '.join(_TYPES)}", _copy_rounds, memory)
    yield _try_memory("copy", f"{kind} memory to {kind} memory", _copy_inside, memory)


def _allocate(memory: EpDeviceMemory) -> None:
    for count in _SIZES:
        memory.allocate(TensorSpec(f"{count} elements", "tensor(float)", (count,)), (count,))


def _allocate_many(memory: EpDeviceMemory) -> None:
    """All are there at once, so that each must keep its own contents."""
    spec = TensorSpec("value", "tensor(float)", (64,))
    values = [memory.allocate(spec, (64,)) for _ in range(_AT_ONCE)]
    addresses = sorted(value.data_ptr() for value in values)
    if any(after - before < 256 for before, after in itertools.pairwise(addresses)):
        raise BenchmarkFailed("values that are there at the same time overlap")


def _copy_rounds(memory: EpDeviceMemory) -> None:
    for element, count in itertools.product(_TYPES, _SIZES):
        spec = TensorSpec("value", f"tensor({element})", (count,))
        sent: Array = (np.arange(count) % 100).astype(spec.dtype)
        try:
            value = memory.allocate(spec, (count,))
            is_right = _does_arrive(memory, spec, sent, value, value)
        except Exception as error:
            raise BenchmarkFailed(f"{element}: {ort_text(error)}") from None
        if not is_right:
            raise BenchmarkFailed(f"{element}: a copy in and out gives other bytes")


def _does_arrive(memory: EpDeviceMemory, spec: TensorSpec, sent: Array, first: Any, last: Any) -> bool:
    """Whether what is copied into one value, and from there to another, comes back from that."""
    back = poison(sent)
    memory.upload([spec], [sent], [first])()
    if last is not first:
        copy_tensors([first], [last])()
    memory.download([spec], [last], [back])()
    return np.array_equal(sent, back)


def _copy_inside(memory: EpDeviceMemory) -> None:
    spec = TensorSpec("value", "tensor(float)", (1000,))
    one, other = memory.allocate(spec, (1000,)), memory.allocate(spec, (1000,))
    if not _does_arrive(memory, spec, np.arange(1000, dtype=np.float32), one, other):
        raise BenchmarkFailed("other bytes arrive")


def _try_memory(part: str, what: str, call: Callable[[EpDeviceMemory], None], memory: EpDeviceMemory) -> Check:
    with environment.announce(f"checking: {part}: {what}"):
        try:
            call(memory)
        except Exception as error:
            return _check(part, what, FAILED, ort_text(error))
    return _check(part, what, PASSED, "")


def _check(part: str, what: str, verdict: str, how: str) -> Check:
    return Check(part=part, what=what, verdict=verdict, how=one_line(how) if how else "")
