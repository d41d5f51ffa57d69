"""What reports say first of a busy machine, from scripted results."""

from __future__ import annotations

from ortbench.analysis.advice import again
from ortbench.facts.common import noise_facts
from ortbench.model.result import Result
from ortbench.model.schema import MachineNoise
from ortbench.report import comparison, run
from ortbench.report.model import Findings, Heading, Report
from ortbench.report.parts import noise_part
from tests.results import US, measured, noise_of, result_of, steady

HALF = [0.0, 0.5] * 20


def one(noise: MachineNoise | None) -> Result:
    made = result_of(measured("cpu-tensors", latency=steady([100 * US] * 40)))
    made.noise = noise
    return made


def texts(results: list[Result]) -> list[str]:
    return [
        it.text
        for part in noise_part(results)
        for block in part
        if isinstance(block, Findings)
        for it in block.findings
    ]


def blocks(report: Report) -> list[str]:
    return [type(block).__name__ for part in report.parts for block in part]


def test_it_stands_right_under_the_heading() -> None:
    quiet, busy = run.build(one(noise_of(2))), run.build(one(noise_of(2, 1.0)))
    assert blocks(quiet) == [it for at, it in enumerate(blocks(busy)) if at != 1]
    assert blocks(busy)[:2] == [Heading.__name__, Findings.__name__]


def test_of_several_configurations_it_is_said_once() -> None:
    busy = one(noise_of(2, 1.0, HALF))
    said = ["Busy machine: other processes used 50% of 2 cores."]
    assert texts([busy, busy]) == texts([one(noise_of(2)), busy]) == said
    assert texts([one(None)]) == []
    assert blocks(comparison.build_configurations([busy, busy], ["one", "two"], 0.02))[0] == Findings.__name__


def test_the_fact_has_every_reason() -> None:
    waited, *_ = noise_facts(one(noise_of(2, 1.0, HALF)))
    assert waited.values["reasons"] == ["others", "waited"]
    stopped, *_ = noise_facts(one(noise_of(2, 1.0, HALF, gpu_processes=1)))
    assert stopped.values["reasons"] == ["others", "waited", "gpu"]


def test_the_command_of_a_search_is_the_whole_one_that_was_typed() -> None:
    """Of `tune`, whose results are runs; of what takes no such option, and of what nobody typed, it is words."""
    searched = one(noise_of(2, 1.0))
    searched.command = ["ortbench", "tune", "m.onnx", "--ep", "cpu", "--max-time", "20s", "--set", "mem-pattern=on"]
    fact, *_ = noise_facts(searched)
    assert fact.next == "ortbench tune m.onnx --ep cpu --max-time 20s --wait-quiet 60s"
    assert again(searched, "--max-time", "9s") == "ortbench tune m.onnx --ep cpu --max-time 9s"
    assert again(searched, "--concurrency", "9") == "measure again with --concurrency 9"
    searched.command = ["pytest"]
    assert again(searched, "--duration", "9s") == "measure again with --duration 9s"
