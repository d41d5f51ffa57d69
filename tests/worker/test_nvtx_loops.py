"""The NVTX ranges of a loop, against the result of the same run: a block, in it loops, in these their steps."""

from __future__ import annotations

from pathlib import Path

import pytest

from ortbench.core.processes import DOMAIN
from ortbench.model.modes import LATENCY, STEP
from ortbench.model.result_file import load
from ortbench.worker.timing import COLORS
from tests.conftest import MODELS, ROOT, ortbench
from tests.nvtx import Record, environ
from tests.worker.test_nvtx import Traced, assert_balanced

STEPS = 4


def traced(recorder: Path, folder: Path, *target: object) -> Traced:
    """`ortbench loop` of a model with a large state while the recorder listens."""
    made = f"--feedback state_out=state --steps {STEPS} --iterations 5 --warmup 1 --mode default --mode shared".split()
    record = folder / "record.jsonl"
    line = ("loop", MODELS / "loop_on_device.onnx", *made, *target, "--out", folder / "out")
    ran = ortbench(*line, cwd=ROOT, **environ(recorder, record))
    assert ran.code == 0, ran.err
    (found,) = (folder / "out").glob("*/result.json")
    return Traced(ran.code, load(found), Record.read(record, DOMAIN))


def check_ranges(found: Traced) -> None:
    """Blocks, loops and steps are those of the result, one for one, in order and nesting; none is shorter than its sample."""
    ok = [case for case in found.result.cases if case.status == "ok"]
    blocks = sorted((start, n, case) for case in ok for _, n, start in case.blocks[LATENCY])
    assert len(found.record.ranges) == len(blocks)
    left = {case.mode: (list(case.samples[LATENCY]), list(case.samples[STEP])) for case in ok}
    for block, (start, n, case) in zip(found.record.ranges, blocks, strict=True):
        assert (block.name, block.category, block.depth, block.color) == (case.mode, LATENCY, 0, COLORS[LATENCY])
        assert block.payload == (case.bytes_h2d or 0) + (case.bytes_d2h or 0)
        assert (block.start_ns or 0) >= start
        assert len(block.inner) == n
        loops, steps = left[case.mode]
        for number, loop in enumerate(block.inner):
            assert (loop.name, loop.category, loop.depth) == (f"{case.mode}/loop", LATENCY, 1)
            assert loop.payload == number
            assert loop.ns >= loops.pop(0)
            assert [(it.name, it.category, it.depth, it.payload, it.inner) for it in loop.inner] == [
                (f"{case.mode}/step", STEP, 2, at, []) for at in range(STEPS)
            ]
            times = [loop.start_ns, *(at for it in loop.inner for at in (it.start_ns, it.end_ns)), loop.end_ns]
            assert times == sorted(times)  # type: ignore[type-var]
            for step in loop.inner:
                assert step.ns >= steps.pop(0)
    assert not any(rest for pair in left.values() for rest in pair)


@pytest.mark.process
def test_ranges_of_a_loop_on_the_cpu(recorder: Path, tmp_path: Path) -> None:
    found = traced(recorder, tmp_path, "--ep", "cpu")
    assert_balanced(found.record)
    check_ranges(found)
