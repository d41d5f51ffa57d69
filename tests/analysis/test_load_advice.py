"""What is said of a load in sentences."""

from __future__ import annotations

from typing import Any

from ortbench.analysis.findings.advice import headline, sentences
from ortbench.analysis.findings.load_advice import load_headline, load_sentences, slo_text
from ortbench.model.result import Result
from tests.results import MS, closed, failed_level, load_result, measured, opened, paced, serving, steady

KNEE = "cpu-tensors: 4 callers reach 97% of the peak; beyond that only latency grows (p99 20.6 ms there, 40.0 ms with 8 callers)."


def test_all_of_closed_loops() -> None:
    assert load_sentences(serving()) == [
        "cpu-tensors brings most: 400 runs/s with 8 callers.",
        KNEE,
        "device-tensors: 2 callers reach 97% of the peak; beyond that only latency grows (p99 10.6 ms there, 41.2 ms with 8 callers).",
    ]
    assert load_headline(serving()) == "4 callers reach 97% of the peak: 400 runs/s with cpu-tensors"
    assert sentences(serving()) == load_sentences(serving())
    assert headline(serving()) == load_headline(serving())


def test_all_of_open_loops() -> None:
    assert load_sentences(paced()) == [
        "device-tensors: at 10 a second an inference takes 2.4 times as long as back to back (7.20 ms, not 3.00 ms); the SM clock falls "
        "from 1725 to 210 MHz.",
        "device-tensors: at 90 a second requests come as fast as they are served or faster: the queue grows as long as they come, so no "
        "mean wait is shown.",
        "device-tensors keeps p99 ≤ 20 ms at 10 and 30 a second, not at 90 (p99 1.90 s).",
        "device-tensors: 3.00% of the requests were issued late by up to 4.00 ms at 30 a second: the machine, not the model.",
    ]
    assert load_headline(paced()) == "At 30 a second p99 is 14.0 ms with device-tensors"


def test_where_the_knee_is() -> None:
    for rates, said in [
        ([100, 200, 398], "cpu-tensors: 4 callers still bring 99% more runs/s than 2: the peak may lie beyond them."),
        ([100, 99, 80], "cpu-tensors: one caller reaches 100% of the peak; beyond that only latency grows (p99 20.0 ms there, 80.0 ms with "
                        "4 callers); with 4 callers runs/s fall to 80% of it."),
    ]:  # fmt: skip
        levels = [closed("cpu-tensors", 2**number, per_s, 10.0 * 2**number) for number, per_s in enumerate(rates)]
        assert load_sentences(load_result(*levels)) == [said]


def test_more_callers_that_neither_bring_nor_cost_anything() -> None:
    result = load_result(closed("cpu-tensors", 1, 100, 10.0), closed("cpu-tensors", 2, 101, 10.0))
    assert load_sentences(result) == [
        "cpu-tensors: one caller reaches 99% of the peak; beyond that more bring no more."
    ]


def test_which_mode_brings_most() -> None:
    for device, said in [
        (
            200,
            "device-tensors brings most: 200 runs/s with 1 caller, 2.00 times cpu-tensors' most (95 %: 1.97 to 2.03), which is 100 with 1 caller.",
        ),
        (101, "No mode brings measurably more runs/s than cpu-tensors."),
        (99.5, "No mode brings measurably more runs/s than cpu-tensors."),
        (50, "cpu-tensors brings most: 100 runs/s with 1 caller."),
    ]:
        assert load_sentences(
            load_result(closed("cpu-tensors", 1, 100, 10.0), closed("device-tensors", 1, device, 5.0))
        ) == [said]


def test_which_mode_brings_most_without_cpu() -> None:
    one = closed("device-tensors", 1, 100, 10.0)
    said = "device-tensors brings most: 100 runs/s with 1 caller"
    assert load_sentences(load_result(one, closed("device-resident", 1, 50, 5.0))) == [f"{said}."]
    assert load_sentences(load_result(one, closed("device-resident", 1, 99.5, 5.0))) == [f"{said}, not measurably so."]


def test_waiting_for_the_lock_is_said_where_it_is_most() -> None:
    levels = [closed("cpu-tensors", 1, 100, 1.0, gil_wait=0.02), closed("cpu-tensors", 8, 105, 8.0, gil_wait=0.12)]
    assert load_sentences(load_result(*levels))[-1] == (
        "cpu-tensors: callers waited for Python's lock 12% of the time with 8 callers: --sessions process shows what the EP can do."
    )
    quiet = [closed("cpu-tensors", 1, 100, 1.0, gil_wait=0.03), closed("cpu-tensors", 8, 105, 8.0, gil_wait=None)]
    assert "lock" not in " ".join(load_sentences(load_result(*quiet)))


def test_callers_that_are_not_served_alike() -> None:
    result = load_result(closed("cpu-tensors", 1, 100, 1.0), closed("cpu-tensors", 8, 105, 8.0, fairness=0.72))
    assert load_sentences(result)[-1] == (
        "cpu-tensors: callers are not served alike with 8 callers (Jain's index 0.72): as if 5.8 of 8 had shared the runs."
    )
    fair = load_result(closed("cpu-tensors", 1, 100, 1.0), closed("cpu-tensors", 8, 105, 8.0, fairness=0.95))
    assert "alike" not in " ".join(load_sentences(fair))


def test_slow_inferences_at_a_low_rate() -> None:
    for p50_ms, said in [(3.3, False), (3.5, True)]:
        alone = measured("cpu-tensors", latency=steady([3 * MS] * 8))
        result = load_result(opened("cpu-tensors", 30, p50_ms), alone=[alone])
        found = [
            "cpu-tensors: at 30 a second an inference takes 1.1 times as long as back to back (3.40 ms, not 3.00 ms)."
        ]
        assert load_sentences(result) == (found if said else [])


def rated(**found: Any) -> Result:
    return load_result(
        opened("cpu-tensors", 10, 5.0), opened("device-tensors", 10, 4.0), slo={"p99": 20 * MS}, found=found
    )


def test_the_highest_rate_that_keeps_the_slo() -> None:
    result = rated(**{"cpu-tensors": None, "device-tensors": {"rate": 210.0, "ci95": [205.0, 216.0]}})
    assert load_sentences(result) == [
        "cpu-tensors keeps p99 ≤ 20 ms at none of the rates that were tried.",
        "device-tensors keeps p99 ≤ 20 ms up to 210 a second (95 %: 205 to 216).",
    ]
    assert load_headline(result) == "device-tensors keeps p99 ≤ 20 ms up to 210 a second"


def test_an_slo_that_no_rate_keeps_and_one_that_all_do() -> None:
    levels = [opened("cpu-tensors", rate, 5.0, 30.0) for rate in (10, 20, 30)]
    assert load_sentences(load_result(*levels, slo={"p99": 20 * MS})) == [
        "cpu-tensors does not keep p99 ≤ 20 ms at 10, 20 and 30 a second (p99 30.0 ms)."
    ]
    assert load_sentences(load_result(*levels, slo={"p99": 30 * MS, "mean": 6 * MS})) == [
        "cpu-tensors keeps p99 ≤ 30 ms and mean ≤ 6 ms at 10, 20 and 30 a second."
    ]


def test_a_few_late_requests_are_not_worth_a_sentence() -> None:
    assert load_sentences(load_result(opened("cpu-tensors", 30, 5.0, late_share=0.0009))) == []


def test_nothing_and_little() -> None:
    assert load_headline(load_result(failed_level(closed("cpu-tensors", 1, 1, 1.0)))) == "Nothing was measured"
    assert load_sentences(load_result(failed_level(closed("cpu-tensors", 1, 1, 1.0)))) == []
    assert load_headline(load_result(closed("cpu-tensors", 4, 100, 1.0))) == "100 runs/s with 4 callers (cpu-tensors)"
    assert (
        load_headline(load_result(opened("cpu-tensors", 90, 900.0, utilisation=1.0)))
        == "Requests come faster than they are served"
    )
    assert slo_text({"p99": 1_500_000}) == "p99 ≤ 1.5 ms"
