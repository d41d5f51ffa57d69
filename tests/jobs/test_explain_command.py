"""`ortbench explain`: what it says of words, of which it takes any spelling, and of those that it has not."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from ortbench.cli import commands
from ortbench.facts import sentences as facts
from ortbench.features.explain.cli import explain
from ortbench.features.explain.job import page_of
from ortbench.report.glossary import entries
from tests.conftest import ortbench

Explained = Callable[..., list[str]]


@pytest.fixture
def explained(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Explained:
    """What is said of words that were typed, in a terminal in which every line has room."""
    monkeypatch.setenv("COLUMNS", "10000")

    def lines(typed: str, more: bool = False) -> list[str]:
        explain({}, typed.split(), more)
        return capsys.readouterr().out.splitlines()

    return lines


def headings(lines: list[str]) -> list[str]:
    return [line for line in lines if line and not line.startswith(" ") and ": see " not in line]


def test_the_command() -> None:
    ran = ortbench("explain", "sync", COLUMNS="80")
    assert (ran.code, ran.err) == (0, "")
    assert (ran.out.splitlines()[0], ran.out.splitlines()[-1]) == ("sync", "  More: ortbench explain --more sync")
    option, meaning = ortbench("explain", "--", "--rtol", COLUMNS="400").out.splitlines()[-2:]
    assert (option, "(run, load, loop, chain, " in meaning) == ("--rtol", True)


@pytest.mark.pure
def test_every_command_finding_and_word_can_be_typed(explained: Explained) -> None:
    for name, command in commands().items():
        lines = explained(f"ortbench {name}")
        assert lines[lines.index(f"{name}, a command") + 1 :][:3] == [
            f"  {command.sentence}",
            f"  ortbench {name} --help shows its options.",
            f"  More: ortbench explain --more {name}",
        ]
        assert page_of(command.page)
    for code in {code for code, _ in facts.sentences()}:
        lines = explained(code)
        said = lines[lines.index(f"{code}, a finding") + 1 :]
        verdicts = [verdict for it, verdict in facts.sentences() if it == code]
        assert [line.partition(":")[0].strip() for line in said[: len(verdicts)]] == verdicts
        assert not said[len(verdicts) :] or said[len(verdicts)].startswith("  More: ")
    for entry in entries():
        assert any(re.split(r", an? ", line)[0] == entry.word for line in headings(explained(entry.word)))


@pytest.mark.pure
@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("sync, breakdown, ≈ …", ["sync", "breakdown", "≈"]),  # as the line under a table has it
        ("95 %", ["95% CI"]),
        ("time per output token", ["ITL, a metric"]),
        ("~", ["≈"]),
        ("cannot tell p95", ["cannot tell, a verdict", "p95, a column of a run", "p95, a column of a load"]),
    ],
)
def test_spellings(typed: str, found: list[str], explained: Explained) -> None:
    assert headings(explained(typed)) == found


@pytest.mark.pure
@pytest.mark.parametrize(
    ("typed", "word"),
    [("response time", "latency"), ("synchronization", "sync"), ("KV cache", "state"), ("no difference", "same")],
)
def test_a_term_of_other_tools_leads_to_the_word(typed: str, word: str, explained: Explained) -> None:
    lines = explained(typed)
    assert lines[0].startswith(f"{typed}: see {word}")
    assert any(line.partition(",")[0] == word for line in lines)


@pytest.mark.pure
@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("sync, ≈", ["## Synchronization", "## Copies"]),
        ("suite merge", ["## Shards"]),
        ("measuring.md#synchronization docs/modes.md#limits", ["## Synchronization", "## Limits"]),
        ("", ["# Documentation", "## Tutorials", "## How-to", "## Reference", "## Explanation", "## Contributing"]),
    ],
)
def test_more_shows_sections_of_the_documentation(typed: str, found: list[str], explained: Explained) -> None:
    assert [line for line in explained(typed, more=True) if line.startswith("#")] == found
