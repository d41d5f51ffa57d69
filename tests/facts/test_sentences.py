"""The one table of sentences: every fact that a rule can make has one, each fits the figures that it is given, and a screen holds them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from string import Formatter
from typing import get_args

import pytest

from ortbench.analysis.speedups import Claim
from ortbench.facts.fact import Fact, Quantity, Values, record
from ortbench.facts.findings import facts_of
from ortbench.facts.sentences import in_order, sentence, sentences
from ortbench.model.result import Result
from ortbench.model.result_file import load
from ortbench.model.schema import Figure
from ortbench.report.run import screen
from tests.actions import page
from tests.conftest import ROOT
from tests.report.test_terminal import shown
from tests.sources import PACKAGE

STORED = sorted((ROOT / "reports").rglob("result.json"))


def constants(node: ast.expr) -> Iterator[str]:
    """The texts that an expression can be, as far as they stand in it."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.IfExp):
        yield from (*constants(node.body), *constants(node.orelse))


def made() -> set[tuple[str, str]]:
    """Codes and verdicts that stand in the rules."""
    found = set()
    for path in (it for it in PACKAGE.rglob("*.py") if {"facts", "gates"} & {it.stem, it.parent.name}):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Fact" and len(node.args) > 1:
                found |= {(code, verdict) for code in constants(node.args[0]) for verdict in constants(node.args[1])}
    return found


def test_every_fact_has_a_sentence() -> None:
    assert len(made()) > 80
    assert made() <= sentences().keys()
    for code in ("replacement", "residency", "pipeline"):
        needed = {*get_args(Claim)} - ({"slower", "same"} if code in ("replacement", "residency") else set())
        assert {(code, verdict) for verdict in needed} <= sentences().keys()


def test_the_schema_names_the_unit_of_every_figure() -> None:
    units = set()
    for path in (it for it in PACKAGE.rglob("*.py") if {"facts", "gates"} & {it.stem, it.parent.name}):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            called = getattr(node.func, "id", "") if isinstance(node, ast.Call) else ""
            if isinstance(node, ast.Call) and called == "Quantity" and len(node.args) > 1:
                units |= {*constants(node.args[1])}
            elif isinstance(node, ast.Call) and called == "per_s":
                units |= {f"{it}/s" for of in node.args[2:] for it in constants(of)} or {"inferences/s"}
    assert {"tokens/s", "items/s", "requests/s"} <= units
    assert units == set(re.findall("``([^`]+)``", Figure.__doc__ or "")) - {"unit"}


def test_the_page_of_actions_is_made_from_the_table() -> None:
    assert (ROOT / "docs" / "actions.md").read_text(encoding="utf-8") == page()
    pages = {it.page for it in sentences().values() if it.page}
    assert pages <= {path.stem for path in (ROOT / "docs").glob("*.md")}


def test_figures_stand_in_their_units_with_their_intervals() -> None:
    values: Values = {
        "speedup": Quantity(4.17, "×", (4.05, 4.28)),
        "takes": "new inputs",
        "latency": Quantity(1e6, "ns"),
    }
    assert (
        sentence(Fact("replacement", "faster", "m", values))
        == "m is 4.17× (4.05–4.28) as fast as cpu-tensors with new inputs."
    )
    copies: Values = {
        "share": Quantity(0.98, "share", None, True),
        "copies": Quantity(4.12e6, "ns", (4.1e6, 4.15e6), True),
        "latency": Quantity(4.2e6, "ns"),
    }
    assert (
        sentence(Fact("copies", "measured", "m", copies))
        == "Copies take ≈98% of the latency of m: ≈4.12 ms (4.10–4.15 ms) of 4.20 ms."
    )
    assert record(Fact("copies", "measured", "m", copies))["values"]["copies"] == {
        "value": 4.12e6, "unit": "ns", "ci95": [4.1e6, 4.15e6], "derived": True,
    }  # fmt: skip


def check(result: Result) -> None:
    for fact in facts_of(result):
        fields = {name for _, name, *_ in Formatter().parse(sentences()[fact.key].text) if name}
        assert fields <= {"mode", *fact.values}, fact
        assert sentence(fact).endswith(".")
    if result.kind != "bandwidth":  # a bandwidth curve is shown in brief
        lines = shown(screen, result, "reports/some-folder", width=80)
        assert len(lines) <= 24, "\n".join(lines)
        assert max(map(len, lines)) <= 80


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.parent.name)
def test_stored_results_fit_a_screen(path: Path) -> None:
    check(load(path))


def test_of_commands_that_differ_in_their_duration_one_is_named() -> None:
    words = ("--duration 9s --ep cpu", "--duration 5s --ep cpu", "--ep cpu", "--ep cuda --duration 5s")
    ordered = in_order([Fact("few-blocks", "some", "", {}, f"ortbench run m.onnx {it}") for it in words])
    assert [it.next for it in ordered] == [f"ortbench run m.onnx {words[0]}", "", "", f"ortbench run m.onnx {words[3]}"]


def test_several_processes_are_processes() -> None:
    values: Values = {"gpu_processes": 2}
    assert sentence(Fact("busy-machine", "gpu", "", values)) == "Busy machine: 2 other processes computed on the GPU."
