"""The one table of sentences: every fact that a rule can make has one, and each fits the figures that it is given."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from string import Formatter
from typing import get_args

from ortbench.analysis.speedups import Claim
from ortbench.cli.options import declared_for
from ortbench.facts import Fact, Quantity, Values, record
from ortbench.facts.run import facts_of, findings_of
from ortbench.facts.sentences import in_order, sentence, sentences
from ortbench.model.result_file import load
from ortbench.model.schema import Figure
from tests.actions import page
from tests.conftest import ROOT
from tests.sources import nodes


def constants(node: ast.expr) -> Iterator[str]:
    """The texts that an expression can be, as far as they stand in it."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.IfExp):
        yield from (*constants(node.body), *constants(node.orelse))


def calls_of(name: str) -> Iterator[list[ast.expr]]:
    """The arguments of the calls of a function in the rules, of those that have two or more."""
    for path, tree in nodes().items():
        for node in tree if {"facts", "gates"} & {path.stem, path.parent.name} else ():
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == name and len(node.args) > 1:
                yield node.args


def test_every_fact_has_a_sentence() -> None:
    made = {(code, verdict) for of in calls_of("Fact") for code in constants(of[0]) for verdict in constants(of[1])}
    assert len(made) > 80
    assert made <= sentences().keys()
    for code in ("replacement", "residency", "pipeline"):
        needed = {*get_args(Claim)} - ({"slower", "same"} if code in ("replacement", "residency") else set())
        assert {(code, verdict) for verdict in needed} <= sentences().keys()


def test_the_schema_names_the_unit_of_every_figure() -> None:
    units = {unit for of in calls_of("Quantity") for unit in constants(of[1])} | {"inferences/s"}
    units |= {f"{it}/s" for of in calls_of("per_s") for last in of[2:] for it in constants(last)}
    assert {"tokens/s", "items/s", "requests/s"} <= units
    assert units == set(re.findall("``([^`]+)``", Figure.__doc__ or "")) - {"unit"}


def test_the_page_of_actions_is_made_from_the_table() -> None:
    assert (ROOT / "docs" / "actions.md").read_text(encoding="utf-8") == page()
    pages = {it.page for it in sentences().values() if it.page}
    assert pages <= {path.stem for path in (ROOT / "docs").glob("*.md")}


def test_figures_stand_in_their_units_with_their_intervals() -> None:
    speedup: Values = {"speedup": Quantity(4.17, "×", (4.05, 4.28)), "takes": "new inputs"}
    assert "m is 4.17× (4.05–4.28) as fast" in sentence(Fact("replacement", "faster", "m", speedup))
    share, whole = Quantity(0.98, "share", None, True), Quantity(4.2e6, "ns")
    values: Values = {"share": share, "copies": Quantity(4.12e6, "ns", (4.1e6, 4.15e6), True), "latency": whole}
    copies = Fact("copies", "measured", "m", values)
    assert sentence(copies) == "Copies take ≈98% of the latency of m: ≈4.12 ms (4.10–4.15 ms) of 4.20 ms."
    figure = {"value": 4.12e6, "unit": "ns", "ci95": [4.1e6, 4.15e6], "derived": True}
    assert record(copies)["values"]["copies"] == figure
    busy = Fact("busy-machine", "gpu", "", {"gpu_processes": 2})
    assert sentence(busy) == "Busy machine: 2 other processes computed on the GPU."


def test_sentences_of_stored_results_have_what_they_name_and_commands_are_some() -> None:
    """Options of a command to copy are those that the command has."""
    for facts in (facts_of(load(path)) for path in sorted((ROOT / "reports").rglob("result.json"))):
        for fact in facts:
            fields = {name for _, name, *_ in Formatter().parse(sentences()[fact.key].text) if name}
            assert fields <= {"mode", *fact.values}, fact
            assert sentence(fact).endswith(".")
        for found in (it for it in findings_of(facts) if it.is_command):
            _, command, *words = shlex.split(found.next)
            known = {it.name for it in declared_for(command).values()}
            assert {word for word in words if word.startswith("--")} <= known, found.next


def test_of_commands_that_differ_in_their_duration_one_is_named() -> None:
    words = ("--duration 9s --ep cpu", "--duration 5s --ep cpu", "--ep cpu", "--ep cuda --duration 5s")
    ordered = in_order([Fact("few-blocks", "some", "", {}, f"ortbench run m.onnx {it}") for it in words])
    assert [it.next for it in ordered] == [f"ortbench run m.onnx {words[0]}", "", "", f"ortbench run m.onnx {words[3]}"]
