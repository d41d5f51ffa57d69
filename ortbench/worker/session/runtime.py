"""ONNX Runtime itself: its version, what it says on its own, and what it lets Python do: asked of the module itself, never of its
version number."""

from __future__ import annotations

import platform
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy
import onnxruntime as ort
from onnxruntime.capi import _pybind_state as native

from ortbench.core.errors import BenchmarkFailed
from ortbench.worker.session.distributions import find_distributions

if TYPE_CHECKING:
    from ortbench.model.protocol import Ability
    from ortbench.model.schema import Runtime

OLDEST = "1.24"  # with what ortbench cannot do without


class ApiFeature(NamedTuple):
    """Something that not every ONNX Runtime can do."""

    what: str  # in words
    since: str  # the first version that can
    is_there: bool  # whether this one can


EP_DEVICES = ApiFeature("EP devices and plugin EPs", OLDEST, hasattr(ort, "get_ep_devices"))
ASSIGNMENT = ApiFeature(
    "placement of nodes", OLDEST, hasattr(ort.InferenceSession, "get_provider_graph_assignment_info")
)
DEVICE_VALUES = ApiFeature(
    "device tensors of an EP device", OLDEST, hasattr(ort, "copy_tensors") and hasattr(ort, "OrtDeviceMemoryType")
)
STREAMS = ApiFeature("copies on a stream", OLDEST, hasattr(getattr(native, "OrtEpDevice", None), "create_sync_stream"))
POLICIES = ApiFeature(
    "choice of an EP by a policy", OLDEST, hasattr(ort.SessionOptions, "set_provider_selection_policy")
)
SHARED_VALUES = ApiFeature(
    "HOST_ACCESSIBLE (pinned) memory", "1.28", hasattr(native.OrtValue, "ortvalue_from_shape_and_type_for_memory_info")
)
_API_FEATURES = (EP_DEVICES, ASSIGNMENT, DEVICE_VALUES, STREAMS, POLICIES, SHARED_VALUES)
_NEEDED = (EP_DEVICES, ASSIGNMENT, DEVICE_VALUES)


def refuse_old() -> None:
    """Raises `BenchmarkFailed`: this version lacks what nothing can be measured without."""
    if not all(it.is_there for it in _NEEDED):
        raise BenchmarkFailed(f"ONNX Runtime {ort.__version__} is too old: ortbench needs {OLDEST} or newer")


def abilities() -> list[Ability]:
    """What versions that ortbench works with differ in, for `ortbench devices`."""
    return [{"what": it.what, "since": it.since, "there": it.is_there} for it in _API_FEATURES]


def version_note(feature: ApiFeature) -> str:
    """The end of "no such memory": which version has what this one lacks."""
    return f" that Python reaches before ONNX Runtime {feature.since}"


def versions() -> Runtime:
    return {
        "onnxruntime": ort.__version__,
        "onnxruntime_build": ort.get_build_info(),
        "python": platform.python_version(),
        "numpy": numpy.__version__,
        "packages": packages(),
    }


def packages() -> dict[str, str]:
    """The installed packages of ONNX Runtime and of plugin EPs with their versions, as their folders say: reading what is in
    them takes longer than much of what is measured."""
    found: dict[str, str] = {}
    for place in map(Path, sys.path):
        for info in sorted(place.glob("onnxruntime*.dist-info")):
            name, _, version = info.stem.partition("-")
            found.setdefault(name.replace("_", "-").lower(), version)
    return found


def own_package() -> str:
    """The package that brings the module onnxruntime, of which there are several."""
    found = find_distributions(str(Path(ort.__file__).parent.parent))
    return found[0]["name"].lower() if found else "onnxruntime"


def set_up_onnxruntime() -> None:
    """Before anything is asked of ORT: it logs warnings, as it does in any program. Raises `BenchmarkFailed`: this version is
    too old."""
    refuse_old()
    ort.set_default_logger_severity(2)
