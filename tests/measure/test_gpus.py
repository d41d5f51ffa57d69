"""What is said about NVIDIA GPUs, with a stand-in for NVML's library: this needs a card to be seen for real."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from ortbench.measure import gpus
from ortbench.model.schema import GpuReading


class NvmlError(Exception):
    """pynvml's NVMLError."""


def nvml(script: list[dict[str, Any]]) -> SimpleNamespace:
    """A library with one GPU whose readings are written down; a missing one is refused, as NVML does."""
    readings = iter(script)
    state: dict[str, Any] = {}

    def count() -> int:
        return 1

    def handle(index: int) -> str:
        return f"gpu{index}"

    def clock(_: str, kind: int) -> Any:
        if kind == 1:
            state.clear()
            state.update(next(readings))
        return get("sm_mhz" if kind == 1 else "memory_mhz")

    def get(key: str) -> Any:
        if key not in state:
            raise NvmlError("not supported")
        return state[key]

    return SimpleNamespace(
        NVMLError=NvmlError,
        NVML_CLOCK_SM=1,
        NVML_CLOCK_MEM=2,
        NVML_TEMPERATURE_GPU=0,
        nvmlDeviceGetCount=count,
        nvmlDeviceGetHandleByIndex=handle,
        nvmlDeviceGetClockInfo=clock,
        nvmlDeviceGetTemperature=lambda *_: get("temperature_c"),
        nvmlDeviceGetPowerUsage=lambda _: get("power_mw"),
        nvmlDeviceGetCurrentClocksThrottleReasons=lambda _: get("reasons"),
        nvmlShutdown=lambda: None,
    )


def test_readings_are_taken_once_a_second_and_hold_what_the_card_tells() -> None:
    times = iter([0, 0, 500_000_000, 1_250_000_000])
    full = {"sm_mhz": 1980, "memory_mhz": 3201, "temperature_c": 40, "power_mw": 312_500, "reasons": 0}
    watch = gpus.Watch(nvml([full, {"sm_mhz": 1965}]), lambda: next(times))
    watch.look(now=True)
    watch.look()
    watch.look()
    watch.close()
    first = {"sm_mhz": 1980, "memory_mhz": 3201, "temperature_c": 40, "power_w": 312.5, "reasons": 0}
    assert watch.readings == [
        {"at_s": 0.0, "at_ns": 0, "gpu": 0, **first},
        {"at_s": 1.25, "at_ns": 1_250_000_000, "gpu": 0, "sm_mhz": 1965},
    ]


def test_between_readings_only_what_changes_is_kept_with_the_time_of_the_change() -> None:
    """A look each 0.2 s, of which the fourth finds the card held back; idle or not is no change."""
    tenths = iter([0, 0, 2, 4, 6, 8, 9])
    state = {"sm_mhz": 1980, "reasons": 0}
    card = nvml([])
    card.nvmlDeviceGetClockInfo = lambda _, kind: state["sm_mhz"]
    card.nvmlDeviceGetCurrentClocksThrottleReasons = lambda _: state["reasons"]
    watch = gpus.Watch(card, lambda: next(tenths) * 100_000_000)
    watch.look(now=True)
    for reasons in (1, 0, 0x40, 0x41, 0x40):
        state["reasons"] = reasons
        watch.look()
    assert [(it["at_s"], it["reasons"], it.get("sm_mhz")) for it in watch.readings] == [
        (0.0, 0, 1980),
        (0.4, 0, None),
        (0.6, 0x40, 1980),
    ]


def test_a_first_look_within_a_second_is_a_reading() -> None:
    """As where a load waits for its clients before anything has asked for a reading."""
    tenths = iter([0, 2])
    watch = gpus.Watch(nvml([{"sm_mhz": 1980, "reasons": 0}]), lambda: next(tenths) * 100_000_000)
    watch.look()
    assert watch.readings == [{"at_s": 0.2, "at_ns": 200_000_000, "gpu": 0, "sm_mhz": 1980, "reasons": 0}]


def test_readings_are_taken_while_blocks_last_where_there_are_blocks() -> None:
    """Due each second: in the next block, else, a second later, between two."""
    tenths = iter([0, 0, 9, 11, 11, 15, 22, 31])
    watch = gpus.Watch(nvml([{"sm_mhz": 345}, {"sm_mhz": 1980}, {"sm_mhz": 1965}]), lambda: next(tenths) * 100_000_000)
    watch.look(now=True)
    assert [watch.is_due, watch.is_due] == [False, True]
    watch.look_inside()
    watch.look(between=True)
    watch.look(between=True)
    watch.look(between=True)
    found = [(it["at_s"], it.get("sm_mhz"), it.get("in_block", False)) for it in watch.readings]
    assert found == [(0.0, 345, False), (1.1, 1980, True), (3.1, 1965, False)]


def test_without_a_card_there_is_nothing_to_read() -> None:
    broken = nvml([])

    def refuse() -> int:
        raise NvmlError("driver not loaded")

    broken.nvmlDeviceGetCount = refuse
    watch = gpus.Watch(broken)
    watch.look(now=True)
    assert watch.readings == []


def reading(gpu: int = 0, **state: int) -> GpuReading:
    return cast(GpuReading, {"at_s": 0.0, "gpu": gpu, **state})


@pytest.mark.parametrize(
    ("readings", "said"),
    [
        ([], []),
        ([reading(sm_mhz=1980, memory_mhz=3201, reasons=0)] * 3, []),
        ([reading(sm_mhz=1980), reading(sm_mhz=1900)], []),  # within 5 %
        ([reading(sm_mhz=1980), reading(sm_mhz=345, reasons=1)], []),  # idle: between runs, not in one
        ([reading(sm_mhz=345), reading(sm_mhz=1980, in_block=True), reading(sm_mhz=405)], []),  # likewise
        (
            [reading(sm_mhz=1980), reading(sm_mhz=1400), reading(gpu=1, memory_mhz=3201)],
            ["GPU 0: its SM clock moved between 1400 and 1980 MHz"],
        ),
        (
            [reading(reasons=0x40 | 0x04), reading(reasons=0), reading(reasons=0x04), reading(reasons=0x10)],
            [
                "GPU 0: it was slowed down by the power cap, another GPU of its boost group, its temperature (hardware) in 75% of the readings"
            ],
        ),
    ],
)
def test_what_moved_is_said(readings: list[GpuReading], said: list[str]) -> None:
    assert gpus.what_moved(readings) == said
