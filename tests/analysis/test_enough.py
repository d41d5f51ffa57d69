"""What a comparison takes, and what to do about a result that has less."""

from __future__ import annotations

from ortbench.analysis.advice import Finding
from ortbench.analysis.comparison import Row, rows
from ortbench.analysis.intervals import PAIRS, PARTS, ROUNDS, fewest
from ortbench.analysis.noise import more_rounds
from ortbench.facts.comparison import lacking_facts
from ortbench.facts.findings import findings_of
from ortbench.features.gate.gates import ALPHA
from ortbench.measure.schedule import MIN_ROUNDS
from ortbench.model.result import Result
from ortbench.model.schema import Stopped
from tests.results import measured, result_of, said, steady

MS, SECOND = 1_000_000, 1_000_000_000
PRECISE: Stopped = {"reason": "precision", "value": 0.01}
TIMED: Stopped = {"reason": "duration", "value": 5, "per": "mode"}
COUNTED: Stopped = {"reason": "iterations", "value": 5, "per": "mode"}


def ended(rounds: int, stopped: Stopped | None = None, step_ns: int = 0) -> Result:
    """A result with two modes whose blocks alternate, one each `step_ns`."""
    made = result_of(*(measured(mode, latency=steady([MS] * rounds)) for mode in ("cpu-tensors", "device-tensors")))
    for number, case in enumerate(made.cases):
        for block in case.blocks["latency"]:
            block[2] = (2 * block[0] + number) * step_ns
    made.stopped = stopped
    return made


def lacks(results: list[Result], names: str, found: list[Row]) -> list[Finding]:
    return findings_of([*lacking_facts(results, names, found)])


def test_what_is_lacking_and_what_gives_it() -> None:
    assert fewest(ALPHA) == PAIRS
    assert max(PARTS, PAIRS) == ROUNDS == MIN_ROUNDS
    assert more_rounds(ended(1, PRECISE), PARTS) == "measure again with --precision 0"
    assert more_rounds(ended(1, COUNTED), PARTS) == "measure again without --iterations"


def test_a_duration_that_is_long_enough() -> None:
    for rounds, step_ns, wanted, seconds in [
        (4, SECOND, 8, 9),  # seven steps and three samples, for four rounds of two modes: 0.9 s for each
        (4, SECOND, 9, 10),
        (1, 10 * SECOND, 8, 51),
        (3, MS, 8, 1),
    ]:
        words = f"measure again with --duration {seconds}s"
        assert more_rounds(ended(rounds, TIMED, step_ns), wanted) == words
    # Four rounds took 0.9 s for each mode; beside another side half of that was the other's.
    sides = [ended(4, TIMED, SECOND) for _ in "ab"]
    assert [it.next for it in lacks(sides, "ab", rows(sides))] == ["measure again with --duration 9s"]
    for side in sides:
        side.setup["run_id"] = "one"
        side.command = ["ortbench", "run", "m.onnx", "--duration", "0.9", "--out", "x"]
    (both,) = lacks(sides, "ab", rows(sides))
    assert both.next == "ortbench run m.onnx --duration 5s"
    sides[1].cases[0] = measured("cpu-tensors", latency=steady([MS] * 3))
    assert [said([it]) for it in lacks(sides, "ab", rows(sides))] == [
        ["Too few blocks to compare b: 3 of 8.", f"Next: {both.next}"],  # which is one for both
        ["Too few blocks to compare a: 4 of 8."],
    ]
