"""The levels of a load: their figures, where they lie, the knee, and what more clients bring."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import stdev
from typing import Any

import pytest

from ortbench.analysis.load_points import interval, is_full, rate_of
from ortbench.core.stats import Value
from ortbench.features.load.analysis import (
    CONCURRENCY,
    RATE,
    LoadPoint,
    bend_of,
    best_of,
    knees,
    load_point_of,
    measured_cases,
    meets_by_figures,
    put_scaling,
    share_of_peak,
    slo_limits,
    slo_rates,
)
from ortbench.model.result import Case
from tests.expect import there
from tests.results import (
    MS,
    WOBBLE,
    closed,
    failed_level,
    known_to,
    latency,
    level_blocks,
    load_result,
    opened,
    paced,
    serving,
    slo_rate,
)


def test_the_knee_is_the_last_level_that_brings_five_percent_more() -> None:
    cases: list[tuple[list[float], int, float]] = [
        ([100, 190, 388, 400], 4, 0.97),  # 8 bring 3 % more than 4
        ([100, 190, 380, 400], 8, 1.0),  # 5.3 % more
        ([100, 105], 2, 1.0),  # 5 % is enough
        ([100, 104.9], 1, 100 / 104.9),
        ([100, 99, 98], 1, 1.0),
        ([100, 200, 150, 195], 2, 1.0),  # what comes back after a dip is no gain
        ([100, 200, 150, 240], 8, 1.0),
    ]
    for throughput, knee, share in cases:
        levels = [closed("cpu-tensors", 2**number, per_s, 1.0) for number, per_s in enumerate(throughput)]
        bend = bend_of(levels)
        assert bend is not None
        assert load_point_of(bend).value == knee
        assert share_of_peak(levels, bend) == pytest.approx(share)
        assert best_of(levels) is max(levels, key=rate_of)
    assert bend_of([closed("cpu-tensors", 4, 100, 1.0)]) is None
    levels = [
        closed("cpu-tensors", 1, 100, 1.0),
        failed_level(closed("cpu-tensors", 2, 190, 1.0)),
        closed("cpu-tensors", 4, 120, 1.0),
        closed("device-tensors", 1, 9, 1.0),
    ]
    assert knees(load_result(*levels, opened("cpu-tensors", 30, 1.0))) == {
        "cpu-tensors": {"concurrency": 4, "share_of_peak": 1.0},
        "device-tensors": None,
    }


def test_levels_are_ordered_and_told_apart() -> None:
    result = load_result(
        closed("device-tensors", 8, 1, 1.0),
        closed("cpu-tensors", 4, 1, 1.0),
        opened("cpu-tensors", 30, 1.0),
        closed("device-tensors", 2, 1, 1.0),
    )
    assert [(it.mode, load_point_of(it)) for it in measured_cases(result, CONCURRENCY)] == [
        ("device-tensors", LoadPoint(CONCURRENCY, 2)), ("device-tensors", LoadPoint(CONCURRENCY, 8)), ("cpu-tensors", LoadPoint(CONCURRENCY, 4))
    ]  # fmt: skip
    assert [load_point_of(it).text for it in measured_cases(result, RATE)] == ["30 requests/s"]
    assert LoadPoint(RATE, 83.981).text == "84.0 requests/s"  # which a search came upon
    assert LoadPoint(RATE, 1.0).phrase == "at 1 request/s"
    assert [LoadPoint(CONCURRENCY, 1).text, LoadPoint(CONCURRENCY, 4).phrase, LoadPoint(RATE, 0.5).phrase] == [
        "1 client",
        "with 4 clients",
        "at 0.5 requests/s",
    ]


def test_the_interval_of_a_latency_comes_of_its_blocks() -> None:
    level = closed("cpu-tensors", 1, 100, 10.0)
    logs = [-math.log(off) for off in WOBBLE]
    middle = sum(logs) / len(logs)
    error = math.sqrt(sum((it - middle) ** 2 for it in logs) / (len(logs) - 1) / len(logs))
    low, high = interval(level, "p99") or (0, 0)
    assert math.log(low / 20e6) == pytest.approx(-2.3646 * error, rel=2e-3)  # Student's t at 7 degrees
    assert math.log(high / 20e6) == pytest.approx(2.3646 * error, rel=2e-3)
    assert interval(level, "throughput") == (99.0, 101.0)
    assert [interval(level, stat) for stat in ("min", "p90", "max")] == [None] * 3  # say nothing that comes again
    for rounds in [0, 2]:
        level = known_to(closed("cpu-tensors", 1, 100, 10.0, blocks=level_blocks(100, latency(10.0), rounds)), None)
        assert interval(level, "p99") is None
        assert interval(level, "throughput") is None


def speed_up(case: Case, cases: Sequence[Case]) -> Value | None:
    """By how much more clients bring more, beside these."""
    case.set_metric("scaling", None)
    put_scaling(load_result(*(it for it in cases if it is not case), case))
    found = case.metrics.get("scaling")
    return found if isinstance(found, Value) else None


def test_speed_up_is_against_one_client() -> None:
    one, four = closed("cpu-tensors", 1, 100, 10.0), closed("cpu-tensors", 4, 380, 10.0)
    found = there(speed_up(four, [one, four]))
    assert found.value == 3.8
    pairs = zip(there(four.load_blocks), there(one.load_blocks), strict=True)
    logs = [math.log(a["throughput"] / b["throughput"]) for a, b in pairs]
    reach = math.exp(2.3646 * stdev(logs) / math.sqrt(8))  # Student's t of 7 degrees
    assert found.ci95 == pytest.approx((3.8 / reach, 3.8 * reach), rel=1e-3)
    apart = there(speed_up(four, [closed("cpu-tensors", 1, 100, 10.0, blocks=[])]))
    assert apart.ci95 == pytest.approx((3.747, 3.854), abs=1e-3)
    alone = there(speed_up(one, [one, four]))
    assert (alone.value, alone.ci95) == (1.0, None)
    assert speed_up(four, [four]) is None


def test_a_clock_that_rises_for_both_is_no_noise_of_the_speed_up() -> None:
    clock = (1.0, 1.0, 1.6, 1.5, 1.0)
    of = latency(10.0)
    one = known_to(closed("cpu-tensors", 1, 100, 10.0, blocks=level_blocks(100, of, 5, clock)), (75, 125))
    two = known_to(closed("cpu-tensors", 2, 180, 10.0, blocks=level_blocks(180, of, 5, clock)), (135, 225))
    found = there(speed_up(two, [one, two]))
    assert found.ci95 == pytest.approx((1.8, 1.8))


def test_clients_that_are_always_busy_have_a_queue_that_grows() -> None:
    for busy, full in [(0.979, False), (0.98, True), (1.0, True)]:
        assert is_full(opened("cpu-tensors", 30, 5.0, utilisation=busy)) is full


def test_an_slo_is_kept_by_the_figures() -> None:
    level = opened("cpu-tensors", 30, 5.0, 15.0)
    assert meets_by_figures(level, {"p99": 15 * MS, "mean": 5 * MS})
    assert not meets_by_figures(level, {"p99": 15 * MS, "max": 29 * MS})
    assert slo_limits(paced()) == {"p99": 20 * MS}
    assert slo_limits(serving()) is None
    found: dict[str, Any] = {"cpu-tensors": slo_rate(210.0, 216.0), "device-tensors": None}
    assert slo_rates(load_result(level, slo={"p99": MS}, found=found)) == {"cpu-tensors": found["cpu-tensors"]}
