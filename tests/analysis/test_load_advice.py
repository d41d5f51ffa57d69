"""What is said of a load."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ortbench.analysis.findings.advice import headline
from ortbench.analysis.findings.load_advice import load_findings, load_headline, noisy_knee
from ortbench.analysis.findings.slo_advice import slo_text
from ortbench.model.result import Case, Result
from ortbench.report.load import mode_curves
from tests.expect import there
from tests.results import (
    MS,
    closed,
    failed_level,
    known_to,
    latency,
    level_blocks,
    load_result,
    measured,
    noise_of,
    opened,
    paced,
    said,
    sentences,
    serving,
    slo_rate,
    steady,
)


def told(result: Result) -> list[str]:
    return said(load_findings(result))


def test_all_of_closed_loops() -> None:
    assert told(serving()) == [
        "No mode completes measurably more inferences/s than cpu-tensors, 400 with 8 clients: device-tensors is slower.",
        "4 clients reach 97% of the peak of 400 inferences/s with cpu-tensors: more clients add latency, not inferences/s: p99 20.6 ms with 4 clients, "
        "40.0 ms with 8 clients.",
        "2 clients reach 97% of the peak of 390 inferences/s with device-tensors: more clients add latency, not inferences/s: p99 10.6 ms with 2 clients, "
        "41.2 ms with 8 clients.",
    ]
    assert load_headline(serving()) == "4 clients reach 97% of the peak of 400 inferences/s with cpu-tensors"
    assert sentences(serving()) == told(serving())
    assert headline(serving()) == load_headline(serving())


def test_all_of_open_loops() -> None:
    assert told(paced()) == [
        "device-tensors meets p99 ≤ 20 ms at 10 and 30 requests/s: violated at 90 requests/s (p99 1.90 s).",
        "An inference takes longer at 10 requests/s than back to back: 7.20 ms instead of 3.00 ms, 2.4×, with device-tensors (the SM "
        "clock falls from 1725 to 210 MHz).",
        "device-tensors is saturated at 90 requests/s: the workers were busy 98% of the time or more, so queue delay depends on how long the load lasts, and no mean is told.",
        "The generator issued 3.00% of the requests more than 100 µs late, by up to 4.00 ms, at 30 requests/s with device-tensors: latency counts from when "
        "they were due, so that delay of the machine is in it.",
    ]
    assert sentences(paced()) == [told(paced())[0], *told(paced())[1:]]
    assert load_headline(paced()) == "p99 ≤ 20 ms is met at 30 requests/s with device-tensors"


def test_where_the_knee_is() -> None:
    for rates, expected in [
        ([100, 200, 398], ["The peak may lie beyond 4 clients with cpu-tensors: 4 clients complete 99% more inferences/s than 2 "
                           "with cpu-tensors.", "Next: ortbench load m.onnx --concurrency 4,8,16"]),
        ([100, 99, 80], ["1 client reaches 100% of the peak of 100 inferences/s with cpu-tensors: more clients add latency, not inferences/s: p99 20.0 ms "
                         "with 1 client, 80.0 ms with 4 clients; with 4 clients the rate falls to 80% of the peak."]),
    ]:  # fmt: skip
        levels = [closed("cpu-tensors", 2**number, per_s, 10.0 * 2**number) for number, per_s in enumerate(rates)]
        result = load_result(*levels)
        result.command = ["ortbench", "load", "m.onnx", "--concurrency", "1,2,4", "--json", "a.json"]
        assert told(result) == expected


def test_a_knee_that_noise_may_have_made_is_none() -> None:
    for second, expected in [
        (108, "The machine was too busy to tell how many clients reach the peak with cpu-tensors: by the figures 108 inferences/s with 2 clients."),
        (300, "2 clients reach 100% of the peak of 300 inferences/s with cpu-tensors: more clients complete no more; with 4 clients the "
              "rate falls to 33% of the peak."),
    ]:  # fmt: skip
        result = load_result(
            *(closed("cpu-tensors", 2**at, per_s, 10.0) for at, per_s in enumerate((100, second, 100)))
        )
        result.noise = noise_of(2, 1.0, [0.4] * 8)
        assert told(result)[-1] == expected
        assert ("of the peak" in load_headline(result)) == (second == 300)


def test_a_knee_that_processes_leave_open_is_none() -> None:
    for processes, sentence in [
        ((1, 1, 1.02, 1.02, 0.99, 0.99, 1, 1), "1 client reaches 98% of the peak of 102 inferences/s"),
        ((1, 1, 1.1, 1.1, 0.95, 0.95, 1, 1), "Processes differ too much to tell how many clients reach the peak"),
    ]:
        blocks = level_blocks(102, latency(10.0), wobble=processes)
        levels = [closed("cpu-tensors", 1, 100, 10.0), closed("cpu-tensors", 2, 102, 10.0, blocks=blocks)]
        for it in levels:
            it.processes = [0, 2, 4, 6]
        found = [it for it in told(load_result(*levels)) if not it.startswith("Next: ")]
        assert found[-1].startswith(f"{sentence} with cpu-tensors: ")
        for it in levels:
            it.processes = None
        found = [it for it in told(load_result(*levels)) if not it.startswith("Next: ")]
        assert found[-1].startswith(f"{sentence.replace('Processes', 'Blocks')} with cpu-tensors: ")


# Of a load in one process of a text detector on a busy machine, in which a waiting round made two clients slower than one.
ONE, TWO = [260.6, 264.4, 139.2, 180.0, 179.5], [233.8, 174.4, 40.1, 233.1, 207.9]


def one_process(*rates: list[float], count: int | None = None) -> Result:
    """A load of 1, 2 … clients whose blocks, the first of them or all, completed so many inferences/s; one with more of one client."""
    levels = []
    for clients, found in enumerate(rates, 1):
        kept = found[:count]
        mean = sum(kept) / len(kept)
        blocks = level_blocks(mean, latency(5.0 * clients), rounds=len(kept), wobble=[it / mean for it in kept])
        level = closed("cpu-tensors", clients, mean, 5.0 * clients, blocks=blocks)
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
    found = [it for it in told(result) if "reach" in it]
    assert [it.startswith("Blocks differ too much to tell how many clients reach the peak") for it in found] == [
        not is_told
    ]
    assert (noisy_knee(result, "cpu-tensors") is None) == is_told
    assert ("reach" in load_headline(result)) == is_told
    (row,) = mode_curves(result).rows
    assert (row[1] == "cannot tell") != is_told


def test_a_peak_beyond_the_most_clients_that_noise_may_have_made_is_none() -> None:
    result = load_result(*(closed("cpu-tensors", 8 * at, per_s, 10.0) for at, per_s in ((1, 461), (2, 500))))
    assert any(it.startswith("The peak may lie beyond 16 clients") for it in told(result))
    result.noise = noise_of(2, 1.4, [0.4] * 8)
    assert told(result)[-1] == (
        "The machine was too busy to tell how many clients reach the peak with cpu-tensors: by the figures 500 inferences/s with 16 clients."
    )


def test_clients_with_which_an_slo_is_met() -> None:
    levels = [closed("cpu-tensors", count, 100.0, 5.0 * count) for count in (1, 2, 4, 8)]
    result = load_result(*levels, slo={"p50": 12_000_000})
    assert (
        told(result)[0]
        == "cpu-tensors meets p50 ≤ 12 ms with 1 and 2 clients: violated with 4 and 8 clients (p50 20.0 ms with 4 clients)."
    )
    assert load_headline(result) == "cpu-tensors meets p50 ≤ 12 ms with up to 2 clients"


def test_several_modes_whose_peak_may_lie_beyond_are_one_finding() -> None:
    levels = [
        closed(mode, count, 100.0 * count, 10.0) for mode in ("cpu-tensors", "device-tensors") for count in (1, 2)
    ]
    found = told(load_result(*levels))
    assert "The peak may lie beyond 2 clients with cpu-tensors and device-tensors: " in found[1]
    assert found[2].startswith("Next: ")
    assert len(found) == 3


def test_more_clients_that_neither_bring_nor_cost_anything() -> None:
    result = load_result(closed("cpu-tensors", 1, 100, 10.0), closed("cpu-tensors", 2, 101, 10.0))
    assert told(result) == [
        "1 client reaches 99% of the peak of 101 inferences/s with cpu-tensors: more clients complete no more."
    ]


def test_which_mode_completes_most() -> None:
    none = "No mode completes measurably more inferences/s than cpu-tensors, 100 with 1 client: device-tensors"
    for device, expected in [
        (200, "device-tensors completes 200 inferences/s with 1 client, 2.00× those of cpu-tensors (95% CI 1.97 to 2.03): cpu-tensors "
              "completes 100 with 1 client."),
        (101, f"{none} does not differ measurably."),
        (99.5, f"{none} does not differ measurably."),
        (50, f"{none} is slower."),
    ]:  # fmt: skip
        result = load_result(closed("cpu-tensors", 1, 100, 10.0), closed("device-tensors", 1, device, 5.0))
        assert told(result)[0] == expected
        assert ("Next: ortbench code m.onnx --mode device-tensors" in told(result)) is (device == 200)


def test_modes_whose_tensors_stay_on_the_device_come_behind_those_that_can_replace_cpu_tensors() -> None:
    modes = {"cpu-tensors": 100, "device-tensors": 150, "host-accessible": 200, "device-resident": 900}
    result = load_result(*(closed(mode, 1, per_s, 10.0) for mode, per_s in modes.items()))
    first, _, second, *_ = told(result)
    assert first.startswith("host-accessible completes 200 inferences/s with 1 client, 2.00× those of cpu-tensors")
    assert second.startswith("device-resident completes 900 inferences/s with 1 client, 9.00× those of cpu-tensors")
    assert " if tensors never cross the link between inferences: " in second
    assert load_headline(result) == (
        "1 client: 200 inferences/s with host-accessible, 900 inferences/s with device-resident if tensors never cross the link between inferences"
    )


def test_which_mode_completes_most_without_cpu() -> None:
    one = closed("device-tensors", 1, 100, 10.0)
    none = "No mode completes measurably more inferences/s than device-tensors, 100 with 1 client: device-resident"
    assert told(load_result(one, closed("device-resident", 1, 50, 5.0))) == [f"{none} is slower."]
    assert told(load_result(one, closed("device-resident", 1, 99.5, 5.0))) == [f"{none} does not differ measurably."]


def test_waiting_for_the_gil_is_said_where_it_is_most() -> None:
    levels = [closed("cpu-tensors", 1, 100, 1.0, gil_wait=0.02), closed("cpu-tensors", 8, 105, 8.0, gil_wait=0.12)]
    result = load_result(*levels)
    result.command = ["ortbench", "load", "m.onnx"]
    assert told(result)[-2:] == [
        "cpu-tensors: clients waited for the GIL 12% of the time with 8 clients: a process for each client avoids that but can be slower all "
        "the same; to compare, measure it too.",
        "Next: ortbench load m.onnx --sessions process",
    ]
    result.part["sessions"] = "process"
    assert told(result)[-1] == "cpu-tensors: clients waited for the GIL 12% of the time with 8 clients."
    quiet = [closed("cpu-tensors", 1, 100, 1.0, gil_wait=0.03), closed("cpu-tensors", 8, 105, 8.0, gil_wait=None)]
    assert "GIL" not in " ".join(told(load_result(*quiet)))


def test_clients_that_are_not_served_equally() -> None:
    result = load_result(closed("cpu-tensors", 1, 100, 1.0), closed("cpu-tensors", 8, 105, 8.0, fairness=0.72))
    assert told(result)[-1] == (
        "cpu-tensors: clients are not served equally with 8 clients: Jain's fairness index 0.72, as if 5.8 of 8 had shared the inferences."
    )
    fair = load_result(closed("cpu-tensors", 1, 100, 1.0), closed("cpu-tensors", 8, 105, 8.0, fairness=0.95))
    assert "equally" not in " ".join(told(fair))


def test_what_a_mix_of_shapes_does_to_the_p99() -> None:
    def mixed(low: float, high: float) -> str:
        point = opened("cpu-tensors", 30, 2.0)
        point.put("mixing.all", 1.4, (low, high))
        for batch, ratio in ((1, 3.0), (4, 1.1)):
            point.metrics[f"mixed.batch={batch}"] = latency(6.0 * ratio, 6.0 * ratio)
            point.metrics[f"apart.batch={batch}"] = latency(6.0, 6.0)
            point.put(f"mixing.batch={batch}", ratio, (ratio - 0.1, ratio + 0.1))
        return told(load_result(point, order="cycle", shapes=["batch=1", "batch=4"]))[0]

    assert mixed(1.2, 1.6) == (
        "Mixed shapes: the p99 is 1.40× that of the same shapes apart at 30 requests/s (95% CI 1.20 to 1.60): most with batch=1: 18.0 ms "
        "instead of 6.00 ms, 3.00×."
    )
    assert mixed(0.9, 1.6) == (
        "Mixed shapes: no measurably longer p99: at most 1.40× that of the same shapes apart at 30 requests/s (95% CI 0.900 to 1.60)."
    )


def test_slow_inferences_at_a_low_rate() -> None:
    for p50_ms, is_told in [(3.3, False), (3.5, True)]:
        alone = measured("cpu-tensors", latency=steady([3 * MS] * 8))
        result = load_result(opened("cpu-tensors", 30, p50_ms), alone=[alone])
        found = [
            "An inference takes longer at 30 requests/s than back to back: 3.40 ms instead of 3.00 ms, 1.1×, with cpu-tensors; the likely reason is "
            "the idle time between requests, in which clocks fall, caches get cold and threads sleep."
        ]
        assert told(result) == (found if is_told else [])


@pytest.mark.parametrize(("workers", "p50_ms", "is_told"), [(1, 6.5, True), (1, 5.5, False), (2, 6.1, False)])
def test_longer_inferences_at_a_higher_rate_are_the_machines(workers: int, p50_ms: float, is_told: bool) -> None:
    levels = [opened("cpu-tensors", rate, p50) for rate, p50 in [(20, 7.0), (40, 5.0), (60, p50_ms)]]
    found = told(load_result(*levels, workers=workers, slo={"p99": 90 * MS}))
    said = (
        "The machine's speed changed during the load: an inference took 1.3× as long at one rate as at another: 6.40 ms at 60 requests/s, "
        "4.90 ms at 40 requests/s, with cpu-tensors; an SLO that is met here can be violated at another time."
    )
    assert [it for it in found if "speed" in it] == [said] * is_told


def test_longer_inferences_at_a_low_rate_that_noise_may_have_made_are_none() -> None:
    result = paced()
    assert any(it.startswith("An inference takes longer") for it in told(result))
    result.noise = noise_of(2, 1.0, [0.4] * 8)
    assert any(it.startswith("An inference takes longer") for it in told(result))  # as the clock fell
    for it in result.cases:
        it.metrics.pop("sm_clock", None)
    assert not any(it.startswith("An inference takes longer") for it in told(result))
    result = paced()
    slow = result.cases[1].metrics
    slow["service_time"] = replace(there(result.cases[1].stats("service_time")), ci95=(2.5 * MS, 12 * MS))  # chance
    assert not any(it.startswith("An inference takes longer") for it in told(result))


def rated(**found: Any) -> Result:
    return load_result(
        opened("cpu-tensors", 10, 5.0, 30.0), opened("device-tensors", 10, 4.0), slo={"p99": 20 * MS}, found=found
    )


def test_the_highest_rate_that_meets_the_slo() -> None:
    result = rated(**{"cpu-tensors": None, "device-tensors": slo_rate(210.0, 216.0)})
    assert told(result) == [
        "device-tensors meets p99 ≤ 20 ms up to 210 requests/s: p99 18.0 ms of 1,240 requests at that rate; violated from 216 requests/s on.",
        "cpu-tensors meets p99 ≤ 20 ms at none of the rates tried: p99 30.0 ms at 10 requests/s.",
    ]
    assert load_headline(result) == "p99 ≤ 20 ms is met with device-tensors up to 210 requests/s"
    at_most = told(rated(**{"device-tensors": slo_rate(210.0, None)}))[0]
    assert at_most.endswith(
        "no higher rate was tried, as this is about the throughput back to back: the limit can be higher."
    )
    result.noise = noise_of(2, 1.2, [0.5] * 12)
    assert any(
        it.endswith("violated from 216 requests/s on, which noise of the machine may have made.") for it in told(result)
    )


def test_an_slo_that_no_rate_meets_and_one_that_all_do() -> None:
    levels = [opened("cpu-tensors", rate, 5.0, 30.0) for rate in (10, 20, 30)]
    assert told(load_result(*levels, slo={"p99": 20 * MS})) == [
        "cpu-tensors violates p99 ≤ 20 ms at 10, 20 and 30 requests/s: p99 30.0 ms at 10 requests/s."
    ]
    assert told(load_result(*levels, slo={"p99": 31 * MS, "mean": 6 * MS})) == [
        "cpu-tensors meets p99 ≤ 31 ms and mean ≤ 6 ms at 10, 20 and 30 requests/s."
    ]


def few(rate: float, count: int, p99_ms: float, mode: str = "cpu-tensors") -> Case:
    """A rate with so few requests that no p99 is known from above."""
    case = opened(mode, rate, 5.0, p99_ms)
    case.metrics["latency"] = replace(there(case.stats("latency")), n=count)
    there(case.latency_bounds)["p99"] = {"low": None, "high": None, "requests": count}
    return case


def test_an_slo_that_too_few_requests_leave_open() -> None:
    enough = opened("cpu-tensors", 90, 5.0, 30.0)
    assert told(load_result(few(10, 20, 15.0), slo={"p99": 20 * MS})) == [
        "Whether cpu-tensors meets p99 ≤ 20 ms cannot be told: too few requests at 10 requests/s, p99 takes 299 or more.",
        "Next: ortbench load m.onnx --ep some --duration 30s",  # 20 in 2 s
    ]
    assert told(load_result(few(10, 20, 15.0), enough, slo={"p99": 20 * MS})) == [
        "cpu-tensors violates p99 ≤ 20 ms at 90 requests/s: p99 30.0 ms; too few requests at 10 requests/s, p99 takes 299 or more.",
        "Next: ortbench load m.onnx --ep some --duration 30s",
    ]
    waiting = few(10, 20, 15.0)
    there(waiting.latency_bounds)["p99"]["requests"] = 2  # which is not known so well
    assert told(load_result(waiting, slo={"p99": 20 * MS}))[1] == "Next: ortbench load m.onnx --ep some --duration 120s"
    of_a_file = load_result(few(10, 20, 15.0), slo={"p99": 20 * MS}, file="arrivals.txt")
    assert not any("Next" in it for it in told(of_a_file))  # as long as the file is


def test_an_slo_to_which_a_figure_is_too_close() -> None:
    """19.8 ms known to 2 % takes four times as many requests; 20.0 ms will never tell."""
    for p99_ms, next_ in [(19.8, ["Next: ortbench load m.onnx --ep some --duration 8s"]), (20.0, [])]:
        found = told(load_result(opened("cpu-tensors", 10, 5.0, p99_ms), slo={"p99": 20 * MS}))
        assert found == [
            "Whether cpu-tensors meets p99 ≤ 20 ms cannot be told: too close to the limit at 10 requests/s.",
            *next_,
        ]


def test_what_an_slo_leaves_open_is_beyond_what_meets_it_and_says_why() -> None:
    """A rate below one that meets it is not open; far from the limit there are too few requests that are independent."""
    below, met, beyond = few(10, 20, 15.0), opened("cpu-tensors", 20, 5.0, 12.0), opened("cpu-tensors", 40, 5.0, 50.0)
    there(beyond.latency_bounds)["p99"] = {"low": 10 * MS, "high": 90 * MS, "requests": 900}
    found = told(load_result(below, met, beyond, slo={"p99": 20 * MS}))
    assert found[0] == (
        "cpu-tensors meets p99 ≤ 20 ms at 20 requests/s: too few requests independent of each other (those that queue together count "
        "for fewer) at 40 requests/s."
    )


def test_a_search_says_in_how_many_processes_a_rate_meets_the_slo_and_violates_it() -> None:
    met, violated = opened("cpu-tensors", 10, 5.0, 18.0), opened("cpu-tensors", 30, 5.0, 30.0)
    for level, rounds in ((met, (0, 1, 2)), (violated, (0,))):
        level.processes = [0, 1, 2]
        block = there(level.load_blocks)[0]
        level.load_blocks = [{**block, "round": number} for number in rounds]
    found = told(load_result(met, violated, slo={"p99": 20 * MS}, found={"cpu-tensors": slo_rate(10.0, 30.0)}))
    assert found[0].endswith("requests in 3 processes at that rate; violated from 30 requests/s on, in one process.")


def test_a_search_says_that_rates_between_are_open() -> None:
    levels = [
        opened("cpu-tensors", 10, 5.0, 12.0),
        opened("cpu-tensors", 20, 5.0, 19.8),
        opened("cpu-tensors", 30, 5.0, 30.0),
    ]
    result = load_result(*levels, slo={"p99": 20 * MS}, found={"cpu-tensors": slo_rate(10.0, 30.0)})
    assert told(result)[0].endswith("violated from 30 requests/s on; in between it cannot be told for certain.")
    assert told(result)[1].startswith("Next: ortbench load m.onnx --ep some --duration ")


def test_a_search_for_which_the_time_was_too_short() -> None:
    levels = [few(5, 10, 15.0), few(10, 20, 15.0), opened("cpu-tensors", 20, 5.0, 30.0)]
    result = load_result(*levels, slo={"p99": 20 * MS}, found={"cpu-tensors": None})
    assert told(result) == [
        "Whether cpu-tensors meets p99 ≤ 20 ms at any rate cannot be told: too few requests at 10 requests/s, p99 takes 299 or more.",
        "Next: ortbench load m.onnx --ep some --duration 8s",  # 299 at 10 a second in four tries
    ]
    assert load_headline(result) == "p99 ≤ 20 ms is violated at 20 requests/s with cpu-tensors"


def test_processes_that_disagree_on_an_slo_are_why_it_is_open() -> None:
    point = opened("cpu-tensors", 20, 5.0, 22.0, blocks=level_blocks(20, latency(5.0, 22.0), 3, (1.5, 1.0, 0.9)))
    point.processes = [0, 1, 2]
    there(point.latency_bounds)["p99"] = {"low": 12 * MS, "high": 40 * MS, "requests": 900}
    result = load_result(point, slo={"p99": 20 * MS}, found={"cpu-tensors": None})
    assert told(result)[0] == (
        "Whether cpu-tensors meets p99 ≤ 20 ms at any rate cannot be told: some processes meet it and some violate it at 20 requests/s."
    )


def test_a_rate_below_one_that_is_served_is_not_called_saturated() -> None:
    full = opened("cpu-tensors", 20, 50.0, utilisation=1.0)
    result = load_result(full, opened("cpu-tensors", 40, 5.0))
    assert not any("saturated" in it for it in told(result))
    assert any("an inference took 10.2× as long at one rate as at another" in it for it in told(result))
    assert any("saturated" in it for it in told(load_result(opened("cpu-tensors", 10, 5.0), full)))


def test_what_violates_an_slo_on_a_busy_machine_may_be_noise() -> None:
    result = load_result(opened("cpu-tensors", 10, 5.0, 30.0), slo={"p99": 20 * MS})
    result.noise = noise_of(2, 1.0, [0.4] * 8)
    assert told(result)[-1] == (
        "cpu-tensors violates p99 ≤ 20 ms at 10 requests/s: p99 30.0 ms, which noise of the machine may have made."
    )


def test_a_few_late_requests_are_not_worth_a_finding() -> None:
    assert told(load_result(opened("cpu-tensors", 30, 5.0, late_share=0.0009))) == []


def test_nothing_and_little() -> None:
    assert load_headline(load_result(failed_level(closed("cpu-tensors", 1, 1, 1.0)))) == "Nothing was measured"
    assert told(load_result(failed_level(closed("cpu-tensors", 1, 1, 1.0)))) == []
    assert (
        load_headline(load_result(closed("cpu-tensors", 4, 100, 1.0))) == "4 clients: 100 inferences/s with cpu-tensors"
    )
    assert (
        load_headline(load_result(opened("cpu-tensors", 90, 900.0, utilisation=1.0)))
        == "Requests arrive faster than they are served"
    )
    assert slo_text({"p99": 1_500_000}) == "p99 ≤ 1.5 ms"
