"""The timeline of a loop: each loop a slice, each of its steps a slice inside it, to the nanosecond of the result."""

from __future__ import annotations

from typing import Any

from ortbench.features.trace.report import chrome_trace, trace_json
from ortbench.model.result import Result
from ortbench.model.timeline import Span, TimedBlock, Timeline
from tests import traceformat
from tests.results import level, loop_result
from tests.traceformat import Slice, Trace

ORIGIN = 5_000_000_000


def block(first: int, start: int, n: int = 2, count: int = 3) -> TimedBlock:
    """A block of loops: each begins 500 ns before its first step and ends 250 ns after the last; steps take 1 µs."""
    length = 500 + count * 1_000 + 250
    starts = [start + 2_000 + number * length for number in range(n)]
    step_starts = [begun + 500 + number * 1_000 for begun in starts for number in range(count)]
    return TimedBlock(
        "cpu-tensors", "latency", first // n, 1, first, n, start, 3_000 + n * length, starts, [length] * n, step_starts,
        [1_000] * n * count,
    )  # fmt: skip


def scripted(blocks: int = 2) -> tuple[Result, Timeline]:
    result = loop_result(level("cpu-tensors", count=3))
    made = [block(2 * number, ORIGIN + 1_000_000 * (number + 1)) for number in range(blocks)]
    return result, Timeline(stages=[Span("loading", ORIGIN, 2_000)], blocks=made)


def whole(**arguments: Any) -> Trace:
    result, timeline = scripted()
    return traceformat.read(trace_json(chrome_trace([result], [timeline], **arguments)))


def named(slices: list[Slice], name: str) -> list[Slice]:
    return [it for it in slices if it.name == name]


def test_steps_lie_in_their_loops() -> None:
    track = whole()["mode cpu-tensors"]
    blocks, loops, steps = (named(track, name) for name in ("loop block", "cpu-tensors/loop", "cpu-tensors/step"))
    assert [it.args["iteration"] for it in loops] == [0, 1, 2, 3]
    assert [(it.start, it.duration) for it in loops[:2]] == [(1_002_000, 3_750), (1_005_750, 3_750)]
    assert [it.parent for it in loops] == [blocks[0]] * 2 + [blocks[1]] * 2
    assert [it.args for it in steps] == [{"step": at % 3, "iteration": at} for at in range(12)]
    assert [(it.start, it.duration) for it in steps[:2]] == [(1_002_500, 1_000), (1_003_500, 1_000)]
    assert [it.parent for it in steps] == [loop for loop in loops for _ in range(3)]


def test_steps_count_among_the_slices_that_are_too_many() -> None:
    """Two blocks are 16 slices: with at most 8 one of them has neither its loops nor its steps."""
    trace = whole(most=8)
    track = trace["mode cpu-tensors"]
    assert [it.args.get("samples") for it in named(track, "loop block")] == ["left out", None]
    assert [it.args["iteration"] for it in named(track, "cpu-tensors/loop")] == [2, 3]
    assert [it.args["iteration"] for it in named(track, "cpu-tensors/step")] == list(range(6, 12))
    assert trace.other["missing"] == ["of 16 samples 8 are left out, whole blocks of them, to keep the file small"]
