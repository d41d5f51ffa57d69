"""`ortbench explain`: what it says of words, of which it takes any spelling, and of those that it has not."""

from __future__ import annotations

import re

import pytest

from ortbench.cli import commands
from ortbench.facts import sentences as facts
from ortbench.features.explain.job import page_of
from ortbench.report.glossary import Group, entries
from tests.conftest import Ran, ortbench, ortbench_here

pytestmark = pytest.mark.process


def explained(*words: str, width: str = "80") -> list[str]:
    return lines_of(ortbench("explain", *words, COLUMNS=width))


def lines_of(ran: Ran) -> list[str]:
    assert (ran.code, ran.err) == (0, "")
    return ran.out.splitlines()


def test_an_option_has_what_it_means_to_each_command() -> None:
    for asked in (("rtol",), ("--", "--rtol")):
        assert explained(*asked, width="400")[-2:] == [
            "--rtol",
            "  Set the relative tolerance of the comparison of outputs (run, load, loop, chain, sweep, start, soak, tune, gate, "
            "profile, code).",
        ]
    found = explained("--", "--duration", width="600")
    assert found[1] == "  Measure each mode for at most TIME (run, loop, chain)."
    assert "Measure each shape and mode for at most TIME (sweep). Start" in found[2]


def test_a_word() -> None:
    assert explained("sync") == [
        "sync",
        "  synchronization: the call that makes sure that the device has finished before",
        "  the clock is read.",
        "  ortbench verifies on each EP which call is enough, and measures its own cost.",
        "  More: ortbench explain --more sync",
    ]
    assert explained("Jain's fairness index")[-1] == "  More: ortbench explain --more load.md"


@pytest.mark.parametrize("name", commands())
def test_a_command(name: str) -> None:
    lines = lines_of(ortbench_here("explain", "ortbench", *name.split(), COLUMNS="80"))
    assert lines[lines.index(f"{name}, a command") + 1 :][:3] == [
        f"  {commands()[name].sentence}",
        f"  ortbench {name} --help shows its options.",
        f"  More: ortbench explain --more {name}",
    ]
    assert page_of(commands()[name].page)


def test_a_finding_has_what_each_of_its_verdicts_says_and_what_to_do() -> None:
    assert explained("saturated", width="200")[-4:] == [
        "saturated, a finding",
        "  saturated: MODE is saturated WHERE: queue delay depends on how long the load lasts. To do: fewer requests, more workers.",
        "  busy: MODE is saturated WHERE; the busy machine may be the reason. To do: measure again on a quiet machine: --wait-quiet 60s.",
        "  More: ortbench explain --more saturated",
    ]


@pytest.mark.parametrize("code", sorted({code for code, _ in facts.sentences()}))
def test_every_finding_can_be_typed(code: str) -> None:
    lines = lines_of(ortbench_here("explain", code, COLUMNS="10000"))
    said = lines[lines.index(f"{code}, a finding") + 1 :]
    verdicts = [verdict for it, verdict in facts.sentences() if it == code]
    assert [line.partition(":")[0].strip() for line in said[: len(verdicts)]] == verdicts
    assert not said[len(verdicts) :] or said[len(verdicts)].startswith("  More: ")


def headings(*words: str) -> list[str]:
    return headings_in(explained(*words))


def headings_in(lines: list[str]) -> list[str]:
    return [line for line in lines if line and not line.startswith(" ") and ": see " not in line]


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        (["sync,", "breakdown,", "≈", "…"], ["sync", "breakdown", "≈"]),  # as the line under a table has it
        (["95", "%"], ["95% CI"]),
        (["time", "per", "output", "token"], ["ITL, a metric"]),
        (["latency", "on", "device"], ["latency on device, a column of a suite"]),
        (["SYNC"], ["sync"]),
        (["~"], ["≈"]),
        (["dims-set-to-1"], ["dims-set-to-1, a warning"]),
        (["cannot", "tell", "p95"], ["cannot tell, a verdict", "p95, a column of a run", "p95, a column of a load"]),
    ],
)
def test_spellings(typed: list[str], found: list[str]) -> None:
    assert headings(*typed) == found


@pytest.mark.parametrize(
    ("typed", "word"),
    [("response time", "latency"), ("QPS", "throughput"), ("synchronization", "sync"), ("KV cache", "state"), ("sign test", "sequential test"), ("no difference", "same")],
)  # fmt: skip
def test_a_term_of_other_tools_leads_to_the_word(typed: str, word: str) -> None:
    lines = explained(*typed.split(), width="200")
    assert any(line.partition(",")[0] == word for line in lines)
    assert typed == word or lines[0].startswith(f"{typed}: see {word}")


def pages(*words: str) -> list[str]:
    ran = ortbench("explain", "--more", *words)
    assert (ran.code, ran.err) == (0, "")
    return [line for line in ran.out.splitlines() if line.startswith("#")]


@pytest.mark.parametrize(
    ("typed", "headings"),
    [
        (["sync"], ["## Synchronization"]),
        (["sync,", "≈"], ["## Synchronization", "## Copies"]),
        (["cpu-tensors", "pipelined"], ["## What is timed", "## Pipelined"]),
        (["suite", "merge"], ["## Shards"]),
        (["modes.md#limits"], ["## Limits"]),
        (["measuring.md#synchronization", "docs/modes.md#limits"], ["## Synchronization", "## Limits"]),
        ([], ["# Documentation", "## Tutorials", "## How-to", "## Reference", "## Explanation", "## Contributing"]),
    ],
)
def test_more_shows_sections_of_the_documentation(typed: list[str], headings: list[str]) -> None:
    assert pages(*typed) == headings


@pytest.mark.parametrize("word", [entry.word for entry in entries()])
def test_every_word_can_be_typed(word: str) -> None:
    found = headings_in(lines_of(ortbench_here("explain", *word.split(), COLUMNS="80")))
    assert any(re.split(r", an? ", line)[0] == word for line in found)


def test_alone_it_lists_the_words_in_groups() -> None:
    lines = explained(width="10000")
    assert lines[:4] == [
        "Words",
        f"  {', '.join(entry.word for entry in entries() if entry.group is Group.WORDS)}",
        "Modes",
        "  cpu-tensors, device-tensors, device-resident, host-accessible, cpu-tensors-pinned, device-tensors-pinned, pipelined, device-resident-async, shared",
    ]
    assert lines[::2][: len(Group)] == [group.title for group in Group]
    assert lines[-2:] == [
        "",
        "ortbench explain WORD says what one of them means; ortbench explain --more lists the pages.",
    ]
