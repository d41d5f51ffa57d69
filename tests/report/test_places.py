"""That nodes ran elsewhere, or that copies are inside the graph, is said once, and before any figure."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ortbench.core.eps import CPU_EP
from ortbench.features.gate import report as gate
from ortbench.features.gate.gates.checks import Verdict
from ortbench.features.page.report.page import build_page
from ortbench.model.result import Result
from ortbench.report import comparison, run
from ortbench.report.model import Report
from ortbench.report.records import markdown
from tests.report.test_page import Page
from tests.report.test_terminal import shown
from tests.results import EP, MB, published

pytestmark = pytest.mark.usefixtures("undrawn")

SAID = f"Nothing ran on {EP}: all 3 nodes ran on the CPU."
COPIED = "1 Memcpy node inside the graph: 25.0 MB copied in each inference."
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


def with_a_copy_inside() -> Result:
    made = published()
    made.placement = {
        "nodes": {EP: 2, CPU_EP: 1},
        "memcpy_nodes": 1,
        "memcpy": {"to_host": {"nodes": 1, "bytes": 25 * MB}, "from_host": {"nodes": 0, "bytes": 0}},
        "cpu_operators": {"Clip": 1},
    }
    made.warn("cpu-nodes", "1 node stays on the CPU: Clip; 1 Memcpy node copies between them in each inference")
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
    of_both = shown(BUILDERS[name], [off, with_nothing_on_the_ep()], width=120)
    of_one = shown(BUILDERS[name], [off, other], width=120)
    assert of_both[0] == f"! {SAID}"
    assert of_one[0] == (f"! candidate: {SAID}" if name == "gate" else f"! a: {SAID}")
    assert not any("stay on the CPU" in line for line in of_both)


def test_a_page_of_several_says_in_how_many() -> None:
    for results, said in (
        ([with_nothing_on_the_ep()] * 2, "In 2 of 2 "),
        ([with_nothing_on_the_ep(), published()], "In 1 of 2 "),
    ):
        (headline,) = Page(build_page(results, ["a", "b"])).text("h1")
        assert headline.startswith(said)


@pytest.mark.parametrize("name", ["configurations", "gate"])
def test_copies_inside_the_graph_are_said_in_place_of_the_warning(name: str) -> None:
    results = [with_a_copy_inside(), with_a_copy_inside()]
    lines = shown(BUILDERS[name], results, width=300)
    assert [line.startswith(f"• {COPIED}") for line in lines if "Memcpy" in line] == [True]
    text = markdown(run.build(with_a_copy_inside()))
    assert (text.count(f"- {COPIED}"), text.count("warning")) == (1, 0)
