"""A strict reader of traces: what does not keep to the Chrome trace format is an error.

After Google's document "Trace Event Format": the JSON object form, and of its events those that ortbench writes: complete
(``X``), instant (``i``) and metadata (``M``). Stricter than the viewers: whole nanoseconds, events in the order of their
times, names for all processes and threads that are used and for no others, and slices of a thread either apart or nested.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

COMMON = {"ph", "name", "pid", "tid", "ts"}
KEYS = {"X": COMMON | {"cat", "dur", "args"}, "i": COMMON | {"cat", "s", "args"}, "M": COMMON | {"args"}}
METADATA = {"process_name": "name", "process_sort_index": "sort_index",
            "thread_name": "name", "thread_sort_index": "sort_index"}  # fmt: skip


@dataclass(frozen=True)
class Slice:
    """A complete event; `depth` slices are around it, the innermost being `parent`. Times in ns since the trace's origin."""

    name: str
    category: str
    start: int
    duration: int
    args: dict[str, Any]
    depth: int
    parent: Slice | None

    @property
    def end(self) -> int:
        return self.start + self.duration

    def holds(self, other: Slice) -> bool:
        """Whether another one lies inside it."""
        return self.start <= other.start and other.end <= self.end


@dataclass
class Trace:
    """A trace that keeps to the format: slices in order, and instant events (name, time, args), by the names of process and thread; names
    of tracks by process, as they are to be shown."""

    other: dict[str, Any]
    tracks: dict[tuple[str, str], list[Slice]] = field(default_factory=dict)
    marks: dict[tuple[str, str], list[tuple[str, int, dict[str, Any]]]] = field(default_factory=dict)
    order: dict[str, list[str]] = field(default_factory=dict)

    @property
    def process(self) -> str:
        """The name of the only process."""
        (name,) = self.order
        return name

    def __getitem__(self, track: str) -> list[Slice]:
        return self.tracks[self.process, track]


def load(path: Path) -> Trace:
    """Read a trace file, which is compressed if its name says so."""
    return read(gzip.decompress(path.read_bytes()).decode() if path.suffix == ".gz" else path.read_text("utf-8"))


def read(text: str) -> Trace:
    """Read a trace; AssertionError if it does not keep to the format."""
    data = json.loads(text, parse_float=Decimal)
    assert set(data) == {"displayTimeUnit", "otherData", "traceEvents"}
    assert data["displayTimeUnit"] in ("ms", "ns")
    events = data["traceEvents"]
    for event in events:
        check_event(event)
    described = [event for event in events if event["ph"] == "M"]
    happened = events[len(described) :]
    assert all(event["ph"] != "M" for event in happened), "metadata comes first"
    assert happened == sorted(happened, key=lambda event: event["ts"]), "events by time"
    trace = Trace(data["otherData"])
    names = name_tracks(described, trace)
    assert {(event["pid"], event["tid"]) for event in happened} == set(names), "every thread is named, and used"
    for thread, track in names.items():
        of_thread = [event for event in happened if (event["pid"], event["tid"]) == thread]
        trace.tracks[track] = nested([event for event in of_thread if event["ph"] == "X"])
        marks = [event for event in of_thread if event["ph"] == "i"]
        trace.marks[track] = [(event["name"], nanoseconds(event["ts"]), event["args"]) for event in marks]
    return trace


def check_event(event: dict[str, Any]) -> None:
    """The keys and types of one event."""
    phase = event["ph"]
    assert KEYS[phase] - {"args"} <= set(event) <= KEYS[phase], event
    assert all(type(event[key]) is int and event[key] > 0 for key in ("pid", "tid")), event
    assert all(isinstance(event[key], str) and event[key] for key in ("name", "cat") if key in event), event
    assert isinstance(event.get("args", {}), dict), event
    assert nanoseconds(event["ts"]) >= 0, event
    assert nanoseconds(event.get("dur", 0)) >= 0, event
    assert event.get("s", "t") in ("g", "p", "t"), event
    if phase == "M":
        key = METADATA[event["name"]]
        assert set(event["args"]) == {key}, event
        assert type(event["args"][key]) is (str if key == "name" else int), event


def nanoseconds(microseconds: Decimal | int) -> int:
    """Microseconds with at most three decimals."""
    ns = Decimal(microseconds) * 1000
    assert ns == int(ns), microseconds
    return int(ns)


def name_tracks(described: list[dict[str, Any]], trace: Trace) -> dict[tuple[int, int], tuple[str, str]]:
    """The names of process and thread by their ids; each thing is said once, and ids are used once."""
    said = Counter((event["name"], event["pid"], event["tid"]) for event in described)
    assert set(said.values()) == {1}, said
    processes = {event["pid"]: event["args"]["name"] for event in described if event["name"] == "process_name"}
    threads = [event for event in described if event["name"] == "thread_name"]
    ranks = {event["tid"]: event["args"]["sort_index"] for event in described if event["name"] == "thread_sort_index"}
    ids = [*processes, *(event["tid"] for event in threads)]
    assert len(ids) == len(set(ids)), "Perfetto takes a thread with its process's id for the main one"
    for event in sorted(threads, key=lambda event: ranks[event["tid"]]):
        trace.order.setdefault(processes[event["pid"]], []).append(event["args"]["name"])
    names = {(event["pid"], event["tid"]): (processes[event["pid"]], event["args"]["name"]) for event in threads}
    assert len(set(names.values())) == len(names), names
    return names


def nested(events: list[dict[str, Any]]) -> list[Slice]:
    """The slices of one thread, which come outer before inner."""
    slices: list[Slice] = []
    outer: list[Slice] = []
    for event in events:
        start, duration = nanoseconds(event["ts"]), nanoseconds(event["dur"])
        while outer and outer[-1].end <= start:
            outer.pop()
        parent = outer[-1] if outer else None
        it = Slice(event["name"], event["cat"], start, duration, event.get("args", {}), len(outer), parent)
        assert parent is None or parent.holds(it), f"{it.name} overlaps {parent and parent.name}"
        slices.append(it)
        outer.append(it)
    return slices
