"""The NVTX ranges that a tool such as Nsight Systems gets, against the result of the same run.

A recorder listens in the place of the tool (tests/nvtx). Its clock is that of the samples, so every range can be held
against its sample.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from ortbench.core.processes import DOMAIN
from ortbench.model.modes import COSTS, PIPELINED, USUAL_MODES
from ortbench.model.result import OK, Case, Result
from ortbench.model.result_file import load
from ortbench.worker.timing import COLORS
from tests.conftest import ROOT, modes, ortbench
from tests.nvtx import Range, Record, environ
from tests.refdevice import Config
from tests.truth import relu_model

BYTES = 1 << 20


@dataclass(frozen=True)
class Traced:
    """A run and what was recorded of it."""

    code: int
    result: Result
    record: Record


class Tracer:
    """`ortbench run` of one model while the recorder listens."""

    def __init__(self, recorder: Path, folder: Path) -> None:
        self.recorder, self._folder = recorder, folder
        self.model = relu_model(folder / "relu.onnx", BYTES)
        self._runs = 0

    def __call__(self, *arguments: object, prefix: tuple[str, ...] = (), **environment: str) -> Traced:
        self._runs += 1
        out, record = self._folder / f"out-{self._runs}", self._folder / f"record-{self._runs}.jsonl"
        line = ("run", self.model, "--out", out, *arguments)
        ran = ortbench(*line, prefix=prefix, cwd=ROOT, **environ(self.recorder, record), **environment)
        found = list(out.glob("*/result.json"))
        assert found, ran.err
        return Traced(ran.code, load(found[0]), Record.read(record, DOMAIN))


@pytest.fixture
def trace(recorder: Path, tmp_path: Path) -> Tracer:
    return Tracer(recorder, tmp_path)


def moved(case: Case, phase: str) -> int:
    """Bytes that a call of a phase copies, by the result."""
    assert case.bytes_h2d is not None
    assert case.bytes_d2h is not None
    return {
        "h2d": case.bytes_h2d,
        "inference": 0,
        "d2h": case.bytes_d2h,
        "latency": (case.bytes_h2d + case.bytes_d2h) * case.inferences("latency"),
    }[phase]


def assert_balanced(record: Record) -> None:
    """Every push has its pop, nothing else is emitted, and all is in one worker, which a tool can write at its end."""
    assert (record.open_ranges, record.stray_pops, record.others) == ([], 0, [])
    assert len(record.pids) == 1
    assert record.exits == record.pids


def assert_is_block(block: Range, mode: str, phase: str) -> None:
    """A block is one range deep, and numbers the ranges in it."""
    assert (block.name, block.category, block.depth, block.color) == (mode, phase, 0, COLORS[phase])
    for number, sample in enumerate(block.inner):
        assert (sample.name, sample.category, sample.color) == (f"{mode}/{phase}", phase, COLORS[phase])
        assert (sample.depth, sample.inner, sample.payload) == (1, [], number)


def assert_agrees(traced: Traced) -> None:
    """Blocks and ranges are those of the result, one for one and in their order; no range is shorter than its sample."""
    result, record = traced.result, traced.record
    blocks = sorted(
        (start, n, case, phase)
        for case in result.cases
        for phase, listed in case.blocks.items()
        for _, n, start in listed
        if phase not in COSTS
    )
    assert len(record.ranges) == len(blocks)
    left = {(case.mode, phase): list(samples) for case, phase, samples in timed(result)}
    next_starts = [start for start, *_ in blocks[1:]] + [2**63]
    for block, (start, n, case, phase), next_start in zip(record.ranges, blocks, next_starts, strict=True):
        assert_is_block(block, case.mode, phase)
        assert block.payload == moved(case, phase)
        assert len(block.inner) == n
        times = [time for part in block.inner for time in (part.start_ns, part.end_ns)]
        inside = [start, block.start_ns, *times, block.end_ns, next_start]
        assert inside == sorted(inside)  # type: ignore[type-var]
        for part in block.inner:
            # Of a pipeline a range is a round, and a sample its part of that, rounded.
            each = case.inferences(phase)
            assert part.ns >= left[case.mode, phase].pop(0) * each - each // 2
    assert not any(left.values())


def timed(result: Result) -> Iterator[tuple[Case, str, list[int | float]]]:
    """What has ranges of its own."""
    for case in result.cases:
        yield from ((case, phase, taken) for phase, taken in case.samples.items() if phase not in COSTS)


def checked(trace: Tracer, modes: list[str], *arguments: object, **options: object) -> Traced:
    """A run on one EP: names, nesting, order and payloads are as they must be."""
    traced = trace(*arguments, "--iterations", 20, "--warmup", 1, **options)  # type: ignore[arg-type]
    assert traced.code == 0
    assert [case.mode for case in traced.result.cases if case.status == OK] == modes
    assert_balanced(traced.record)
    assert_agrees(traced)
    return traced


@pytest.mark.process
def test_on_the_cpu(trace: Tracer) -> None:
    checked(trace, list(USUAL_MODES), "--ep", "cpu")


@pytest.mark.process
def test_on_webgpu(trace: Tracer, software_gpu: tuple[str, ...]) -> None:
    checked(trace, ["cpu-tensors", "device-tensors", "device-resident"], "--ep", "webgpu", prefix=software_gpu)


@pytest.mark.wide
@pytest.mark.process
def test_on_the_reference_device(trace: Tracer, real_library: Path) -> None:
    record = on_the_reference_device(trace, real_library).record
    assert {(block.name, block.category): block.payload for block in record.ranges} == {
        ("cpu-tensors", "latency"): 2 * BYTES,
        ("device-tensors", "h2d"): BYTES,
        ("device-tensors", "inference"): 0,
        ("device-tensors", "d2h"): BYTES,
        ("device-tensors", "latency"): 2 * BYTES,
        ("device-resident", "latency"): 0,
        ("host-accessible", "latency"): 0,
        ("pipelined", "h2d"): BYTES,
        ("pipelined", "inference"): 0,
        ("pipelined", "d2h"): BYTES,
        ("pipelined", "latency"): 6 * BYTES,
    }


def on_the_reference_device(trace: Tracer, library: Path) -> Traced:
    device = ("--ep-library", library, *modes("default", "pipelined"), "--depth", 3)
    return checked(trace, [*USUAL_MODES, PIPELINED], *device, **Config(compute_us=1000).environ())


@pytest.mark.wide
@pytest.mark.process
def test_workers_that_were_paused_end_in_order_too(trace: Tracer, real_library: Path, tmp_path: Path) -> None:
    record = tmp_path / "both.jsonl"
    line = ("--ep", "cpu", "--ep", real_library, "--mode", "cpu-tensors", "--iterations", 6, "--out", tmp_path)
    ran = ortbench("run", trace.model, *line, cwd=ROOT, **environ(trace.recorder, record))
    assert ran.code == 0, ran.err
    found = Record.read(record, DOMAIN)
    assert len(found.pids) == 2
    assert found.exits == found.pids
    assert found.open_ranges == []
    assert sum(len(block.inner) for block in found.ranges) == 12
