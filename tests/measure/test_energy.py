"""Meters, and how they are read, with a clock that goes on only while somebody sleeps."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ortbench.core.errors import Unsupported
from ortbench.features.energy.measure import Recorder, counter, meter_for, power, rapl
from ortbench.measure import gpus
from tests.results import nvidia_result, result_of

S = 1_000_000_000


class NvmlError(Exception):
    """pynvml's NVMLError."""


def refuse(*_: Any) -> Any:
    raise NvmlError("Not Supported")


def nvml(
    joules: Callable[[], float] = refuse, watts: Callable[[], float] = refuse, buses: tuple[str, ...] = ("",)
) -> Any:
    return SimpleNamespace(
        NVMLError=NvmlError,
        nvmlDeviceGetCount=lambda: len(buses),
        nvmlDeviceGetHandleByIndex=lambda index: index,
        nvmlDeviceGetHandleByPciBusId=lambda bus: buses.index(bus) if bus in buses else refuse(),
        nvmlDeviceGetIndex=lambda handle: handle,
        nvmlDeviceGetTotalEnergyConsumption=lambda _: joules() * 1000,
        nvmlDeviceGetPowerUsage=lambda _: watts() * 1000,
    )


class Clock:
    """A clock that stands still but for sleeps."""

    def __init__(self) -> None:
        self.ns = 5 * S

    def __call__(self) -> int:
        return self.ns

    def sleep(self, seconds: float) -> None:
        self.ns += round(seconds * S)


def stepping(clock: Clock, watts: float, step_s: float) -> Callable[[], float]:
    return lambda: int(clock.ns / S / step_s) * step_s * watts


def test_a_counter_is_read_from_step_to_step() -> None:
    clock = Clock()
    meter = counter(nvml(stepping(clock, 100, 0.05)), 0, 0)
    found = Recorder(meter, clock, clock.sleep).record(1.0)
    # From when it has settled on, each step when it was first seen, a poll late at most.
    assert [at / S for at, _ in found[:3]] == pytest.approx([5.3, 5.35, 5.4], abs=1.01 * meter.poll_s)
    assert [joules for _, joules in found[:3]] == pytest.approx([530, 535, 540])
    assert len(found) == 20


def test_idle_time_lasts_until_the_counter_has_moved_often_enough_to_tell() -> None:
    clock = Clock()
    recorder = Recorder(counter(nvml(stepping(clock, 20, 0.5)), 0, 0), clock, clock.sleep)
    parts = recorder.idle()
    assert [[round(x, 2) for x in part] for part in parts] == [[0.5, 10.0]] * 3
    assert recorder.step_s == pytest.approx(0.5, abs=0.003)
    # So that a stretch has two steps for each part.
    assert recorder.stretch_s(0.01) == pytest.approx(8.0, abs=0.05)


def test_a_counter_that_never_moves_is_not_waited_for_for_ever() -> None:
    clock = Clock()
    assert Recorder(counter(nvml(lambda: 7.0), 0, 0), clock, clock.sleep).idle() == []
    assert clock.ns / S == pytest.approx(5 + 10 + 0.3, abs=0.01)


@pytest.mark.parametrize(("call_s", "seconds"), [(1e-6, 2.0), (0.5, 4.0), (10.0, 30.0), (60.0, 120.0)])
def test_a_stretch_has_a_run_for_each_part_unless_that_is_too_long(call_s: float, seconds: float) -> None:
    clock = Clock()
    assert Recorder(counter(nvml(stepping(clock, 20, 0.02)), 0, 0), clock, clock.sleep).stretch_s(call_s) == seconds


def test_without_a_counter_power_is_integrated() -> None:
    clock = Clock()
    watts = iter([100.0, 100.0, 200.0, 50.0])
    meter = power(nvml(watts=lambda: next(watts)), 0, 0, lambda: clock.ns / S)
    sums = []
    for _ in range(3):
        clock.sleep(1)
        sums.append(meter.joules())
    assert sums == [100.0, 250.0, 375.0]


def test_a_card_without_a_counter_has_its_power_read_and_one_without_either_says_so() -> None:
    target = nvidia_result().target
    assert meter_for(target, nvml(joules=lambda: 1.0)).how == "counter"
    assert meter_for(target, nvml(watts=lambda: 1.0)).how == "power"
    with pytest.raises(Unsupported, match=r"^GPU 0 tells neither its energy nor its power: Not Supported$"):
        meter_for(target, nvml())


def test_what_is_no_card_of_nvidias_has_none() -> None:
    with pytest.raises(Unsupported, match=r"^the device of SomeExecutionProvider is no NVIDIA GPU$"):
        meter_for(result_of().target, nvml(joules=lambda: 1.0))
    with pytest.raises(Unsupported, match=r"^NVML, which tells of NVIDIA GPUs, cannot be opened here$"):
        meter_for(nvidia_result().target, None)


def test_of_several_cards_it_is_the_one_on_the_devices_bus() -> None:
    two = nvml(joules=lambda: 1.0, buses=("0000:01:00.0", "0000:c1:00.0"))
    target = nvidia_result(
        device={"type": "GPU", "vendor_id": 0x10DE, "metadata": {"pci_bus_id": "0000:c1:00.0"}}
    ).target
    assert gpus.card_of(target, two) == 1
    with pytest.raises(
        Unsupported, match=r"^there are 2 NVIDIA GPUs, and ONNX Runtime does not say which one it uses$"
    ):
        gpus.card_of(nvidia_result().target, two)
    with pytest.raises(Unsupported, match=r"^NVML has no GPU on the bus of the device, 0000:c1:00.0$"):
        gpus.card_of(target, nvml(buses=("0000:01:00.0", "0000:02:00.0")))


# RAPL


def zone(root: Path, name: str, what: str, energy: int, most: int = 1_000_000) -> Path:
    folder = root / "sys/class/powercap" / name
    folder.mkdir(parents=True)
    (folder / "name").write_text(what)
    (folder / "max_energy_range_uj").write_text(str(most))
    (folder / "energy_uj").write_text(str(energy))
    return folder / "energy_uj"


def test_the_packages_are_counted_and_a_counter_that_wraps_goes_on(tmp_path: Path) -> None:
    one, two = (
        zone(tmp_path, "intel-rapl:0", "package-0\n", 100),
        zone(tmp_path, "intel-rapl:1", "package-1\n", 999_000),
    )
    zone(tmp_path, "intel-rapl:0:0", "core\n", 50)  # a part of a package
    zone(tmp_path, "intel-rapl:2", "psys\n", 5)  # which has the packages in it
    meter = rapl(tmp_path)
    assert meter.joules() == 0
    one.write_text("500100")
    assert meter.joules() == pytest.approx(0.5)
    two.write_text("499")
    assert meter.joules() == pytest.approx(0.5015)


def test_a_cpu_without_counters_and_one_whose_counters_only_root_may_read(tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match=r"^this CPU has no energy counter \(RAPL\) in /sys/class/powercap$"):
        rapl(tmp_path)
    file = zone(tmp_path, "intel-rapl:0", "package-0", 1)
    file.unlink()
    file.mkdir()  # root may read every file
    with pytest.raises(
        Unsupported,
        match=r"^/sys/class/powercap/intel-rapl:0/energy_uj cannot be read: Is a directory; root may read it$",
    ):
        rapl(tmp_path)
