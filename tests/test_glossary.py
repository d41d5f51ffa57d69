"""The words of reports: nothing that reports say is without an entry, and the page in docs/ is what the entries say."""

from __future__ import annotations

import ast
import itertools
import re
from collections import Counter
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
from ortbench.report.glossary import Entry, Group, entries
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
        if isinstance(node, ast.Call) and (name := ast.unparse(node.func).rpartition(".")[2]) in ("Column", "columns"):
            found |= {*texts(node.args[: 1 if name == "Column" else None])}
    return {name.strip() for name in found} - {""}  # bars may have no name


def of_kinds() -> set[str]:
    """The headers of the columns that the records of the kinds name."""
    views = (view for kind in kinds().values() for view in kind.views)
    return {header(text, {}) for view in views for texts in view.columns for text in texts}


@cache
def constants() -> dict[str, object]:
    """The constants of all modules, by name."""
    return {
        target.id: node.value.value
        for node in itertools.chain(*nodes().values())
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def codes_of(tree: list[ast.AST]) -> set[str]:
    """The codes of warnings that a module makes: of `warn`, as texts or as constants of any module, and of notes, which are pairs or dicts."""
    found = set()
    for node in tree:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "warn":
            first = node.args[0]
            found |= {*texts([first])} | ({constants().get(first.id)} if isinstance(first, ast.Name) else set())
        elif isinstance(node, ast.Tuple) and len(node.elts) == 2 and isinstance(node.elts[1], ast.JoinedStr):
            found |= {text for text in texts(node.elts[:1]) if CODE.fullmatch(text)}
        elif isinstance(node, ast.Dict):
            keys = [key.value if isinstance(key, ast.Constant) else None for key in node.keys]
            coded = texts(value for key, value in zip(keys, node.values, strict=True) if key == "code")
            found |= {text for text in coded if CODE.fullmatch(text)}
    return {code for code in found if isinstance(code, str)}


def test_a_word_is_once_in_its_group_and_says_something() -> None:
    assert Counter((entry.group, entry.word) for entry in entries()).most_common(1)[0][1] == 1
    for entry in entries():
        assert entry.sentence
        assert not entry.sentence.endswith(".")
        assert not entry.more or entry.more.endswith(".")
    assert [word for group, word in ENTRIES if group is Group.MODES] == list(ALL_MODES)
    assert {ENTRIES[Group.MODES, name].sentence for name in ALL_MODES} == {mode.sentence for mode in ALL_MODES.values()}


def test_what_says_more_is_in_the_package() -> None:
    """`ortbench explain --more` finds each section, and the pages that are installed are those of docs/."""
    for entry in entries():
        assert not entry.page or page_of(entry.page), f"glossary.json, {entry.word}: there is no {entry.page} in docs/"
    assert section("modes.md#limits").startswith("## Limits\n")
    pages = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "docs").glob("*.md")}
    assert page_names() == sorted(pages)
    folder = Path(ortbench.__file__).parent / "docs"
    stale = [name for name, text in pages.items() if (folder / name).read_text(encoding="utf-8") != text]
    assert stale == [], "install ortbench again"


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


_NO_TABLES = {Group.WORDS, Group.MODES, Group.METRICS, Group.VERDICTS, Group.WARNINGS, Group.COMMANDS}
TABLES = [*set(Group) - _NO_TABLES]
METRIC_WORDS = {word for entry in entries() if entry.group is Group.METRICS for word in (entry.word, *entry.also)}


HOW = """{missing}: no reader can look this up. In ortbench/report/glossary.json add to the group of its table, or to "words",
    "{first}": {{"sentence": "what it is, without a full stop", "page": "PAGE.md#section of docs/ that says more, if one does"}}
or, if it is a metric, add the name to `also` of that metric in ortbench/model/metrics.py."""


def all_known(needed: set[str], known: set[str]) -> None:
    """Fail with what to add, and where."""
    missing = sorted(needed - known)
    assert not missing, HOW.format(missing=", ".join(map(repr, missing)), first=missing[0])


def none_left_over(entered: set[str], needed: set[str]) -> None:
    """Fail with what to remove, and where."""
    left = sorted(entered - needed)
    assert not left, f"no report says {left} any more: rename or remove the entry in ortbench/report/glossary.json"


def declared_columns() -> set[str]:
    reports = [tree for path, tree in nodes().items() if path.parts[0] in ("report", "jobs", "features")]
    return set().union(*map(columns_of, reports), of_kinds())


def shown_columns() -> set[str]:
    """The columns of the reports of results of all kinds, such as those whose names are put together."""
    shown = [block for made in ODD.values() for part in build(made()).parts for block in part]
    names = {column.name for it in shown if isinstance(it, Table) for column in it.columns}
    return {name.removesuffix(" (failed)").strip() for name in names} - {""}


def test_every_column_has_an_entry() -> None:
    known = words(Group.WORDS, Group.MODES, *TABLES) | METRIC_WORDS
    all_known(declared_columns() | shown_columns(), known)
    all_known({key for metric in METRICS.values() for key in (metric.key, metric.title)}, METRIC_WORDS)
    all_known({SPLIT, ON_DEVICE, DERIVED, NOTHING, "sync", "95% CI"}, words(Group.WORDS))


def test_no_entry_is_of_a_column_that_no_table_has() -> None:
    # The sides of a gate are columns by their names.
    found = declared_columns() | shown_columns() | {"baseline", "candidate", "cost", "metric"}
    none_left_over(words(*TABLES), found)


def test_every_verdict_has_an_entry() -> None:
    gates = {PASSED, FAILED, UNCLEAR, FASTER, SLOWER, LESS, MORE, SAME, CANNOT_TELL, UNSUPPORTED}
    suites = {record.MEASURED, record.BROKEN, record.INCOMPARABLE, record.SKIPPED, record.MISSING}
    verdicts = gates | suites | {"interrupted", NOT_MEASURED.replace("_", " ")}
    all_known(verdicts, words(Group.VERDICTS))
    none_left_over(words(Group.VERDICTS), verdicts)


# What findings, headings and rows say that is neither a column nor a verdict.
NOUNS = (
    "prediction interval", "disturbed", "depth", "in flight", "pageable memory", "pinned memory",
    "link's peak", "outside of nodes", "private memory", "busy machine", "quiet", "verified", "precision", "time is up", "too few blocks",
    "EP device", "good", "note", "bad", "first token", "tensors stay in place", "Tensors in place",
    "the state stays in place", "intermediate tensors stay in place", "remainder", "knee", "KV cache", "resource usage",
)  # fmt: skip


def test_every_noun_of_findings_has_an_entry() -> None:
    known = {name.casefold() for entry in entries() for name in (entry.word, *entry.also)}
    all_known({noun.casefold() for noun in NOUNS}, known)


def test_every_warning_has_an_entry_and_no_entry_is_of_none() -> None:
    codes = set().union(*map(codes_of, nodes().values()), CODES.values(), {SHARED})
    all_known(codes, words(Group.WARNINGS))
    none_left_over(words(Group.WARNINGS), codes)


def test_troubleshooting_mends_every_warning_once() -> None:
    page = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    rows = page.partition("\n## Warnings\n")[2].partition("\n## ")[0]
    codes = [
        code for cell in re.findall(r"^\| (`.+?) \|", rows, re.MULTILINE) for code in re.findall(r"`([^`]+)`", cell)
    ]
    assert sorted(codes) == sorted(words(Group.WARNINGS))


def glossary(text: str) -> dict[str, str]:
    """The words that a page explains, and how."""
    found = Page(text.partition("<h2>Words</h2>")[2].partition("</section>")[0])
    return dict(zip(found.text("th"), found.text("td"), strict=True))


def test_a_page_explains_the_words_that_it_has() -> None:
    alone = glossary(build_page([result_of(measured("cpu-tensors", latency=steady([1_000_000] * 20)))], ["m"]))
    assert list(alone)[:5] == ["p95", "samples", "cpu-tensors", "latency", "inf/s"]
    assert {"sync", "95% CI", "mode"} <= alone.keys()
    whole = glossary(build_page([usual()], ["m"]))
    assert {"H2D", "copy rate", "device-resident", "host-accessible", DERIVED} <= whole.keys()
    assert "pipelined" not in whole
    by_word: dict[str, list[Entry]] = {}
    for entry in entries():
        for word in (entry.word, *(entry.also if entry.group is Group.METRICS else ())):
            by_word.setdefault(word, []).append(entry)
    for word, said in {**alone, **whole}.items():
        assert said in [entry.sentence for entry in by_word[word]]
