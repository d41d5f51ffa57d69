"""Builds the recorder and reads its record.

The recorder is an NVTX injection library in C (``recorder.c`` says what it writes), compiled against the headers of the
package ``nvidia-nvtx``, wherever that is installed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

from tests.compiling import BuildError, compile_library

PACKAGE = "nvidia-nvtx"
SOURCE = Path(__file__).parent / "recorder.c"


def headers() -> Path:
    """The folder in which ``nvtx3/nvToolsExt.h`` lies."""
    try:
        files = metadata.files(PACKAGE) or []
    except metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.parts[-2:] == ("nvtx3", "nvToolsExt.h"):
            return Path(str(file.locate())).parent.parent
    raise BuildError(f"the package {PACKAGE} is not installed, or has no headers")


def build(directory: Path) -> Path:
    """Compile the recorder into a folder, and give its path."""
    flags = ("-fvisibility=hidden", f"-I{headers()}")
    return compile_library("the NVTX recorder", [SOURCE], directory, flags, ("-lpthread",))


def environ(library: Path, record: Path) -> dict[str, str]:
    """What a process needs in its environment so that NVTX is recorded in it and those that it starts."""
    return {"NVTX_INJECTION64_PATH": str(library), "NVTX_RECORD": str(record)}


@dataclass
class Range:
    """A range of a thread; None for what it has not, and its times, those of `time.perf_counter_ns`, while it is open."""

    name: str | None
    category: str | None
    color: int | None
    payload: float | None
    depth: int  # how many ranges of its domain and thread are around it
    inner: list[Range] = field(default_factory=list)  # in order
    start_ns: int | None = None
    end_ns: int | None = None

    @property
    def ns(self) -> int:
        """How long it lasted."""
        assert self.start_ns is not None
        assert self.end_ns is not None
        return self.end_ns - self.start_ns

    def walk(self) -> Iterator[Range]:
        """This range and all in it."""
        yield self
        for part in self.inner:
            yield from part.walk()


@dataclass
class Record:
    """What was emitted in one domain."""

    ranges: list[Range] = field(default_factory=list)  # of all threads: those that are in no other, as they were pushed
    others: list[dict[str, Any]] = field(default_factory=list)  # marks and ranges of processes
    pids: set[int] = field(default_factory=set)  # of the processes that emitted
    exits: set[int] = field(default_factory=set)  # of those that ended in order: a tool could write what it held

    @classmethod
    def read(cls, path: Path, domain: str | None) -> Record:
        """Read the events of a domain; None is the default domain. Without a file nothing was emitted."""
        record = cls()
        open_ranges: dict[tuple[int, int], list[Range]] = {}
        for line in path.read_text(errors="replace").splitlines() if path.exists() else []:
            event = json.loads(line)
            if event["event"] == "exit":
                record.exits.add(event["pid"])
            elif event["domain"] == domain:
                record.pids.add(event["pid"])
                record._take(event, open_ranges.setdefault((event["pid"], event["tid"]), []))
        return record

    def _take(self, event: dict[str, Any], stack: list[Range]) -> None:
        match event["event"]:
            case "push":
                begun = Range(*(event[key] for key in ("message", "category", "color", "payload", "depth")))
                (stack[-1].inner if stack else self.ranges).append(begun)
                stack.append(begun)
            case "pop":  # of what was pushed, or this is an error
                ended = stack.pop()
                ended.start_ns, ended.end_ns = event["start_ns"], event["end_ns"]
            case _:
                self.others.append(event)
