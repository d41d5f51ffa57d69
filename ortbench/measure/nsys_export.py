"""What Nsight Systems recorded, from its export to SQLite.

The tables are those of NVIDIA's *SQLite Schema Reference*; a table is only there if something was recorded for it.
"""

from __future__ import annotations

import sqlite3
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

from ortbench.analysis.nodes.nsight import Copies, Range, Recording
from ortbench.core.errors import BenchmarkFailed
from ortbench.core.profiler import DOMAIN
from ortbench.measure.nsys import file_of

_PUSH_POP, _DOMAIN_CREATE = 59, 75  # NVTX_EVENTS.eventType
_PROCESS = 0xFFFFFFFFFF000000  # the part of a globalTid that all threads of a process share
_HOST_MEMORY = {"Pageable", "Pinned"}


def read(database: Path, nsys_version: str, report: Path) -> Recording:
    """What was recorded, from the export.

    GPU work belongs to the range during which the process called the CUDA function that launched it: the two share a
    correlation id. (``nsys stats`` does so too, thread by thread; ranges of one name do not overlap in a session, so that
    work launched by the EP's own threads can count as well.) Work in a step of a loop is work of the loop, too.

    Raises:
        BenchmarkFailed: it is not an export of Nsight Systems.
    """
    try:
        with closing(sqlite3.connect(f"{database.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            return _read(connection, nsys_version, file_of(report, ".nsys-rep"))
    except sqlite3.Error as error:
        raise BenchmarkFailed(f"{database} is not an export that this version can read: {error}") from None


def _read(connection: sqlite3.Connection, nsys_version: str, report: Path) -> Recording:
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    has_cuda = "CUPTI_ACTIVITY_KIND_RUNTIME" in tables
    copies = _copies(connection) if has_cuda and "CUPTI_ACTIVITY_KIND_MEMCPY" in tables else []
    kernels = _kernels(connection) if has_cuda and "CUPTI_ACTIVITY_KIND_KERNEL" in tables else []
    ranges = _ranges(connection) if "NVTX_EVENTS" in tables else []
    work = _Work(ranges)
    for launched, process, copy in copies:
        work.add_copy(launched, process, copy)
    for launched, process, duration in kernels:
        work.add_kernel(launched, process, duration)
    return Recording(
        version=nsys_version,
        report=str(report),
        gpu=_gpu(connection) if copies or kernels else None,
        ranges=work.by_name(),
        copies=_joined(copy for _, _, copy in copies),
        kernels=len(kernels),
        kernels_ns=sum(duration for _, _, duration in kernels),
    )


def _ranges(connection: sqlite3.Connection) -> list[tuple[int, int, int, str]]:
    """Start, end, process and name of every phase's range of our domain, by start."""
    found = connection.execute(
        """
        SELECT event.start, event.end, event.globalTid & ?, COALESCE(event.text, string.value)
        FROM NVTX_EVENTS AS event
        JOIN NVTX_EVENTS AS domain ON domain.eventType = ? AND domain.domainId = event.domainId
            AND domain.globalTid & ? = event.globalTid & ? AND domain.text = ?
        LEFT JOIN StringIds AS string ON string.id = event.textId
        WHERE event.eventType = ? AND event.end IS NOT NULL
        ORDER BY event.start
        """,
        (_signed(_PROCESS), _DOMAIN_CREATE, _signed(_PROCESS), _signed(_PROCESS), DOMAIN, _PUSH_POP),
    ).fetchall()
    return [(start, end, process, name) for start, end, process, name in found if name and "/" in name]


def _copies(connection: sqlite3.Connection) -> list[tuple[int, int, Copies]]:
    """When each copy was launched, by which process, and what it was."""
    found = connection.execute(
        """
        SELECT call.start, call.globalTid & ?, kind.label, source.label, target.label, copy.bytes, copy.end - copy.start
        FROM CUPTI_ACTIVITY_KIND_MEMCPY AS copy
        JOIN CUPTI_ACTIVITY_KIND_RUNTIME AS call ON call.correlationId = copy.correlationId
            AND (copy.globalPid IS NULL OR call.globalTid & ? = copy.globalPid & ?)
        JOIN ENUM_CUDA_MEMCPY_OPER AS kind ON kind.id = copy.copyKind
        LEFT JOIN ENUM_CUDA_MEM_KIND AS source ON source.id = copy.srcKind
        LEFT JOIN ENUM_CUDA_MEM_KIND AS target ON target.id = copy.dstKind
        """,
        (_signed(_PROCESS),) * 3,
    )
    return [
        (start, process, Copies(kind, next((it for it in (source, target) if it in _HOST_MEMORY), None), 1, size, took))
        for start, process, kind, source, target, size, took in found
    ]


def _kernels(connection: sqlite3.Connection) -> list[tuple[int, int, int]]:
    """When each kernel was launched, by which process, and how long it ran, ns."""
    return connection.execute(
        """
        SELECT call.start, call.globalTid & ?, kernel.end - kernel.start
        FROM CUPTI_ACTIVITY_KIND_KERNEL AS kernel
        JOIN CUPTI_ACTIVITY_KIND_RUNTIME AS call ON call.correlationId = kernel.correlationId
            AND (kernel.globalPid IS NULL OR call.globalTid & ? = kernel.globalPid & ?)
        """,
        (_signed(_PROCESS),) * 3,
    ).fetchall()


def _gpu(connection: sqlite3.Connection) -> str:
    try:
        names = [name for (name,) in connection.execute("SELECT DISTINCT name FROM TARGET_INFO_GPU")]
    except sqlite3.Error:
        names = []
    return ", ".join(filter(None, names)) or "the GPU"


class _Work:
    """Which ranges each piece of GPU work belongs to."""

    def __init__(self, ranges: Sequence[tuple[int, int, int, str]]) -> None:
        self._ranges = ranges
        self._times: dict[int, dict[str, list[tuple[int, int]]]] = defaultdict(lambda: defaultdict(list))
        for start, end, process, name in ranges:
            self._times[process][name].append((start, end))
        self._copies: dict[str, list[Copies]] = defaultdict(list)
        self._kernels: dict[str, list[int]] = defaultdict(list)

    def _names(self, launched: int, process: int) -> Iterator[str]:
        for name, times in self._times[process].items() if process in self._times else ():
            at = bisect_right(times, launched, key=lambda it: it[0]) - 1
            if at >= 0 and launched <= times[at][1]:
                yield name

    def add_copy(self, launched: int, process: int, copy: Copies) -> None:
        for name in self._names(launched, process):
            self._copies[name].append(copy)

    def add_kernel(self, launched: int, process: int, duration: int) -> None:
        for name in self._names(launched, process):
            self._kernels[name].append(duration)

    def by_name(self) -> dict[str, Range]:
        durations: dict[str, list[int]] = defaultdict(list)
        for start, end, _, name in self._ranges:
            durations[name].append(end - start)
        return {
            name: Range(
                name, tuple(taken), _joined(self._copies[name]), len(self._kernels[name]), sum(self._kernels[name])
            )
            for name, taken in durations.items()
        }


def _joined(copies: Iterable[Copies]) -> tuple[Copies, ...]:
    """Copies of the same kind and memory as one."""
    found: dict[tuple[str, str | None], list[Copies]] = defaultdict(list)
    for copy in copies:
        found[copy.kind, copy.memory].append(copy)
    return tuple(
        Copies(kind, memory, len(same), sum(it.size for it in same), sum(it.time_ns for it in same))
        for (kind, memory), same in found.items()
    )


def _signed(bits: int) -> int:
    """SQLite's integers are signed 64-bit ones."""
    return bits - (1 << 64) if bits >> 63 else bits
