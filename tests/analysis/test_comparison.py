"""The one comparison: two series of blocks, their ratio, where it lies and what that says, by whoever asks; and what kinds have series."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import exp, hypot, log, log1p
from statistics import stdev
from typing import NamedTuple

import pytest

from ortbench.analysis.comparison import (
    BETWEEN_RUNS,
    CANNOT_TELL,
    FASTER,
    SAME,
    SLOWER,
    RatioEstimate,
    compare_series,
    rows,
    word,
)
from ortbench.analysis.series import STATISTICS, Selection
from ortbench.core.stats import FEWEST
from ortbench.facts.checks import FAILED, PASSED, UNCLEAR
from ortbench.facts.comparison import bests
from ortbench.features.gate.gates import (
    BASELINE,
    CANDIDATE,
    SequentialTests,
    add_cases,
    regression_tests,
)
from ortbench.features.gate.gates.baseline import check_stored
from ortbench.features.tune.analysis import Elimination
from ortbench.model.metric_names import parse_metric
from ortbench.model.modes import LATENCY
from ortbench.model.result import Result
from tests.expect import there
from tests.gate.test_metrics import limits
from tests.results import (
    STAYING,
    US,
    chain,
    closed,
    latency,
    level,
    level_blocks,
    load_result,
    loop_case,
    loop_result,
    measured,
    noise_of,
    paced,
    result_of,
    series_of,
    serving,
    steady,
    sweep_result,
    weighed,
)

CPU = "cpu-tensors"
T_OF_7 = 2.3646  # Student's t at 97.5 % with seven degrees of freedom


def of(medians: Sequence[int], run_id: str | None = None) -> Result:
    return result_of(measured(CPU, latency=steady(medians)), run_id=run_id)


def change(one: Result, other: Result, metric: str = LATENCY) -> RatioEstimate | None:
    """By how much a metric of the one mode differs."""
    (row,) = rows([one, other], Selection(metrics=(parse_metric(metric),)))
    return row.since_first[1]


QUIET, NOISY = [1000] * 8, [1000, 1300] * 4


class Apart(NamedTuple):
    """Two results of different times."""

    base: Sequence[int]
    value: Sequence[int]
    ratio: float
    word: str  # within 5 %
    gate: str  # with at most 5 % more
    parts: tuple[Sequence[int], Sequence[int]] | None = (
        None  # medians of the eight parts of either; None without an interval
    )


APART = (
    Apart(QUIET, QUIET, 1, SAME, PASSED, (QUIET, QUIET)),
    Apart(QUIET, [1010] * 8, 1.01, SAME, PASSED, (QUIET, [1010] * 8)),
    Apart(QUIET, [500] * 8, 0.5, FASTER, PASSED, (QUIET, [500] * 8)),
    Apart(NOISY, [500, 700] * 4, 600 / 1150, FASTER, PASSED, (NOISY, [500, 700] * 4)),
    Apart(
        QUIET, [1040] * 8, 1.04, CANNOT_TELL, UNCLEAR, (QUIET, [1040] * 8)
    ),  # within 3 % of the limit, by which runs differ
    Apart(QUIET, [1060] * 8, 1.06, CANNOT_TELL, UNCLEAR, (QUIET, [1060] * 8)),
    Apart(NOISY, NOISY, 1, CANNOT_TELL, UNCLEAR, (NOISY, NOISY)),
    Apart(NOISY, [1100] * 8, 1100 / 1150, CANNOT_TELL, UNCLEAR, (NOISY, [1100] * 8)),
    Apart(QUIET, [1100] * 8, 1.1, SLOWER, FAILED, (QUIET, [1100] * 8)),
    Apart(NOISY, [2000, 2600] * 4, 2, SLOWER, FAILED, (NOISY, [2000, 2600] * 4)),
    # Two blocks are a part, whose samples are taken together.
    Apart([100, 300] * 8, [200] * 8, 1, SAME, PASSED, ([200] * 8, [200] * 8)),
    Apart([100] * 14 + [110, 110], [100] * 16, 1, CANNOT_TELL, UNCLEAR, ([100] * 7 + [110], [100] * 8)),
    Apart(QUIET, [9000] * 7, 9, CANNOT_TELL, UNCLEAR),
    Apart([100] * 7, [200] * 50, 2, CANNOT_TELL, UNCLEAR),
    Apart([1000], [2000], 2, CANNOT_TELL, UNCLEAR),
    Apart([1000], [10_000], 10, SLOWER, UNCLEAR),
)


@pytest.mark.parametrize("case", APART)
def test_results_of_two_times(case: Apart) -> None:
    one, other = of(case.base), of(case.value)
    found, back = there(change(one, other)), there(change(other, one))
    assert found.ratio == pytest.approx(case.ratio)
    assert not found.paired
    if case.parts is None:
        assert found.ends is None
    else:
        times = exp(hypot(log1p(BETWEEN_RUNS), *(T_OF_7 * stdev(map(log, it)) for it in case.parts)))
        assert found.ends == pytest.approx((found.ratio / times, found.ratio * times), rel=1e-3)
        assert back.ends == pytest.approx((1 / there(found.high), 1 / there(found.low)))
    assert word(found, 0.05) == case.word
    (check,) = check_stored(other, one, limits())
    assert (check.name, check.verdict, check.ratio) == (f"{CPU} latency median", case.gate, found.ratio)
    assert (check.low, check.high, check.limit, check.rounds) == (found.low, found.high, 1.05, None)
    assert bests([one, other], "ab") == []  # which did not take turns


class InTurns(NamedTuple):
    """Two results of one run."""

    base: Sequence[int]
    value: Sequence[int]
    ratio: float
    ends: tuple[float, float] | None
    word: str  # within 2 %
    gate: str  # a live one, with at most 5 % more, of median ratios of pairs
    best: int | None  # of the two, for latency


DRIFT = [1000 * 2**number for number in range(9)]
IN_TURNS = (
    InTurns(DRIFT, [3 * ns for ns in DRIFT], 3, (3, 3), SLOWER, FAILED, 0),
    InTurns([100_000] * 12, [80_000] * 12, 0.8, (0.8, 0.8), FASTER, PASSED, 1),
    InTurns([100_000] * 12, [99_000, 101_000] * 6, 1, (0.99, 1.01), SAME, PASSED, None),
    InTurns([100_000] * 12, [80_000, 90_000, 100_000] * 4, 0.9, (0.8, 1), CANNOT_TELL, PASSED, None),
    InTurns([100_000] * 12, [100_000, 120_000, 110_000] * 4, 1.1, (1, 1.2), CANNOT_TELL, UNCLEAR, None),
    InTurns(
        [100_000] * FEWEST, [200_000] * FEWEST, 2, (2, 2), SLOWER, UNCLEAR, 0
    ),  # which a verdict takes more rounds for
    InTurns([100_000] * (FEWEST - 1), [200_000] * (FEWEST - 1), 2, None, CANNOT_TELL, UNCLEAR, None),
    # Each inference takes ten times as long or more, which needs no interval.
    InTurns([100_000] * 3, [1_000_000] * 3, 10, None, SLOWER, UNCLEAR, 0),
)


@pytest.mark.parametrize("case", IN_TURNS)
def test_results_of_one_run(case: InTurns) -> None:
    one, other = of(case.base, "one run"), of(case.value, "one run")
    found = there(change(one, other))
    assert found.ratio == pytest.approx(case.ratio)
    assert found.ends == (case.ends if case.ends is None else pytest.approx(case.ends, rel=0.01))
    assert (found.paired, word(found, 0.02)) == (True, case.word)
    assert change(of(case.base, "1"), of(case.value, "2")) == change(of(case.base), of(case.value, "2"))
    (ratio_test,) = regression_tests(limits(), [CPU])
    sequential, race = SequentialTests([ratio_test]), Elimination(["base", "value"], [LATENCY], alpha=0.01)
    for side, name, result in ((BASELINE, "base", one), (CANDIDATE, "value", other)):
        add_cases(sequential, side, result.cases)
        for number, median in enumerate(case.base if side == BASELINE else case.value):
            race.add(name, LATENCY, number, median)
    check = sequential.check(ratio_test)
    assert check.verdict == case.gate
    assert there(race.ratio(LATENCY, "value", "base"))[:3] == (check.ratio, check.low, check.high)  # tune asks the same
    assert [it.number for it in bests([one, other], "ab")] in ([case.best], [] if case.best is None else None)


def test_pairs_that_are_not_all() -> None:
    """Medians of all samples are compared, whatever pairs say; of no common round nothing is."""

    def late(first: int) -> tuple[Result, Result]:
        value = result_of(measured(CPU, latency=steady([200, 200, 500, 500], first)), run_id="1")
        return of([900, 900, 100, 100], "1"), value

    found = there(change(*late(2)))
    assert (found.base, found.value, found.ratio) == (500, 350, 0.7)
    assert change(*late(4)) is None
    assert tuple(there(change(of([0] * 8), of([0] * 8)))) == pytest.approx((0, 0, 1, 1 / 1.03, 1.03, *[False] * 4))
    assert there(change(of([0] * 8), of([4] * 8))).ratio == 4


@pytest.mark.parametrize(
    ("statistic", "value", "gate"),
    [("median", 55.0, PASSED), ("mean", 55.0, FAILED), ("min", 10.0, PASSED), ("max", 100.0, FAILED), ("p90", 91.0, FAILED), ("p95", 95.5, FAILED),
     ("p99", 99.1, FAILED)],
)  # fmt: skip
def test_statistics(statistic: str, value: float, gate: str) -> None:
    """One slow sample of ten in each block, which is twice as slow in the candidate."""
    tens = [70, 10, 100, 40, 20, 90, 30, 80, 50, 60]
    assert STATISTICS[statistic](tens) == pytest.approx(value)
    base, case = measured(CPU, latency={0: [1000]}), measured(CPU, latency={0: tens})
    one, other = (series_of(it, f"latency.{statistic}") for it in (base, case))
    assert there(compare_series(one, other)).ratio == pytest.approx(value / 1000, abs=1e-3)  # in whole nanoseconds
    slow, earlier = (
        result_of(measured(CPU, latency={it: [1000] * 9 + [ns] for it in range(8)})) for ns in (4000, 2000)
    )
    (check,) = check_stored(slow, earlier, limits(statistic))
    assert check.verdict == gate


def slower_step(factor: float) -> Result:
    """A loop of four steps of which the last takes longest."""
    return loop_result(loop_case("shared", [1_000_000] * 3 + [round(4_000_000 * factor)], rounds=24))


def of_phases(factor: float) -> Result:
    ns = round(10_000_000 * factor)
    phases = {it: steady([ns] * 24) for it in ("latency", "h2d", "enqueue", "cpu_time")}
    return result_of(weighed(measured("device-tensors", **phases), ns, 10))


# Of each kind: a result whose figures are so many times as bad, a metric, and the names of what a stored gate checks.
KINDS: list[tuple[Callable[[float], Result], str, list[str]]] = [
    (of_phases, "latency", ["device-tensors latency median"]),
    (of_phases, "h2d", ["device-tensors h2d median"]),
    (of_phases, "enqueue", ["device-tensors enqueue median"]),
    (of_phases, "cpu_time", ["device-tensors cpu_time mean"]),
    (of_phases, "throughput", ["device-tensors throughput"]),
    (of_phases, "device_memory", ["device-tensors device_memory"]),
    (lambda factor: loop_result(level(CPU, factor)), "latency", [f"{CPU} loop median"]),
    (lambda factor: loop_result(level(CPU, factor)), "step", [f"{CPU} step median"]),
    (slower_step, "shared.loop.median", ["shared loop median"]),
    (slower_step, "step.p95", ["shared step p95"]),
    (slower_step, "step.max", ["shared step max"]),
    (lambda factor: chain(STAYING, resident_ms=(factor, 5 * factor), rounds=24), "device-resident", ["device-resident chain median"]),
    (lambda factor: chain(STAYING, resident_ms=(factor, 5), rounds=24), "device-resident.stage.text", ["device-resident stage.text median"]),
    (lambda factor: chain(STAYING, resident_ms=(1, 5 * factor), rounds=24), "device-resident.stage.image.p95", ["device-resident stage.image p95"]),
    (serving, "throughput@concurrency=2", [f"{it} throughput concurrency=2" for it in (CPU, "device-tensors")]),
    (serving, f"{CPU}.latency.p99@concurrency=2", [f"{CPU} latency p99 concurrency=2"]),
    (paced, "latency.p99@rate=30", ["device-tensors latency p99 rate=30"]),
    (lambda factor: slower_sweep(factor), f"{CPU}.median@batch=4", [f"{CPU} latency median batch=4"]),
    (lambda factor: slower_sweep(factor), f"{CPU}.item_throughput@best", [f"best: {CPU} item_throughput"]),
]  # fmt: skip


def slower_sweep(factor: float) -> Result:
    made = sweep_result({CPU: {it: round(us * factor) for it, us in ((1, 1000), (2, 1200), (4, 1600))}})
    made.setup = {**made.setup, "run_id": str(factor)}
    return made


@pytest.mark.parametrize(("make", "metric", "names"), KINDS, ids=[f"{metric}-{names[0]}" for _, metric, names in KINDS])
def test_each_kind_has_series_of_the_same_comparison(
    make: Callable[[float], Result], metric: str, names: list[str]
) -> None:
    for factor, verdict, said in (
        (1.0, PASSED, {SAME}),
        (0.5, PASSED, {FASTER, "less"}),
        (2.0, FAILED, {SLOWER, "more"}),
    ):
        found = check_stored(make(factor), make(1.0), limits(metric, most=0.1))
        assert [(it.name, it.verdict) for it in found] == [(name, verdict) for name in names]
        if "@best" not in metric:
            shown = rows([make(1.0), make(factor)], Selection(metrics=(parse_metric(metric),)))
            assert {word(there(it.since_first[1]), 0.1, it.is_cost) for it in shown} <= said
            assert [there(it.since_first[1]).ratio for it in shown] == [it.ratio for it in found]


def test_rates_are_compared_by_the_latency_that_they_follow_from() -> None:
    """With twice the items in three times the time each item takes one and a half times as long."""
    for run_id, wider in ((None, 1.03), ("1", 1.0)):
        sides = [of([ns] * 9, run_id) for ns in (1000, 3000)]
        for result, items in zip(sides, (4, 8), strict=True):
            for case in result.cases:
                case.set_metric("item_throughput", items * 1e9 / (case.median("latency") or 1))
        found = there(change(sides[0], sides[1], "item_throughput"))
        assert (found.base, found.value) == pytest.approx((4e6, 8e6 / 3))
        assert found.paired is (run_id is not None)
        assert (found.ratio, found.low, found.high) == pytest.approx((1.5, 1.5 / wider, 1.5 * wider))


def test_runs_of_one_configuration_tell_how_far_runs_differ() -> None:
    """By logarithms, of three runs at 1000 ± 1 % and three of another at 2000 ± 1 %: 2 × 2 degrees of freedom."""
    runs = [of([round(median * times)] * 8) for median in (1000, 2000) for times in (0.99, 1, 1.01)]
    results = [replace(it, created=f"2026-01-0{number}") for number, it in enumerate(runs, 1)]
    for result in results[3:]:
        result.target["opt_level"] = "basic"
    (row,) = rows(results, Selection(metrics=(parse_metric(LATENCY),)))
    spread, found = there(row.spread), there(row.since_first[4])
    assert (spread.freedom, spread.runs) == (4, 6)
    times = exp(2.776 * 2**0.5 * spread.deviation)  # Student's t of four
    assert spread.deviation == pytest.approx(0.01, rel=0.01)
    assert found.ends == pytest.approx((found.ratio / times, found.ratio * times), rel=1e-3)


def test_load_points_of_one_run_lie_where_their_pairs_spread() -> None:
    one, other = (
        load_result(closed(CPU, 1, 100, 10, blocks=level_blocks(100, latency(10), 8, noise)), run_id="r")
        for noise in ((1, 1.1), (1, 1))
    )
    found = there(change(one, other))
    assert there(found.low) < 0.98 < found.ratio == 1 < 1.02 < there(found.high)


def test_quiet_rounds_of_a_busy_machine_tell_of_latencies_alone() -> None:
    """No block says anything of a part by itself, which others' use of memory may have made longer."""
    results = []
    for us in (100, 112):
        phases = {it: steady([us * US] * 40) for it in ("latency", "h2d")}
        results.append(result_of(measured("device-tensors", **phases), run_id="one"))
        results[-1].noise = noise_of(2, 1.2, [0.0] * 20 + [0.5] * 20, threads=2)
    one, other = results
    assert word(there(change(one, other)), 0.02) == SLOWER
    assert word(there(change(one, other, "h2d")), 0.02) == CANNOT_TELL
