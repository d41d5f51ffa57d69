"""The pass behind `ortbench run --measure-copies`: NVIDIA's CUPTI records what the GPU does in some runs.

By the package ``cupti-python`` (13.4), whose module ``cupti.cupti`` has the C API's functions under other names.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ortbench.analysis.copies import GAP_NS, KERNEL, Activity, Moment, measured
from ortbench.core.errors import BenchmarkFailed, OrtbenchError, one_line
from ortbench.model.modes import D2H, H2D, LATENCY
from ortbench.worker.modes.base import Mode
from ortbench.worker.state import State

if TYPE_CHECKING:
    from ortbench.model.schema import Measured

_BUFFER_BYTES = 8 << 20  # as in NVIDIA's samples; more are asked for as they fill
_FORCED = 1  # CUPTI_ACTIVITY_FLAG_FLUSH_FORCED: also buffers that are not full
_READINGS = 10  # of both clocks; the one that took the least time is the best


def measure_copies(state: State, modes: Sequence[str], runs: int) -> dict[str, Measured]:
    """Record what the GPU does in some runs of modes that are set up. Raises `BenchmarkFailed`: there is no CUPTI here, or it refuses."""
    cupti = _load()
    try:
        recorder = Recorder(cupti)
        return {name: _measure(recorder, state.modes[name], runs) for name in modes}
    except OrtbenchError:
        raise
    except Exception as error:  # cuptiError, or NotSupportedError where there is no driver
        raise BenchmarkFailed(f"CUPTI refuses: {one_line(error)}") from None


def _load() -> Any:
    try:
        from cupti import cupti
    except Exception as error:
        if isinstance(error, ImportError) and (error.name or "").partition(".")[0] == "cupti":
            raise BenchmarkFailed("the package cupti-python is not installed; pip install 'ortbench[cupti]'") from None
        raise BenchmarkFailed(f"the package cupti-python does not load: {one_line(error)}") from None
    return cupti


class Recorder:
    """CUPTI's activity records of copies and kernels. One a process: its callbacks are registered for good. Raises
    `Exception`: whatever CUPTI says."""

    def __init__(self, cupti: Any) -> None:
        self._cupti = cupti
        self._seen: list[Activity] = []
        kinds, copies = cupti.ActivityKind, cupti.ActivityMemcpyKind
        # The concurrent kind: CUPTI's KERNEL would have kernels run one after the other.
        self._kinds = (kinds.MEMCPY, kinds.CONCURRENT_KERNEL)
        self._directions = {copies.HTOD: H2D, copies.HTOA: H2D, copies.DTOH: D2H, copies.ATOH: D2H}
        cupti.activity_register_callbacks(lambda: (_BUFFER_BYTES, 0), self._read_buffer)

    def _read_buffer(self, records: Sequence[Any]) -> None:
        """Keep what a full buffer holds; the records themselves end with it."""
        for record in records:
            activity = self._activity(record)
            if activity is not None and activity.end_ns:  # CUPTI gives 0 where it could not collect a time
                self._seen.append(activity)

    def _activity(self, record: Any) -> Activity | None:
        memcpy, kernel = self._kinds
        if record.kind == kernel:
            return Activity(KERNEL, record.start, record.end)
        direction = self._directions.get(record.copy_kind) if record.kind == memcpy else None
        if direction is None:
            return None
        host = record.src_kind if direction == H2D else record.dst_kind
        memory = self._cupti.ActivityMemoryKind(host).name.lower()
        return Activity(direction, record.start, record.end, record.bytes, memory)

    @contextmanager
    def recording(self) -> Iterator[list[Activity]]:
        """Record what happens in the block; the list is filled when it ends."""
        found: list[Activity] = []
        enabled = []
        try:
            for kind in self._kinds:
                self._cupti.activity_enable(kind)
                enabled.append(kind)
            self._seen.clear()
            yield found
            self._cupti.activity_flush_all(_FORCED)
            found += self._seen
        finally:
            for kind in enabled:
                self._cupti.activity_disable(kind)

    def moment(self) -> Moment:
        readings = []
        for _ in range(_READINGS):
            start = time.perf_counter_ns()
            theirs = self._cupti.get_timestamp()
            end = time.perf_counter_ns()
            readings.append((end - start, Moment(theirs, (start + end) // 2)))
        return min(readings, key=lambda reading: reading[0])[1]


def _measure(recorder: Recorder, mode: Mode, runs: int) -> Measured:
    call, a, b = mode.phases()[LATENCY]
    with recorder.recording() as found:
        call(a, b)  # the first with CUPTI pays for its buffers
        before, spans = recorder.moment(), []
        for _ in range(runs):
            time.sleep(GAP_NS / 1e9)
            start = time.perf_counter_ns()
            kept = call(a, b)
            spans.append((start, time.perf_counter_ns()))
            del kept
        time.sleep(GAP_NS / 1e9)
        after = recorder.moment()
    return measured(spans, found, before, after)
