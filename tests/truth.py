"""Holding a result against the reference device's own trace.

The trace is on the same clock as ortbench's samples, so each sample can be matched with what the device did in it: the
span from when the first thing the trace has of it was asked for to the end of the last. In virtual time a sample is that
span and what the host's own calls around it take, to the nanosecond (`differences`); in real time medians are about as long as
the span (`wrong_medians`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from ortbench.measure.schedule import dropped_count
from ortbench.model.modes import COSTS, PIPELINED
from ortbench.model.result import Case, Result
from ortbench.model.result_file import load
from tests.conftest import ortbench
from tests.forks import MAIN
from tests.refdevice import KINDS, Config, Events, Trace
from tests.virtual import CALL_NS

NUMBER = {name: number for number, name in KINDS.items()}
COPIES = ("h2d", "d2h", "ha-copy")
What = tuple[str | int, ...]


def relu_model(path: Path, size: int) -> Path:
    """A Relu over `size` bytes of float32: as many go in as come out."""
    graph = f"g (float[{size // 4}] x) => (float[{size // 4}] y) {{ y = Relu(x) }}"
    onnx.save(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {graph}'), path)
    return path


def run_on_device(
    library: Path,
    model: Path,
    config: Config,
    folder: Path,
    *arguments: object,
    command: str = "run",
    **environment: str,
) -> tuple[int, Result, str, str]:
    """`ortbench run`, or another command, on the reference device: exit code, result, stdout, stderr."""
    out = folder / "out"
    line = [command, model, "--ep-library", library, "--out", out, *arguments]
    done = ortbench(*line, **config.environ(), **environment)
    (result,) = out.glob("*/result.json")
    return done.code, load(result), done.out, done.err


def in_fork(function: str, *arguments: object, **environment: str) -> Any:
    """What a function, as module:function, prints as JSON, in a process that has no library registered yet, with arguments in `sys.argv`;
    where it is to take time, it calls `tests.virtual.attach`."""
    done = ortbench(*arguments, **{MAIN: function}, **environment)
    assert done.code == 0, done.err
    return json.loads(done.out.splitlines()[-1])


def differences(result: Result, trace: Trace) -> dict[What, tuple[list[float], list[int]]]:
    """Samples of a run in virtual time and what they should be, ns, by mode and phase where they are not; the median that is
    reported is the first of them."""
    found: dict[What, tuple[list[float], list[int]]] = {}
    for case in result.cases:
        for phase in case.samples.keys() - set(COSTS):  # of costs of the host the trace says nothing
            true = [span_ns(events) + host_ns(events) for events in recorded(result, case, phase, trace)]
            stats = case.stats(phase)
            assert stats is not None
            reported = [stats.median, *case.samples[phase]]
            if reported != [round(median(true)), *true]:
                found[case.mode, phase] = (reported, true)
    return found


def host_ns(events: Events) -> int:
    """What the host takes in a sample beside the device: a reading of the clock and, where it begins with a copy, the call
    that asks for that."""
    return CALL_NS * (1 + int(is_kind(events, *COPIES)[0]))


def wrong_medians(result: Result, trace: Trace) -> dict[What, tuple[int, int]]:
    """Medians that were measured in real time, and what the trace says that they were, ns, where they are shorter, or longer by more
    than 1 % or 20 µs, whichever is larger."""
    found: dict[What, tuple[int, int]] = {}
    for case in result.cases:
        for phase in case.samples.keys() - set(COSTS):
            reported = round(median(case.samples[phase]))
            true = round(median(span_ns(events) for events in recorded(result, case, phase, trace)))
            if not true - 1000 <= reported <= true + max(true * 0.01, 20_000):
                found[case.mode, phase] = reported, true
    return found


def span_ns(events: Events) -> int:
    """From when the first was asked for to the end of the last."""
    return int(events["end_ns"].max() - events["queued_ns"].min())


def is_kind(events: Events, *kinds: str) -> npt.NDArray[np.bool_]:
    """Which events are of these kinds."""
    return np.isin(events["kind"], [NUMBER[kind] for kind in kinds])


def block_events(trace: Trace, starts: Iterable[int], start: int) -> tuple[Events, int]:
    """What the device was asked for from the start of a block to that of the next one, in order, and when that is."""
    stop = min((at for at in starts if at > start), default=np.iinfo(np.int64).max)
    events = trace.of("inference", "run", "alloc", "free", *COPIES)
    events = events[(events["queued_ns"] >= start) & (events["queued_ns"] < stop)]
    return events[np.argsort(events["queued_ns"], kind="stable")], int(stop)


def iterations(result: Result, case: Case, phase: str, block: int, trace: Trace) -> list[Events]:
    """What the device did in each iteration of a block, those that are not recorded included."""
    _, n, start = case.blocks[phase][block]
    count = n + dropped_count(n)
    starts = [at for other in result.cases for blocks in other.blocks.values() for _, _, at in blocks]
    events, stop = block_events(trace, starts, start)
    if phase in ("h2d", "d2h"):
        copies = events[is_kind(events, phase)]
        each = len(result.model["inputs" if phase == "h2d" else "outputs"])
        return [copies[number * each : (number + 1) * each] for number in range(count)]
    # An iteration begins with its upload or, where it has none or copies inside the run, with its run; the first of them
    # after the last inference was asked for is of the next, also where nobody waited for that inference.
    opening = events["queued_ns"][is_kind(events, "h2d", "run")]
    begins, asked = [], start
    for inference in events[is_kind(events, "inference")][:count]:
        begins.append(int(opening[opening >= asked].min()))
        asked = int(inference["queued_ns"])
    ends = [*begins[1:], min([stop, *(int(at) for at in opening[opening >= asked][:1])])]
    return [events[(events["queued_ns"] >= a) & (events["queued_ns"] < b)] for a, b in zip(begins, ends, strict=True)]


def recorded(result: Result, case: Case, phase: str, trace: Trace) -> list[Events]:
    """The events of each recorded sample of a phase."""
    found = []
    for number, (_, n, _) in enumerate(case.blocks[phase]):
        found += iterations(result, case, phase, number, trace)[dropped_count(n) :]
    return found


# The pipeline

Span = tuple[int, int]


def rounds(result: Result, trace: Trace) -> list[Span]:
    """When each recorded sample of `pipelined` was, from the end of the last inference before it to that of its own."""
    inferences = np.sort(trace.of("inference"), order="end_ns")
    case = next(case for case in result.cases if case.mode == PIPELINED)
    assert case.pipeline is not None
    depth, found = case.pipeline["depth"], []
    for _, n, start in case.blocks["latency"]:
        skipped = dropped_count(n) * depth
        ends = inferences["end_ns"][inferences["queued_ns"] >= start]
        after = ends[skipped - 1 : skipped + n * depth : depth]
        found += list(zip(map(int, after), map(int, after[1:]), strict=False))
    return found


def hidden_share(trace: Trace, span: Span) -> float:
    """The share of the copy time in a span of time that was hidden: that is not time in which copies were all there was.

    Copies that go on beside each other count each, and what they share of the clock is hidden as if behind an inference.
    """
    copies, inferences = (_within(trace.of(*kinds), span) for kinds in (("h2d", "d2h"), ("inference",)))
    alone = _length(copies + inferences) - _length(inferences)
    return 1 - alone / sum(end - start for start, end in copies)


def _within(events: Events, span: Span) -> list[Span]:
    starts, ends = (np.clip(events[key], *span) for key in ("start_ns", "end_ns"))
    return [(int(start), int(end)) for start, end in zip(starts, ends, strict=True) if start < end]


def _length(spans: list[Span]) -> int:
    """How much of the clock is covered by at least one of them."""
    length, until = 0, 0
    for start, end in sorted(spans):
        length += max(0, end - max(start, until))
        until = max(until, end)
    return length
