"""What reports say first of a busy machine, from scripted results."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy

import pytest

from ortbench.model.modes import CPU, RESIDENT
from ortbench.model.result import Result
from ortbench.model.schema import MachineNoise
from ortbench.report import comparison, run
from ortbench.report.model import Block, Findings, Heading, Report
from ortbench.report.noise import noise_part, sides_part
from tests.results import US, curve_of, measured, noise_of, result_of, serving, steady, sweep_result

BUSY = "Busy machine: other processes used 50% of 2 cores"
WAITED = "this process waited for a CPU in 50% of blocks"
NEXT = "Next: measure again with --wait-quiet 60s"
HALF = [0.0, 0.5] * 20


def of(result: Result, noise: MachineNoise | None) -> Result:
    result.noise = noise
    return result


def lines(part: list[Sequence[Block]]) -> list[str]:
    return [
        line
        for blocks in part
        for block in blocks
        if isinstance(block, Findings)
        for it in block.findings
        for line in it.lines
    ]


def one(noise: MachineNoise | None, mode: str = CPU) -> Result:
    return of(result_of(measured(mode, latency=steady([100 * US] * 40))), noise)


@pytest.mark.parametrize(
    ("result", "said"),
    [
        (one(None), []),
        (one(noise_of(2)), []),
        (one(noise_of(2, 1.0)), [f"{BUSY}.", NEXT]),
        (one(noise_of(2, 1.0, HALF)), [f"{BUSY}; {WAITED}.", NEXT, "Figures of the quiet rounds (20 of 40): cpu-tensors 100 µs."]),
        (one(noise_of(2, 1.0, [0.5] * 40)), [
            f"{BUSY}; this process waited for a CPU in 100% of blocks.", NEXT, "None of the 40 rounds was quiet: all figures include the noise; noise can make differences of up to 2.5× here."]),
        (of(sweep_result({CPU: {1: 100, 8: 780, 16: 1500}, RESIDENT: {1: 90, 8: 700, 16: 1400}}), noise_of(2, 1.0, HALF)), [
            f"{BUSY}; {WAITED}.", "Next: ortbench sweep m.onnx --dim batch=1,2,4 --wait-quiet 60s",
            "Figures of the quiet rounds (20 of 40): cpu-tensors at batch=1 100 µs, device-resident at batch=1 90.0 µs, cpu-tensors at batch=8 780 µs, "
            "device-resident at batch=8 700 µs and 2 more."]),
        (of(serving(), noise_of(2, 1.0, HALF)), [
            f"{BUSY}; {WAITED}.", "Next: ortbench load m.onnx --ep some --wait-quiet 60s",
            "Figures of the quiet rounds (20 of 40): cpu-tensors 1.00 ms, device-tensors 1.00 ms, cpu-tensors with 2 clients 192 inferences/s, "
            "cpu-tensors with 4 clients 392 inferences/s and 4 more."]),
        (of(curve_of(), noise_of(2, 1.0)), [f"{BUSY}.", NEXT]),
    ],
)  # fmt: skip
def test_what_is_said(result: Result, said: list[str]) -> None:
    assert lines(noise_part(result)) == said


def blocks(report: Report) -> list[str]:
    return [type(block).__name__ for part in report.parts for block in part]


def test_it_stands_right_under_the_heading() -> None:
    quiet, busy = run.build(one(noise_of(2))), run.build(one(noise_of(2, 1.0)))
    assert blocks(quiet) == [it for at, it in enumerate(blocks(busy)) if at != 1]
    assert blocks(busy)[:2] == [Heading.__name__, Findings.__name__]


def test_of_configurations_that_took_turns_it_is_said_once_or_of_whom() -> None:
    busy, other = one(noise_of(2, 1.0)), one(noise_of(2, 1.0, HALF))
    assert lines(sides_part([busy, busy], ["one", "two"])) == [f"{BUSY}.", NEXT]
    assert lines(sides_part([busy, one(noise_of(2)), other], ["one", "two", "three"])) == [
        f"one: {BUSY}.",
        f"three: {BUSY}; {WAITED}.",
        NEXT,
    ]
    assert sides_part([one(None)], ["one"]) == []
    same, unlike = deepcopy(busy), deepcopy(busy)
    unlike.target["intra_op_threads"] = 1
    (line,) = lines(sides_part([busy, same], ["one", "two"], of_gate=True))
    assert line.endswith(
        'The gate\'s verdict holds nevertheless: noise only makes a gate take longer or end with "cannot tell".'
    )
    (line,) = lines(sides_part([busy, unlike], ["one", "two"], of_gate=True))
    assert line.endswith(
        "verdict is of a machine as busy as this: noise hits configurations that differ in intra-op threads unequally."
    )
    report = comparison.build_sides([busy, busy], ["one", "two"], 0.02)
    assert blocks(report)[0] == Findings.__name__
