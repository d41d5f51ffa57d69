"""What an EP's device must do: allocate, copy, give streams, run in several threads. For `ortbench devices --check`."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from threading import Barrier
from typing import TYPE_CHECKING, Any

import numpy as np

from ortbench.core.errors import BenchmarkFailed, one_line, ort_text
from ortbench.worker import telling
from ortbench.worker.proofs.outputs import difference
from ortbench.worker.session import copy_streams, first_run, memory_trial, session
from ortbench.worker.session.libraries import all_ep_devices, library_of, real_path, register_library
from ortbench.worker.session.memory import EpDeviceMemory, copy_tensors, ep_device_memories
from ortbench.worker.session.providers import Provider
from ortbench.worker.session.tensors import Array, TensorSpec

if TYPE_CHECKING:
    from ortbench.model.protocol import Check
    from ortbench.worker.state import Opened

PASSED, FAILED, NOT_OFFERED = "passed", "failed", "not offered"
_TYPES = ("float", "float16", "double", "int8", "uint8", "int32", "int64", "bool")
_SIZES = (0, 1, 3, 1000, 1 << 20)  # elements
_AT_ONCE = 100  # values


def check_device(library: str, number: int) -> list[Check]:
    """Every check of one of a library's devices that needs no session.

    Args:
        library: path of it.
        number: of the device among all those of the library.
    """
    register_library(library)
    device = [it for it in all_ep_devices() if library_of(it) == real_path(library)][number]
    provider = Provider(device.ep_name, device, library=library)
    found: list[Check] = []
    for memory, kind in zip(ep_device_memories(device), ("DEFAULT", "HOST_ACCESSIBLE"), strict=True):
        found += _of_memory(device, memory, kind)
    return [*found, *_of_streams(provider)]


def check_runs(opened: Opened, threads: int, own: bool, runs: int) -> str | None:
    """Run a model with arrays in several threads at a time; what goes wrong, in words, or None.

    Args:
        opened: the model.
        threads: how many; each has inputs of its own.
        own: each has a session of its own.
        runs: in each thread.
    """
    model = opened.model
    models = [
        session.open_model(opened.path, opened.target, model.provider) if own and it else model for it in range(threads)
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
                if (wrong := difference(name, got, reference)) is not None:
                    return wrong
        return None

    with ThreadPoolExecutor(threads) as pool:
        return next(filter(None, pool.map(differs, range(threads))), None)


def _of_memory(device: Any, memory: EpDeviceMemory | None, kind: str) -> Iterator[Check]:
    if memory is None:
        yield _check("allocate", f"{kind} memory", NOT_OFFERED, f"memory_info({kind}) is None")
        return
    answer = memory_trial.answer(device, memory.info)
    yield _tried("allocate", f"{kind} memory, sizes from 0 elements to 1 MiB", lambda: _allocate(memory))
    yield _tried("allocate", f"{kind} memory, {_AT_ONCE} values at a time", lambda: _many(memory))
    if answer.on_host:
        yield _check("copy", f"{kind} memory", NOT_OFFERED, "it is ordinary host memory, which is bound in place")
        return
    if answer.copies_lack is not None and not answer.failed:
        yield _check("copy", f"{kind} memory", NOT_OFFERED, answer.copies_lack)
        return
    yield _tried("copy", f"{kind} memory in and out, {', '.join(_TYPES)}", partial(_rounds, memory))
    yield _tried("copy", f"{kind} memory to {kind} memory", lambda: _inside(memory))


def _allocate(memory: EpDeviceMemory) -> str:
    for count in _SIZES:
        memory.allocate(TensorSpec(f"{count} elements", "tensor(float)", (count,)), (count,))
    return ""


def _many(memory: EpDeviceMemory) -> str:
    """All are there at once, so that each must keep its own contents."""
    spec = TensorSpec("value", "tensor(float)", (64,))
    values = [memory.allocate(spec, (64,)) for _ in range(_AT_ONCE)]
    addresses = sorted(value.data_ptr() for value in values)
    if any(after - before < 256 for before, after in itertools.pairwise(addresses)):
        raise BenchmarkFailed("values that are there at the same time overlap")
    return ""


def _rounds(memory: EpDeviceMemory) -> str:
    problems: dict[str, list[str]] = {}
    for element in _TYPES:
        try:
            _round(memory, element)
        except Exception as error:
            problems.setdefault(ort_text(error), []).append(element)
    if problems:
        raise BenchmarkFailed("; ".join(f"{', '.join(elements)}: {problem}" for problem, elements in problems.items()))
    return ""


def _round(memory: EpDeviceMemory, element: str) -> None:
    for count in _SIZES:
        spec = TensorSpec("value", f"tensor({element})", (count,))
        sent: Array = (np.arange(count) % 100).astype(spec.dtype)
        back = np.empty_like(sent)
        value = memory.allocate(spec, (count,))
        memory.upload([spec], [sent], [value])()
        memory.download([spec], [value], [back])()
        if not np.array_equal(sent, back):
            raise BenchmarkFailed("a copy in and out gives other bytes")


def _inside(memory: EpDeviceMemory) -> str:
    spec = TensorSpec("value", "tensor(float)", (1000,))
    sent, back = np.arange(1000, dtype=np.float32), np.zeros(1000, np.float32)
    one, other = memory.allocate(spec, (1000,)), memory.allocate(spec, (1000,))
    memory.upload([spec], [sent], [one])()
    copy_tensors([one], [other])()
    memory.download([spec], [other], [back])()
    if not np.array_equal(sent, back):
        raise BenchmarkFailed("other bytes arrive")
    return ""


def _of_streams(provider: Provider) -> Iterator[Check]:
    problem = copy_streams.problem(provider)
    yield _check("streams", "a copy on a stream arrives", PASSED if problem is None else NOT_OFFERED, problem or "")


def _tried(part: str, what: str, call: Callable[[], str]) -> Check:
    with telling.about(f"checking: {part}: {what}"):
        try:
            return _check(part, what, PASSED, call())
        except Exception as error:
            return _check(part, what, FAILED, ort_text(error))


def _check(part: str, what: str, verdict: str, how: str) -> Check:
    return {"part": part, "what": what, "verdict": verdict, "how": one_line(how) if how else ""}
