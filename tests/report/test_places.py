"""What a run's report shows of tensors and nodes that are elsewhere: terminal, Markdown and page, word for word."""

from __future__ import annotations

import pytest

from ortbench.core.eps import CPU_EP
from ortbench.features.gate import report as gate
from ortbench.features.gate.gates.checks import Verdict
from ortbench.features.page.report.page import build_page
from ortbench.model.result import Result
from ortbench.report import comparison, run
from ortbench.report.markdown import markdown
from tests.facts.test_placement import made_on_the_cpu
from tests.report.test_page import Page
from tests.report.test_terminal import shown
from tests.results import EP, MB, published

pytestmark = pytest.mark.usefixtures("undrawn")


def with_a_copy_inside() -> Result:
    """The same, with the Memcpy node that the node on the CPU forces."""
    made = made_on_the_cpu()
    made.placement = {
        "nodes": {EP: 2, CPU_EP: 1},
        "memcpy_nodes": 1,
        "memcpy": {"to_host": {"nodes": 1, "bytes": 25 * MB}, "from_host": {"nodes": 0, "bytes": 0}},
        "cpu_operators": {"Clip": 1},
    }
    made.warn("cpu-nodes", "1 node stays on the CPU: Clip; 1 Memcpy node copies between them in each inference")
    return made


def with_nothing_on_the_ep() -> Result:
    made = published()
    made.placement = {"nodes": {CPU_EP: 3}, "memcpy_nodes": 0, "cpu_operators": {"Mul": 2, "Clip": 1}}
    made.warn("cpu-nodes", "3 nodes stay on the CPU: Mul (2), Clip")
    return made


def test_markdown_says_it_of_every_tensor() -> None:
    lines = markdown(run.build(with_a_copy_inside())).splitlines()
    start = lines.index("| tensor | bytes | in modes | memory | why |")
    assert lines[start : start + 7] == [
        "| tensor | bytes | in modes | memory | why |",
        "| --- | ---: | --- | --- | --- |",
        "| input image | 25.0 MB | cpu-tensors | host memory | passed |",
        "| input image | 25.0 MB | device-tensors, device-resident | Mem (DEFAULT) | the session's memory info |",
        "| output adjusted | 25.0 MB | cpu-tensors | host memory | returned |",
        "| output adjusted | 25.0 MB | device-tensors, device-resident | host memory | made by Clip on the CPU |",
        "",
    ]
    assert (
        sum(line.startswith("- 1 Memcpy node inside the graph: 25.0 MB copied in each inference.") for line in lines)
        == 1
    )
    assert not any("warning" in line for line in lines)


def test_that_nothing_ran_on_the_ep_comes_before_any_figure() -> None:
    said = f"Nothing ran on {EP}: all 3 nodes ran on the CPU."
    lines = shown(run.build, with_nothing_on_the_ep(), width=120)
    at = lines.index(f"! {said}")
    assert lines[at + 1].startswith("  Next: ortbench inspect ")
    assert lines[at + 3].startswith("mode ")
    assert sum(said in line for line in lines) == 1
    assert not any("warning" in line for line in lines)
    text = markdown(run.build(with_nothing_on_the_ep()))
    assert text.index(f"- {said}") < text.index("| mode |")
    assert text.count(said) == 1
    found = Page(build_page([with_nothing_on_the_ep()], ["a"]))
    assert found.text("h1") == [f"Nothing ran on {EP}: all 3 nodes ran on the CPU"]
    assert found.text("li")[0] == said


def test_results_side_by_side_say_it_before_any_figure() -> None:
    said = f"Nothing ran on {EP}: all 3 nodes ran on the CPU."
    off, other = with_nothing_on_the_ep(), published()
    both, one = ([off, with_nothing_on_the_ep()], f"! {said}"), ([off, other], f"! a: {said}")
    for results, line in (both, one):
        assert shown(comparison.build_configurations, results, "ab", 0.02, "folder", width=120)[0] == line
        assert shown(comparison.build, results, "ab", 0.02, True, width=120)[0] == line
        gated = shown(gate.build_gate, Verdict(results, []), width=120)
        assert gated[0] in (f"! {said}", f"! candidate: {said}")
        assert not any("stay on the CPU" in text for text in gated)
    many = Page(build_page([off, with_nothing_on_the_ep()], ["a", "b"]))
    assert many.text("h1")[0].startswith("In 2 of 2 results ")
    mixed = Page(build_page([off, other], ["a", "b"]))
    assert mixed.text("h1") == ["In 1 of 2 results most of the model did not run on the EP that was asked for"]


def test_sides_say_what_is_copied_inside_the_graph_in_place_of_the_warning() -> None:
    copied = "• 1 Memcpy node inside the graph: 25.0 MB copied in each inference."
    results = [with_a_copy_inside(), with_a_copy_inside()]
    for lines in (
        shown(comparison.build_configurations, results, "ab", 0.02, "folder", width=300),
        shown(gate.build_gate, Verdict(results, []), width=300),
    ):
        assert [line.startswith(copied) for line in lines if "Memcpy" in line] == [True]


def test_words_of_a_page_wrap_and_what_explains_a_table_is_below_it() -> None:
    text = build_page([with_a_copy_inside()], ["a"])
    assert '<td class="left prose">the session&#39;s memory info</td>' in text


def test_a_result_of_an_earlier_version_has_no_such_table() -> None:
    assert "in modes" not in markdown(run.build(published()))
    assert "Tensor memory" not in Page(build_page([published()], ["a"])).text("h2")
