"""Meters, and how they are read, with a clock that goes on only while somebody sleeps."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ortbench.core.errors import Unsupported
from ortbench.features.energy.measure import Recorder, counter, meter_for, power, rapl
from ortbench.measure import gpus
from tests.expect import refusal
from tests.measure.stand_ins import file_system, nvml, refuse
from tests.results import nvidia_result, result_of

S = 1_000_000_000


def counting(joules: Callable[[], float]) -> Any:
    """A GPU with an energy counter."""
    return nvml(TotalEnergyConsumption=lambda _: joules() * 1000)


class Clock:
    """A clock that stands still but for sleeps."""

    def __init__(self) -> None:
        self.ns = 5 * S

    def __call__(self) -> int:
        return self.ns

    def sleep(self, seconds: float) -> None:
        self.ns += round(seconds * S)


def recorder(clock: Clock, watts: float, step_s: float) -> Recorder:
    """What reads a counter that moves in steps."""
    meter = counter(counting(lambda: int(clock.ns / S / step_s) * step_s * watts), 0, 0)
    return Recorder(meter, clock, clock.sleep)


def test_a_counter_is_read_from_step_to_step() -> None:
    clock = Clock()
    made = recorder(clock, 100, 0.05)
    found = made.record(1.0)
    # From when it has settled on, each step when it was first seen, a poll late at most.
    assert [at / S for at, _ in found[:3]] == pytest.approx([5.3, 5.35, 5.4], abs=1.01 * made.meter.poll_s)
    assert [joules for _, joules in found[:3]] == pytest.approx([530, 535, 540])
    assert len(found) == 20


def test_idle_time_lasts_until_the_counter_has_moved_often_enough_to_tell() -> None:
    made, clock = recorder(Clock(), 20, 0.5), Clock()
    parts = made.idle()
    assert [[round(x, 2) for x in part] for part in parts] == [[0.5, 10.0]] * 3
    assert made.step_s == pytest.approx(0.5, abs=0.003)
    # So that a stretch has two steps for each part.
    assert made.stretch_s(0.01) == pytest.approx(8.0, abs=0.05)
    assert recorder(clock, 0, 0.5).idle() == []  # one that never moves is not waited for for ever
    assert clock.ns / S == pytest.approx(5 + 10 + 0.3, abs=0.01)


@pytest.mark.parametrize(("call_s", "seconds"), [(1e-6, 2.0), (0.5, 4.0), (10.0, 30.0), (60.0, 120.0)])
def test_a_stretch_has_a_run_for_each_part_unless_that_is_too_long(call_s: float, seconds: float) -> None:
    assert recorder(Clock(), 20, 0.02).stretch_s(call_s) == seconds


def test_without_a_counter_power_is_integrated() -> None:
    clock = Clock()
    watts = iter([100.0, 100.0, 200.0, 50.0])
    meter = power(nvml(PowerUsage=lambda _: next(watts) * 1000), 0, 0, lambda: clock.ns / S)
    sums = []
    for _ in range(3):
        clock.sleep(1)
        sums.append(meter.joules())
    assert sums == [100.0, 250.0, 375.0]


COUNTER, TARGET = counting(lambda: 1.0), nvidia_result().target
BUS = {"type": "GPU", "vendor_id": 0x10DE, "metadata": {"pci_bus_id": "0000:c1:00.0"}}
ON_BUS = nvidia_result(device=BUS).target


def buses(*names: str) -> Any:
    """A GPU on each bus."""
    return nvml(
        len(names),
        HandleByPciBusId=lambda bus: names.index(bus) if bus in names else refuse(),
        Index=lambda handle: handle,
    )


def test_the_meter_is_the_counter_else_the_power_of_the_card_on_the_devices_bus() -> None:
    assert meter_for(TARGET, COUNTER).how == "counter"
    assert meter_for(TARGET, nvml(PowerUsage=lambda _: 1000)).how == "power"
    assert gpus.card_of(ON_BUS, buses("0000:01:00.0", "0000:c1:00.0")) == 1


@pytest.mark.parametrize(
    ("find", "target", "library", "said"),
    [
        (meter_for, TARGET, nvml(), "GPU 0 tells neither its energy nor its power: Not Supported"),
        (meter_for, result_of().target, COUNTER, "the device of SomeExecutionProvider is no NVIDIA GPU"),
        (meter_for, TARGET, None, "NVML, which tells of NVIDIA GPUs, cannot be opened here"),
        (gpus.card_of, TARGET, buses("0000:01:00.0", "0000:c1:00.0"), "there are 2 NVIDIA GPUs, and ONNX Runtime does not say which one it uses"),
        (gpus.card_of, ON_BUS, buses("0000:01:00.0", "0000:02:00.0"), "NVML has no GPU on the bus of the device, 0000:c1:00.0"),
    ],
)  # fmt: skip
def test_without_a_meter_it_says_why(find: Callable[..., object], target: Any, library: Any, said: str) -> None:
    assert refusal(Unsupported, find, target, library) == said


def zone(root: Path, name: str, what: str, energy: int) -> Path:
    files = {"name": what, "max_energy_range_uj": "1000000", "energy_uj": str(energy)}
    return file_system(root / "sys/class/powercap" / name, files) / "energy_uj"


def test_the_packages_are_counted_and_a_counter_that_wraps_goes_on(tmp_path: Path) -> None:
    one = zone(tmp_path, "intel-rapl:0", "package-0", 100)
    two = zone(tmp_path, "intel-rapl:1", "package-1", 999_000)
    zone(tmp_path, "intel-rapl:0:0", "core", 50)  # a part of a package
    zone(tmp_path, "intel-rapl:2", "psys", 5)  # which has the packages in it
    meter = rapl(tmp_path)
    assert meter.joules() == 0
    one.write_text("500100")
    assert meter.joules() == pytest.approx(0.5)
    two.write_text("499")
    assert meter.joules() == pytest.approx(0.5015)


def test_a_cpu_without_counters_and_one_whose_counters_only_root_may_read(tmp_path: Path) -> None:
    assert refusal(Unsupported, rapl, tmp_path) == "this CPU has no energy counter (RAPL) in /sys/class/powercap"
    file = zone(tmp_path, "intel-rapl:0", "package-0", 1)
    file.unlink()
    file.mkdir()  # root may read every file
    why = "/sys/class/powercap/intel-rapl:0/energy_uj cannot be read: Is a directory; root may read it"
    assert refusal(Unsupported, rapl, tmp_path) == why
