"""The NVTX ranges that a tool such as Nsight Systems gets, against the result of the same run.

A recorder listens in the place of the tool (tests/nvtx), on the clock of the samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from ortbench.core.processes import DOMAIN
from ortbench.model.modes import COSTS, LATENCY, PIPELINED, STEP, USUAL_MODES
from ortbench.model.result import OK, Case, Result
from ortbench.model.result_file import load
from ortbench.worker.timing import COLORS
from tests.conftest import MODELS, ROOT, modes, ortbench
from tests.nvtx import Range, Record, environ
from tests.refdevice import Config
from tests.truth import relu_model

pytestmark = pytest.mark.process

BYTES = 1 << 20
STEPS = 4


def traced(
    recorder: Path, folder: Path, *arguments: object, prefix: Sequence[str] = (), **environment: str
) -> tuple[Result, Record]:
    """A command while the recorder listens; all is in workers that end in order."""
    record = folder / "record.jsonl"
    environment |= environ(recorder, record)
    ran = ortbench(*arguments, "--out", folder / "out", prefix=prefix, cwd=ROOT, **environment)
    assert ran.code == 0, ran.err
    found = Record.read(record, DOMAIN)
    assert (found.others, found.exits) == ([], found.pids)
    return load(next((folder / "out").rglob("result.json"))), found


def moved(case: Case, phase: str) -> int:
    """Bytes that a call of a phase copies, by the result."""
    h2d, d2h = case.bytes_h2d or 0, case.bytes_d2h or 0
    return {"h2d": h2d, "inference": 0, "d2h": d2h, "latency": (h2d + d2h) * case.inferences("latency")}[phase]


def check_block(block: Range, mode: str, phase: str, payload: int, inner: str, n: int) -> None:
    """A block is one range deep, and numbers the ranges in it, which lie in it in order."""
    color = COLORS[phase]
    assert (block.name, block.category, block.depth, block.color) == (mode, phase, 0, color)
    assert block.payload == payload
    samples = [(it.name, it.category, it.depth, it.color, it.payload) for it in block.inner]
    assert samples == [(f"{mode}/{inner}", phase, 1, color, number) for number in range(n)]
    check_order([block.start_ns, *(time for it in block.inner for time in (it.start_ns, it.end_ns)), block.end_ns])


def check_order(times: list[int | None]) -> None:
    assert times == sorted(times)  # type: ignore[type-var]


def check_run(recorder: Path, folder: Path, names: list[str], *arguments: object, **more: object) -> Record:
    """Blocks and ranges are those of the result, one for one and in their order; no range is shorter than its sample."""
    model = relu_model(folder / "relu.onnx", BYTES)
    line = ("run", model, *arguments, "--iterations", 20, "--warmup", 1)
    result, record = traced(recorder, folder, *line, **more)  # type: ignore[arg-type]
    assert [case.mode for case in result.cases if case.status == OK] == names
    blocks = sorted(
        (start, n, case, phase)
        for case in result.cases
        for phase, listed in case.blocks.items()
        for _, n, start in listed
        if phase not in COSTS
    )
    left = {(case.mode, phase): [*samples] for case in result.cases for phase, samples in case.samples.items()}
    ends = [*(start for start, *_ in blocks[1:]), 2**63]
    for block, (start, n, case, phase), end in zip(record.ranges, blocks, ends, strict=True):
        check_block(block, case.mode, phase, moved(case, phase), phase, n)
        check_order([start, block.start_ns, block.end_ns, end])
        for part in block.inner:  # of a pipeline a range is a round, and a sample its part of that, rounded
            each = case.inferences(phase)
            assert part.ns >= left[case.mode, phase].pop(0) * each - each // 2
    assert not any(samples for (_, phase), samples in left.items() if phase not in COSTS)
    return record


def test_on_the_cpu(recorder: Path, tmp_path: Path) -> None:
    check_run(recorder, tmp_path, [*USUAL_MODES], "--ep", "cpu")


@pytest.mark.wide
def test_on_the_reference_device(recorder: Path, real_library: Path, tmp_path: Path) -> None:
    line = ("--ep-library", real_library, *modes("default", "pipelined"), "--depth", 3)
    record = check_run(recorder, tmp_path, [*USUAL_MODES, PIPELINED], *line, **Config(compute_us=1000).environ())
    payloads = {(block.name, block.category): block.payload for block in record.ranges}
    assert payloads["device-tensors", "h2d"] == payloads["pipelined", "d2h"] == BYTES
    assert payloads["device-resident", "latency"] == payloads["pipelined", "inference"] == 0
    assert (payloads["device-tensors", "latency"], payloads["pipelined", "latency"]) == (2 * BYTES, 6 * BYTES)


def test_ranges_of_a_loop_are_blocks_loops_and_steps(recorder: Path, tmp_path: Path) -> None:
    asked = (
        f"--feedback state_out=state --steps {STEPS} --iterations 5 --warmup 1 --mode default --mode shared --ep cpu"
    )
    result, record = traced(recorder, tmp_path, "loop", MODELS / "loop_on_device.onnx", *asked.split())
    blocks = sorted((start, n, case) for case in result.cases for _, n, start in case.blocks.get(LATENCY, []))
    left = {case.mode: {phase: [*samples] for phase, samples in case.samples.items()} for case in result.cases}
    for block, (start, n, case) in zip(record.ranges, blocks, strict=True):
        check_block(block, case.mode, LATENCY, moved(case, LATENCY), "loop", n)
        assert (block.start_ns or 0) >= start
        for loop in block.inner:
            assert loop.ns >= left[case.mode][LATENCY].pop(0)
            assert [(it.name, it.category, it.depth, it.payload, it.inner) for it in loop.inner] == [
                (f"{case.mode}/step", STEP, 2, at, []) for at in range(STEPS)
            ]
            check_order([loop.start_ns, *(at for it in loop.inner for at in (it.start_ns, it.end_ns)), loop.end_ns])
            assert all(step.ns >= left[case.mode][STEP].pop(0) for step in loop.inner)
    assert not any(samples[phase] for samples in left.values() for phase in (LATENCY, STEP) if phase in samples)
