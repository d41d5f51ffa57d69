"""The words of reports: nothing that reports say is without an entry, and the page in docs/ is what the entries say."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

import ortbench
from ortbench.analysis.comparison import CANNOT_TELL, FASTER, LESS, MORE, SAME, SLOWER
from ortbench.core.eps import SHARED
from ortbench.facts.sentences import FAILED, PASSED, UNCLEAR
from ortbench.features.explain.job import page_names, page_of, section
from ortbench.features.page.report.page import build_page
from ortbench.features.suite.job import record
from ortbench.model.kinds import kinds
from ortbench.model.metrics import METRICS
from ortbench.model.modes import ALL_MODES
from ortbench.model.result import NOT_MEASURED, UNSUPPORTED
from ortbench.report.case_table import ON_DEVICE, SPLIT, header
from ortbench.report.glossary import Group, entries
from ortbench.report.model import DERIVED, NOTHING, Table
from ortbench.report.run import build
from ortbench.worker.opening import CODES
from tests.conftest import ROOT
from tests.odd import ODD, usual
from tests.report.test_page import Page
from tests.results import measured, result_of, steady
from tests.sources import nodes

pytestmark = pytest.mark.usefixtures("undrawn")

ENTRIES = {(entry.group, entry.word): entry for entry in entries()}
METRIC_WORDS = {word for entry in entries() if entry.group is Group.METRICS for word in (entry.word, *entry.also)}
TABLES = {*Group} - {Group.WORDS, Group.MODES, Group.METRICS, Group.VERDICTS, Group.WARNINGS, Group.COMMANDS}


def words(*groups: Group) -> set[str]:
    return {word for group, word in ENTRIES if group in groups}


def check_known(needed: set[str], known: set[str]) -> None:
    assert needed <= known, f"add {sorted(needed - known)} to glossary.json, or to `also` of a metric in metrics.py"


# What the source says


def texts(arguments: Iterable[ast.expr]) -> Iterator[str]:
    for it in arguments:
        if isinstance(it, ast.IfExp):
            yield from texts((it.body, it.orelse))
        elif isinstance(it, ast.Constant) and isinstance(it.value, str):
            yield it.value


@cache
def columns() -> set[str]:
    """The names of columns: that modules of reports declare, that the records of kinds name, and that reports of all kinds show, such as
    those whose names are put together."""
    found = {header(text, {}) for kind in kinds().values() for view in kind.views for of in view.columns for text in of}
    for path, tree in nodes().items():
        for node in tree if path.parts[0] in ("report", "jobs", "features") else ():
            called = ast.unparse(node.func).rpartition(".")[2] if isinstance(node, ast.Call) else ""
            if isinstance(node, ast.Call) and called in ("Column", "columns"):
                found |= {*texts(node.args[: 1 if called == "Column" else None])}
    blocks = [block for made in ODD.values() for part in build(made()).parts for block in part]
    found |= {column.name for it in blocks if isinstance(it, Table) for column in it.columns}
    return {name.removesuffix(" (failed)").strip() for name in found} - {""}  # bars may have no name


def warning_codes() -> set[str]:
    """Of `warn`, as texts or as constants of any module, and of notes, which are pairs or dicts."""
    every = [node for tree in nodes().values() for node in tree]
    constants = {
        target.id: node.value.value
        for node in every
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    found: set[object] = {SHARED, *CODES.values()}
    noted: list[ast.expr] = []
    for node in every:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "warn":
            first = node.args[0]
            found |= {constants.get(first.id)} if isinstance(first, ast.Name) else {*texts([first])}
        elif isinstance(node, ast.Tuple) and len(node.elts) == 2 and isinstance(node.elts[1], ast.JoinedStr):
            noted.append(node.elts[0])
        elif isinstance(node, ast.Dict):
            keys = [key.value if isinstance(key, ast.Constant) else None for key in node.keys]
            noted += [value for key, value in zip(keys, node.values, strict=True) if key == "code"]
    found |= {text for text in texts(noted) if re.fullmatch(r"[a-z]+(-[a-z0-9]+)+", text)}
    return {code for code in found if isinstance(code, str)}


# Entries


def test_a_word_is_once_in_its_group_and_says_something() -> None:
    assert len(ENTRIES) == len([*entries()])
    assert all(it.sentence and not it.sentence.endswith(".") for it in entries())
    assert all(not it.more or it.more.endswith(".") for it in entries())
    modes = {word: entry.sentence for (group, word), entry in ENTRIES.items() if group is Group.MODES}
    assert [*modes.items()] == [(name, mode.sentence) for name, mode in ALL_MODES.items()]


def test_what_says_more_is_in_the_package() -> None:
    """`ortbench explain --more` finds each section, and the pages that are installed are those of docs/."""
    assert [it.word for it in entries() if it.page and not page_of(it.page)] == []
    assert section("modes.md#limits").startswith("## Limits\n")
    pages = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "docs").glob("*.md")}
    folder = Path(ortbench.__file__).parent / "docs"
    found = {name: (folder / name).read_text(encoding="utf-8") for name in page_names()}
    assert found == pages, "install ortbench again"


def test_no_text_sends_a_reader_to_a_file_that_an_installed_package_lacks() -> None:
    found = {
        f"{path}: {node.value}"
        for path, tree in nodes().items()
        for docstrings in [{id(it.value) for it in tree if isinstance(it, ast.Expr)}]
        for node in tree
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings
        if re.search(r"(?<!/)docs/\w+\.md", node.value)
    }
    assert found == set(), "say 'ortbench explain --more PAGE' instead"


def test_every_column_has_an_entry_and_no_entry_is_of_none() -> None:
    check_known(columns(), words(Group.WORDS, Group.MODES, *TABLES) | METRIC_WORDS)
    check_known({key for metric in METRICS.values() for key in (metric.key, metric.title)}, METRIC_WORDS)
    check_known({SPLIT, ON_DEVICE, DERIVED, NOTHING, "sync", "95% CI"}, words(Group.WORDS))
    # The configurations of a gate are columns by their names; padding is one of results side by side alone.
    assert words(*TABLES) <= columns() | {"baseline", "candidate", "cost", "metric", "padding"}


def test_every_verdict_has_an_entry_and_no_entry_is_of_none() -> None:
    gates = {PASSED, FAILED, UNCLEAR, FASTER, SLOWER, LESS, MORE, SAME, CANNOT_TELL, UNSUPPORTED}
    suites = {record.MEASURED, record.BROKEN, record.INCOMPARABLE, record.SKIPPED, record.MISSING}
    assert words(Group.VERDICTS) == gates | suites | {"interrupted", NOT_MEASURED.replace("_", " ")}


def test_every_warning_has_an_entry_and_troubleshooting_mends_it_once() -> None:
    assert words(Group.WARNINGS) == warning_codes()
    page = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    rows = page.partition("\n## Warnings\n")[2].partition("\n## ")[0]
    cells = re.findall(r"^\| (`.+?) \|", rows, re.MULTILINE)
    assert sorted(code for cell in cells for code in re.findall(r"`([^`]+)`", cell)) == sorted(warning_codes())


def glossary(text: str) -> set[str]:
    """The words that a page explains, all with what their entries say."""
    found = Page(text.partition("<h2>Words</h2>")[2].partition("</section>")[0])
    assert {*found.text("td")} <= {entry.sentence for entry in entries()}
    return {*found.text("th")}


def test_a_page_explains_the_words_that_it_has() -> None:
    alone = glossary(build_page([result_of(measured("cpu-tensors", latency=steady([1_000_000] * 20)))], ["m"]))
    assert {"p95", "samples", "cpu-tensors", "latency", "inf/s", "sync", "95% CI", "mode"} <= alone
    whole = glossary(build_page([usual()], ["m"]))
    assert {"H2D", "copy rate", "device-resident", "host-accessible", DERIVED} <= whole
    assert "pipelined" not in whole
