"""Where a session wants each of its inputs and outputs: a fact about each tensor, which the session itself knows.

A session may have several EPs, and each of them its own memory; one EP may want one input in its memory and another (a
shape, say) in the host's. An EP without DEFAULT memory may want them in its HOST_ACCESSIBLE memory, as OpenVINO's does on
Intel CPUs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from ortbench.worker.session.libraries import all_ep_devices
from ortbench.worker.session.memory import EpDeviceMemory, HostMemory, Memory, device_memory, ep_device_memories, usable
from ortbench.worker.session.providers import Provider


@dataclass(frozen=True)
class Place:
    own: Memory | None  # where the session wants it; None in memory of a device that ONNX Runtime offers no access to
    # HOST_ACCESSIBLE memory of the EP whose `own` is, which is `own` itself where that EP has no other; None where it
    # offers none
    shared: EpDeviceMemory | None
    stays: bool  # the session wants it in ordinary host memory, though its EP computes elsewhere

    @property
    def on_host(self) -> bool:
        return self.own is not None and self.own.kind == "host"

    @property
    def is_shared(self) -> bool:
        """Whether the session wants it in memory that the host reaches too: ORT may then hand arrays on as they are."""
        return self.own is not None and self.own is self.shared


class Bound(NamedTuple):
    name: str
    memory: str  # that it is in, in words
    why: str | None  # in words; None where the session wants it in ordinary host memory, which its graph explains
    usual: bool  # it is the memory that the mode is about


class Places(NamedTuple):
    """The places of a session's inputs and outputs, in the model's order. What is in the same memory has the same object."""

    # one each
    inputs: list[Place]
    outputs: list[Place]
    main: Memory | None  # the memory of the EP that the run is about; None where ONNX Runtime offers none
    shared: Memory | None  # its HOST_ACCESSIBLE memory; None where it has none

    @property
    def memories(self) -> list[Memory]:
        """Every memory that takes part, the main one first."""
        found = [] if self.main is None else [self.main]
        for place in (*self.inputs, *self.outputs):
            if not place.stays and place.own is not None and not any(place.own is memory for memory in found):
                found.append(place.own)
        return found


def places(session: Any, provider: Provider) -> Places:
    finder = _Finder(session, provider)
    inputs = [finder.place(info) for info in session.get_input_memory_infos()]
    return Places(
        inputs, [finder.place(info) for info in session.get_output_memory_infos()], finder.main, finder.shared
    )


class _Finder:
    """Finds the memory of a memory info among those of the session's EP devices."""

    def __init__(self, session: Any, provider: Provider) -> None:
        devices = []
        if provider.ep_device is not None:
            names = session.get_providers()
            devices = [provider.ep_device, *(device for device in all_ep_devices() if device.ep_name in names)]
        self._offered = [(device, *ep_device_memories(device)) for device in devices]
        self._places: dict[tuple[int, bool], Place] = {}  # of what is in a device's memory: whether in its DEFAULT one
        if provider.ep_device is None or provider.computes_on_host:
            self._main = Place(device_memory(provider), None, stays=False)
        else:
            self._main = self._of(0, is_default=self._offered[0][1] is not None)
        self._host = self._main if provider.computes_on_host else Place(HostMemory(), None, stays=True)

    def _of(self, number: int, is_default: bool) -> Place:
        """The place of what is in a memory of a device. It is tried only then: a session may have devices that it does not use."""
        if (number, is_default) not in self._places:
            device, default, offered = self._offered[number]
            shared = usable(device, offered, copies=False)
            self._places[number, is_default] = Place(usable(device, default if is_default else offered), shared, False)
        return self._places[number, is_default]

    @property
    def main(self) -> Memory | None:
        return self._main.own

    @property
    def shared(self) -> Memory | None:
        return self._main.shared

    def place(self, info: Any) -> Place:
        if info is None or info.name == "Cpu":
            return self._host
        for number, (_, *memories) in enumerate(self._offered):
            for memory, is_default in zip(memories, (True, False), strict=True):
                if memory is not None and memory.is_same(info):
                    return self._of(number, is_default)
        return self._main
