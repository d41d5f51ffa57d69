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
    LESS,
    MORE,
    SAME,
    SLOWER,
    RatioEstimate,
    compare_series,
    rows,
    word,
)
from ortbench.analysis.intervals import PAIRS, PARTS, fewest, ratio_of_medians
from ortbench.analysis.noise import more_rounds
from ortbench.analysis.series import STATISTICS, Selection
from ortbench.core.stats import FEWEST
from ortbench.facts.comparison import bests, lacking_facts
from ortbench.facts.run import findings_of
from ortbench.facts.sentences import FAILED, PASSED, UNCLEAR
from ortbench.features.gate.gates import ALPHA, BASELINE, CANDIDATE, SequentialTests, add_cases, regression_tests
from ortbench.features.gate.gates.baseline import check_stored
from ortbench.features.gate.plan import Limits
from ortbench.features.tune.analysis import Elimination
from ortbench.measure.schedule import MIN_ROUNDS
from ortbench.model.metric_names import parse_metric
from ortbench.model.modes import LATENCY
from ortbench.model.result import Case, Result
from ortbench.model.schema import Stopped
from tests.analysis.test_load_points import cpu_point
from tests.analysis.test_sweep import sweep_result
from tests.expect import there
from tests.results import (
    MS,
    STAYING,
    US,
    chain,
    closed,
    latency,
    level,
    level_blocks,
    load_result,
    loop_result,
    measured,
    noise_of,
    paced,
    result_of,
    series_of,
    serving,
    steady,
    weighed,
)

CPU = "cpu-tensors"
LATENCY_ALONE = Selection(metrics=(parse_metric(LATENCY),))
T_OF_7 = 2.3646  # Student's t at 97.5 % with seven degrees of freedom


def limits(*metrics: str, most: float = 0.05) -> Limits:
    return Limits(most, tuple(map(parse_metric, metrics)))


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
    parts: tuple[Sequence[int], Sequence[int]] | None = None  # medians of eight parts; None without an interval


APART = (
    Apart(QUIET, QUIET, 1, SAME, PASSED, (QUIET, QUIET)),
    Apart(QUIET, [1010] * 8, 1.01, SAME, PASSED, (QUIET, [1010] * 8)),
    Apart(QUIET, [500] * 8, 0.5, FASTER, PASSED, (QUIET, [500] * 8)),
    Apart(NOISY, [500, 700] * 4, 600 / 1150, FASTER, PASSED, (NOISY, [500, 700] * 4)),
    # Within 3 % of the limit, by which runs differ.
    Apart(QUIET, [1040] * 8, 1.04, CANNOT_TELL, UNCLEAR, (QUIET, [1040] * 8)),
    Apart(NOISY, NOISY, 1, CANNOT_TELL, UNCLEAR, (NOISY, NOISY)),
    Apart(QUIET, [1100] * 8, 1.1, SLOWER, FAILED, (QUIET, [1100] * 8)),
    Apart(NOISY, [2000, 2600] * 4, 2, SLOWER, FAILED, (NOISY, [2000, 2600] * 4)),
    # Two blocks are a part, whose samples are taken together.
    Apart([100, 300] * 8, [200] * 8, 1, SAME, PASSED, ([200] * 8, [200] * 8)),
    Apart([100] * 7, [200] * 50, 2, CANNOT_TELL, UNCLEAR),
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
SCATTERED = [it * 1000 for it in (60, 140, 95, 180, 40, 120, 75, 160, 90, 50, 130, 110)]
GROWN = [100_000 + 1000 * number**2 for number in range(12)]
IN_TURNS = (
    InTurns(DRIFT, [3 * ns for ns in DRIFT], 3, (3, 3), SLOWER, FAILED, 0),
    InTurns([100_000] * 12, [80_000] * 12, 0.8, (0.8, 0.8), FASTER, PASSED, 1),
    InTurns([100_000] * 12, [99_000, 101_000] * 6, 1, (0.99, 1.01), SAME, PASSED, None),
    InTurns([100_000] * 12, [80_000, 90_000, 100_000] * 4, 0.9, (0.8, 1), CANNOT_TELL, PASSED, None),
    # Ends lie beyond what resamples of twelve rounds alone would give.
    InTurns([100_000] * 12, SCATTERED, 1.025, (0.6, 1.4), CANNOT_TELL, UNCLEAR, None),
    InTurns([100_000] * 12, GROWN, 1.305, (1.04, 1.81), SLOWER, UNCLEAR, 0),
    # A verdict takes more rounds.
    InTurns([100_000] * FEWEST, [200_000] * FEWEST, 2, (2, 2), SLOWER, UNCLEAR, 0),
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
    assert tuple(there(change(of([0] * 8), of([0] * 8)))) == pytest.approx(
        (0, 0, 1, 1 / 1.03, 1.03, *[False] * 4, True)
    )
    assert there(change(of([0] * 8), of([4] * 8))).ratio == 4


TENS = [70, 10, 100, 40, 20, 90, 30, 80, 50, 60]


@pytest.mark.parametrize(
    ("statistic", "value", "gate"),
    [("median", 55, PASSED), ("mean", 55, FAILED), ("min", 10, PASSED), ("max", 100, FAILED), ("p90", 91, FAILED), ("p95", 95.5, FAILED), ("p99", 99.1, FAILED)],
)  # fmt: skip
def test_statistics(statistic: str, value: float, gate: str) -> None:
    """The gate: one slow sample of ten in each block is twice as slow in the candidate."""
    assert STATISTICS[statistic](TENS) == pytest.approx(value)
    one, other = (series_of(measured(CPU, latency={0: it}), f"latency.{statistic}") for it in ([1000], TENS))
    assert there(compare_series(one, other)).ratio == pytest.approx(value / 1000, abs=1e-3)  # in whole nanoseconds
    slow, earlier = (
        result_of(measured(CPU, latency={it: [1000] * 9 + [ns] for it in range(8)})) for ns in (4000, 2000)
    )
    assert [it.verdict for it in check_stored(slow, earlier, limits(statistic))] == [gate]


def slower_phases(factor: float) -> Result:
    ns = round(10_000_000 * factor)
    phases = {it: steady([ns] * 24) for it in ("latency", "h2d", "enqueue", "cpu_time")}
    return result_of(weighed(measured("device-tensors", **phases), ns, 10))


def slower_chain(factor: float) -> Result:
    return chain(STAYING, resident_ms=(factor, 5 * factor), rounds=24)


def slower_sweep(factor: float) -> Result:
    made = sweep_result({CPU: {it: round(us * factor) for it, us in ((1, 1000), (2, 1200), (4, 1600))}})
    made.setup = {**made.setup, "run_id": str(factor)}
    return made


# Of each kind: a result whose figures are so many times as bad, a metric, and the names of what a stored gate checks.
KINDS: list[tuple[Callable[[float], Result], str, list[str]]] = [
    (slower_phases, "latency", ["device-tensors latency median"]),
    (slower_phases, "enqueue", ["device-tensors enqueue median"]),
    (slower_phases, "cpu_time", ["device-tensors cpu_time mean"]),
    (slower_phases, "throughput", ["device-tensors throughput"]),
    (slower_phases, "device_memory", ["device-tensors device_memory"]),
    (lambda factor: loop_result(level(CPU, factor)), "latency", [f"{CPU} loop median"]),
    (lambda factor: loop_result(level(CPU, factor)), "step", [f"{CPU} step median"]),
    (slower_chain, "device-resident", ["device-resident chain median"]),
    (slower_chain, "device-resident.stage.text", ["device-resident stage.text median"]),
    (serving, "throughput@concurrency=2", [f"{it} throughput concurrency=2" for it in (CPU, "device-tensors")]),
    (paced, "latency.p99@rate=30", ["device-tensors latency p99 rate=30"]),
    (lambda factor: load_result(cpu_point([round(24 * MS * factor)] * 8)), "cpu_time", [f"{CPU} cpu_time mean rate=6"]),
    (slower_sweep, f"{CPU}.median@batch=4", [f"{CPU} latency median batch=4"]),
    (slower_sweep, f"{CPU}.item_throughput@best", [f"best: {CPU} item_throughput"]),
]


@pytest.mark.parametrize(("make", "metric", "names"), KINDS, ids=[f"{metric}-{names[0]}" for _, metric, names in KINDS])
def test_each_kind_has_series_of_the_same_comparison(
    make: Callable[[float], Result], metric: str, names: list[str]
) -> None:
    base = make(1.0)
    for factor, verdict, words in ((1.0, PASSED, {SAME}), (0.5, PASSED, {FASTER, LESS}), (2.0, FAILED, {SLOWER, MORE})):
        other = make(factor)
        found = check_stored(other, base, limits(metric, most=0.1))
        assert [(it.name, it.verdict) for it in found] == [(name, verdict) for name in names]
        if "@best" not in metric:
            shown = rows([base, other], Selection(metrics=(parse_metric(metric),)))
            assert {word(there(it.since_first[1]), 0.1, it.is_cost) for it in shown} <= words
            assert [there(it.since_first[1]).ratio for it in shown] == [it.ratio for it in found]


def test_rates_are_compared_by_the_latency_that_they_follow_from() -> None:
    """With twice the items in three times the time each item takes one and a half times as long."""
    for run_id, wider in ((None, 1.03), ("1", 1.0)):
        sides = [of([ns] * 9, run_id) for ns in (1000, 3000)]
        for result, items in zip(sides, (4, 8), strict=True):
            (case,) = result.cases
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
    of_four, row = (rows(of_them, LATENCY_ALONE)[0] for of_them in (results[:2] + results[3:5], results))
    assert (there(of_four.spread).freedom, there(of_four.spread).runs) == (2, 4)
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


def test_costs_of_a_load_are_compared_by_processes_of_one_run() -> None:
    spins = [24 * MS, 25 * MS, 23 * MS, 26 * MS, 24 * MS]
    old, new = (load_result(cpu_point(each, 5), run_id="run") for each in (spins, [ns // 40 for ns in spins]))
    for pair, wanted in (([old, new], LESS), ([new, old], MORE), ([old, old], SAME)):
        (row,) = (it for it in rows(pair, Selection(metrics=(parse_metric("cpu_cores"),))) if it.is_cost)
        assert word(there(row.since_first[1]), 0.02, row.is_cost) == wanted


def test_quiet_rounds_of_a_busy_machine_tell_of_latencies_alone() -> None:
    """No block says anything of a part by itself, which others' use of memory may have made longer."""
    results = []
    for us in (100, 112):
        phases = {it: steady([us * US] * 40) for it in ("latency", "h2d")}
        results.append(result_of(measured("device-tensors", **phases), run_id="one"))
        results[-1].noise = noise_of(2, 1.2, [0.0] * 20 + [0.5] * 20, threads=2)
    one, other = results
    assert word(there(change(one, other)), 0.02) == SLOWER
    assert [word(there(change(one, it, "h2d")), 0.02) for it in (other, one)] == [CANNOT_TELL, SAME]


def test_sizes_are_compared_exactly() -> None:
    one, other = (
        result_of(weighed(measured(CPU, latency=steady([1])), *sizes))
        for sizes in ((100 * MS, 10 * MS), (50 * MS, None))
    )
    assert [(it.key.metric.key, it.values, it.since_first[1]) for it in rows([one, other]) if it.is_cost] == [
        ("device_memory", (100 * MS, 50 * MS), RatioEstimate(100 * MS, 50 * MS, 0.5, 0.5, 0.5, exact=True)),
        ("host_memory", (10 * MS, None), None),
    ]


def drawing(joules: float, half: float, how: str) -> Result:
    made = Case("device-tensors")
    made.set_metric("energy", joules, (joules - half, joules + half))
    made.own["energy"] = {"how": how, "of": "GPU 0"}
    return result_of(made)


def test_energy_is_compared_by_its_intervals() -> None:
    one = drawing(1.0, 0.01, "counter")
    for other, ratio, ends in (
        (drawing(2.0, 0.01, "counter"), 2.0, pytest.approx((1.937810, 2.064243))),
        (drawing(1.0, 1.5, "counter"), 1.0, None),  # not above 0 for certain
        (drawing(2.0, 0.01, "power"), 2.0, None),  # read in another way
    ):
        found = there(change(one, other, "energy"))
        assert (found.ratio, found.ends) == (ratio, ends)


def test_a_ratio_is_that_of_the_medians_beside_it() -> None:
    """Pairs say twice as long, in nine of ten rounds; the medians of all samples do not, and they are what a table prints."""
    over = measured(CPU, latency={it: [20 + it, 20 + it, 300] for it in range(10)})
    under = measured("device-tensors", latency={it: [10, 30, 31] for it in range(10)})
    found = there(ratio_of_medians((over, "latency"), (under, "latency")))
    low, high = there(found.ci95)
    assert low <= found.ratio == there(over.median("latency")) / there(under.median("latency")) < 1
    assert found.ratio <= high
    nothing, least, twice = (measured(CPU, latency=steady([ns] * 8)) for ns in (0, 1, 2))
    ratios = [there(ratio_of_medians((it, "latency"), (twice, "latency"))).ratio for it in (nothing, least)]
    assert ratios == [0.5, 0.5]
    apart = measured("device-tensors", latency=steady([10] * 10, first=10))
    assert ratio_of_medians((over, "latency"), (apart, "latency")) is None  # no round in common
    # One goes on in more processes: by the rounds of both, and by the medians as they are printed.
    over, under = (measured(CPU, latency=steady(it)) for it in ([1000, 1010, 990, 2000, 2000], [500, 505, 495]))
    over.processes, under.processes = [0, 1, 2, 3, 4], [0, 1, 2]
    found = there(ratio_of_medians((over, "latency"), (under, "latency")))
    low, high = there(found.ci95)
    assert low <= 2.0 < found.ratio == pytest.approx(1010 / 500)
    assert found.ratio <= high


def ended(rounds: int, stopped: Stopped, step_s: int = 0, run_id: str | None = None) -> Result:
    """A result with two modes whose blocks alternate, one each so many seconds."""
    cases = [measured(mode, latency=steady([MS] * rounds)) for mode in (CPU, "device-tensors")]
    for number, case in enumerate(cases):
        for block in case.blocks["latency"]:
            block[2] = (2 * block[0] + number) * step_s * 1_000_000_000
    return replace(result_of(*cases, run_id=run_id), stopped=stopped, command=["ortbench", "run", "m.onnx"])


TIMED: Stopped = {"reason": "duration", "value": 5, "per": "mode"}


def test_what_gives_enough_blocks() -> None:
    assert (fewest(ALPHA), max(PARTS, PAIRS)) == (PAIRS, MIN_ROUNDS)
    for result, wanted, told in (
        (ended(1, {"reason": "precision", "value": 0.01}), PARTS, "ortbench run m.onnx --precision 0"),
        # Seven steps and three samples, for four rounds of two modes: 0.9 s for each.
        (ended(4, TIMED, 1), 8, "ortbench run m.onnx --duration 9s"),
        (ended(3, TIMED), 8, "ortbench run m.onnx --duration 1s"),
    ):
        assert more_rounds(result, wanted) == told
    sides = [ended(4, TIMED, 1, "one") for _ in "ab"]  # half of the time was the other's; it is said once
    for count, several in ((4, ["ortbench run m.onnx --duration 5s"]), (3, ["ortbench run m.onnx --duration 5s", ""])):
        sides[1].cases[0] = measured(CPU, latency=steady([MS] * count))
        assert [it.next for it in findings_of([*lacking_facts(sides, "ab", rows(sides))])] == several
