"""What reports say first of a busy machine, from scripted results."""

from __future__ import annotations

from ortbench.analysis.advice import again
from ortbench.facts.common import noise_facts
from ortbench.model.result import Result
from ortbench.model.schema import MachineNoise
from ortbench.report import comparison, run
from ortbench.report.model import Findings, Report
from ortbench.report.parts import noise_part
from tests.results import US, measured, noise_of, result_of, steady

HALF = [0.0, 0.5] * 20


def one(noise: MachineNoise | None) -> Result:
    made = result_of(measured("cpu-tensors", latency=steady([100 * US] * 40)))
    made.noise = noise
    return made


def texts(*results: Result) -> list[str]:
    blocks = [block for part in noise_part(list(results)) for block in part]
    return [it.text for block in blocks if isinstance(block, Findings) for it in block.findings]


def blocks(report: Report) -> list[str]:
    return [type(block).__name__ for part in report.parts for block in part]


def test_it_stands_right_under_the_heading_and_of_several_configurations_once() -> None:
    quiet, busy = one(noise_of(2)), one(noise_of(2, 1.0, HALF))
    assert blocks(run.build(busy))[:2] == ["Heading", "Findings"]
    assert blocks(run.build(quiet)) == [it for at, it in enumerate(blocks(run.build(busy))) if at != 1]
    assert texts(busy, busy) == texts(quiet, busy) == ["Busy machine: other processes used 50% of 2 cores."]
    assert texts(one(None)) == []
    assert blocks(comparison.build_configurations([busy, busy], ["one", "two"], 0.02))[0] == "Findings"


def test_the_fact_has_every_reason() -> None:
    waited, *_ = noise_facts(one(noise_of(2, 1.0, HALF)))
    assert waited.values["reasons"] == ["others", "waited"]
    computed, *_ = noise_facts(one(noise_of(2, 1.0, HALF, gpu_processes=1)))
    assert computed.values["reasons"] == ["others", "waited", "gpu"]


def test_the_command_of_a_search_is_the_whole_one_that_was_typed() -> None:
    searched = one(noise_of(2, 1.0))
    searched.command = ["ortbench", "tune", "m.onnx", "--ep", "cpu", "--max-time", "20s", "--set", "mem-pattern=on"]
    fact, *_ = noise_facts(searched)
    assert fact.next == "ortbench tune m.onnx --ep cpu --max-time 20s --wait-quiet 60s"
    assert again(searched, "--max-time", "9s") == "ortbench tune m.onnx --ep cpu --max-time 9s"
    assert again(searched, "--concurrency", "9") == "measure again with --concurrency 9"  # it takes no such option
    searched.command = ["pytest"]
    assert again(searched, "--duration", "9s") == "measure again with --duration 9s"
