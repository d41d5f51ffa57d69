"""What is said once, and before any figure: that nodes ran elsewhere, that copies are inside the graph, that the machine was busy."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ortbench.analysis.advice import again
from ortbench.core.eps import CPU_EP
from ortbench.facts import noise_facts
from ortbench.features.gate import report as gate
from ortbench.features.gate.gates.checks import Verdict
from ortbench.features.page.report.page import build_page
from ortbench.model.result import Result
from ortbench.report import comparison, run
from ortbench.report.model import Report
from ortbench.report.records import markdown
from tests.report.test_page import Page
from tests.report.test_terminal import shown
from tests.results import EP, US, measured, noise_of, published, result_of, steady

pytestmark = pytest.mark.usefixtures("undrawn")

SAID = f"Nothing ran on {EP}: all 3 nodes ran on the CPU."
BUSY = "! Busy machine: other processes used 50% of 2 cores."
BUILDERS: dict[str, Callable[[list[Result]], Report]] = {
    "configurations": lambda results: comparison.build_configurations(results, "ab", 0.02, "folder"),
    "compare": lambda results: comparison.build(results, "ab", 0.02, True),
    "gate": lambda results: gate.build_gate(Verdict(results, [])),
}


def with_nothing_on_the_ep() -> Result:
    made = published()
    made.placement = {"nodes": {CPU_EP: 3}, "memcpy_nodes": 0, "cpu_operators": {"Mul": 2, "Clip": 1}}
    made.warn("cpu-nodes", "3 nodes stay on the CPU: Mul (2), Clip")
    return made


def test_that_nothing_ran_on_the_ep_comes_before_any_figure() -> None:
    lines = shown(run.build, with_nothing_on_the_ep(), width=120)
    at = lines.index(f"! {SAID}")
    assert lines[at + 1].startswith("  Next: ortbench inspect ")
    assert lines[at + 3].startswith("mode ")
    assert sum(SAID in line for line in lines) == 1
    assert not any("warning" in line for line in lines)
    text = markdown(run.build(with_nothing_on_the_ep()))
    assert text.index(f"- {SAID}") < text.index("| mode |")
    found = Page(build_page([with_nothing_on_the_ep()], ["a"]))
    assert (found.text("h1"), found.text("li")[0]) == ([SAID.removesuffix(".")], SAID)


@pytest.mark.parametrize("name", BUILDERS)
def test_results_side_by_side_say_it_before_any_figure(name: str) -> None:
    off, other = with_nothing_on_the_ep(), published()
    other.placement = {"nodes": {EP: 2, CPU_EP: 1}, "memcpy_nodes": 1, "cpu_operators": {"Clip": 1}}
    of_both = shown(BUILDERS[name], [off, with_nothing_on_the_ep()], width=120)
    of_one = shown(BUILDERS[name], [off, other], width=120)
    assert of_both[0] == f"! {SAID}"
    assert of_one[0] == (f"! candidate: {SAID}" if name == "gate" else f"! a: {SAID}")
    assert not any("stay on the CPU" in line for line in of_both)
    assert name == "compare" or any("1 Memcpy node inside the graph" in line for line in of_one)


# A busy machine


def one(others: float) -> Result:
    """On a machine of which others used so many cores."""
    made = result_of(measured("cpu-tensors", latency=steady([100 * US] * 40)))
    made.noise = noise_of(2, others, [0.0, others / 2] * 20)
    return made


def test_it_stands_right_under_the_heading_and_of_several_configurations_once() -> None:
    quiet, busy = (shown(run.build, one(others), width=120) for others in (0.0, 1.0))
    at = busy.index(BUSY)
    assert (busy[at - 1], busy[:at], busy[at + 3].startswith("mode ")) == ("", quiet[:at], True)
    assert BUSY not in quiet
    for others in (0.0, 1.0):
        lines = shown(BUILDERS["configurations"], [one(others), one(1.0)], width=120)
        assert [at for at, line in enumerate(lines) if line == BUSY] == [0]


def test_the_command_of_a_search_is_the_whole_one_that_was_typed() -> None:
    searched = one(1.0)
    searched.command = ["ortbench", "tune", "m.onnx", "--ep", "cpu", "--max-time", "20s", "--set", "mem-pattern=on"]
    fact, *_ = noise_facts(searched)
    assert fact.next == "ortbench tune m.onnx --ep cpu --max-time 20s --wait-quiet 60s"
    assert again(searched, "--max-time", "9s") == "ortbench tune m.onnx --ep cpu --max-time 9s"
    assert again(searched, "--iterations", "9") == "measure again with --iterations 9"  # it takes no such option
    searched.command = ["pytest"]
    assert again(searched, "--duration", "9s") == "measure again with --duration 9s"
