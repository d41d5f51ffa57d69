"""`ortbench explain`: what it says of words, of which it takes any spelling, and of those that it has not."""

from __future__ import annotations

import pytest

from ortbench.report.glossary import Group, entries
from tests.conftest import ortbench

pytestmark = pytest.mark.process


def explained(*words: str, width: str = "80") -> list[str]:
    ran = ortbench("explain", *words, COLUMNS=width)
    assert (ran.code, ran.err) == (0, "")
    return ran.out.splitlines()


def test_a_word() -> None:
    assert explained("fence") == [
        "fence",
        "  what makes sure that the device has finished before the clock is read.",
        "  A run that returned is not a run that finished. Which fence does it on this EP",
        "  (the run itself, synchronize_outputs, or reading a value back) is proved",
        "  before anything is measured; the heading names it, and what it costs of every",
        "  run.",
        "  More: docs/measuring.md#the-fence",
    ]


def test_a_word_that_means_several_things() -> None:
    assert explained("cpu-tensors") == [
        "cpu-tensors, a mode",
        "  session.run with arrays in host memory; ONNX Runtime copies in and out inside",
        "  every run.",
        "  More: docs/modes.md",
        "",
        "cpu-tensors, a column of a suite",
        "  the median of mode cpu-tensors.",
    ]


def headings(*words: str) -> list[str]:
    return [line for line in explained(*words) if line and not line.startswith(" ")]


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        (["fence,", "split,", "≈", "…"], ["fence", "split", "≈"]),  # as the line under a table has it
        (["95", "%"], ["95% CI"]),
        (["95%"], ["95% CI"]),
        (["95% CI"], ["95% CI"]),
        (["vs", "cpu"], ["speedup, a metric"]),
        (["fastest", "mode"], ["fastest mode, a column of a suite"]),
        (["mode"], ["mode"]),
        (["FENCE"], ["fence"]),
        (["~"], ["≈"]),
        (["derived", "≈"], ["≈"]),
        (["x", "cpu-tensors"], ["× cpu-tensors, a column of a suite"]),
        (["dims-set-to-1"], ["dims-set-to-1, a warning"]),
        (["cannot", "tell", "p95"], ["cannot tell, a verdict", "p95, a column of a run", "p95, a column of a load"]),
    ],
)
def test_spellings(typed: list[str], found: list[str]) -> None:
    assert headings(*typed) == found


@pytest.mark.parametrize("word", [entry.word for entry in entries()])
def test_every_word_can_be_typed(word: str) -> None:
    assert any(line.partition(", a ")[0] == word for line in headings(*word.split()))


def test_alone_it_lists_the_words_in_groups() -> None:
    lines = explained(width="10000")
    assert lines[:4] == [
        "Words",
        f"  {', '.join(entry.word for entry in entries() if entry.group is Group.WORDS)}",
        "Modes",
        "  cpu-tensors, device-tensors, device-resident, host-accessible, cpu-tensors-pinned, device-tensors-pinned, pipelined, device-resident-async, shared",
    ]
    assert lines[::2][: len(Group)] == [group.title for group in Group]
    assert lines[-2:] == ["", "ortbench explain WORD says what one of them means."]


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (["fense"], "explain 'fense': there is no such word; the nearest is 'fence'"),
        (
            ["fence", "devise-resident"],
            "explain 'devise-resident': there is no such word; the nearest is 'device-resident'",
        ),
        (["qqqqqq"], "explain 'qqqqqq': there is no such word; 'ortbench explain' lists those that there are"),
        (["\x1b[31m"], "explain '\\x1b[31m': there is no such word; 'ortbench explain' lists those that there are"),
    ],
)
def test_a_word_that_there_is_not(typed: list[str], said: str) -> None:
    ran = ortbench("explain", *typed)
    assert (ran.code, ran.out, ran.error_line) == (2, "", said)
