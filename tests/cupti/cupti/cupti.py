"""What ortbench uses of ``cupti.cupti`` (cupti-python 13.4), with the reference device or the software CUDA runtime for a GPU.

Names, values and arguments are the package's own. Records are made of the device's trace, ``REFDEVICE_TRACE`` or ``SOFTCUDA_TRACE``, on a clock
that is far from `time.perf_counter_ns` and slightly fast, as CUPTI's may be. ``CUPTI_STAND_IN_FAILS`` is an error that
enabling raises.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

from tests import softcuda
from tests.refdevice import MEMORIES, Trace

_EPOCH_NS, _RATE = 1_700_000_000_000_000_000, 1.00002
_BEGUN = time.perf_counter_ns()


class cuptiError(Exception):
    """An error of CUPTI."""


ActivityKind = IntEnum("ActivityKind", {"MEMCPY": 1, "KERNEL": 3, "DRIVER": 4, "RUNTIME": 5, "CONCURRENT_KERNEL": 10})
ActivityMemcpyKind = IntEnum(
    "ActivityMemcpyKind", {"UNKNOWN": 0, "HTOD": 1, "DTOH": 2, "HTOA": 3, "ATOH": 4, "DTOD": 8}
)
ActivityMemoryKind = IntEnum("ActivityMemoryKind", {"UNKNOWN": 0, "PAGEABLE": 1, "PINNED": 2, "DEVICE": 3})


@dataclass
class Record:
    """A record of either kind."""

    kind: int
    start: int
    end: int
    bytes: int = 0
    copy_kind: int = 0
    src_kind: int = 0
    dst_kind: int = 0
    correlation_id: int = 0


_enabled: set[int] = set()
_since: int = 0
_callbacks: list[Callable[..., object]] = []


def activity_register_callbacks(
    func_buffer_requested: Callable[[], tuple[int, int]], func_buffer_completed: Callable[[list[Record]], object]
) -> None:
    """Register the callbacks."""
    size, records = func_buffer_requested()
    assert size > 0
    assert records == 0
    _callbacks[:] = [func_buffer_completed]


def activity_enable(kind: int) -> None:
    """Begin to record a kind."""
    global _since
    if message := os.environ.get("CUPTI_STAND_IN_FAILS"):
        raise cuptiError(message)
    _enabled.add(kind)
    _since = time.perf_counter_ns()


def activity_disable(kind: int) -> None:
    """Record a kind no longer."""
    _enabled.remove(kind)


def get_timestamp() -> int:
    """This moment."""
    return _theirs(time.perf_counter_ns())


def activity_flush_all(flag: int) -> None:
    """Hand over what was recorded, in buffers of a few records."""
    assert flag == 1
    records = [record for record in _records() if record.kind in _enabled]
    for first in range(0, len(records), 7):
        _callbacks[0](records[first : first + 7])


def _theirs(ours_ns: int) -> int:
    return _EPOCH_NS + round((ours_ns - _BEGUN) * _RATE)


def _records() -> list[Record]:
    return _of_cuda(Path(path)) if (path := os.environ.get("SOFTCUDA_TRACE")) else _of_device()


def _of_cuda(path: Path) -> list[Record]:
    """Of each kernel also the call that launched it; of those that ``CUPTI_STAND_IN_FORGETS`` begins with, not that."""
    found, forgotten = [], os.environ.get("CUPTI_STAND_IN_FORGETS", "none")
    for number, event in enumerate(softcuda.records(path), 1):
        start, end, asked = map(_theirs, (event.begin_ns, event.end_ns, event.asked_ns))
        if event.begin_ns < _since:
            continue
        if event.engine in _WAYS:
            copy, host, device = _WAYS[event.engine], ActivityMemoryKind[event.host.upper()], ActivityMemoryKind.DEVICE
            ends = (host, device) if event.engine == "h2d" else (device, host)
            found.append(Record(ActivityKind.MEMCPY, start, end, event.bytes, copy, *ends))
        if event.engine != "compute" or event.name in ("copy", "set"):
            continue
        found.append(Record(ActivityKind.CONCURRENT_KERNEL, start, end, correlation_id=number))
        if forgotten not in event.name:
            found.append(Record(ActivityKind.RUNTIME, asked - 400, asked + 200, correlation_id=number))
    return found


def _of_device() -> list[Record]:
    trace = Trace.read(Path(os.environ["REFDEVICE_TRACE"]))
    found = []
    for event in trace.of("inference", "h2d", "d2h"):
        if event["start_ns"] < _since:
            continue
        start, end = _theirs(int(event["start_ns"])), _theirs(int(event["end_ns"]))
        copy = _COPIES.get(int(event["kind"]))
        if copy is None:
            found.append(Record(ActivityKind.CONCURRENT_KERNEL, start, end))
        else:
            source, target = (_memory(int(event[side])) for side in ("source", "destination"))
            found.append(Record(ActivityKind.MEMCPY, start, end, int(event["bytes"]), copy, source, target))
    return found


_COPIES = {1: ActivityMemcpyKind.HTOD, 2: ActivityMemcpyKind.DTOH}
_WAYS = {"h2d": ActivityMemcpyKind.HTOD, "d2h": ActivityMemcpyKind.DTOH}


def _memory(number: int) -> int:
    kinds = {"host": ActivityMemoryKind.PAGEABLE, "default": ActivityMemoryKind.DEVICE}
    return kinds.get(MEMORIES[number], ActivityMemoryKind.UNKNOWN)
