"""What is said of soaks: their findings, their table and gates, of synthetic readings whose truth is known."""

from __future__ import annotations

import random

import pytest

from ortbench.analysis.comparable import mismatches
from ortbench.core.errors import BadInput
from ortbench.core.stats import Value
from ortbench.facts.comparison import mode_facts
from ortbench.features.gate.gates.checks import check_alone
from ortbench.features.gate.plan import Limits
from ortbench.features.soak.model import SoakedShape
from ortbench.model.result import Result
from ortbench.model.result_file import check_result
from ortbench.report import phrases, run
from ortbench.report.comparison import records
from ortbench.report.run import mode_table
from tests.expect import refusal, there
from tests.results import fact, result_of, soak_result, values

MB = 1_000_000
LEAK = [100 * MB + 50_000 * number for number in range(100)]
FLAT = [100 * MB] * 100
LITTLE = [min(100 * MB + 48_000 * number, 100 * MB + 480_000) for number in range(100)]
ARENA = [min(100 * MB + 2 * MB * number, 140 * MB) for number in range(100)]
LATE = [100 * MB + 9 * MB * (number > 90) for number in range(100)]
# Memory that goes up and down by more than it grew in the end: nobody knows yet.
END = [*[100 * MB + 12 * MB * (number % 3) for number in range(96)], *[114 * MB] * 4]
_UP_AND_DOWN = random.Random(3)
# 12.9 kB more after each inference of 100, and ten times as much up and down; the last four held as much.
NOISY = [
    60 * MB,
    *[60 * MB + 12_900 * number + _UP_AND_DOWN.randrange(13 * MB) for number in range(1, 96)],
    *[74_300_000] * 4,
]


@pytest.mark.parametrize(
    ("private", "verdict"),
    [
        (LEAK, "grows"),
        (FLAT, "none"),
        (LITTLE, "none"),
        (ARENA, "steady"),
        (LATE, "open"),
        (LEAK[:17], "open"),
        (END, "open"),
        (NOISY, "open"),
    ],
)
def test_verdicts(private: list[int], verdict: str) -> None:
    found = fact(soak_result(private), "growth")
    assert (found.verdict, values(found)["start"], values(found)["end"]) == (verdict, private[0], private[-1])
    assert verdict != "grows" or values(found)["each"] == 500_000  # per 1,000 inferences


@pytest.mark.parametrize(
    ("private", "words", "has_shapes", "after"),
    [
        (ARENA, "--dim s=1,2", False, ""),
        (ARENA, "--dim s=1,2", True, "ortbench soak m.onnx --dim s=1,2 --try arena"),  # shapes make an arena grow
        (ARENA, "--dim s=1,2 --try arena", True, ""),
        (LATE, "--duration 15", False, "ortbench soak m.onnx --duration 60"),  # which cannot tell
    ],
)
def test_what_to_do(private: list[int], words: str, has_shapes: bool, after: str) -> None:
    made = soaked(*["s=1"] * has_shapes, private=private)
    made.command = ["ortbench", "soak", "m.onnx", *words.split()]
    made.stopped = {"reason": "duration", "value": 15.0, "per": "mode"}
    assert fact(made, "growth").next == after


def test_what_soaks_side_by_side_end_with() -> None:
    (found,) = mode_facts([soak_result(ARENA), soak_result(LEAK)], ["default", "no CPU arena"])
    assert (found.verdict, found.values["configuration"], values(found)["end"]) == ("grows", "no CPU arena", LEAK[-1])


# An allocator keeps pages for a while and gives them back: what the last reading says is chance.
WANDERS = [100 * MB - 3 * MB + (number * 7 % 10 + number // 12 % 4) * MB for number in range(280)]
SHRINKS = [at + 40 * MB for at in WANDERS]


@pytest.mark.parametrize(
    ("private", "other", "verdict"),
    [
        ([100 * MB] * 280, [*WANDERS, 92 * MB], "cannot tell"),
        ([100 * MB] * 280, SHRINKS, "more"),
        (SHRINKS, [100 * MB] * 280, "less"),
        (FLAT, [*FLAT, 92 * MB], "same"),
        (FLAT[:1], ARENA[-1:], "more"),
    ],
)
@pytest.mark.parametrize("run_ids", ["ab", "aa"])
def test_memory_at_the_end_is_compared_by_the_spread_of_its_readings(
    private: list[int], other: list[int], verdict: str, run_ids: str
) -> None:
    results = [soak_result(private), soak_result(other)]
    for result, run_id in zip(results, run_ids, strict=True):
        result.setup["run_id"] = run_id
    found = {it["metric"]: it["vs_first"] for it in records(results, ["a", "b"], 0.02)}
    assert found["host_held"]["verdict"] == verdict


def soaked(*shapes: str, n: int = 20, private: list[int] = FLAT) -> Result:
    made = soak_result(private)
    made.part["shapes"] = [SoakedShape(name=name, n=n, median_ns=1, p99_ns=1) for name in shapes]
    return made


def test_soaks_of_other_shapes_are_not_comparable() -> None:
    assert mismatches(soaked("s=1", "s=2"), soaked("s=2", "s=1")) == []
    assert mismatches(soaked("s=1"), soaked()) != []
    assert mismatches(soaked("s=1", "s=2"), soaked("s=1", "s=3")) == ["shapes: s=1, s=2 and s=1, s=3"]
    assert mismatches(soaked("s=1", "s=2"), soaked("s=1", n=3)) == []  # the other one may not have come


@pytest.mark.parametrize(("shapes", "of"), [(["s=1", "s=2"], "; the first of 2 shapes)"), ([], "scalar)")])
def test_a_heading_says_how_many_shapes_there_are(shapes: list[str], of: str) -> None:
    for said in (run.heading, phrases.heading):
        assert of in said(soaked(*shapes))[0]


def test_growth_that_may_be_below_zero_can_be_read_again() -> None:
    made = soak_result([100 * MB + 4096 * (number * 37 % 11) for number in range(100)])
    growth = made.cases[0].metrics["host_growth"]
    assert isinstance(growth, Value)
    assert there(growth.ci95)[0] < 0
    check_result(made)


@pytest.mark.parametrize(
    ("private", "most", "verdict"),
    [
        (LEAK, 400_000, "failed"),
        (LEAK, 600_000, "passed"),
        (FLAT, 60_000, "passed"),
        (FLAT, 10_000, "cannot tell"),
        (ARENA, 60_000, "passed"),
        (LATE, 100 * MB, "cannot tell"),
    ],
)
def test_a_gate_limits_growth(private: list[int], most: int, verdict: str) -> None:
    (check,) = check_alone(soak_result(private), Limits(own={"max-growth": most}))
    assert (check.verdict, check.metric) == (verdict, "host_growth")


def test_a_gate_of_what_is_no_soak_refuses_the_limit() -> None:
    assert "--max-growth is of a soak" in refusal(BadInput, check_alone, result_of(), Limits(own={"max-growth": 1}))


@pytest.mark.parametrize(("private", "growth"), [(LEAK, "500 kB/1,000 inf"), (FLAT, None)])
def test_the_table_says_which_memory_it_is_of_and_tells_growth_only_where_there_is_some(
    private: list[int], growth: str | None
) -> None:
    made = soak_result(private)
    table = mode_table(made)
    cells = dict(zip((column.name for column in table.columns), table.rows[0], strict=True))
    assert (cells.get("host growth"), cells["private memory at start"]) == (growth, "100 MB")
    for it in made.part["readings"]:
        it["private"] = None  # which is not known: the resident set decides
    assert "resident memory at start" in [column.name for column in mode_table(made).columns]
    assert (fact(made, "growth").verdict == "grows") is (growth is not None)
