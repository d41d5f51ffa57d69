"""What is said of a loop: its headline and its sentences, of made-up results whose figures are known."""

from __future__ import annotations

from ortbench.analysis.findings import advice
from ortbench.analysis.findings.advice import headline
from ortbench.model.modes import SHARED
from ortbench.model.result import Result
from tests.results import MS, US, decoding, loop_case, loop_result


def sentences(result: Result) -> list[str]:
    """What is said of a loop, but for the command at its end, of which tests/report/test_programs.py has more."""
    said = advice.sentences(result)
    return said[:-1] if said and said[-1].startswith("The program that does so: ortbench code ") else said


GROWING = [
    "device-resident is 2.07 times as fast as cpu-tensors (95 %: 2.00 to 2.10): 23.0 kB of state a step on average, in and out "
    "together, stay where they are. That saves ≈535 µs a step, ≈52% of it.",
    "A step of device-resident still copies 100 B in and 100 B out that are no state: --resident IN (an input that is the same "
    "in all steps) and --keep OUT (an output that the host needs after the last step only) leave them there.",
    "Each step takes longer than the one before it, as the state grows by 1.00 kB: by 10.0 µs with cpu-tensors; with device-resident "
    "no growth can be told from noise.",
]


def fixed(ratio: tuple[float, ...], resident: int = 500 * US, kept: int = 0) -> Result:
    """A loop of 4 steps of 1 ms with `cpu-tensors`, whose state of 40 kB has always the same shape."""
    return loop_result(
        loop_case("cpu-tensors", [1 * MS] * 4, (1.0, 1.0, 1.0), 40_000, 40_000),
        loop_case("device-resident", [resident] * 4, ratio, 0, kept),
    )


def test_state_that_grows_and_what_it_costs() -> None:
    assert sentences(decoding()) == GROWING
    assert headline(decoding()) == "A loop is faster with its state on the device: 2.07 times as fast"
    found = sentences(decoding(first=True))
    assert found[1:3] == GROWING[1:]  # it is no part of what each step adds
    assert found[3] == (
        "The first step (sequence=5) takes 2.00 ms (a later one 1.04 ms) with cpu-tensors, 2.00 ms (a later one 500 µs) with "
        "device-resident."
    )


def test_state_of_one_shape() -> None:
    for ratio, said, first in [
        (
            (2.0, 1.9, 2.1),
            "device-resident is 2.00 times as fast as cpu-tensors (95 %: 1.90 to 2.10): 80.0 kB of state a step, in and out together, "
            "stay where they are. That saves ≈500 µs a step, ≈50% of it.",
            "A loop is faster with its state on the device: 2.00 times as fast",
        ),
        (
            (1.01, 0.98, 1.04),
            "device-resident is 1.01 times as fast as cpu-tensors (95 %: 0.98 to 1.04): no difference can be told from noise.",
            "Whether state on the device makes a loop faster cannot be told from noise",
        ),
        (
            (0.8, 0.75, 0.85),
            "device-resident is 0.80 times as fast as cpu-tensors (95 %: 0.75 to 0.85): keeping the state on the device does not pay "
            "here.",
            "A loop is not faster with its state on the device: 0.80 times as fast",
        ),
        (
            (2.0,),
            "device-resident is 2.00 times as fast as cpu-tensors; too few blocks for an interval: measure it again, a run has 9 or "
            "more now.",
            "2000 steps a second with device-resident",
        ),
    ]:
        assert sentences(fixed(ratio)) == [said]
        assert headline(fixed(ratio)) == first


def test_other_modes_and_other_copies() -> None:
    for took, said in [(250 * US, "2.00 times as fast."), (500 * US, "no difference can be told from noise.")]:
        result = fixed((2.0, 1.9, 2.1))
        result.cases.append(loop_case(SHARED.name, [took] * 4, (4.0, 3.9, 4.1)))
        assert sentences(result)[-1] == (
            f"One buffer for past and present (shared) instead of two in turns (device-resident): {said}"
        )
    result = fixed((2.0, 1.9, 2.1))
    copied = result.cases[1].step_bytes
    assert copied is not None
    copied["step_d2h"] = 300
    assert sentences(result)[1] == (
        "A step of device-resident still copies 300 B out that are no state: --keep OUT (an output that the host needs after "
        "the last step only) leaves them there."
    )
    alone = loop_result(loop_case("device-resident", [500 * US] * 4))
    assert headline(alone) == "2000 steps a second with device-resident"
    assert sentences(alone) == []
    assert headline(loop_result()) == "Nothing was measured"
    result = fixed((2.0, 1.9, 2.1), kept=100)
    result.target["memory"] = {"kind": "host", "default": "Cpu", "host_accessible": None}
    assert sentences(result) == [
        "SomeExecutionProvider computes in host memory: no state crosses to a device. The other modes are IO binding, so the "
        "differences show the cost of calls and of allocating outputs, not of a transfer."
    ]
    assert headline(result) == "SomeExecutionProvider computes in host memory: no state crosses to a device"
