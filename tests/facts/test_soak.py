"""What is said of soaks: their headline, their findings and gates, of synthetic readings whose truth is known."""

from __future__ import annotations

import pytest

from ortbench.analysis.comparable import mismatches
from ortbench.core.errors import BadInput
from ortbench.core.stats import Value
from ortbench.facts.comparison import mode_facts
from ortbench.features.gate.gates.checks import check_alone
from ortbench.features.gate.plan import Limits
from ortbench.features.soak.analysis import put_figures as put_growth
from ortbench.features.soak.model import SoakedShape
from ortbench.model.result import Result
from ortbench.model.result_file import check_result
from ortbench.report.run import mode_table
from tests.expect import there
from tests.results import fact, result_of, soak_result, values

MB = 1_000_000
LEAK = [100 * MB + 50_000 * number for number in range(100)]
FLAT = [100 * MB] * 100
LITTLE = [min(100 * MB + 48_000 * number, 100 * MB + 480_000) for number in range(100)]
ARENA = [min(100 * MB + 2 * MB * number, 140 * MB) for number in range(100)]
LATE = [100 * MB + 9 * MB * (number > 90) for number in range(100)]


@pytest.mark.parametrize(
    ("private", "verdict"),
    [(LEAK, "grows"), (FLAT, "none"), (LITTLE, "none"), (ARENA, "steady"), (LATE, "open"), (LEAK[:17], "open")],
)
def test_verdicts(private: list[int], verdict: str) -> None:
    found = fact(soak_result(private), "growth")
    assert found.verdict == verdict
    assert (values(found)["start"], values(found)["end"]) == (private[0], private[-1])
    if verdict == "grows":
        assert values(found)["each"] == 500_000  # per 1,000 inferences


def test_that_memory_went_up_at_the_end_is_not_called_no_growth() -> None:
    """Of memory that goes up and down by more than it grew in the end: nobody knows yet."""
    ups_and_downs = [100 * MB + 12 * MB * (number % 3) for number in range(96)]
    assert fact(soak_result([*ups_and_downs, *[114 * MB] * 4]), "growth").verdict == "open"


def test_what_to_do_where_shapes_make_an_arena_grow() -> None:
    made = soak_result(ARENA)
    made.command = ["ortbench", "soak", "m.onnx", "--dim", "s=1,2"]
    assert fact(made, "growth").next == ""
    made.part["shapes"] = [SoakedShape(name="s=1", n=2, median_ns=1, p99_ns=1)]
    assert fact(made, "growth").next == "ortbench soak m.onnx --dim s=1,2 --try arena"
    made.command += ["--try", "arena"]
    assert fact(made, "growth").next == ""


def test_what_soaks_side_by_side_end_with() -> None:
    made = [soak_result(ARENA), soak_result(LEAK)]
    found = mode_facts(made, ["default", "no CPU arena"])
    assert [(it.verdict, it.values["configuration"]) for it in found] == [
        ("grows", "no CPU arena"),
    ]
    assert values(found[0])["end"] == LEAK[-1]


def test_a_soak_that_cannot_tell_is_to_be_longer() -> None:
    made = soak_result(LATE)
    made.command = ["ortbench", "soak", "m.onnx", "--duration", "15"]
    made.stopped = {"reason": "duration", "value": 15.0, "per": "mode"}
    assert fact(made, "growth").next == "ortbench soak m.onnx --duration 60"


def soaked(*shapes: str, n: int = 20) -> Result:
    made = soak_result(FLAT)
    made.part["shapes"] = [SoakedShape(name=name, n=n, median_ns=1, p99_ns=1) for name in shapes]
    return made


def test_soaks_of_other_shapes_are_not_comparable() -> None:
    assert mismatches(soaked("s=1", "s=2"), soaked("s=2", "s=1")) == []
    assert mismatches(soaked("s=1"), soaked()) != []
    (found,) = mismatches(soaked("s=1", "s=2"), soaked("s=1", "s=3"))
    assert found == "shapes: s=1, s=2 and s=1, s=3"
    assert mismatches(soaked("s=1", "s=2"), soaked("s=1", n=3)) == []  # the other one may not have come


def test_growth_that_may_be_below_zero_can_be_read_again() -> None:
    made = soak_result([100 * MB + 4096 * (number * 37 % 11) for number in range(100)])
    growth = made.cases[0].metrics["host_growth"]
    assert isinstance(growth, Value)
    assert there(growth.ci95)[0] < 0
    check_result(made)


def test_the_resident_set_decides_where_private_memory_is_not_known() -> None:
    made = soak_result(LEAK)
    for it in made.part["readings"]:
        it["private"] = None
    found = fact(made, "growth")
    assert (found.verdict, found.values["what"], values(found)["each"]) == ("grows", "resident memory", 1 * MB)


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
    with pytest.raises(BadInput, match="--max-growth is of a soak"):
        check_alone(result_of(), Limits(own={"max-growth": 1}))


def test_the_table_of_a_soak_says_which_memory_it_is_of_and_tells_growth_only_where_there_is_some() -> None:
    for private, grows in ((LEAK, True), (FLAT, False)):
        made = soak_result(private)
        put_growth(made.cases[0], made.part)
        table = mode_table(made)
        cells = dict(zip((column.name for column in table.columns), table.rows[0], strict=True))
        assert "private memory at start" in cells
        assert ("host growth" in cells) is grows
        if grows:
            assert cells["host growth"] == "500 kB/1,000 inf"
    for it in made.part["readings"]:
        it["private"] = None
    assert "resident memory at start" in [column.name for column in mode_table(made).columns]
