"""Writes a database as ``nsys export --type sqlite`` does: the tables and columns that ortbench reads, and more.

Tables are those of the *SQLite Schema Reference*, with the columns that Nsight Systems 2023.4.4 makes; it makes a table
only where something was recorded for it.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from itertools import count
from pathlib import Path

PUSH_POP, DOMAIN_CREATE = 59, 75

_TABLES = {
    "StringIds": "id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL",
    "ENUM_CUDA_MEMCPY_OPER": "id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT",
    "ENUM_CUDA_MEM_KIND": "id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT",
    "NVTX_EVENTS": """start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, rangeId INTEGER, category INTEGER,
        color INTEGER, text TEXT, globalTid INTEGER, textId INTEGER, domainId INTEGER, uint64Value INTEGER""",
    "CUPTI_ACTIVITY_KIND_RUNTIME": """start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER NOT NULL,
        globalTid INTEGER, correlationId INTEGER, nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL,
        callchainId INTEGER""",
    "CUPTI_ACTIVITY_KIND_MEMCPY": """start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
        contextId INTEGER NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER,
        bytes INTEGER NOT NULL, copyKind INTEGER NOT NULL, srcKind INTEGER, dstKind INTEGER""",
    "CUPTI_ACTIVITY_KIND_KERNEL": """start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
        contextId INTEGER NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER,
        demangledName INTEGER NOT NULL, shortName INTEGER NOT NULL""",
    "TARGET_INFO_GPU": "id INTEGER NOT NULL, name TEXT",
}
_ALWAYS = ("StringIds", "ENUM_CUDA_MEMCPY_OPER", "ENUM_CUDA_MEM_KIND")
_COPY_KINDS = {0: "Unknown", 1: "Host-to-Device", 2: "Device-to-Host", 8: "Device-to-Device"}
_MEMORY_KINDS = {0: "Pageable", 1: "Pinned", 2: "Device", 4: "Managed"}


class Export:
    """What was recorded; times in ns on one clock."""

    def __init__(self) -> None:
        self._rows: dict[str, list[dict[str, object]]] = {name: [] for name in _ALWAYS}
        self._strings: dict[str, int] = {}
        self._domains: dict[str, int] = {}
        self._correlation = count(1)

    def push_pop(self, domain: str, name: str, start: int, end: int) -> None:
        """A range that was pushed and popped."""
        by = {"globalTid": _global(1, 7)}
        if domain not in self._domains:
            number = self._domains[domain] = len(self._domains) + 1
            self._add("NVTX_EVENTS", start=0, eventType=DOMAIN_CREATE, text=domain, domainId=number, **by)
        of = {"textId": self._string(name), "domainId": self._domains[domain], **by}
        self._add("NVTX_EVENTS", start=start, end=end, eventType=PUSH_POP, **of)

    def copy(self, launched: int, start: int, end: int, size: int, kind: str, source: str, target: str) -> None:
        """A copy on the GPU, launched by a call at `launched`."""
        kinds = {label: number for number, label in _COPY_KINDS.items()}
        memories = {label: number for number, label in _MEMORY_KINDS.items()}
        work = self._work(launched, start, end, "cudaMemcpyAsync")
        places = {"srcKind": memories[source], "dstKind": memories[target]}
        self._add("CUPTI_ACTIVITY_KIND_MEMCPY", **work, bytes=size, copyKind=kinds[kind], **places)

    def kernel(self, launched: int, start: int, end: int, process: int = 1) -> None:
        """A kernel, launched by a call at `launched`."""
        name = self._string("kernel")
        work = self._work(launched, start, end, "cudaLaunchKernel", process)
        self._add("CUPTI_ACTIVITY_KIND_KERNEL", **work, demangledName=name, shortName=name)

    def _work(self, launched: int, start: int, end: int, call: str, process: int = 1) -> dict[str, object]:
        number = next(self._correlation)
        by = {"eventClass": 0, "globalTid": _global(process, 7), "correlationId": number}
        what = {"nameId": self._string(call), "returnValue": 0}
        self._add("CUPTI_ACTIVITY_KIND_RUNTIME", start=launched, end=launched + 1, **by, **what)
        where = {"deviceId": 0, "contextId": 1, "streamId": 7, "globalPid": _global(process, 0)}
        return {"start": start, "end": end, "correlationId": number, **where}

    def _string(self, text: str) -> int:
        return self._strings.setdefault(text, len(self._strings) + 1)

    def _add(self, table: str, **row: object) -> None:
        self._rows.setdefault(table, []).append(row)

    def write(self, path: Path) -> Path:
        """Write the database and give its path."""
        rows = dict(self._rows)
        rows["StringIds"] = [{"id": number, "value": text} for text, number in self._strings.items()]
        for table, labels in (("ENUM_CUDA_MEMCPY_OPER", _COPY_KINDS), ("ENUM_CUDA_MEM_KIND", _MEMORY_KINDS)):
            rows[table] = [{"id": number, "name": label, "label": label} for number, label in labels.items()]
        if "CUPTI_ACTIVITY_KIND_RUNTIME" in rows:
            rows["TARGET_INFO_GPU"] = [{"id": 0, "name": "A GPU"}]
        path.unlink(missing_ok=True)
        with closing(sqlite3.connect(path)) as connection, connection:
            for table, found in rows.items():
                connection.execute(f"CREATE TABLE {table} ({_TABLES[table]})")
                for row in found:
                    names, marks = ", ".join(row), ", ".join("?" * len(row))
                    connection.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", tuple(row.values()))
        return path


def _global(process: int, thread: int) -> int:
    """A globalTid: virtual machine, process and thread in 64 bits."""
    return 1 << 48 | process << 24 | thread
