"""Nsight Systems: starts it around a session, and has it summarise what it recorded.

The options are those of ``nsys profile`` and ``nsys stats`` in NVIDIA's *Nsight Systems User Guide*.
"""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, TypeVar

from ortbench.core import signals
from ortbench.core.errors import BAD_INPUT, BadInput, BenchmarkFailed, one_line
from ortbench.core.files import write_or_note
from ortbench.core.processes import CAPTURE, DOMAIN, checked_output, nameless_file, start_process
from ortbench.features.profile.analysis import Copies, Range, Recording

WHERE_TO_GET_IT = "https://developer.nvidia.com/nsight-systems"
RECORD = (
    "--trace=cuda,nvtx",
    "--cuda-memory-usage=true",
    "--sample=none",
    "--cpuctxsw=none",
    "--capture-range=nvtx",
    f"--nvtx-capture={CAPTURE}@{DOMAIN}",
    # "stop" ends the recording only; the default would end the session too.
    "--capture-range-end=stop",
)
STATS = ("nvtx_sum", "cuda_gpu_mem_time_sum", "cuda_gpu_mem_size_sum", "cuda_gpu_kern_sum")
_STATS_TIMEOUT_S = 600
T = TypeVar("T")
_SAVING_S = 30.0  # how long a session that is interrupted may take to save what it measured


def record(nsys: str, report: Path, command: Sequence[str]) -> None:
    """Run a command, which must push the capture range, under Nsight Systems; what both print goes to ``nsys.log`` beside the
    report, whose path has no suffix.

    Raises:
        BadInput, BenchmarkFailed: the command failed (in its own words), or there is no report.
        Stopped: the program is to end; the command was told so, and had time to save what it has.
    """
    log = report.with_name("nsys.log")
    with nameless_file() as file:
        try:
            code = _attend([nsys, "profile", *RECORD, f"--output={report}", *command], file.fileno())
        finally:
            file.seek(0)
            text = file.read()
            write_or_note(log, text)
    said = text.decode(errors="replace").splitlines()
    if code != 0:
        own = [text.removeprefix("ortbench: ") for text in said if text.startswith("ortbench: ")]
        if own:
            raise (BadInput if code == BAD_INPUT else BenchmarkFailed)(own[-1])
        words = one_line(said[-1] if said else "no output", 200)
        raise BenchmarkFailed(f"nsys ended with exit code {code}: {words} (see {log})")
    if not file_of(report, ".nsys-rep").exists() and not import_stream(nsys, report):
        raise BenchmarkFailed(f"Nsight Systems wrote no report; what it said is in {log}")


def import_stream(nsys: str, report: Path) -> bool:
    """Make a report of a ``.qdstrm``, which is all that nsys leaves where it does not find its own importer; False without one.

    Raises:
        BenchmarkFailed: there is no importer here, or it fails.
    """
    stream = file_of(report, ".qdstrm")
    if not stream.exists():
        return False
    beside = sorted(Path(nsys).resolve().parents[1].glob("*/QdstrmImporter"))
    found = shutil.which("QdstrmImporter") or next(iter(beside), None)
    if found is None:
        raise BenchmarkFailed(
            f"Nsight Systems left {stream.name} and has no QdstrmImporter here; where the same version is whole: "
            f"QdstrmImporter -i {stream.name}"
        )
    checked_output([str(found), "-i", str(stream)], _STATS_TIMEOUT_S)
    return file_of(report, ".nsys-rep").exists()


def _attend(line: Sequence[str], output: int) -> int:
    """Run a command and those that it starts, and end all of them if the program is to end; its exit code."""
    process = start_process(line[0], line, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
    try:
        with signals.stoppable_wait():
            return process.wait()
    except KeyboardInterrupt:
        _tell(process, signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_SAVING_S)
        raise
    finally:
        if process.poll() is None:
            _tell(process, getattr(signal, "SIGKILL", signal.SIGTERM))
            process.wait()


def _tell(process: subprocess.Popen[bytes], number: int) -> None:
    """Send a signal to a process and those that it started, where there are groups of processes."""
    if hasattr(os, "killpg"):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
    else:
        process.terminate()


def summarise(nsys: str, report: Path) -> Path:
    """Run ``nsys stats``: tables as CSV beside the report, and its export to SQLite, whose path is returned;
    `BenchmarkFailed` where it fails."""
    line = [nsys, "stats", "--force-export=true", "--format=csv", f"--report={','.join(STATS)}", f"--output={report}"]
    said = checked_output([*line, str(file_of(report, ".nsys-rep"))], _STATS_TIMEOUT_S)
    for name in STATS:  # it leaves an empty file where nothing was recorded
        table = file_of(report, f"_{name}.csv")
        if table.exists() and table.stat().st_size == 0:
            table.unlink()
    database = file_of(report, ".sqlite")
    if not database.exists():
        raise BenchmarkFailed(f"nsys stats made no export: {one_line(said, 200)}")
    return database


def file_of(report: Path, suffix: str) -> Path:
    """A file beside a report, whose path has no suffix."""
    return report.with_name(report.name + suffix)


_PUSH_POP, _DOMAIN_CREATE = 59, 75  # NVTX_EVENTS.eventType
_PROCESS = -1 << 24  # the part of a globalTid, signed as SQLite's integers are, that all threads of a process share
_HOST_MEMORY = {"Pageable", "Pinned"}


def read_export(database: Path, nsys_version: str, report: Path) -> Recording:
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
    kernels: list[tuple[int, int, int]] = _read_launches(connection, tables, "KERNEL", "it.end - it.start")
    copies = []
    columns = "kind.label, source.label, target.label, it.bytes, it.end - it.start"
    labels = """
        JOIN ENUM_CUDA_MEMCPY_OPER AS kind ON kind.id = it.copyKind
        LEFT JOIN ENUM_CUDA_MEM_KIND AS source ON source.id = it.srcKind
        LEFT JOIN ENUM_CUDA_MEM_KIND AS target ON target.id = it.dstKind
    """
    for start, process, kind, source, target, size, took in _read_launches(
        connection, tables, "MEMCPY", columns, labels
    ):
        memory = next((it for it in (source, target) if it in _HOST_MEMORY), None)
        copies.append((start, process, Copies(kind, memory, 1, size, took)))
    durations: dict[str, list[int]] = defaultdict(list)
    times: dict[tuple[int, str], list[tuple[int, int]]] = defaultdict(list)  # of ranges, by process and name
    for start, end, process, name in _ranges(connection) if "NVTX_EVENTS" in tables else ():
        durations[name].append(end - start)
        times[process, name].append((start, end))
    copied, run = _by_range(copies, times), _by_range(kernels, times)
    ranges = {
        name: Range(name, tuple(taken), _join_copies(copied[name]), len(run[name]), sum(run[name]))
        for name, taken in durations.items()
    }
    return Recording(
        version=nsys_version,
        report=str(report),
        gpu=_gpu(connection) if copies or kernels else None,
        ranges=ranges,
        copies=_join_copies(copy for _, _, copy in copies),
        kernels=len(kernels),
        kernels_ns=sum(duration for _, _, duration in kernels),
    )


def _by_range(
    pieces: Iterable[tuple[int, int, T]], times: Mapping[tuple[int, str], Sequence[tuple[int, int]]]
) -> defaultdict[str, list[T]]:
    """Pieces of GPU work, of which it is known when they were launched and by which process, by range."""
    found: defaultdict[str, list[T]] = defaultdict(list)
    for launched, process, piece in pieces:
        for (owner, name), own in times.items():
            at = bisect_right(own, launched, key=lambda it: it[0]) - 1
            if owner == process and at >= 0 and launched <= own[at][1]:
                found[name].append(piece)
    return found


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
        (_PROCESS, _DOMAIN_CREATE, _PROCESS, _PROCESS, DOMAIN, _PUSH_POP),
    ).fetchall()
    return [(start, end, process, name) for start, end, process, name in found if name and "/" in name]


def _read_launches(
    connection: sqlite3.Connection, tables: Collection[str], kind: str, columns: str, joins: str = ""
) -> list[Any]:
    """When each piece of GPU work of a kind was launched, by which process, and what else there is to know of it, times in ns."""
    if not {"CUPTI_ACTIVITY_KIND_RUNTIME", f"CUPTI_ACTIVITY_KIND_{kind}"} <= {*tables}:
        return []
    return connection.execute(
        f"""
        SELECT call.start, call.globalTid & ?, {columns}
        FROM CUPTI_ACTIVITY_KIND_{kind} AS it
        JOIN CUPTI_ACTIVITY_KIND_RUNTIME AS call ON call.correlationId = it.correlationId
            AND (it.globalPid IS NULL OR call.globalTid & ? = it.globalPid & ?)
        {joins}
        """,
        (_PROCESS,) * 3,
    ).fetchall()


def _gpu(connection: sqlite3.Connection) -> str:
    try:
        names = [name for (name,) in connection.execute("SELECT DISTINCT name FROM TARGET_INFO_GPU")]
    except sqlite3.Error:
        names = []
    return ", ".join(filter(None, names)) or "the GPU"


def _join_copies(copies: Iterable[Copies]) -> tuple[Copies, ...]:
    """Copies of the same kind and memory as one."""
    found: dict[tuple[str, str | None], list[Copies]] = defaultdict(list)
    for copy in copies:
        found[copy.kind, copy.memory].append(copy)
    return tuple(
        Copies(kind, memory, len(same), sum(it.size for it in same), sum(it.time_ns for it in same))
        for (kind, memory), same in found.items()
    )
