"""Scripted facts of machines, for what `ortbench doctor` says of them."""

from __future__ import annotations

from typing import Any, cast

from ortbench.features.doctor.model import Card, Facts
from ortbench.model.protocol import ListedEp
from tests.results import noise_of

SITE = "/env/site-packages"
LIBRARIES = ("libcublasLt.so.13", "libcublas.so.13", "libcurand.so.10", "libcudart.so.13", "libcudnn.so.9")


def quiet_machine() -> Facts:
    """A machine without a card on which nothing is wrong."""
    found: dict[str, Any] = {
        "system": "Linux, Python 3.11.7",
        "packages": {
            "module": SITE, "distributions": [{"name": "onnxruntime", "version": "1.31.1", "folder": SITE}], "numpy": "2.4.6",
        },
        "installed": {
            "eps": [ep("CPUExecutionProvider", hardware("CPU", "Intel"))], "runtime": {"onnxruntime": "1.31.1"},
            "package": "onnxruntime", "abilities": [], "cuda": None,
        },
        "problem": None,
        "cpu": {
            "model": "Intel Xeon", "cores": 8, "usable": 8, "limit": None, "governors": {"performance": 8}, "turbo": False,
            "last_second": noise_of(8, 0.08),
        },
        "memory": {"total": 64_000_000_000, "available": 60_000_000_000},
        "nvidia": {"present": False, "driver": None, "cuda": None, "cards": []},
        "profiler": {"nsys": "2025.5.1", "nvtx": "0.2.17", "problem": None},
        "noise": {"problem": None, "seconds": 5.0, "pairs": 100, "median_ns": 1_000_000, "ratio": 1.002, "ci95": (0.99, 1.01)},
    }  # fmt: skip
    return cast(Facts, found)


def gpu_machine() -> Facts:
    """The same with an NVIDIA card, on which nothing is wrong either."""
    facts = quiet_machine()
    installed = facts["installed"]
    assert installed is not None
    facts["packages"]["distributions"][0]["name"] = installed["package"] = "onnxruntime-gpu"
    installed["eps"].append(ep("CUDAExecutionProvider", hardware("GPU", "NVIDIA")))
    nvidia = f"{SITE}/nvidia/cu13/lib"
    installed["cuda"] = {
        "built_for": "13.0", "runtime": "13.0", "cudnn": "9.14.0",
        "libraries": [
            {"name": name, "found": [f"{nvidia}/{name}"], "loaded": f"{nvidia}/{name}", "others": []} for name in LIBRARIES
        ],
    }  # fmt: skip
    facts["nvidia"] = {"present": True, "driver": "580.95.05", "cuda": "13.0", "cards": [card()]}
    facts["profiler"]["nsys"] = "2025.3.2"
    return facts


def card(**state: Any) -> Card:
    """A card in the best of states, but for what is given."""
    found: dict[str, Any] = {
        "name": "NVIDIA H200", "persistence": True, "sm_mhz": 1980, "sm_mhz_max": 1980, "memory_mhz": 3201, "memory_mhz_max": 3201,
        "power_limit_w": 700.0, "power_default_w": 700.0, "busy": 0.0, "slowed_by": [], "processes": [],
    }  # fmt: skip
    return cast(Card, {**found, **state})


def hardware(kind: str, vendor: str) -> dict[str, Any]:
    """A device of an EP."""
    return {"hardware": {"type": kind, "vendor": vendor, "vendor_id": 1, "device_id": 1, "metadata": {}}}


def ep(name: str, *devices: dict[str, Any], problem: str | None = None, missing: str | None = None) -> ListedEp:
    """An EP that is installed; only what is judged of its devices."""
    nothing = {"library": None, "version": "1.31.1", "package": None}
    return cast(ListedEp, {"name": name, "problem": problem, "missing": missing, "devices": list(devices), **nothing})
