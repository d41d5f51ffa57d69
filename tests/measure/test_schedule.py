"""The schedule: scripted samples in, blocks out; no clock anywhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from math import inf
from typing import Any

import pytest

from ortbench.analysis.comparison import compare_series
from ortbench.analysis.intervals import median_ratio
from ortbench.core.stats import ratio_of
from ortbench.features.gate.gates import ALPHA
from ortbench.measure.schedule import (
    MAX_BLOCK,
    MAX_SAMPLES,
    MIN_BLOCK,
    MIN_ROUNDS,
    Block,
    InOrder,
    Schedule,
    Series,
    StopRule,
    add_host_time,
    block_size,
    dropped_count,
    equal_estimates,
    is_precise,
    round_s,
    streams,
)
from ortbench.model.modes import LATENCY
from ortbench.model.protocol import Samples
from ortbench.model.result import Case
from tests.expect import there
from tests.results import measured, series_of
from tests.results import steady as by_block

SECOND = 1_000_000_000
ENDLESS = StopRule(duration_ns=10**18, precision=1e-9)
H2D = "h2d"  # any phase besides the latency
KINDS = {"cpu-tensors": (LATENCY,), "device-tensors": (LATENCY, H2D), "device-resident": (LATENCY,)}
KEYS = {(mode, kind) for mode, kinds in KINDS.items() for kind in kinds}
ONE = {"cpu-tensors": (LATENCY,)}
TWO = {**ONE, "device-tensors": (LATENCY,)}
PACES = {"fast": (LATENCY,), "slow": (LATENCY,)}


def make(
    kinds: Mapping[str, Sequence[str]], rule: StopRule, estimates: Mapping[str, float] = {}, seed: int = 0
) -> Schedule[str]:
    """A schedule in which all phases of a mode take the same time, 2 ms unless another is said."""
    known = {mode: estimates.get(mode, 2e6) for mode in kinds}  # 10 samples a block
    return Schedule({mode: dict.fromkeys(phases, known[mode]) for mode, phases in kinds.items()}, rule, seed)


def steady(block: Block[str]) -> list[int]:
    return [1000] * block.n


def noisy(block: Block[str]) -> list[int]:
    return [(1000, 3000)[number % 2] for number in range(block.n)]


Kinds = Mapping[str, Sequence[str]]
Take = Callable[[Block[str]], list[int]]


def drive(
    schedule: Schedule[str], samples: Take = steady, spent_ns: int | Mapping[str, float] = 1, rounds: int | None = None
) -> list[Block[str]]:
    """Carry blocks out until the schedule stops, or for some rounds; all blocks that were handed out and measured. `spent_ns` is of a
    block, or by series of an iteration."""
    blocks = []
    while (block := schedule.next_block()) is not None and (rounds is None or block.round < rounds):
        spent = spent_ns if isinstance(spent_ns, int) else round(spent_ns[block.series] * (block.n + block.drop))
        schedule.add(block, samples(block), spent)
        blocks.append(block)
    return blocks


def test_every_round_holds_one_block_of_each_kind_in_an_order_that_comes_from_the_seed() -> None:
    def order(seed: int) -> list[tuple[tuple[str, str], ...]]:
        blocks = drive(make(KINDS, ENDLESS, seed=seed), noisy, 1, rounds=20)
        rounds = groupby(blocks, key=lambda block: block.round)
        return [tuple((block.series, block.phase) for block in group) for _, group in rounds]

    found = order(seed=0)
    assert order(seed=0) == found != order(seed=1)
    assert len(found) == 20
    assert all(len(group) == 4 and set(group) == KEYS for group in found)
    assert len(set(found)) > 10


@pytest.mark.parametrize(
    ("sample_ns", "size", "drop"),
    [(0, 1000, 100), (20_000, 1000, 100), (40_000, 500, 50), (2e6, 10, 1), (5e6, 4, 1), (7e6, 3, 1), (1e9, 3, 1)],
)
def test_block_size(sample_ns: float, size: int, drop: int) -> None:
    assert (block_size(sample_ns), dropped_count(size)) == (size, drop)


def test_a_round_takes_as_long_as_its_blocks() -> None:
    assert round_s({"fast": {LATENCY: 2e6, H2D: 5e6}, "slow": {LATENCY: 1e9}}) == 0.02 + 0.02 + 3
    assert round_s({"fast": {LATENCY: 2e6, H2D: None}}) == inf


# Without a warm-up

CALLS_NS = {"fast": 1e5, "slow": 5e6, "slower": 9e7}  # of one iteration


def ask_sizes(schedule: Schedule[Any], pace: Callable[[Any], float], late: int = 0) -> dict[Any, list[int]]:
    """The sizes of the first blocks of each series, whose first iterations of all may be later, as where kernels are compiled."""
    asked: dict[Any, list[int]] = {}
    while (block := schedule.next_block()) is not None and block.round < 4:
        asked.setdefault(block.series, []).append(block.n)
        # One call is of fifty inferences and a sample is one of them: how long a call takes is in the block's time alone.
        count = block.n + block.drop + late * (block.round == 0)
        schedule.add(block, [round(pace(block.series) / 50)] * block.n, round(pace(block.series) * count))
    return asked


def test_without_a_warm_up_the_first_rounds_tell_how_long_blocks_may_be() -> None:
    schedule = Schedule({series: {LATENCY: None} for series in CALLS_NS}, ENDLESS, 0)
    asked = ask_sizes(schedule, CALLS_NS.__getitem__, late=100)
    assert asked == {"fast": [3, 3, 200, 200], "slow": [3, 3, 4, 4], "slower": [3, 3, 3, 3]}


def test_a_series_that_fails_while_the_schedule_learns_is_left_out() -> None:
    schedule = Schedule({series: {LATENCY: None} for series in CALLS_NS}, ENDLESS, 0)
    first = schedule.next_block()
    assert first is not None
    schedule.remove(first.series)
    blocks = drive(schedule, noisy, 10**6, rounds=4)
    assert {block.series for block in blocks} == CALLS_NS.keys() - {first.series}
    assert {block.n for block in blocks if block.round >= 2} == {block_size(10**6 / 4)}


def test_sides_that_are_held_against_each_other_learn_the_same_size() -> None:
    several = [Series(side, mode) for mode in TWO for side in (0, 1)]
    schedule = Schedule({series: {LATENCY: None} for series in several}, ENDLESS, 0, even=equal_estimates)
    pace = {Series(0, "cpu-tensors"): 1e6, Series(1, "cpu-tensors"): 2e6}
    asked = ask_sizes(schedule, lambda series: pace.get(series, 5e6))
    assert [asked[series] for series in several] == [[3, 3, 10, 10], [3, 3, 10, 10], [3, 3, 4, 4], [3, 3, 4, 4]]


def test_an_ordered_session_without_a_warm_up_is_short() -> None:
    schedule = InOrder({"cpu-tensors": {LATENCY: None}, "device-tensors": {LATENCY: 1e6}}, None)
    blocks = [(block.series, block.n) for block in iter(schedule.next_block, None)]
    assert blocks == [("cpu-tensors", 3), ("device-tensors", 20)]


def test_the_least_number_of_rounds_gives_every_interval() -> None:
    """Of a ratio within the run, of a comparison with another run, and of a gate's limit."""
    rounds = {number: [1] for number in range(MIN_ROUNDS)}
    assert ratio_of(rounds, rounds).ci95 is not None
    base, value = (measured("cpu-tensors", latency=by_block([ns] * MIN_ROUNDS)) for ns in (100, 200))
    assert there(compare_series(series_of(base), series_of(value))).low is not None
    assert median_ratio([1.0] * MIN_ROUNDS, ALPHA).low is not None


@pytest.mark.parametrize("iterations", [1, 3, 10, 25, 1234])
def test_iterations_are_exact(iterations: int) -> None:
    schedule = make(KINDS, StopRule(1, 1.0, iterations), {"device-tensors": 5e6, "device-resident": 1e3})
    counts: Counter[tuple[str, str]] = Counter()
    for block in drive(schedule, noisy, spent_ns=10**12):
        counts[block.series, block.phase] += block.n
    assert counts == dict.fromkeys(KEYS, iterations)
    assert schedule.end_reason == {"reason": "iterations", "value": iterations, "per": "mode"}


def test_the_last_block_is_cut_and_nothing_follows_it() -> None:
    known = {"fast": 2e6, "slow": 5e6}
    schedule = make(PACES, StopRule(1, 1.0, 25), known)
    blocks = drive(schedule, spent_ns=known)
    assert [(block.n, block.drop) for block in blocks if block.series == "fast"] == [(10, 1), (10, 1), (5, 1)]
    assert [block.n for block in blocks if block.series == "slow"] == [4, 4, 4, 4, 4, 4, 1]
    assert [block.series for block in blocks if block.round > 2] == ["slow"] * 4
    assert [schedule.next_block(), schedule.next_block()] == [None, None]


# When it ends

Ends = tuple[str, float]  # the reason and its value


def of_one(mode: str) -> Take:
    """Samples of which one mode is noisy."""
    return lambda block: noisy(block) if block.series == mode else steady(block)


@pytest.mark.parametrize(
    ("kinds", "rule", "samples", "spent_ns", "blocks", "ends"),
    [
        (KINDS, StopRule(1, 1.0, iterations=500), steady, SECOND, 50 * 4, ("iterations", 500)),  # neither by time nor by precision
        (KINDS, StopRule(10**18, 0.01), steady, 1, MIN_ROUNDS * 4, ("precision", 0.01)),
        (KINDS, StopRule(10**18, 0.01), lambda it: noisy(it) if it.phase == H2D else steady(it), 1, MIN_ROUNDS * 4, ("precision", 0.01)),
        (KINDS, StopRule(100, 0.01), of_one("device-tensors"), 1, 300, ("duration", 1e-07)),  # one noisy mode keeps all going
        (ONE, StopRule(40, 0.01), lambda it: [1000 + 100 * (it.round % 7)] * it.n, 1, 40, ("duration", 4e-08)),  # which is drift
        # A duration for each mode, in whole rounds, as many as come nearest; phases spend that of their mode.
        *((TWO, StopRule(SECOND, 0.01), steady, SECOND * part // 100, 2 * count, ("duration", 1)) for part, count in ((100, 1), (30, 3), (28, 4))),
        (KINDS, StopRule(4 * SECOND, 0.01), noisy, SECOND, 12, ("duration", 4)),
        (ONE, StopRule(20, None, rounds=7), steady, 10, 7, ("duration", 2e-08)),  # in the least number of rounds
        (ONE, ENDLESS._replace(most=1000), noisy, 22_000_000, 100, ("samples", 1000)),
    ],
)  # fmt: skip
def test_when_it_ends(kinds: Kinds, rule: StopRule, samples: Take, spent_ns: int, blocks: int, ends: Ends) -> None:
    schedule = make(kinds, rule)
    assert len(drive(schedule, samples, spent_ns)) == blocks
    stopped = there(schedule.end_reason)
    assert (stopped["reason"], stopped["value"]) == ends


def in_parts(rule: StopRule, parts: int, between_ns: int = 0) -> tuple[Schedule[str], list[int]]:
    """A schedule of one mode, and the rounds with which later parts have begun."""
    begun: list[int] = []
    known: dict[str, dict[str, float | None]] = {"cpu-tensors": {LATENCY: 2e6}}
    return Schedule(known, rule, 1, parts=parts, between=lambda _, at: begun.append(at), between_ns=between_ns), begun


# `begun`: the rounds with which later parts begin.
@pytest.mark.parametrize(
    ("parts", "rule", "samples", "spent_ns", "blocks", "begun", "ends"),
    [
        (4, StopRule(120, None), steady, 10, 12, [3, 6, 9], ("duration", 1.2e-07)),  # each has its share of the time
        (3, StopRule(10**12, 0.01), steady, 1, MIN_ROUNDS, [3, 6], ("precision", 0.01)),
        (3, StopRule(30, 0.01), lambda it: noisy(it) if it.round < 10 else steady(it), 1, 16, [10, 13], ("duration", 3e-08)),
        (3, StopRule(1, None, iterations=25), steady, 1, 3, [1, 2], ("iterations", 25)),
        (3, StopRule(10**12, None, most=90), steady, 22_000_000, 9, [3, 6], ("samples", 90)),
        (3, StopRule(10**12, None, part_ns=50), steady, 100, MIN_ROUNDS, [3, 6], ("duration", 1000)),  # three rounds, however long they take
    ],
)  # fmt: skip
def test_when_its_parts_end(
    parts: int, rule: StopRule, samples: Take, spent_ns: int, blocks: int, begun: list[int], ends: Ends
) -> None:
    schedule, found = in_parts(rule, parts)
    taken, stopped = drive(schedule, samples, spent_ns), there(schedule.end_reason)
    assert (len(taken), found, stopped["reason"], stopped["value"]) == (blocks, begun, *ends)
    if rule.iterations:
        assert [it.n for it in taken] == [9, 8, 8]


@pytest.mark.parametrize(
    ("rule", "between_ns", "late_ns", "rounds"),
    [
        (StopRule(100, None), 20, 20, [2, 4]),  # it is taken from all of them
        (StopRule(10**12, None, part_ns=50), 0, 990, [5, 10]),  # of processes that are to agree it does not count
    ],
)
def test_what_lies_between_parts(rule: StopRule, between_ns: int, late_ns: int, rounds: list[int]) -> None:
    schedule, begun = in_parts(rule, 3, between_ns)
    while (block := schedule.next_block()) is not None:
        is_behind = bool(begun) and block.round == begun[-1]
        schedule.add(block, steady(block), 10, 10 + late_ns * is_behind)
    assert begun == rounds
    assert there(schedule.end_reason)["reason"] == "duration"


@pytest.mark.parametrize(
    ("between", "rule", "blocks", "reason"),
    [
        (lambda schedule, _: schedule.remove("cpu-tensors"), StopRule(40, None), 1, "nothing_left"),
        (lambda schedule, _: schedule.end(), StopRule(40, None, part_ns=10), 3, "completed"),
    ],
)
def test_no_part_follows_an_end(
    between: Callable[[Schedule[str], int], None], rule: StopRule, blocks: int, reason: str
) -> None:
    schedule = Schedule({"cpu-tensors": {LATENCY: 2e6}}, rule, 1, parts=4, between=between)
    assert len(drive(schedule, spent_ns=10)) == blocks
    assert there(schedule.end_reason)["reason"] == reason


@pytest.mark.parametrize(("precision", "precise"), [(0.01, True), (0.0099, False)])
def test_precision_is_half_the_interval_over_its_middle(precision: float, precise: bool) -> None:
    assert is_precise([990, 1000, 1010], [3], precision) is precise


@pytest.mark.parametrize(("waited_ns", "count"), [(0, 100), (20_000_000, 50)])
def test_what_lies_between_short_blocks_is_waited_for_too(waited_ns: int, count: int) -> None:
    schedule = make(ONE, StopRule(duration_ns=SECOND, precision=None))
    for _ in range(count):
        block = there(schedule.next_block())
        schedule.add(block, steady(block), 10_000_000, waited_ns)
    assert schedule.next_block() is None


def test_stops_at_the_most_samples() -> None:
    known = {"fast": 1.0, "slow": 1e9}
    schedule = make(PACES, ENDLESS, known)
    blocks = drive(schedule, noisy, known)
    assert sum(block.n for block in blocks if block.series == "fast") == MAX_SAMPLES
    assert sum(block.n for block in blocks if block.series == "slow") == MAX_SAMPLES // MAX_BLOCK * MIN_BLOCK
    assert schedule.end_reason == {"reason": "samples", "value": 200000, "per": "mode"}


def test_a_mode_removed_mid_round_gets_no_more_blocks() -> None:
    schedule = make(KINDS, StopRule(1, 1.0, iterations=30))
    first = there(schedule.next_block())
    schedule.remove("device-tensors")
    blocks, left = drive(schedule), KINDS.keys() - {"device-tensors"}
    assert {block.series for block in blocks} == left
    assert sorted(block.series for block in blocks if block.round == 0) == sorted(left - {first.series})
    assert schedule.end_reason == {"reason": "iterations", "value": 30, "per": "mode"}


def test_a_removed_mode_no_longer_holds_precision_up() -> None:
    schedule = make(KINDS, StopRule(10**18, 0.01))
    drive(schedule, of_one("device-tensors"), rounds=20)
    assert schedule.end_reason is None
    schedule.remove("device-tensors")
    drive(schedule, of_one("device-tensors"))
    assert schedule.end_reason == {"reason": "precision", "value": 0.01}


def test_what_a_failed_mode_spent_does_not_shorten_the_others() -> None:
    schedule = make(TWO, StopRule(SECOND, precision=1e-9))
    spent = Counter[str]()
    while (block := schedule.next_block()) is not None:
        spent[block.series] += SECOND // 4
        schedule.add(block, noisy(block), SECOND // 4)
        if spent["device-tensors"] == SECOND // 2:
            schedule.remove("device-tensors")
    assert schedule.end_reason == {"reason": "duration", "value": 1, "per": "mode"}
    assert spent == {"cpu-tensors": SECOND, "device-tensors": SECOND // 2}


@pytest.mark.parametrize(
    ("kinds", "rule", "spent_ns"), [(TWO, StopRule(SECOND, 1e-9), SECOND // 4), (PACES, StopRule(1, 1.0, 20), 1)]
)
def test_progress_is_of_what_is_spent_or_of_the_slowest_kind(kinds: Kinds, rule: StopRule, spent_ns: int) -> None:
    schedule = make(kinds, rule, {"fast": 2e6, "slow": 4e6})
    drive(schedule, noisy, spent_ns, rounds=1)
    assert schedule.progress == 0.25


def test_a_block_has_costs_of_the_host_and_parts() -> None:
    """The CPU time is that of one run, however many of them a sample has."""
    plain: Samples = {"samples": [10, 20], "start_ns": 5, "spent_ns": 40}
    costly: Samples = {**plain, "enqueues": [3, 4], "cpu": {"user_ns": 90, "system_ns": 13, "wall_ns": 80}}
    assert streams(plain, H2D, 2) == {H2D: [10, 20]}
    assert streams(costly, LATENCY, 8) == {LATENCY: [10, 20], "enqueue": [3, 4], "cpu_time": [13]}
    stages = streams({**plain, "steps": [1, 2, 3, 4]}, LATENCY, 2, part="stage")
    assert stages == {LATENCY: [10, 20], "stage": [1, 2, 3, 4]}
    case = Case("cpu-tensors")
    add_host_time(case, plain, 2)
    assert case.host is None
    for runs in (2, 6):
        add_host_time(case, costly, runs)
    assert case.host == {"runs": 8, "wall_ns": 160, "user_ns": 180, "system_ns": 26}
