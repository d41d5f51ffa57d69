"""The facts of loads, of synthetic results whose figures are known."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ortbench.facts.findings import headline
from ortbench.facts.sentences import sentence
from ortbench.features.load.analysis import slo_text
from ortbench.model.result import Case, Result
from ortbench.model.result_file import load
from ortbench.report.markdown import markdown
from ortbench.report.run import build
from tests.conftest import ROOT
from tests.expect import there
from tests.results import (
    MS,
    closed,
    fact,
    failed_level,
    keys,
    known_to,
    latency,
    level_blocks,
    load_result,
    measured,
    noise_of,
    opened,
    paced,
    serving,
    slo_rate,
    steady,
    values,
)

CPU, DEVICE, RESIDENT = "cpu-tensors", "device-tensors", "device-resident"
SLO = {"p99": 20 * MS}


def test_closed_loops() -> None:
    assert keys(serving()) == [("peak", "none-more", CPU), ("knee", "latency", CPU), ("knee", "latency", DEVICE)]
    knee = values(fact(serving(), "knee", CPU))
    assert (knee["clients"], knee["last"], knee["share"]) == (4, 8, pytest.approx(0.97, abs=0.01))
    assert (knee["latency"], knee["last_latency"]) == (pytest.approx(20.6 * MS), pytest.approx(40 * MS))


def test_open_loops() -> None:
    assert keys(paced()) == [
        ("slo", "met", DEVICE), ("slo", "saturated", DEVICE), ("saturated", "saturated", DEVICE), ("paced", "slower", DEVICE),
        ("generator", "late", DEVICE),
    ]  # fmt: skip
    slow = values(fact(paced(), "paced"))
    assert (slow["time"], slow["back_to_back"]) == (7.2 * MS, 3 * MS)


@pytest.mark.parametrize(
    ("rates", "verdict", "clients"), [([100, 200, 398], "beyond", 4), ([100, 99, 80], "latency", 1)]
)
def test_where_the_knee_is(rates: list[float], verdict: str, clients: int) -> None:
    levels = [closed(CPU, 2**number, per_s, 10.0 * 2**number) for number, per_s in enumerate(rates)]
    result = load_result(*levels)
    result.command = ["ortbench", "load", "m.onnx", "--concurrency", "1,2,4", "--json", "a.json"]
    knee = fact(result, "knee")
    assert (knee.verdict, knee.values["clients"]) == (verdict, clients)
    assert knee.next == ("ortbench load m.onnx --concurrency 4,8,16" if verdict == "beyond" else "")


@pytest.mark.parametrize(("second", "verdicts"), [(108, []), (300, ["flat"])])
def test_a_knee_that_noise_may_have_made_is_none(second: float, verdicts: list[str]) -> None:
    result = load_result(*(closed(CPU, 2**at, per_s, 10.0) for at, per_s in enumerate((100, second, 100))))
    result.noise = noise_of(2, 1.0, [0.4] * 8)
    assert [verdict for code, verdict, _ in keys(result) if code == "knee"] == verdicts


# Of a load in one process of a text detector on a busy machine, in which a waiting round made two clients slower than one.
ONE, TWO = [260.6, 264.4, 139.2, 180.0, 179.5], [233.8, 174.4, 40.1, 233.1, 207.9]


def one_process(*rates: list[float], count: int | None = None) -> Result:
    """A load of 1, 2 … clients whose blocks, the first of them or all, completed so many inferences/s; one with more of one client."""
    levels = []
    for clients, found in enumerate(rates, 1):
        kept = found[:count]
        mean = sum(kept) / len(kept)
        blocks = level_blocks(mean, latency(5.0 * clients), rounds=len(kept), wobble=[it / mean for it in kept])
        level = closed(CPU, clients, mean, 5.0 * clients, blocks=blocks)
        levels.append(level if count is None else known_to(level, None))
    return load_result(*levels)


@pytest.mark.parametrize(
    ("rates", "count", "is_told"),
    [
        ((ONE, TWO), None, False),  # two may bring 1.83 times as many
        ((TWO, ONE), None, False),  # one may bring as many
        ((ONE, ONE), None, True),  # a tie in each round
        ((ONE, [2 * it for it in ONE], [2.01 * it for it in ONE]), None, True),
        ((ONE, [1.2 * it for it in ONE], TWO), None, False),
        ((ONE, TWO), 1, False),  # no interval
        ((ONE, [2 * it for it in ONE]), 2, False),
    ],
)
def test_a_knee_of_one_process_is_none_where_intervals_leave_it_open(
    rates: tuple[list[float], ...], count: int | None, is_told: bool
) -> None:
    result = one_process(*rates, count=count)
    assert (fact(result, "knee").verdict != "open") == is_told
    assert (result.own["knee"][CPU] is not None) == is_told


def test_modes_compared_with_cpu_tensors() -> None:
    for device, verdict in [(200, "more"), (101, "open"), (95, "none-more"), (50, "none-more")]:
        result = load_result(closed(CPU, 1, 100, 10.0), closed(DEVICE, 1, device, 5.0))
        found = fact(result, "peak")
        assert found.verdict == verdict
        assert found.next == ("ortbench code m.onnx --mode device-tensors" if verdict == "more" else "")
    assert fact(load_result(closed(CPU, 1, 100, 10.0)), "peak").verdict == "alone"
    assert (
        fact(load_result(closed(DEVICE, 1, 100, 10.0), closed(RESIDENT, 1, 50, 5.0)), "peak").values["base"] == DEVICE
    )


def test_modes_whose_tensors_stay_on_the_device_come_behind_those_that_can_replace_cpu_tensors() -> None:
    modes = {CPU: 100, DEVICE: 150, "host-accessible": 200, RESIDENT: 900}
    result = load_result(*(closed(mode, 1, per_s, 10.0) for mode, per_s in modes.items()))
    assert keys(result)[:2] == [("peak", "more", "host-accessible"), ("peak", "more", RESIDENT)]


def test_waiting_for_the_gil_where_it_is_most() -> None:
    levels = [closed(CPU, 1, 100, 1.0, gil_wait=0.02), closed(CPU, 8, 105, 8.0, gil_wait=0.12)]
    result = load_result(*levels)
    result.command = ["ortbench", "load", "m.onnx"]
    assert values(fact(result, "gil")) == {"share": 0.12, "where": "with 8 clients"}
    assert fact(result, "gil").next == "ortbench load m.onnx --sessions process"
    result.part["sessions"] = "process"
    assert fact(result, "gil").next == ""
    quiet = [closed(CPU, 1, 100, 1.0, gil_wait=0.03), closed(CPU, 8, 105, 8.0, gil_wait=None)]
    assert "gil" not in [code for code, *_ in keys(load_result(*quiet))]


@pytest.mark.parametrize(
    ("overall", "of_one", "verdict"),
    [
        ((1.2, 1.6), (2.9, 3.1), "longer"),
        ((0.5, 1.1), (1.95, 3.52), "longer-for-shape"),  # the row of one shape contradicts "not longer"
        ((0.9, 1.6), (0.8, 1.4), "open"),
        ((0.9, 1.04), (0.8, 1.03), "none"),
    ],
)
def test_what_a_mix_of_shapes_does_to_the_p99(
    overall: tuple[float, float], of_one: tuple[float, float], verdict: str
) -> None:
    point = opened(CPU, 30, 2.0)
    point.set_metric("mixing.all", sum(overall) / 2, overall)
    point.set_metric("mixing.batch=1", sum(of_one) / 2, of_one)
    point.set_metric("mixing.batch=4", 1.0, (0.98, 1.02))
    found = fact(load_result(point, order="cycle", shapes=["batch=1", "batch=4"]), "mixing")
    assert found.verdict == verdict
    assert found.values["shape"] == ("batch=1" if verdict == "longer-for-shape" else found.values["shape"])


def test_slow_inferences_at_a_low_rate() -> None:
    for p50_ms, is_told in [(3.3, False), (3.5, True)]:
        alone = measured(CPU, latency=steady([3 * MS] * 8))
        result = load_result(opened(CPU, 30, p50_ms), alone=[alone])
        assert (("paced", "slower", CPU) in keys(result)) is is_told
    result = paced()
    result.noise = noise_of(2, 1.0, [0.4] * 8)
    assert "paced" not in [code for code, *_ in keys(result)]  # noise may have made it
    result = paced()
    slow = result.cases[1].metrics
    slow["service_time"] = replace(there(result.cases[1].stats("service_time")), ci95=(2.5 * MS, 12 * MS))  # chance
    assert "paced" not in [code for code, *_ in keys(result)]


# An SLO


def test_clients_with_which_an_slo_is_met() -> None:
    levels = [closed(CPU, count, 100.0, 5.0 * count) for count in (1, 2, 4, 8)]
    result = load_result(*levels, slo={"p50": 12 * MS})
    assert keys(result)[:2] == [("slo", "met", CPU), ("slo", "violated-at-several", CPU)]
    met, violated = [it for it in facts(result) if it.code == "slo"]
    assert (met.values["where"], violated.values["where"], violated.values["first"]) == (
        "2 clients",
        "with 4 and 8 clients",
        "with 4 clients",
    )


def test_an_slo_met_by_tensors_on_the_device_is_met_on_their_condition() -> None:
    """By clients, by rates and by a search; other modes meet it without one."""
    by_clients = load_result(*(closed(mode, 1, 100.0, 5.0) for mode in (CPU, RESIDENT)), slo={"p50": 12 * MS})
    by_search = rated(
        **{RESIDENT: slo_rate(210.0, 216.0), DEVICE: slo_rate(200.0, None), "pipelined": slo_rate(190.0, 200.0)}
    )
    by_rate = load_result(opened(RESIDENT, 10, 5.0), opened(DEVICE, 10, 5.0), slo=SLO)
    for result in (by_clients, by_search, by_rate):
        told = [it for it in facts(result) if it.code in ("slo", "slo-rate")]
        assert len(told) > 1
        for it in told:
            assert ("device-resident (if tensors never cross the link" in sentence(it)) is (it.mode == RESIDENT)


def facts(result: Result) -> list[Any]:
    from ortbench.facts.findings import facts_of

    return facts_of(result)


def rated(**found: Any) -> Result:
    return load_result(opened(CPU, 10, 5.0, 30.0), opened(DEVICE, 10, 4.0), slo=SLO, found=found)


def test_the_highest_rate_that_meets_the_slo() -> None:
    result = rated(**{CPU: None, DEVICE: slo_rate(210.0, 216.0)})
    assert keys(result)[:2] == [("slo-rate", "met", DEVICE), ("slo-rate", "none", CPU)]
    met = values(fact(result, "slo-rate", DEVICE))
    assert (met["rate"], met["latency"], met["violated_from"], met["requests"]) == (210, 18 * MS, 216, 1240)
    assert fact(rated(**{DEVICE: slo_rate(210.0, None)}), "slo-rate", DEVICE).verdict == "met-highest"
    result.noise = noise_of(2, 1.2, [0.5] * 12)
    assert [it.verdict for it in facts(result) if it.code == "slo-rate"] == ["met-busy", "noise"]


def test_an_slo_that_no_rate_meets_and_one_that_all_do() -> None:
    levels = [opened(CPU, rate, 5.0, 30.0) for rate in (10, 20, 30)]
    none = fact(load_result(*levels, slo=SLO), "slo")
    assert (none.verdict, none.values["where"], values(none)["latency"]) == (
        "violated-at-several",
        "at 10, 20 and 30 requests/s",
        30 * MS,
    )
    assert fact(load_result(*levels, slo={"p99": 31 * MS, "mean": 6 * MS}), "slo").verdict == "met"


def few(rate: float, count: int, p99_ms: float, mode: str = CPU) -> Case:
    """A rate with so few requests that no p99 is known from above."""
    case = opened(mode, rate, 5.0, p99_ms)
    case.metrics["latency"] = replace(there(case.stats("latency")), n=count)
    there(case.latency_bounds)["p99"] = {"low": None, "high": None, "requests": count}
    return case


def test_an_slo_that_too_few_requests_leave_open() -> None:
    found = fact(load_result(few(10, 20, 15.0), slo=SLO), "slo")
    assert (found.verdict, found.values["why"]) == ("open", "too few requests, a p99 takes 299")
    assert found.next == "ortbench load m.onnx --ep some --duration 30s"  # 20 in 2 s
    waiting = few(10, 20, 15.0)
    there(waiting.latency_bounds)["p99"]["requests"] = 2  # which is not known so well
    assert fact(load_result(waiting, slo=SLO), "slo").next == "ortbench load m.onnx --ep some --duration 120s"
    of_a_file = load_result(few(10, 20, 15.0), slo=SLO, file="arrivals.txt")
    assert fact(of_a_file, "slo").next == ""  # as long as the file is


@pytest.mark.parametrize(("p99_ms", "after"), [(19.8, "ortbench load m.onnx --ep some --duration 8s"), (20.0, "")])
def test_an_slo_to_which_a_figure_is_too_close(p99_ms: float, after: str) -> None:
    """19.8 ms known to 2 % takes four times as many requests; 20.0 ms will never tell."""
    found = fact(load_result(opened(CPU, 10, 5.0, p99_ms), slo=SLO), "slo")
    assert (found.verdict, found.values["why"], found.next) == ("open", "too close to the limit", after)


def test_what_an_slo_leaves_open_is_beyond_what_meets_it() -> None:
    below, met, beyond = few(10, 20, 15.0), opened(CPU, 20, 5.0, 12.0), opened(CPU, 40, 5.0, 50.0)
    there(beyond.latency_bounds)["p99"] = {"low": 10 * MS, "high": 90 * MS, "requests": 900}
    result = load_result(below, met, beyond, slo=SLO)
    assert [(it.verdict, it.values["where"]) for it in facts(result) if it.code == "slo"] == [
        ("met", "20 requests/s"),
        ("open", "at 40 requests/s"),
    ]


def test_a_search_leaves_rates_between_open() -> None:
    levels = [opened(CPU, 10, 5.0, 12.0), opened(CPU, 20, 5.0, 19.8), opened(CPU, 30, 5.0, 30.0)]
    result = load_result(*levels, slo=SLO, found={CPU: slo_rate(10.0, 30.0)})
    assert fact(result, "slo-rate").next.startswith("ortbench load m.onnx --ep some --duration ")


def test_a_search_for_which_the_time_was_too_short() -> None:
    levels = [few(5, 10, 15.0), few(10, 20, 15.0), opened(CPU, 20, 5.0, 30.0)]
    found = fact(load_result(*levels, slo=SLO, found={CPU: None}), "slo-rate")
    assert (found.verdict, found.next) == (
        "open",
        "ortbench load m.onnx --ep some --duration 8s",
    )  # 299 at 10 a second in four tries


def test_processes_that_disagree_on_an_slo_are_why_it_is_open() -> None:
    point = opened(CPU, 20, 5.0, 22.0, blocks=level_blocks(20, latency(5.0, 22.0), 3, (1.5, 1.0, 0.9)))
    point.processes = [0, 1, 2]
    there(point.latency_bounds)["p99"] = {"low": 12 * MS, "high": 40 * MS, "requests": 900}
    found = fact(load_result(point, slo=SLO, found={CPU: None}), "slo-rate")
    assert (found.verdict, found.values["why"]) == ("open", "some processes meet it, some do not")


def test_a_rate_below_one_that_is_served_is_not_called_saturated() -> None:
    full = opened(CPU, 20, 50.0, utilisation=1.0)
    result = load_result(full, opened(CPU, 40, 5.0))
    assert "saturated" not in [code for code, *_ in keys(result)]
    assert ("saturated", "saturated", CPU) in keys(load_result(opened(CPU, 10, 5.0), full))


def test_an_slo_is_not_met_by_fewer_than_three_of_several_processes() -> None:
    point = opened(CPU, 20, 5.0, 12.0)
    point.checks["slo"] = {"verdict": "unclear"}
    found = fact(load_result(point, slo=SLO), "slo")
    assert (found.verdict, found.values["why"]) == ("open", "it takes 3 processes")
    assert found.next == "ortbench load m.onnx --ep some --processes 3"


def test_what_violates_an_slo_on_a_busy_machine_may_be_noise() -> None:
    result = load_result(opened(CPU, 10, 5.0, 30.0), slo=SLO)
    result.noise = noise_of(2, 1.0, [0.4] * 8)
    assert fact(result, "slo").verdict == "busy"


def test_nothing_and_little() -> None:
    assert keys(load_result(opened(CPU, 30, 5.0, late_share=0.0009))) == []
    nothing = load_result(failed_level(closed(CPU, 1, 1, 1.0)))
    assert (headline(nothing), keys(nothing)) == ("No finding", [])
    assert slo_text({"p99": 1_500_000}) == "p99 ≤ 1.5 ms"


def test_a_stored_warning_of_late_requests_is_not_said_beside_the_finding() -> None:
    stored = load(ROOT / "reports" / "gpu-h100" / "load-rate" / "result.json")
    assert {it["code"] for it in stored.warnings} == {"late-requests"}
    text = markdown(build(stored))
    assert "The generator issued 4.55% of the requests late" in text
    assert "issued later than" not in text
