"""What NVML's readings and processes become, with a stand-in for its library: this needs a card to be seen for real."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ortbench.measure import gpus
from ortbench.measure.gpus import OF_THE_CARD, OF_THE_PROCESS, Card, held_by_process, read_cards
from ortbench.model.schema import GpuReading
from tests.measure.stand_ins import nvml, refuse

TENTH_NS = 100_000_000


@pytest.mark.parametrize(
    ("before", "after", "pid", "held"),
    [
        ([Card(100, {7: 50}), Card(0, {})], [Card(400, {7: 50, 9: 200}), Card(30, {9: 30})], 9, (230, OF_THE_PROCESS)),
        ([Card(100, {7: 50}), Card(60, {})], [Card(400, {7: 300}), Card(50, {})], 9, (300, OF_THE_CARD)),
        ([Card(100, {7: 50}), Card(60, {})], [Card(400, {7: 300}), Card(50, {})], 7, (300, OF_THE_CARD)),  # another's id before
        ([Card(0, {})], [Card(5, {9: None})], 9, (5, OF_THE_CARD)),
        ([], [], 9, (None, "NVML tells nothing of the device")),
    ],
)  # fmt: skip
def test_what_a_process_holds_on_all_cards(
    before: list[Card], after: list[Card], pid: int, held: tuple[int | None, str]
) -> None:
    assert held_by_process(before, after, pid) == held


def test_cards_are_read_as_far_as_they_tell() -> None:
    def older(_: int) -> None:
        raise RuntimeError("the driver is older than the package")

    processes = [SimpleNamespace(pid=1, usedGpuMemory=4), SimpleNamespace(pid=2, usedGpuMemory=None)]
    library = nvml(
        MemoryInfo=lambda _: SimpleNamespace(used=10),
        ComputeRunningProcesses=lambda _: processes,
        GraphicsRunningProcesses=older,
    )
    assert read_cards(library) == [Card(10, {1: 4, 2: None})]


def watch_of(script: list[dict[str, Any]], tenths: Sequence[float]) -> gpus.Watch:
    """A watch of a GPU whose readings are written down, on a scripted clock."""
    readings, times, state = iter(script), iter(tenths), dict[str, Any]()

    def get(key: str) -> Any:
        return state[key] if key in state else refuse()

    def clock(_: int, kind: int) -> Any:
        if kind == 1:
            state.clear()
            state.update(next(readings))
        return get("sm_mhz" if kind == 1 else "memory_mhz")

    library = nvml(
        ClockInfo=clock,
        Temperature=lambda *_: get("temperature_c"),
        PowerUsage=lambda _: get("power_mw"),
        CurrentClocksThrottleReasons=lambda _: get("reasons"),
    )
    return gpus.Watch(library, lambda: round(next(times) * TENTH_NS))


def test_readings_are_taken_once_a_second_and_hold_what_the_card_tells() -> None:
    """Also the first, where a load waits for its clients before anything has asked for one."""
    full = {"sm_mhz": 1980, "memory_mhz": 3201, "temperature_c": 40, "power_mw": 312_500, "reasons": 0}
    watch = watch_of([full, {"sm_mhz": 1965}], [0, 2, 5, 14.5])
    for _ in range(3):
        watch.look()
    watch.close()
    first = {"sm_mhz": 1980, "memory_mhz": 3201, "temperature_c": 40, "power_w": 312.5, "reasons": 0}
    assert watch.readings == [
        {"at_s": 0.2, "at_ns": 200_000_000, "gpu": 0, **first},
        {"at_s": 1.45, "at_ns": 1_450_000_000, "gpu": 0, "sm_mhz": 1965},
    ]


def test_between_readings_only_what_changes_is_kept_with_the_time_of_the_change() -> None:
    """A look each 0.2 s, of which the fourth finds the card held back; idle or not is no change."""
    tenths = iter([0, 0, 2, 4, 6, 8, 9])
    reasons = [0]
    library = nvml(ClockInfo=lambda *_: 1980, CurrentClocksThrottleReasons=lambda _: reasons[-1])
    watch = gpus.Watch(library, lambda: next(tenths) * TENTH_NS)
    watch.look(now=True)
    for found_then in (1, 0, 0x40, 0x41, 0x40):
        reasons.append(found_then)
        watch.look()
    found = [(it["at_s"], it["reasons"], it.get("sm_mhz")) for it in watch.readings]
    assert found == [(0.0, 0, 1980), (0.4, 0, None), (0.6, 0x40, 1980)]


def test_readings_are_taken_while_blocks_last_where_there_are_blocks() -> None:
    """Due each second: in the next block, else, a second later, between two."""
    watch = watch_of([{"sm_mhz": 345}, {"sm_mhz": 1980}, {"sm_mhz": 1965}], [0, 0, 9, 11, 11, 15, 22, 31])
    watch.look(now=True)
    assert [watch.is_due, watch.is_due] == [False, True]
    watch.look_inside()
    for _ in range(3):
        watch.look(between=True)
    found = [(it["at_s"], it.get("sm_mhz"), it.get("in_block", False)) for it in watch.readings]
    assert found == [(0.0, 345, False), (1.1, 1980, True), (3.1, 1965, False)]


def reading(gpu: int = 0, **state: int) -> GpuReading:
    return cast(GpuReading, {"at_s": 0.0, "gpu": gpu, **state})


CAP, GROUP, HOT = 0x04, 0x10, 0x40
SLOWED = "GPU 0: it was slowed down by the power cap, another GPU of its boost group, its temperature (hardware) in 75% of the readings"


@pytest.mark.parametrize(
    ("readings", "said"),
    [
        ([], []),
        ([reading(sm_mhz=1980), reading(sm_mhz=1900)], []),  # within 5 %
        ([reading(sm_mhz=1980), reading(sm_mhz=345, reasons=1)], []),  # idle: between runs, not in one
        ([reading(sm_mhz=345), reading(sm_mhz=1980, in_block=True), reading(sm_mhz=405)], []),  # likewise
        ([reading(sm_mhz=1980), reading(sm_mhz=1400), reading(gpu=1, memory_mhz=3201)], ["GPU 0: its SM clock moved between 1400 and 1980 MHz"]),
        ([reading(reasons=HOT | CAP), reading(reasons=0), reading(reasons=CAP), reading(reasons=GROUP)], [SLOWED]),
    ],
)  # fmt: skip
def test_what_moved_is_said(readings: list[GpuReading], said: list[str]) -> None:
    assert gpus.what_moved(readings) == said
