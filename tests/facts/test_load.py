"""The facts of loads, of synthetic results whose figures are known."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ortbench.core.eps import CPU_EP
from ortbench.facts import Fact, Quantity
from ortbench.facts.run import facts_of, headline, repeated_warnings
from ortbench.facts.sentences import sentence
from ortbench.features.load.analysis import knees
from ortbench.model.result import Case, Result
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
BUSY = noise_of(2, 1.0, [0.4] * 8)
COMMAND = "ortbench load m.onnx --ep some"


def facts(result: Result, *codes: str) -> list[Fact]:
    return [it for it in facts_of(result) if it.code in codes]


def verdicts(result: Result, code: str) -> list[str]:
    return [it.verdict for it in facts(result, code)]


def busy(result: Result) -> Result:
    result.noise = BUSY
    return result


# Clients


def test_closed_loops() -> None:
    assert keys(serving()) == [("peak", "none-more", CPU), ("knee", "latency", CPU), ("knee", "latency", DEVICE)]
    knee = values(fact(serving(), "knee", CPU))
    assert (knee["clients"], knee["last"], knee["share"]) == (4, 8, pytest.approx(0.97, abs=0.01))
    assert (knee["latency"], knee["last_latency"]) == (pytest.approx(20.6 * MS), pytest.approx(40 * MS))


def test_where_the_knee_is() -> None:
    """The latency of one client is 10 ms, and of others as many times as much as there are clients, or the same."""
    for rates, p50_ms, noise, found in (
        ((100, 200, 398), 10.0, None, [("beyond", 4, "ortbench load m.onnx --concurrency 4,8,16")]),
        ((100, 99, 80), 10.0, None, [("latency", 1, "")]),
        ((100, 108, 100), 0.0, BUSY, []),  # which noise may have made
        ((100, 300, 100), 0.0, BUSY, [("flat", 2, "")]),
    ):
        levels = [closed(CPU, 2**at, per_s, max(p50_ms * 2**at, 10.0)) for at, per_s in enumerate(rates)]
        result = load_result(*levels)
        result.noise, result.command = (
            noise,
            ["ortbench", "load", "m.onnx", "--concurrency", "1,2,4", "--json", "a.json"],
        )
        assert [(it.verdict, it.values["clients"], it.next) for it in facts(result, "knee")] == found


# Of a load in one process of a text detector on a busy machine, in which a waiting round made two clients slower than one.
ONE, TWO = [260.6, 264.4, 139.2, 180.0, 179.5], [233.8, 174.4, 40.1, 233.1, 207.9]
TWICE = [2 * it for it in ONE]


def test_a_knee_of_one_process_is_none_where_intervals_leave_it_open() -> None:
    for rates, is_told in (
        ((ONE, TWO), False),  # two may bring 1.83 times as many
        ((TWO, ONE), False),  # one may bring as many
        ((ONE, ONE), True),  # a tie in each round
        ((ONE, TWICE, [2.01 * it for it in ONE]), True),
        ((ONE[:2], TWICE[:2]), False),  # no interval
    ):
        levels = []
        for clients, found in enumerate(rates, 1):
            mean = sum(found) / len(found)
            blocks = level_blocks(mean, latency(5.0 * clients), len(found), [it / mean for it in found])
            level = closed(CPU, clients, mean, 5.0 * clients, blocks=blocks)
            levels.append(level if len(found) > 2 else known_to(level, None))
        result = load_result(*levels)
        assert (fact(result, "knee").verdict != "open", knees(result)[CPU] is not None) == (is_told, is_told)


def test_modes_compared_with_cpu_tensors() -> None:
    for rates, verdict, after in (
        ({CPU: 100, DEVICE: 200}, "more", "ortbench code m.onnx --mode device-tensors"),
        ({CPU: 100, DEVICE: 101}, "open", ""),
        ({CPU: 100, DEVICE: 95}, "none-more", ""),
        ({CPU: 100}, "alone", ""),
        (
            {CPU: 100, DEVICE: 150, RESIDENT: 900},
            "more",
            "ortbench code m.onnx --mode device-tensors",
        ),  # it can replace
    ):
        found = facts(load_result(*(closed(mode, 1, per_s, 10.0) for mode, per_s in rates.items())), "peak")[0]
        assert (found.verdict, found.next) == (verdict, after)
        assert found.values.get("base", CPU) == next(iter(rates))


@pytest.mark.parametrize(
    ("sessions", "after"), [("shared", "ortbench load m.onnx --sessions process"), ("process", "")]
)
def test_waiting_for_the_gil_where_it_is_most(sessions: str, after: str) -> None:
    levels = [closed(CPU, 1, 100, 1.0, gil_wait=0.02), closed(CPU, 8, 105, 8.0, gil_wait=0.12)]
    result = load_result(*levels, sessions=sessions)
    result.command = ["ortbench", "load", "m.onnx"]
    found = fact(result, "gil")
    assert (values(found)["share"], found.values["where"], found.next) == (0.12, "with 8 clients", after)
    quiet = [closed(CPU, 1, 100, 1.0, gil_wait=0.03), closed(CPU, 8, 105, 8.0, gil_wait=None)]
    assert verdicts(load_result(*quiet), "gil") == []


def test_threads_of_all_sessions_beyond_the_cores() -> None:
    for sessions, cores, found in (
        ("own", 8, [({"threads": 16, "sessions": 8, "cores": Quantity(8, "1")}, "ortbench load m.onnx --intra-op-threads 1")]),
        ("process", 16, []),
        ("shared", 8, []),
    ):  # fmt: skip
        result = load_result(closed(CPU, 4, 100, 1.0), closed(CPU, 8, 105, 8.0), sessions=sessions)
        result.target["ep"], result.target["intra_op_threads"] = CPU_EP, 2
        result.environment["cpu"] = {"model": "A CPU", "usable_cores": cores, "cores": cores}
        result.command = ["ortbench", "load", "m.onnx"]
        assert [(it.values, it.next) for it in facts(result, "threads")] == found


def test_what_a_mix_of_shapes_does_to_the_p99() -> None:
    for overall, of_one, verdict, shape in (
        ((1.2, 1.6), (2.9, 3.1), "longer", None),
        ((0.5, 1.1), (1.95, 3.52), "longer-for-shape", "batch=1"),  # the row of one shape contradicts "not longer"
        ((0.9, 1.6), (0.8, 1.4), "open", None),
        ((0.9, 1.04), (0.8, 1.03), "none", None),
    ):
        point = opened(CPU, 30, 2.0)
        point.set_metric("mixing.all", sum(overall) / 2, overall)
        point.set_metric("mixing.batch=1", sum(of_one) / 2, of_one)
        point.set_metric("mixing.batch=4", 1.0, (0.98, 1.02))
        found = fact(load_result(point, order="cycle", shapes=["batch=1", "batch=4"]), "mixing")
        assert found.verdict == verdict
        assert shape in (None, found.values["shape"])


# Rates


def test_open_loops() -> None:
    assert keys(paced()) == [
        ("slo", "met", DEVICE), ("slo", "saturated", DEVICE), ("saturated", "saturated", DEVICE), ("paced", "slower", DEVICE),
        ("generator", "late", DEVICE),
    ]  # fmt: skip
    assert repeated_warnings(facts(paced(), "generator")) == {"late-requests"}  # which is then not shown twice
    slow = values(fact(paced(), "paced"))
    assert (slow["time"], slow["back_to_back"]) == (7.2 * MS, 3 * MS)
    assert keys(load_result(opened(CPU, 30, 5.0, late_share=0.0009))) == []
    nothing = load_result(failed_level(closed(CPU, 1, 1, 1.0)))
    assert (headline(nothing), keys(nothing)) == ("No finding", [])


def test_slow_inferences_at_a_low_rate() -> None:
    for p50_ms, found in [(3.3, []), (3.5, ["slower"])]:
        alone = measured(CPU, latency=steady([3 * MS] * 8))
        assert verdicts(load_result(opened(CPU, 30, p50_ms), alone=[alone]), "paced") == found
    assert verdicts(busy(paced()), "paced") == []  # noise may have made it
    result = paced()
    case = result.cases[1]
    case.metrics["service_time"] = replace(there(case.stats("service_time")), ci95=(2.5 * MS, 12 * MS))  # chance
    assert verdicts(result, "paced") == []


def test_a_rate_below_one_that_is_served_is_not_called_saturated() -> None:
    full = opened(CPU, 20, 50.0, utilisation=1.0)
    assert verdicts(load_result(full, opened(CPU, 40, 5.0)), "saturated") == []
    assert verdicts(load_result(opened(CPU, 10, 5.0), full), "saturated") == ["saturated"]


# An SLO


def few(rate: float, count: int, p99_ms: float, known: int | None = None) -> Case:
    """A rate with so few requests that no p99 is known from above, or which count as few as are `known`."""
    case = opened(CPU, rate, 5.0, p99_ms)
    case.metrics["latency"] = replace(there(case.stats("latency")), n=count)
    there(case.latency_bounds)["p99"] = {"low": None, "high": None, "requests": known or count}
    return case


def within(rate: float, p50_ms: float, p99_ms: float, low_ms: float, high_ms: float, **more: Any) -> Case:
    """A rate of whose p99 an interval is known."""
    case = opened(CPU, rate, p50_ms, p99_ms, **more)
    there(case.latency_bounds)["p99"] = {"low": round(low_ms * MS), "high": round(high_ms * MS), "requests": 900}
    return case


def unclear(rate: float) -> Case:
    case = opened(CPU, rate, 5.0, 12.0)
    case.checks["slo"] = {"verdict": "unclear"}
    return case


MANY = [opened(CPU, rate, 5.0, 30.0) for rate in (10, 20, 30)]
CLIENTS = [closed(CPU, count, 100.0, 5.0 * count) for count in (1, 2, 4, 8)]
FEW = "too few requests, a p99 takes 299"
ALIKE = "{} requests count as {}, as neighbours are alike; a p99 takes 299"


@pytest.mark.parametrize(
    ("points", "setup", "found"),
    [
        (CLIENTS, {"slo": {"p50": 12 * MS}}, [("met", "2 clients", ""), ("violated-at-several", "with 4 and 8 clients", "")]),
        (MANY, {}, [("violated-at-several", "at 10, 20 and 30 requests/s", "")]),
        ([few(10, 20, 15.0)], {}, [("open", FEW, f"{COMMAND} --duration 30s")]),  # 20 in 2 s
        ([few(10, 20, 15.0, known=2)], {}, [("open", FEW, f"{COMMAND} --duration 120s")]),  # waiting requests count less
        ([few(10, 1215, 15.0, known=135)], {}, [("open", ALIKE.format("1,215", 135), f"{COMMAND} --duration 5s")]),
        ([few(10, 20, 15.0)], {"file": "arrivals.txt"}, [("open", FEW, "")]),  # as long as the file is
        # 19.8 ms known to 2 % takes four times as many requests; 20.0 ms will never tell.
        ([opened(CPU, 10, 5.0, 19.8)], {}, [("open", "too close to the limit", f"{COMMAND} --duration 8s")]),
        ([opened(CPU, 10, 5.0, 20.0)], {}, [("open", "too close to the limit", "")]),
        ([unclear(20)], {}, [("open", "each load point takes 3 processes", f"{COMMAND} --processes 3")]),
        # What an SLO leaves open is beyond what meets it.
        ([few(10, 20, 15.0), opened(CPU, 20, 5.0, 12.0), within(40, 5.0, 50.0, 10, 90)], {},
         [("met", "20 requests/s", ""), ("open", "too close to the limit", None)]),
    ],
)  # fmt: skip
def test_whether_an_slo_is_met(
    points: list[Case], setup: dict[str, Any], found: list[tuple[str, str, str | None]]
) -> None:
    slo = facts(load_result(*points, **{"slo": SLO, **setup}), "slo")
    expected = [it if it[2] is not None else (*it[:2], fact.next) for it, fact in zip(found, slo, strict=True)]
    assert [(it.verdict, it.values.get("why", it.values["where"]), it.next) for it in slo] == expected


def test_what_violates_an_slo_on_a_busy_machine_may_be_noise() -> None:
    assert verdicts(busy(load_result(opened(CPU, 10, 5.0, 30.0), slo=SLO)), "slo") == ["busy"]


def rated(**found: Any) -> Result:
    return load_result(opened(CPU, 10, 5.0, 30.0), opened(DEVICE, 10, 4.0), slo=SLO, found=found)


def test_an_slo_met_by_tensors_on_the_device_is_met_on_their_condition() -> None:
    """By clients, by rates and by a search; other modes meet it without one."""
    by_clients = load_result(*(closed(mode, 1, 100.0, 5.0) for mode in (CPU, RESIDENT)), slo={"p50": 12 * MS})
    by_search = rated(**{RESIDENT: slo_rate(210.0, 216.0), DEVICE: slo_rate(200.0, None)})
    by_rate = load_result(opened(RESIDENT, 10, 5.0), opened(DEVICE, 10, 5.0), slo=SLO)
    for result in (by_clients, by_search, by_rate):
        told = {it.mode: sentence(it) for it in facts(result, "slo", "slo-rate")}
        assert [mode for mode, said in told.items() if "device-resident (if tensors never cross" in said] == [RESIDENT]
        assert len(told) > 1


def test_the_highest_rate_that_meets_the_slo() -> None:
    result = rated(**{CPU: None, DEVICE: slo_rate(210.0, 216.0)})
    assert keys(result)[:2] == [("slo-rate", "met", DEVICE), ("slo-rate", "none", CPU)]
    met = values(fact(result, "slo-rate", DEVICE))
    assert (met["rate"], met["latency"], met["violated_from"], met["requests"]) == (210, 18 * MS, 216, 1240)
    assert fact(rated(**{DEVICE: slo_rate(210.0, None)}), "slo-rate", DEVICE).verdict == "met-highest"
    result = busy(rated(**{CPU: slo_rate(200.0, None), DEVICE: slo_rate(210.0, 216.0), RESIDENT: None}))
    assert verdicts(result, "slo-rate") == ["met-busy", "met-busy", "noise"]
    assert "up to 210 requests/s at least with 1 worker: p99 18.0 ms" in sentence(fact(result, "slo-rate", DEVICE))


SPREAD = within(20, 5.0, 22.0, 12, 40, blocks=level_blocks(20, latency(5.0, 22.0), 3, (1.5, 1.0, 0.9)))
SPREAD.processes = [0, 1, 2]


def test_what_a_search_leaves_open() -> None:
    for points, rate, found in (
        ([opened(CPU, 10, 5.0, 12.0), opened(CPU, 20, 5.0, 19.8), opened(CPU, 30, 5.0, 30.0)], slo_rate(10.0, 30.0),
         ("met", None, f"{COMMAND} --duration 40s")),  # rates between are open
        ([few(5, 10, 15.0), few(10, 20, 15.0), opened(CPU, 20, 5.0, 30.0)], None,
         ("open", FEW, f"{COMMAND} --duration 8s")),  # 299 at 10 a second in four tries
        ([SPREAD], None, ("open", "some processes meet it, some do not", f"{COMMAND} --duration 250s")),
    ):  # fmt: skip
        told = fact(load_result(*points, slo=SLO, found={CPU: rate}), "slo-rate")
        assert (told.verdict, told.values.get("why"), told.next) == found
