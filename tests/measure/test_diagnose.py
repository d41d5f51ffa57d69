"""The facts that a machine gives: read from folders and a library that stand in for those of other machines."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace

import pytest

from ortbench.features.doctor import measure as diagnose
from ortbench.features.doctor.measure import apart
from ortbench.measure import environment, gpus
from ortbench.model.result import FAILED, Result
from tests.expect import there
from tests.measure.stand_ins import file_system, nvml, refuse
from tests.results import measured, result_of, steady

CPUS = "sys/devices/system/cpu"
GROUPS = "sys/fs/cgroup"


@pytest.mark.parametrize(
    ("files", "limit"),
    [
        ({}, None),
        ({"proc/self/cgroup": "0::/", f"{GROUPS}/cpu.max": "150000 100000"}, 1.5),
        (  # the tightest of a group and those around it
            {"proc/self/cgroup": "0::/a/b", f"{GROUPS}/a/cpu.max": "50000 100000", f"{GROUPS}/a/b/cpu.max": "max 100000"},
            0.5,
        ),
        ({"proc/self/cgroup": "0::/host/path", f"{GROUPS}/cpu.max": "400000 100000"}, 4.0),  # as in a container
        (
            {
                "proc/self/cgroup": "3:cpuset:/\n2:cpu,cpuacct:/docker/1",
                f"{GROUPS}/cpu,cpuacct/docker/1/cpu.cfs_quota_us": "200000",
                f"{GROUPS}/cpu,cpuacct/docker/1/cpu.cfs_period_us": "100000",
            },
            2.0,
        ),
    ],
)  # fmt: skip
def test_the_limit_of_a_container(files: Mapping[str, str], limit: float | None, tmp_path: Path) -> None:
    assert environment.core_limit(file_system(tmp_path, files)) == limit


@pytest.mark.parametrize(
    ("files", "is_on"),
    [
        ({}, None),
        ({f"{CPUS}/intel_pstate/no_turbo": "0"}, True),
        ({f"{CPUS}/intel_pstate/no_turbo": "1"}, False),
        ({f"{CPUS}/cpufreq/boost": "1"}, True),
        ({f"{CPUS}/cpufreq/boost": "0"}, False),
    ],
)
def test_turbo(files: Mapping[str, str], is_on: bool | None, tmp_path: Path) -> None:
    assert diagnose.turbo(file_system(tmp_path, files)) is is_on


def test_the_governors_of_all_cores_and_threads_of_one_core(tmp_path: Path) -> None:
    names = ["powersave", "performance", "powersave", "powersave"]
    files = {f"{CPUS}/cpu{core}/cpufreq/scaling_governor": name for core, name in enumerate(names)}
    files |= {f"{CPUS}/cpu{it}/topology/thread_siblings_list": f"{it % 2},{it % 2 + 2}" for it in range(4)}
    root = file_system(tmp_path, files)
    assert environment.governors(root) == {"performance": 1, "powersave": 3}
    assert (environment.physical_cores(root), environment.physical_cores(tmp_path / "none")) == (2, None)


def test_a_card_that_tells_all() -> None:
    process = SimpleNamespace(pid=2**22 + 1, usedGpuMemory=1_000_000)  # beyond Linux's largest: there is none
    library = nvml(
        Name=lambda _: "NVIDIA H200",
        PersistenceMode=lambda _: 0,
        ClockInfo=lambda _, kind: {1: 345, 2: 3201}[kind],
        MaxClockInfo=lambda _, kind: {1: 1980, 2: 3202}[kind],
        EnforcedPowerLimit=lambda _: 500_000,
        PowerManagementDefaultLimit=lambda _: 700_000,
        UtilizationRates=lambda _: SimpleNamespace(gpu=25),
        CurrentClocksThrottleReasons=lambda _: 0x04 | 0x01,
        ComputeRunningProcesses=lambda _: [process],
        GraphicsRunningProcesses=lambda _: [process],
    )
    card = {
        "name": "NVIDIA H200", "persistence": False, "sm_mhz": 345, "sm_mhz_max": 1980, "memory_mhz": 3201, "memory_mhz_max": 3202,
        "power_limit_w": 500.0, "power_default_w": 700.0, "busy": 0.25, "slowed_by": ["the power cap"],
        "processes": [{"pid": 2**22 + 1, "name": None, "memory_bytes": 1_000_000}],
    }  # fmt: skip
    assert diagnose.nvidia(library) == {"present": True, "driver": "580.95.05", "cuda": "13.0", "cards": [card]}
    assert diagnose.nvidia(nvml(HandleByIndex=refuse))["cards"] == [{"error": "Not Supported"}]


@pytest.mark.parametrize(
    ("vendor", "kind", "present"),
    [("0x10de", "0x030200", True), ("0x10de", "0x040300", False), ("0x1002", "0x030000", False)],
)
def test_a_card_without_a_driver_is_seen_on_the_bus(
    vendor: str, kind: str, present: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpus, "open_nvml", lambda: None)
    device = "sys/bus/pci/devices/0000:01:00.0"
    root = file_system(tmp_path, {f"{device}/vendor": vendor, f"{device}/class": kind})
    assert diagnose.nvidia(root=root) == {"present": present, "driver": None, "cuda": None, "cards": []}


def result(*medians: int) -> Result:
    """One with a block of three samples for each median, in ns."""
    return result_of(measured("cpu-tensors", latency=steady(medians)))


def test_how_far_two_series_are_apart() -> None:
    found = apart([result(*[1010] * 6), result(*[1000] * 6)], 2.0)
    assert (found["problem"], found["pairs"], found["median_ns"]) == (None, 6, 1010)
    assert (found["ratio"], *there(found["ci95"])) == pytest.approx((1.01, 1.01, 1.01))
    wrong = result(1000)
    wrong.cases[0].status, wrong.cases[0].reason = FAILED, "the worker ended with exit code 3"
    assert apart([result(1000), wrong], 2.0) == {"problem": "the worker ended with exit code 3", "seconds": 2.0}
    assert apart([result(1000)], 2.0) == {"problem": "one of the two did not open", "seconds": 2.0}
