"""Gates of loads: metrics of levels, stored baselines, SLOs, modes against cpu-tensors, and two sides that were measured in turns."""

from __future__ import annotations

from typing import Any

import pytest

from ortbench.core.errors import BadInput, BenchmarkFailed
from ortbench.facts.sentences import FAILED, PASSED, UNCLEAR, Check
from ortbench.features.gate.gates.baseline import check_stored
from ortbench.features.gate.gates.checks import check_alone, confirm_checks
from ortbench.features.gate.plan import Limits, limits_of
from ortbench.features.load.analysis import CONCURRENCY, RATE, LoadPoint, load_cases, load_point_of
from ortbench.features.load.gates import LiveLoadGate
from ortbench.model.result import Result
from ortbench.model.schema import LoadBlock
from tests.expect import refusal
from tests.gate.test_metrics import limits, verdicts
from tests.results import MS, closed, latency, level_blocks, load_result, lose, opened, paced, serving, slo_rate
from tests.typed import typed

# Stored


def test_which_load_points_and_modes_are_compared() -> None:
    for metrics, names in (
        (["latency.p99@rate=30"], ["device-tensors latency p99 rate=30"]),
        (["latency.p99@rate=10", "latency.p99"], [f"device-tensors latency p99 rate={rate}" for rate in (10, 30, 90)]),
        (["device-tensors.throughput@rate=30"], ["device-tensors throughput rate=30"]),
    ):
        assert [check.name for check in check_stored(paced(), paced(), limits(*metrics))] == names
    found = check_stored(serving(), serving(), limits("throughput@concurrency=4", modes=("device-tensors",)))
    assert [check.name for check in found] == ["device-tensors throughput concurrency=4"]


def test_a_queue_that_grows_has_no_latency() -> None:
    for busy, verdict, who in (
        ((1.0, 0.5), FAILED, "the candidate"),
        ((0.5, 1.0), PASSED, "the baseline"),
        ((1.0, 1.0), UNCLEAR, "both sides"),
    ):
        one, other = (load_result(opened("cpu-tensors", 90, 5.0, utilisation=it)) for it in busy)
        (check,) = check_stored(one, other, limits())
        assert (check.verdict, f"with {who} requests come as fast as they are served" in check.text) == (verdict, True)


# By itself


UNKNOWN: dict[str, Any] = {"p99": {"low": None, "high": None, "requests": 80}}


def test_an_slo_is_kept_for_certain_broken_for_certain_or_neither() -> None:
    few = opened("cpu-tensors", 40, 5.0, 15.0)
    few.latency_bounds = UNKNOWN
    result = load_result(
        opened("cpu-tensors", 10, 5.0, 15.0), opened("cpu-tensors", 20, 5.0, 20.0), opened("cpu-tensors", 30, 5.0, 25.0),
        few, opened("cpu-tensors", 50, 5.0, 9.0, utilisation=1.0), closed("cpu-tensors", 4, 100, 99.0),
    )  # fmt: skip
    found = check_alone(result, Limits(slo={"p99": 20 * MS}))
    expected = {10: PASSED, 20: UNCLEAR, 30: FAILED, 40: UNCLEAR, 50: FAILED}
    assert verdicts(found) == {f"SLO of cpu-tensors p99 rate={rate}": word for rate, word in expected.items()}
    said = "p99 of cpu-tensors at 10 requests/s: 15.0 ms (at most 15.3 ms with 95% confidence), must be at most 20 ms"
    assert found[0].text == said
    by_clients = load_result(closed("cpu-tensors", 1, 100, 5.0), closed("cpu-tensors", 4, 100, 99.0))
    found = check_alone(by_clients, Limits(slo={"max": 50 * MS}))
    assert [it.verdict for it in found] == [PASSED, FAILED]
    assert found[0].text == "max of cpu-tensors with 1 client: 20.0 ms, must be at most 50 ms"


def test_an_slo_is_read_from_its_option() -> None:
    asked = limits_of(typed({"slo": "p99=20ms,mean=5ms"}, "gate"), False, ())
    assert (asked.slo, asked.any) == ({"p99": 20 * MS, "mean": 5 * MS}, True)


def test_of_a_search_one_rate_must_keep_the_slo() -> None:
    found: dict[str, Any] = {"cpu-tensors": slo_rate(210.0, 216.0), "device-tensors": None}
    rates = opened("cpu-tensors", 300, 5.0, 90.0), opened("device-tensors", 5, 5.0, 90.0)
    asked, result = Limits(slo={"p99": 20 * MS}), load_result(*rates, slo={"p99": 20 * MS}, found=found)
    checks = check_alone(result, asked)
    assert verdicts(checks) == {"SLO of cpu-tensors": PASSED, "SLO of device-tensors": FAILED}
    assert checks[0].text.startswith("cpu-tensors meets p99 ≤ 20 ms up to 210 requests/s")
    result.cases[-1].latency_bounds = UNKNOWN  # of device-tensors
    assert check_alone(result, asked)[1].verdict == UNCLEAR


def test_a_speedup_holds_at_every_number_of_clients() -> None:
    found = check_alone(serving(), Limits(min_speedup={"device-tensors": 1.5}))
    expected = {1: PASSED, 2: PASSED, 4: FAILED, 8: FAILED}
    assert verdicts(found) == {f"device-tensors speedup concurrency={n}": word for n, word in expected.items()}
    ratio = "ratio 2.000 (1.972 to 2.028), must be at least 1.5"
    assert found[0].text == f"throughput of device-tensors concurrency=1 to that of cpu-tensors: {ratio}"
    required = check_alone(serving(), Limits(require_modes=("device-tensors", "host-accessible")))
    assert verdicts(required) == {"mode device-tensors": PASSED, "mode host-accessible": FAILED}


def test_limits_of_another_kind_are_refused() -> None:
    for asked, said in (
        (Limits(min_speedup={"shared": 1.5}), "--min-speedup shared: needs shared and cpu-tensors with the same numbers of clients"),
        (Limits(max_copy_share=0.1), "--max-copy-share is of single inferences; of a load"),
    ):  # fmt: skip
        assert refusal(BadInput, check_alone, serving(), asked).startswith(said)


# In turns


def sides(factor: float, rounds: int) -> tuple[Result, Result]:
    """Two sides of a run: noise that both have in common, and so many rounds."""
    noise, made = (1.3, 0.8, 1.1, 0.7), []
    for times in (factor, 1.0):
        slow, fast = (
            level_blocks(rate, latency(ms * times), rounds, noise) for rate, ms in ((100 / times, 10.0), (30, 5.0))
        )
        clients = closed("cpu-tensors", 4, 100 / times, 10.0 * times, blocks=slow)
        made.append(load_result(clients, opened("cpu-tensors", 30, 5.0 * times, blocks=fast), run_id="one"))
    return made[0], made[1]


def tell(live: LiveLoadGate, side: int, place: LoadPoint, block: LoadBlock, mode: str = "cpu-tensors") -> None:
    for name, figure in (("throughput", block["throughput"]), *block["latency"].items()):
        live.add(side, mode, name, block["round"], [figure], place)


def heard(candidate: Result, baseline: Result, asked: Limits) -> tuple[LiveLoadGate, list[Check]]:
    """A live gate that was told all blocks of both sides, round by round, and its checks."""
    live = LiveLoadGate(asked, [(it.mode, load_point_of(it)) for it in load_cases(candidate)])
    for side, result in enumerate((candidate, baseline)):
        for level in load_cases(result):
            for block in level.load_blocks or []:
                tell(live, side, load_point_of(level), block, level.mode)
    return live, live.checks([candidate, baseline])


THROUGHPUT, P99 = "cpu-tensors throughput concurrency=4", "cpu-tensors latency p99 rate=30"


@pytest.mark.parametrize(("factor", "verdict"), [(1.0, PASSED), (1.04, PASSED), (1.06, FAILED)])
def test_blocks_of_the_same_rounds_tell_what_noise_would_hide(factor: float, verdict: str) -> None:
    live, found = heard(*sides(factor, 12), limits())
    assert verdicts(found) == {THROUGHPUT: verdict, P99: verdict}
    assert found[0].rounds == 12
    assert found[0].ratio == pytest.approx(factor, rel=1e-6)
    assert live.regressions(found) == ({THROUGHPUT, P99} if verdict == FAILED else set())


def test_a_stored_baseline_cannot_tell_what_paired_blocks_do() -> None:
    candidate, baseline = sides(1.06, 12)
    candidate.setup = {**candidate.setup, "run_id": "another"}
    assert check_stored(candidate, baseline, limits())[0].verdict == UNCLEAR


def test_too_few_rounds_say_how_many_it_takes_and_metrics_share_the_error_rate() -> None:
    _, (check,) = heard(*sides(2.0, 5), limits("throughput@concurrency=4"))
    assert (check.verdict, check.text.endswith("a verdict takes 9 rounds")) == (UNCLEAR, True)
    _, alone = heard(*sides(2.0, 9), limits("latency.p99@rate=30"))
    assert [check.verdict for check in alone] == [FAILED]
    several = ("throughput", "latency.p99@rate=30", "latency.p99@concurrency=4", "latency.median@rate=30")
    _, together = heard(*sides(2.0, 9), limits(*several))
    assert [check.verdict for check in together] == [UNCLEAR] * 4


CLIENTS, PACED = LoadPoint(CONCURRENCY, 4), LoadPoint(RATE, 30)


def test_a_load_point_is_measured_until_its_test_is_decided() -> None:
    live = LiveLoadGate(limits("latency.p99@rate=30"), [("cpu-tensors", CLIENTS), ("cpu-tensors", PACED)])
    pairs = [(load_cases(result)[1].load_blocks or []) for result in sides(2.0, 12)]
    asked = []
    for number, blocks in enumerate(zip(*pairs, strict=True)):
        asked.append(live.needs_more("cpu-tensors", PACED, number))
        for side, block in enumerate(blocks):
            tell(live, side, PACED, block)
    needed = live.needed_rounds
    assert asked == [True] * needed + [False] * (12 - needed)
    # Nothing is said of the other load point: it is measured for the record.
    counts = (0, needed - 1, needed)
    assert [live.needs_more("cpu-tensors", CLIENTS, it) for it in counts] == [True, True, False]


def test_limits_of_the_candidate_itself_want_all_rounds() -> None:
    asked = limits(slo={"p99": MS}, min_speedup={"device-tensors": 1.0})
    live = LiveLoadGate(asked, [("cpu-tensors", CLIENTS), ("cpu-tensors", PACED)])
    assert all(live.needs_more("cpu-tensors", point, 1000) for point in (PACED, CLIENTS))


def test_a_queue_that_grows_on_the_candidate_alone_is_a_regression_that_is_to_be_confirmed() -> None:
    candidate, baseline = sides(1.0, 12)
    load_cases(candidate)[1].set_metric("utilisation", 1.0)
    live, found = heard(candidate, baseline, limits())
    assert verdicts(found) == {THROUGHPUT: PASSED, P99: FAILED}
    assert live.regressions(found) == {P99}
    _, kept = confirm_checks(found, {P99}, found)
    assert (kept.verdict, kept.text.endswith("; again with fresh workers: the same")) == (FAILED, True)
    _, lost = confirm_checks(found, {P99}, heard(*sides(1.0, 12), limits())[1])
    assert lost.verdict == UNCLEAR


def test_a_load_point_that_a_side_has_not_is_no_test_and_nothing_to_compare_is_said() -> None:
    candidate, baseline = sides(1.0, 12)
    lose(candidate, 0)
    _, found = heard(candidate, baseline, limits())
    assert [check.name for check in found] == ["concurrency=4", P99]
    live = LiveLoadGate(limits(), [("cpu-tensors", PACED)])
    candidate.cases = candidate.at_point()
    candidate.cases[0].reason = "there is no such memory"
    said = "nothing could be compared: cpu-tensors: there is no such memory"
    assert said in refusal(BenchmarkFailed, live.checks, [candidate, baseline])
