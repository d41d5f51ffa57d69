"""The words of reports: nothing that reports say is without an entry, and the page in docs/ is what the entries say."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator

from ortbench.analysis import packages
from ortbench.analysis.comparing.compare import CANNOT_TELL, FASTER, LESS, MORE, SAME, SLOWER
from ortbench.analysis.nodes.config_keys import CODES
from ortbench.gate.limits import FAILED, PASSED, UNCLEAR
from ortbench.model.metrics import METRICS
from ortbench.model.modes import ALL_MODES
from ortbench.model.result import NOT_MEASURED, UNSUPPORTED
from ortbench.report.bars import SPLIT
from ortbench.report.glossary import Entry, Group, entries
from ortbench.report.model import DERIVED, NOTHING
from ortbench.report.page.page import build_page
from ortbench.report.phrases import HEADINGS
from ortbench.suite import record
from tests.conftest import ROOT
from tests.glossary import document
from tests.odd import usual
from tests.report.test_page import Page
from tests.results import measured, result_of, steady
from tests.sources import nodes

ENTRIES = {(entry.group, entry.word): entry for entry in entries()}
CODE = re.compile(r"[a-z]+(-[a-z0-9]+)+")


def words(*groups: Group) -> set[str]:
    return {word for group, word in ENTRIES if group in groups}


def texts(arguments: Iterable[ast.expr]) -> Iterator[str]:
    for it in arguments:
        if isinstance(it, ast.IfExp):
            yield from texts((it.body, it.orelse))
        elif isinstance(it, ast.Constant) and isinstance(it.value, str):
            yield it.value


def columns_of(tree: list[ast.AST]) -> set[str]:
    """The names of the columns that a report's module declares."""
    found = set()
    for node in tree:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("Column", "columns"):
            found |= {*texts(node.args[: 1 if node.func.id == "Column" else None])}
    return {name for name in found if name.strip()}  # bars may have no name


def codes_of(tree: list[ast.AST]) -> set[str]:
    """The codes of warnings that a module makes: of `warn`, as texts or as constants, and of notes, which are pairs."""
    constants = {
        target.id: node.value.value
        for node in tree
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    found = set()
    for node in tree:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "warn":
            first = node.args[0]
            found |= {*texts([first])} | ({constants.get(first.id)} if isinstance(first, ast.Name) else set())
        elif isinstance(node, ast.Tuple) and len(node.elts) == 2 and isinstance(node.elts[1], ast.JoinedStr):
            found |= {text for text in texts(node.elts[:1]) if CODE.fullmatch(text)}
    return {code for code in found if isinstance(code, str)}


def test_a_word_is_once_in_its_group_and_says_something() -> None:
    assert Counter((entry.group, entry.word) for entry in entries()).most_common(1)[0][1] == 1
    for entry in entries():
        assert entry.sentence
        assert not entry.sentence.endswith(".")
        assert not entry.more or entry.more.endswith(".")
    assert [word for group, word in ENTRIES if group is Group.MODES] == list(ALL_MODES)
    assert {ENTRIES[Group.MODES, name].sentence for name in ALL_MODES} == {mode.sentence for mode in ALL_MODES.values()}
    pages = {entry.page.partition("#")[0] for entry in entries() if entry.page}
    assert {page for page in pages if not (ROOT / "docs" / page).is_file()} == set()


TABLES = [*set(Group) - {Group.WORDS, Group.MODES, Group.METRICS, Group.VERDICTS, Group.WARNINGS}]
METRIC_WORDS = {word for entry in entries() if entry.group is Group.METRICS for word in (entry.word, *entry.also)}


def test_every_column_has_an_entry() -> None:
    reports = [tree for path, tree in nodes().items() if path.parts[:-1] == ("report",)]
    found = set().union(*map(columns_of, reports), HEADINGS)
    assert found - words(Group.WORDS, *TABLES) - METRIC_WORDS == set()
    assert {key for metric in METRICS.values() for key in (metric.key, metric.title)} <= METRIC_WORDS
    assert {"latency", "copied/run", "vs first", "H2D GB/s", "forced by", "fastest mode", "kernels"} <= found
    # No entry of a column that no table has; the sides of a gate are columns by their names.
    assert words(*TABLES) - {"baseline", "candidate", "cost", "metric"} <= found
    assert {SPLIT, DERIVED, NOTHING, "fence", "95% CI"} <= words(Group.WORDS)


def test_every_verdict_has_an_entry() -> None:
    gates = {PASSED, FAILED, UNCLEAR, FASTER, SLOWER, LESS, MORE, SAME, CANNOT_TELL, UNSUPPORTED}
    suites = {record.MEASURED, record.BROKEN, record.INCOMPARABLE, record.SKIPPED, record.MISSING}
    assert words(Group.VERDICTS) == gates | suites | {"interrupted", NOT_MEASURED.replace("_", " ")}


def test_every_warning_has_an_entry_and_no_entry_is_of_none() -> None:
    assert words(Group.WARNINGS) == set().union(
        *map(codes_of, nodes().values()), CODES.values(), {packages.SHARED, packages.MISNAMED}
    )


def test_the_pages_say_what_the_entries_say() -> None:
    assert (ROOT / "docs" / "words.md").read_text(encoding="utf-8") == document()
    text = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    (sentence,) = [it for it in re.split(r"(?<=\.) ", text) if "fence" in it][:1]
    assert "fence (a wait that is proved to last until the device has finished)" in sentence


def glossary(text: str) -> dict[str, str]:
    """The words that a page explains, and how."""
    found = Page(text.partition("<h2>Words</h2>")[2].partition("</section>")[0])
    return dict(zip(found.text("th"), found.text("td"), strict=True))


def test_a_page_explains_the_words_that_it_has() -> None:
    alone = glossary(build_page([result_of(measured("cpu-tensors", latency=steady([1_000_000] * 20)))], ["m"]))
    assert list(alone) == ["cpu-tensors", "latency", "inf/s", "p95", "samples", "fence", "95% CI", "mode"]
    whole = glossary(build_page([usual()], ["m"]))
    assert {"H2D", "copy rate", "device-resident", "host-accessible", DERIVED} <= whole.keys()
    assert "pipelined" not in whole
    by_word: dict[str, list[Entry]] = {}
    for entry in entries():
        for word in (entry.word, *(entry.also if entry.group is Group.METRICS else ())):
            by_word.setdefault(word, []).append(entry)
    for word, said in {**alone, **whole}.items():
        assert said in [entry.sentence for entry in by_word[word]]
