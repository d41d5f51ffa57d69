"""What can be done with a memory of an EP's device: tried, since what its kind of hardware suggests has been wrong three times.

EPs have offered DEFAULT memory that is plain host memory, memory without copies, and memory whose first use ends the
process. A trial makes one value, copies a pattern in and out, and looks at the answer; nothing of it stays allocated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import onnxruntime as ort
from onnxruntime.capi import _pybind_state as ort_native

from ortbench.core.errors import BenchmarkFailed, ort_text
from ortbench.worker import messages
from ortbench.worker.session import libraries
from ortbench.worker.session.libraries import library_of
from ortbench.worker.session.tensors import Array, TensorSpec, host_value, host_view

LIMIT_S = 20.0  # of one trial, which takes a millisecond where the device's context is there
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
        with messages.announce(f"trying {what} of {ep_device.ep_name}", LIMIT_S, key):
            _results[key] = trial()
    return _results[key]


def memory_infos(ep_device: Any) -> tuple[Any, Any]:
    """The OrtMemoryInfo of an EP device's DEFAULT and of its HOST_ACCESSIBLE memory, each None where it has none."""
    kinds = ort.OrtDeviceMemoryType
    return ep_device.memory_info(kinds.DEFAULT), ep_device.memory_info(kinds.HOST_ACCESSIBLE)


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
