"""A terminal colours cells by their tone, never by what they say."""

from __future__ import annotations

import io
from contextlib import redirect_stdout

import pytest

from ortbench.analysis.comparison import CANNOT_TELL, FASTER, LESS, MORE, SAME, SLOWER
from ortbench.facts.checks import FAILED, PASSED, UNCLEAR
from ortbench.features.suite import report as suite
from ortbench.features.suite.job.record import BROKEN, MEASURED, Record
from ortbench.report import model
from ortbench.report.comparison import verdict_cell
from ortbench.report.console import Screen
from ortbench.report.model import BAD, GOOD, KEY, Cell, Column, Kind, Table
from ortbench.report.terminal import print_table


def printed(table: Table, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    out = io.StringIO()
    with redirect_stdout(out):
        print_table(Screen(), table)
    return out.getvalue()


def test_a_tone_colours_and_a_word_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    cells = ("passed", Cell("no verdict", GOOD), Cell("nor this", BAD))
    table = Table(
        (Column("name", Kind.NAME, KEY), Column("more", Kind.WORD)), tuple(("a name", cell) for cell in cells)
    )
    text = printed(table, monkeypatch)
    assert "\x1b[32mno verdict" in text
    assert "\x1b[31mnor this" in text
    assert "\x1b[32m" not in text.splitlines()[1]


@pytest.mark.parametrize(
    ("word", "tone"),
    [(FASTER, GOOD), (SLOWER, BAD), (CANNOT_TELL, model.UNCLEAR), (SAME, ""), (LESS, ""), (MORE, "")],
)
def test_the_word_for_a_ratio(word: str, tone: str) -> None:
    assert (verdict_cell(word), verdict_cell(word).tone) == (word, tone)


@pytest.mark.parametrize(
    ("outcome", "tone"), [(PASSED, GOOD), (FAILED, BAD), (BROKEN, BAD), (UNCLEAR, model.UNCLEAR), (MEASURED, "")]
)
def test_the_outcome_of_a_case(outcome: str, tone: str) -> None:
    cell = suite.case_table([Record("a", "m", "cpu", "", "", outcome)]).rows[0][-1]
    assert isinstance(cell, Cell)
    assert (cell, cell.tone) == (outcome, tone)
