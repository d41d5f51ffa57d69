"""What the installed ONNX Runtime lets Python do: asked of the module itself, never of its version number."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import onnxruntime as ort
from onnxruntime.capi import _pybind_state as native

from ortbench.core.errors import BenchmarkFailed

if TYPE_CHECKING:
    from ortbench.model.protocol import Ability

OLDEST = "1.24"  # with what ortbench cannot do without


class Known(NamedTuple):
    """Something that not every ONNX Runtime can do.

    Attributes:
        what: in words.
        since: the first version that can.
        there: whether this one can.
    """

    what: str
    since: str
    there: bool


def _has(owner: str, name: str) -> bool:
    return hasattr(getattr(native, owner, None), name)


EP_DEVICES = Known("EP devices and plugin EPs", OLDEST, hasattr(ort, "get_ep_devices"))
ASSIGNMENT = Known("placement of nodes", OLDEST, hasattr(ort.InferenceSession, "get_provider_graph_assignment_info"))
DEVICE_VALUES = Known(
    "device tensors of an EP device", OLDEST, hasattr(ort, "copy_tensors") and hasattr(ort, "OrtDeviceMemoryType")
)
STREAMS = Known("copies on a stream", OLDEST, _has("OrtEpDevice", "create_sync_stream"))
POLICIES = Known("choice of an EP by a policy", OLDEST, hasattr(ort.SessionOptions, "set_provider_selection_policy"))
SHARED_VALUES = Known(
    "HOST_ACCESSIBLE (pinned) memory", "1.28", _has("OrtValue", "ortvalue_from_shape_and_type_for_memory_info")
)
_ALL = (EP_DEVICES, ASSIGNMENT, DEVICE_VALUES, STREAMS, POLICIES, SHARED_VALUES)
_NEEDED = (EP_DEVICES, ASSIGNMENT, DEVICE_VALUES)


def refuse_old() -> None:
    """Raises:
    BenchmarkFailed: this version lacks what nothing can be measured without.
    """
    if not all(it.there for it in _NEEDED):
        raise BenchmarkFailed(f"ONNX Runtime {ort.__version__} is too old: ortbench needs {OLDEST} or newer")


def abilities() -> list[Ability]:
    """What versions that ortbench works with differ in, for `ortbench devices`."""
    return [{"what": it.what, "since": it.since, "there": it.there} for it in _ALL]


def before(ability: Known) -> str:
    """The end of "no such memory": which version has what this one lacks."""
    return f" that Python reaches before ONNX Runtime {ability.since}"
