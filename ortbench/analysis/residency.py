"""Where an EP's tensors are: in host memory, where nothing crosses a link, or on a device; and what modes that keep them there need. Pure."""

from __future__ import annotations

from ortbench.analysis.nodes.handing_on import is_only_host_accessible
from ortbench.model.kinds import kind_of
from ortbench.model.result import Result


def is_on_host(result: Result) -> bool:
    """Whether the EP, of a chain that of each stage, computes in host memory, so that nothing crosses a link."""
    sessions = result.part["stages"] if kind_of(result.kind).of_stages else [result.target]
    return all(it["memory"]["kind"] == "host" for it in sessions)


def stays_in_place(result: Result) -> bool:
    """Whether the tensors that a mode keeps are in memory that the host reads and writes."""
    return is_on_host(result) or is_only_host_accessible(result)


def needs(result: Result) -> str:
    """What has to hold for the modes that keep tensors on the device."""
    kind = kind_of(result.kind)
    return kind.in_place_needs if stays_in_place(result) else kind.on_device_needs


def takes(result: Result) -> str:
    """What the modes have that can replace each other, behind "with"."""
    return kind_of(result.kind).takes
