"""What is said of soaks: their headline, their findings and gates, of synthetic readings whose truth is known."""

from __future__ import annotations

import pytest

from ortbench.analysis.comparing.comparable import mismatches
from ortbench.analysis.derive import put_growth
from ortbench.analysis.findings.advice import headline
from ortbench.analysis.findings.growth_advice import tried_findings
from ortbench.core.errors import BadInput
from ortbench.core.stats import Value
from ortbench.core.units import size
from ortbench.gate.checks import check_alone
from ortbench.gate.limits import Limits
from ortbench.model.result import Result
from ortbench.model.schema import SoakedShape
from ortbench.model.sound import check
from ortbench.report.run import mode_table
from tests.expect import there
from tests.results import result_of, said, sentences, soak_result, stats

MB = 1_000_000
LEAK = [100 * MB + 50_000 * number for number in range(100)]
FLAT = [100 * MB] * 100
LITTLE = [min(100 * MB + 48_000 * number, 100 * MB + 480_000) for number in range(100)]
ARENA = [min(100 * MB + 2 * MB * number, 140 * MB) for number in range(100)]
LATE = [100 * MB + 9 * MB * (number > 90) for number in range(100)]


@pytest.mark.parametrize(
    ("private", "verdict"),
    [
        (LEAK, "grows by 500 kB ± 0 B per 1,000 inferences"),
        (FLAT, "no growth found; steady growth of 53.0 kB per 1,000 inferences or more, 524 kB in all, would show"),
        (
            LITTLE,
            "no growth found: 480 kB came in the first 1,100 inferences, next to none in the 8,900 since; steady growth of 53.0 kB per 1,000 inferences or more, 524 kB in all, would show",
        ),
        (ARENA, "grew in the first 2,100 inferences, steady since"),
        (LATE, "cannot tell yet, the growth came late"),
        (LEAK[:17], "cannot tell yet, there are too few readings"),
    ],
)
def test_the_verdict_is_said_with_what_there_was(private: list[int], verdict: str) -> None:
    made = soak_result(private)
    assert headline(made) == f"Private memory: {verdict}"
    first, last = (
        f"{held / MB:.0f} MB" if held % MB == 0 else f"{held / MB:.3g} MB" for held in (private[0], private[-1])
    )
    assert (
        sentences(made)[0]
        == f"Private memory ({first} at the start, {last} after {100 * len(private):,} inferences): {verdict}."
    )


def test_what_to_do_is_said_where_shapes_make_an_arena_grow() -> None:
    shapes = [SoakedShape(name="s=1", n=2, median_ns=1, p99_ns=1)]
    made = soak_result(ARENA, [2 * held for held in ARENA])
    made.command = ["ortbench", "soak", "m.onnx", "--dim", "s=1,2"]
    assert not any(it.startswith("Next") for it in sentences(made))
    assert made.soak is not None
    made.soak["shapes"] = shapes
    following = {it for it in sentences(made) if it.startswith("Next")}
    assert following == {"Next: ortbench soak m.onnx --dim s=1,2 --try arena"}
    made.command += ["--try", "arena"]
    assert not any(it.startswith("Next") for it in sentences(made))


def test_what_soaks_side_by_side_end_with_is_beside_the_first() -> None:
    made = [soak_result(ARENA), soak_result(ARENA)]
    for result, ns in zip(made, (100_000, 150_000), strict=True):
        put_growth(result.cases[0], result.part)
        result.cases[0].metrics["cpu_time"] = stats(ns)
    held = made[0].cases[0].value("host_held")
    assert held == ARENA[-1]
    first, second = said(tried_findings(made, ["default", "no CPU arena"]))
    assert first.startswith(f"default ends with {size(held)} of private memory: grew in the first ")
    assert (
        f"no CPU arena ends with {size(held)} of private memory instead of {size(held)}: grew in the first " in second
    )
    assert second.endswith("; mean CPU time 150 µs instead of 100 µs.")


def test_a_soak_that_cannot_tell_is_to_be_longer() -> None:
    made = soak_result(LATE)
    made.command = ["ortbench", "soak", "m.onnx", "--duration", "15"]
    made.stopped = {"reason": "duration", "value": 15.0, "per": "mode"}
    assert "Next: ortbench soak m.onnx --duration 60" in sentences(made)


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
    check(made)


def test_the_resident_set_decides_where_private_memory_is_not_known() -> None:
    made = soak_result(LEAK)
    assert made.soak is not None
    for it in made.soak["readings"]:
        it["private"] = None
    assert headline(made) == "Resident memory: grows by 1.00 MB ± 0 B per 1,000 inferences"


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
    (check,) = check_alone(soak_result(private), Limits(max_growth=most))
    assert (check.verdict, check.metric) == (verdict, "host_growth")


def test_a_gate_of_what_is_no_soak_refuses_the_limit() -> None:
    with pytest.raises(BadInput, match="--max-growth is of a soak"):
        check_alone(result_of(), Limits(max_growth=1))


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
