"""The timeline of a run in the Chrome trace format, which Perfetto (ui.perfetto.dev) and chrome://tracing open.

The format is that of Google's document "Trace Event Format": complete events (``X``) on named threads of named
processes. Here a process is a side of the run and a thread one of its tracks: stages, modes with their blocks and
samples, close-ups, and ONNX Runtime's own events from a profiled run.

All times are those of `time.perf_counter_ns`, which is one clock for all processes of a machine (Linux
``CLOCK_MONOTONIC``, macOS ``mach_absolute_time``, Windows ``QueryPerformanceCounter``). In the trace they are
microseconds with nanoseconds as decimals, counted from its first event; ``otherData.origin_ns`` is that event's time.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import Any

from ortbench.analysis.noise import wait_predicate
from ortbench.core import units
from ortbench.core.safe_text import complain, encode, visible_lines
from ortbench.model.modes import LATENCY, Work, mode_of
from ortbench.model.protocol import LoadBlock, Span, TimedBlock, Timeline
from ortbench.model.result import Case, Result, work_of
from ortbench.model.schema import MachineNoise
from ortbench.report.records import Publication

MAX_SAMPLES = 100_000  # slices of samples in a trace: some 15 MB of text, which viewers still open in seconds

Event = dict[str, Any]


def trace_file(publication: Publication, path: str) -> str | bytes:
    """The timeline, compressed where the path says so; what it lacks is said in a line each."""
    names, results, timelines = map(list, zip(*publication.timelines, strict=True))
    labels = names if any(names) else publication.labels
    trace = chrome_trace(results, timelines, labels=labels)
    for words in trace["otherData"]["missing"]:
        complain(f"--trace lacks: {words}")
    return as_file(trace, path)


def as_file(trace: dict[str, Any], path: str) -> str | bytes:
    """A trace as it is written, compressed where the path says so."""
    text = trace_json(trace)
    return gzip.compress(encode(text), mtime=0) if path.endswith(".gz") else text


def chrome_trace(
    results: Sequence[Result], timelines: Sequence[Timeline], most: int = MAX_SAMPLES, labels: Sequence[str] = ()
) -> dict[str, Any]:
    """The trace of a run, to be written as JSON: metadata first, then events by time, an outer one before those inside it.

    Of more than `most` samples, the steps of loops among them, whole blocks are left out, evenly; the blocks themselves are all
    there. ``missing`` says what the trace lacks. `labels`: which of several settings each side has, where its EP does not say it.
    """
    missing = [words for timeline in timelines for words in timeline.missing]
    taken = sum(block.size for timeline in timelines for block in timeline.blocks)
    timelines = [
        replace(timeline, blocks=list(_downsample(timeline.blocks, most / taken))) if taken > most else timeline
        for timeline in timelines
    ]
    shown = sum(len(block.starts_ns) + len(block.steps_ns) for timeline in timelines for block in timeline.blocks)
    if shown < taken:
        missing.append(f"of {taken} samples {taken - shown} are left out, whole blocks of them, to keep the file small")
    origin = min(span.start_ns for timeline in timelines for span in timeline.stages)
    processes = []
    for number, (result, timeline) in enumerate(zip(results, timelines, strict=True)):
        process = _process(number + 1, origin, result, timeline, labels[number] if labels else "")
        processes.append(process)
        if left_out := _add_load(process, timeline.load, most // len(timelines)):
            missing.append(
                f"of the load {left_out} runs and requests are left out, the last of each block, to keep the file small"
            )
    first = results[0]
    about = {
        "tool": f"{first.tool['name']} {first.tool['version']}",
        "created": first.created,
        "command": " ".join(first.command),
        "onnxruntime": first.environment["onnxruntime"],
    }
    return join_processes(processes, origin, about, missing)


def join_processes(
    processes: Sequence[TraceProcess], origin: int, about: dict[str, Any], missing: Sequence[str]
) -> dict[str, Any]:
    events = [event for process in processes for event in process.events]
    return {
        "displayTimeUnit": "ms",  # with "ns" older versions of Perfetto took the times themselves for nanoseconds
        "otherData": {**about, "clock": "time.perf_counter_ns", "origin_ns": origin, "missing": [*missing]},
        "traceEvents": [
            *(event for process in processes for event in process.metadata),
            *sorted(events, key=lambda event: event["ts"]),
        ],
    }


def trace_json(trace: dict[str, Any]) -> str:
    """The trace's text, one event a line; every text of it is `ortbench.core.safe_text.visible_lines`."""
    head = {key: value for key, value in trace.items() if key != "traceEvents"}
    lines = ",\n".join(map(_compact, trace["traceEvents"]))
    return f'{_compact(head)[:-1]},"traceEvents":[\n{lines}\n]}}\n'


def _compact(value: Any) -> str:
    return json.dumps(_visible(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _visible(value: Any) -> Any:
    if isinstance(value, str):
        return visible_lines(value)
    if isinstance(value, dict):  # its keys are ours
        return {
            key: _visible(item) if isinstance(item, (str, dict, list, tuple)) else item for key, item in value.items()
        }
    return [_visible(item) for item in value] if isinstance(value, (list, tuple)) else value


def _downsample(blocks: Sequence[TimedBlock], share: float) -> Iterator[TimedBlock]:
    """Blocks of which only some still have their samples: at any time at most this share of each phase's."""
    seen: Counter[tuple[str, str]] = Counter()
    kept: Counter[tuple[str, str]] = Counter()
    for block in blocks:
        lane = block.mode, block.phase
        seen[lane] += block.size
        if kept[lane] + block.size <= share * seen[lane]:
            kept[lane] += block.size
            yield block
        else:
            yield block._replace(starts_ns=(), samples_ns=(), step_starts_ns=(), steps_ns=())


class TraceProcess:
    """The events of one configuration of a run, or of one process of a program.

    Ids of processes and threads are made up and differ all over the trace: Perfetto takes the thread that has its
    process's id for the main one.
    """

    def __init__(self, number: int, name: str, origin: int) -> None:
        self._pid = self._last_tid = 1000 * number
        self._origin = origin
        self.metadata: list[Event] = []
        self.events: list[Event] = []
        self._describe(self._pid, "process_name", name=name)
        self._describe(self._pid, "process_sort_index", sort_index=number)

    def _describe(self, tid: int, what: str, **args: Any) -> None:
        self.metadata.append({"ph": "M", "name": what, "pid": self._pid, "tid": tid, "ts": 0, "args": args})

    def track(self, name: str) -> int:
        """A new track, below those that are there; returns its thread id."""
        self._last_tid += 1
        self._describe(self._last_tid, "thread_name", name=name)
        self._describe(self._last_tid, "thread_sort_index", sort_index=self._last_tid)
        return self._last_tid

    def slice(self, track: int, category: str, span: Span) -> None:
        event = {"ph": "X", "name": span.name, "cat": category, "pid": self._pid, "tid": track}
        event |= {"ts": self._us(span.start_ns), "dur": span.duration_ns / 1000}
        self.events.append({**event, "args": span.args} if span.args else event)

    def mark(self, track: int, category: str, name: str, at_ns: int, **args: Any) -> None:
        event = {"ph": "i", "s": "t", "name": name, "cat": category, "pid": self._pid, "tid": track}
        self.events.append({**event, "ts": self._us(at_ns), "args": args})

    def _us(self, at_ns: int) -> float:
        return (at_ns - self._origin) / 1000


def _process(number: int, origin: int, result: Result, timeline: Timeline, label: str) -> TraceProcess:
    """All tracks of a side, in the order in which they are best read."""
    model = PurePath(result.model["path"]).name
    process = TraceProcess(number, " · ".join(filter(None, (result.target["ep"], model, label))), origin)
    stages = process.track("stages")
    for span in timeline.stages:
        process.slice(stages, "stage", span)
    if timeline.blocks:
        first, last = timeline.blocks[0], timeline.blocks[-1]
        measuring = Span("measuring", first.start_ns, last.start_ns + last.duration_ns - first.start_ns)
        process.slice(stages, "stage", measuring)
    _add_noise(process, result.noise)
    work = work_of(result)
    for case in result.at_point():
        blocks = [block for block in timeline.blocks if block.mode == case.mode]
        failures = [failure for failure in timeline.failures if failure.mode == case.mode]
        track = process.track(f"mode {case.mode}") if blocks or failures else 0
        for block in blocks:
            _add_block(process, track, block, case, work)
        for failure in failures:
            process.mark(track, "failure", f"{failure.mode} failed", failure.at_ns, reason=failure.reason)
    whole = "inference" if work.whole == LATENCY else work.whole
    for mode, iterations in timeline.close_ups.items():
        track = process.track(f"close-up {mode}")
        for index, steps in enumerate(iterations):
            start = steps[0].start_ns
            about = Span(f"one {whole}", start, steps[-1].end_ns - start, {"iteration": index})
            for span in (about, *steps):
                process.slice(track, "close-up", span)
    _add_profile(process, timeline)
    return process


def _add_noise(process: TraceProcess, noise: MachineNoise | None) -> None:
    """A track of what others did on the machine, reading by reading, and in each the blocks that waited for a CPU."""
    if noise is None:
        return
    track, waited, spans = process.track("noise of the machine"), wait_predicate(noise), []
    for reading in noise["readings"]:
        args = {key: value for key, value in reading.items() if not key.endswith("_ns")}
        name = f"others used {units.share(reading['others'] / noise['cores'])} of {units.count(noise['cores'], 'core')}"
        spans.append(Span(name, reading["at_ns"], reading["took_ns"], args))
    for block in filter(waited, noise["blocks"]):
        number, start_ns, took_ns, waited_ns, switches, *_ = block
        about = {"round": number, "waited_us": waited_ns / 1000, "involuntary_switches": switches}
        spans.append(Span("waited for a CPU", start_ns, took_ns, about))
    for span in _nest_spans(spans):
        process.slice(track, "noise", span)


def _syncs(case: Case) -> dict[str, str]:
    """What ends a sample, by phase; a download waits for the device by itself, and so does what ends with one."""
    if case.sync is None:
        return {}
    found, mode = {"inference": case.sync["kind"], LATENCY: case.sync["kind"]}, mode_of(case.mode)
    if mode.times_copies:
        found |= {way: sync["kind"] for way in ("h2d", "d2h") if (sync := case.sync.get(way))}  # type: ignore[index]
        del found[LATENCY]
        if "d2h" in found and not mode.is_rate:  # what several in flight are timed by ends with copies in flight
            found[LATENCY] = found["d2h"]
    return found


def _add_block(process: TraceProcess, track: int, block: TimedBlock, case: Case, work: Work) -> None:
    """A block, in it what ran before its first sample, and its samples; in those of loops their steps, of chains their stages."""
    args: dict[str, Any] = {"round": block.round, "n": block.n, "dropped": block.dropped}
    if (sync := _syncs(case).get(block.phase)) is not None:
        args["sync"] = sync
    if not block.starts_ns:
        args["samples"] = "left out"
    called = case.whole if block.phase == LATENCY else block.phase
    process.slice(track, "block", Span(f"{called} block", block.start_ns, block.duration_ns, args))
    if block.starts_ns:
        before = block.starts_ns[0] - block.start_ns
        process.slice(track, "block", Span("not recorded", block.start_ns, before, {"iterations": block.dropped}))
    moved: dict[str, int | None] = {"h2d": case.bytes_h2d, "d2h": case.bytes_d2h}
    if case.bytes_h2d is not None and case.bytes_d2h is not None:
        moved[LATENCY] = (case.bytes_h2d + case.bytes_d2h) * case.inferences(LATENCY)
    size = moved.get(block.phase)
    for index, (start, duration) in enumerate(zip(block.starts_ns, block.samples_ns, strict=True), block.first):
        sample: dict[str, Any] = {"iteration": index, "bytes": size} if size else {"iteration": index}
        process.slice(track, "sample", Span(f"{block.mode}/{called}", start, duration, sample))
    steps = zip(block.step_starts_ns, block.steps_ns, strict=True)
    for index, (start, duration) in enumerate(steps, block.first * work.count):
        part, number = work.part_at(index)
        process.slice(track, "sample", Span(f"{block.mode}/{part}", start, duration, number))


def _add_profile(process: TraceProcess, timeline: Timeline) -> None:
    """The profiled runs, and a track for the nodes of every EP on every thread."""
    if not timeline.profiled_runs:
        return
    runs = process.track("profiled runs")
    for span in timeline.profiled_runs:
        process.slice(runs, "profile", span)
    lanes: dict[tuple[str, int], list[Span]] = {}
    for node in timeline.nodes:
        lanes.setdefault((node.ep, node.thread), []).append(node.span)
    threads = Counter(ep for ep, _ in lanes)
    for (ep, thread), spans in lanes.items():
        name = f"nodes on {ep.removesuffix('ExecutionProvider')}"
        track = process.track(name if threads[ep] == 1 else f"{name}, thread {thread}")
        for span in _nest_spans(spans):
            process.slice(track, "node", span)


def _nest_spans(spans: Sequence[Span]) -> Iterator[Span]:
    """Events of one thread, each inside the one it began in.

    ONNX Runtime rounds starts and durations down to microseconds, so that a node of a subgraph may seem to end after
    the node it belongs to, and a node that took nothing to begin with the next one.
    """
    outer: list[Span] = []
    for span in sorted(spans, key=lambda it: (it.start_ns, it.duration_ns > 0, -it.duration_ns)):
        while outer and outer[-1].end_ns <= span.start_ns:
            outer.pop()
        if outer and span.end_ns > outer[-1].end_ns:
            span = replace(span, duration_ns=outer[-1].end_ns - span.start_ns)
        outer.append(span)
        yield span


def _add_load(process: TraceProcess, blocks: Sequence[LoadBlock], most: int) -> int:
    """Add the blocks of a load, in the order of time; gives how many of their runs and requests are left out. Of more than `most` each
    block shows its first ones, the same share of all."""
    taken = sum(block.size for block in blocks)
    share = min(1.0, most / taken) if taken else 1.0
    left_out = 0
    due = process.track("requests due") if any(len(block.due_ns) for block in blocks) else 0
    clients = [process.track(f"client {it + 1}") for it in range(max((len(block.runs) for block in blocks), default=0))]
    for block in blocks:
        shown = [int(len(it.starts_ns) * share) for it in block.runs]
        moments = int(len(block.due_ns) * share)
        left_out += block.size - sum(shown) - moments
        for number, at_ns in enumerate(block.due_ns[:moments]):
            process.mark(due, "due", "due", int(at_ns), request=number, level=block.name)
        for client, count in enumerate(shown):
            _add_runs(process, clients[client], block, client, count)
    return left_out


def _add_runs(process: TraceProcess, track: int, block: LoadBlock, client: int, count: int) -> None:
    """A block on the track of a client, and in it the first of its runs."""
    runs = block.runs[client]
    args: dict[str, Any] = {"round": block.round, "runs": len(runs.starts_ns)}
    if count < len(runs.starts_ns):
        args["shown"] = count
    process.slice(track, "block", Span(block.name, block.start_ns, block.duration_ns, args))
    for start, end, number in zip(runs.starts_ns[:count], runs.ends_ns[:count], runs.numbers[:count], strict=True):
        about: dict[str, Any] = {"iteration": int(number)}
        if len(block.due_ns):
            about = {"request": int(number), "waited_us": (int(start) - int(block.due_ns[number])) / 1000}
        process.slice(track, "sample", Span(f"{block.mode}/load", int(start), int(end - start), about))
