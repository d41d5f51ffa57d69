"""ONNX Runtime's own profile of a few runs: when each node ran, on which EP, for how long.

Profiling slows a run severalfold, so it has a session of its own and nothing in a profile is ever a measurement. The
times are those of the host: on an EP that works asynchronously a node's time is that of its launch.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from ortbench.core.errors import BenchmarkFailed, OrtbenchError, ort_text
from ortbench.plan.target import Target
from ortbench.worker.session import first_run, session
from ortbench.worker.session.providers import Provider
from ortbench.worker.session.tensors import Array

_WARMUP_RUNS = 2
_KERNEL_TIME = "_kernel_time"


@dataclass(frozen=True)
class NodeEvent:
    """One node of one run.

    Attributes:
        name: of the node; ONNX Runtime calls a node without one ``<operator>_<index>``.
        op: its operator; for a graph that the EP compiled, the EP's name for it.
        ep: where it ran. Some plugin EPs have their Memcpy nodes counted as the CPU's.
        start_ns: on the clock of `time.perf_counter_ns`; ONNX Runtime records whole microseconds.
        duration_ns: of its kernel; of a node with branches or a body, all nodes in them included.
        run: which of the runs, from 0.
        thread: its id in the operating system.
        args: everything else that ONNX Runtime recorded: ``node_index``, ``input_type_shape`` …
    """

    name: str
    op: str
    ep: str
    start_ns: int
    duration_ns: int
    run: int
    thread: int
    args: dict[str, Any]


@dataclass(frozen=True)
class Profile:
    """Some runs without the warm-up before them.

    Attributes:
        runs: start (as in `NodeEvent`) and duration of each, ns.
        events: their nodes, by start; a node before those in its branches or body.
    """

    runs: list[tuple[int, int]]
    events: list[NodeEvent]

    def last(self, count: int) -> Profile:
        """The last so many of its runs, or all where there are fewer, numbered from 0."""
        first = max(0, len(self.runs) - count)
        events = [replace(event, run=event.run - first) for event in self.events if event.run >= first]
        return Profile(self.runs[first:], events)


def profile_runs(
    path: str, target: Target, provider: Provider, arrays: dict[str, Array], runs: int, warmup: int = _WARMUP_RUNS
) -> Profile:
    """Profile plain runs with arrays in host memory, in a session of their own.

    Args:
        path: of the model.
        target: options of the session.
        provider: the EP, loaded.
        arrays: inputs by name.
        runs: how many, at least one.
        warmup: how many runs before them, which are left out.

    Raises:
        BadInput, BenchmarkFailed: the session cannot be opened, a run fails, or the profile cannot be read.
    """
    with recording(path, target, provider) as recorder:
        return recorder.take(arrays, runs, warmup)


@dataclass(frozen=True)
class Recorder:
    """A session that is being profiled.

    Attributes:
        model: it.
        start_ns: when the profile began, on the clock of `time.perf_counter_ns`.
    """

    model: session.Model
    start_ns: int

    def take(self, arrays: dict[str, Array], runs: int, warmup: int = _WARMUP_RUNS) -> Profile:
        """Run, end the profile and read it; see `profile_runs`. It can be taken once."""
        try:
            for _ in range(warmup + runs):
                first_run.run_once(self.model, arrays)
            text = Path(self.model.session.end_profiling()).read_text(encoding="utf-8", errors="replace")
            return read(json.loads(text, strict=False), self.start_ns, runs)
        except OrtbenchError:
            raise
        except Exception as error:
            raise BenchmarkFailed(f"profiling failed: {ort_text(error)}") from None


@contextmanager
def recording(path: str, target: Target, provider: Provider, content: bytes | None = None) -> Iterator[Recorder]:
    """A session that is being profiled from here on; its profile's file is removed at the end.

    Args:
        path, target, provider, content: see `session.open_model`.

    Raises:
        BadInput, BenchmarkFailed: it cannot be opened.
    """
    with tempfile.TemporaryDirectory(prefix="ortbench-") as folder:
        before = [clock() for clock in _CLOCKS]
        prefix = str(Path(folder) / "profile")
        model = session.open_model(path, target, provider, profile_prefix=prefix, content=content)
        yield Recorder(model, _on_perf_counter(model.session.get_profiling_start_time_ns(), before))


# What C++'s high_resolution_clock, which the profile is on, can be: the time of day with GCC's library, else a steady one.
_CLOCKS: list[Callable[[], int]] = [time.time_ns, time.perf_counter_ns]
if sys.platform != "win32" and hasattr(time, "CLOCK_MONOTONIC_RAW"):
    _CLOCKS.append(partial(time.clock_gettime_ns, time.CLOCK_MONOTONIC_RAW))


def _on_perf_counter(instant_ns: int, before: Sequence[int]) -> int:
    """An instant of the near past on the clock of `time.perf_counter_ns`.

    Args:
        instant_ns: on one of `_CLOCKS`, whichever it lies in the past of and not before …
        before: … what each of them said then.
    """
    for clock, earlier in zip(_CLOCKS, before, strict=True):
        if earlier <= instant_ns <= clock():
            return instant_ns + _offset(clock)
    raise BenchmarkFailed("ONNX Runtime's profile is on a clock that is not known")


def _offset(clock: Callable[[], int]) -> int:
    """What `time.perf_counter_ns` is ahead of another clock; of several readings the one that took least."""
    best = None
    for _ in range(5):
        start, there, end = time.perf_counter_ns(), clock(), time.perf_counter_ns()
        if best is None or end - start < best[0]:
            best = end - start, (start + end) // 2 - there
    assert best is not None
    return best[1]


def read(recorded: Sequence[dict[str, Any]], start_ns: int, runs: int) -> Profile:
    """The last runs of a profile.

    Args:
        recorded: the events of its JSON file, of which those of cat ``Session`` named ``model_run`` are the runs and
            those of cat ``Node`` named ``…_kernel_time`` are the nodes; ``ts`` and ``dur`` are microseconds.
        start_ns: when the profile began.
        runs: how many to take, from the end.

    Raises:
        BenchmarkFailed: it has fewer (ONNX Runtime keeps a million events).
    """
    whole = [event for event in recorded if event.get("cat") == "Session" and event["name"] == "model_run"][-runs:]
    if len(whole) < runs:
        raise BenchmarkFailed(f"ONNX Runtime's profile has {len(whole)} of {runs} runs")
    starts = [event["ts"] for event in whole]
    nodes = [event for event in recorded if event.get("cat") == "Node" and event["name"].endswith(_KERNEL_TIME)]
    events = []
    # A node comes before those in its branches or body, which can start in the same microsecond; one that took none
    # comes before the node that follows it.
    for event in sorted(nodes, key=lambda event: (event["ts"], event["dur"] > 0, -event["dur"])):
        run = bisect_right(starts, event["ts"]) - 1
        if run >= 0:
            events.append(_node_event(event, start_ns, run))
    return Profile([(start_ns + event["ts"] * 1000, event["dur"] * 1000) for event in whole], events)


def _node_event(event: dict[str, Any], start_ns: int, run: int) -> NodeEvent:
    args = dict(event.get("args", {}))
    return NodeEvent(
        name=event["name"].removesuffix(_KERNEL_TIME),
        op=args.pop("op_name", ""),
        ep=args.pop("provider", ""),
        start_ns=start_ns + event["ts"] * 1000,
        duration_ns=event["dur"] * 1000,
        run=run,
        thread=event["tid"],
        args=args,
    )
