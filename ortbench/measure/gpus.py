"""NVIDIA GPUs through NVML: what there is, and whether their state moved while something was measured on them."""

from __future__ import annotations

import contextlib
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal, NamedTuple, cast

from ortbench.analysis.throttling import IDLE, THROTTLES, WATCHED, throttling_bits
from ortbench.core.errors import Unsupported
from ortbench.model.schema import Gpu, GpuReading, GpuState, Provider, Throttled, is_on_nvidia

_NVML = "libnvidia-ml.so.1"  # where the package looks for it too
EVERY_S = 1.0  # a reading is kept, and whenever what holds a card back has changed
_GLANCE_S = 0.1  # that is looked at so often: NVML tells it at once
_INSIDE_S = 0.002  # behind the beginning of a block that is read while it lasts
Calls = dict[str, Callable[[], Any]]
_STEADY = 0.05  # how far clocks may move before it is said
_CLOCKS: tuple[tuple[Literal["sm_mhz", "memory_mhz"], str], ...] = (("sm_mhz", "SM"), ("memory_mhz", "memory"))


def nvidia_gpus() -> list[Gpu]:
    """NVIDIA GPUs by NVML: name, driver, memory in bytes, SM and memory clocks in MHz; empty where there are none."""
    with opened_nvml() as nvml:
        if nvml is None:
            return []
        try:
            driver = nvml.nvmlSystemGetDriverVersion()
            return [_describe(nvml, index, driver) for index in range(nvml.nvmlDeviceGetCount())]
        except nvml.NVMLError as error:
            return [{"error": str(error)}]


@contextlib.contextmanager
def opened_nvml(given: Any = None) -> Iterator[Any]:
    """The module ``pynvml``, initialised as long as the block lasts, or None; one that is given is its giver's to close."""
    if given is not None:
        yield given
        return
    nvml = open_nvml()
    try:
        yield nvml
    finally:
        close_nvml(nvml)


def close_nvml(nvml: Any) -> None:
    if nvml is not None:
        with contextlib.suppress(nvml.NVMLError):
            nvml.nvmlShutdown()


def open_nvml() -> Any:
    """The module ``pynvml``, initialised, or None; who opened it calls `close_nvml`."""
    try:
        if sys.platform == "linux":
            import ctypes

            ctypes.CDLL(_NVML)  # most machines have none, which this tells sooner than the package
        import pynvml

        pynvml.nvmlInit()
    except Exception:  # no package, no driver, no card: all of them mean there is nothing to tell
        return None
    return pynvml


def _describe(nvml: Any, index: int, driver: str) -> Gpu:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    known = {
        "name": nvml.nvmlDeviceGetName(handle),
        "driver": driver,
        "memory_bytes": nvml.nvmlDeviceGetMemoryInfo(handle).total,
    }
    # The keys are those of its fields.
    return cast(Gpu, {**known, **read_values(nvml, {**clocks(nvml, handle), **_link(nvml, handle)})})


# What a lane of PCI Express carries in a direction, bytes/s, by generation: transfers less their coding.
_LANE = {
    1: 0.25e9,
    2: 0.5e9,
    3: 8e9 / 8 * 128 / 130,
    4: 16e9 / 8 * 128 / 130,
    5: 32e9 / 8 * 128 / 130,
    6: 64e9 / 8 * 242 / 256,
}


def _link(nvml: Any, handle: Any) -> Calls:
    """What tells how much the link of a card carries at most, bytes/s in a direction."""

    def carries() -> float | None:
        lane = _LANE.get(nvml.nvmlDeviceGetMaxPcieLinkGeneration(handle))
        return None if lane is None else lane * int(nvml.nvmlDeviceGetMaxPcieLinkWidth(handle))

    return {"link_bytes_per_s": carries}


def clocks(nvml: Any, handle: Any) -> Calls:
    """What tells a card's clocks, MHz."""
    return {
        "sm_mhz": lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM),
        "sm_mhz_max": lambda: nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_SM),
        "memory_mhz": lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_MEM),
        "memory_mhz_max": lambda: nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_MEM),
    }


def read_values(nvml: Any, calls: Calls) -> dict[str, Any]:
    """What calls of NVML tell; what they do not is left out."""
    return {key: value for key, call in calls.items() if (value := read_value(nvml, call)) is not None}


def read_value(nvml: Any, call: Callable[[], Any]) -> Any:
    """What a call of NVML tells; None of a card without it, or by a library that is older than the call."""
    mismatch = getattr(nvml, "NVMLLibraryMismatchError", nvml.NVMLError)  # no kind of the other
    try:
        return call()
    except (nvml.NVMLError, mismatch, AttributeError):
        return None


class Watch:
    """Reads the state of every NVIDIA GPU now and then; where there is none it does nothing.

    Attributes:
        readings: one each second, while a block lasts where there is one: between blocks a GPU idles, and its clocks say nothing.
            And wherever what holds a GPU back has changed: from when on it says something else, and until when it said the same.
    """

    def __init__(self, nvml: Any = None, clock: Callable[[], int] = time.perf_counter_ns) -> None:
        self.readings: list[GpuReading] = []
        self._nvml = nvml or open_nvml()
        self._clock = clock
        self._start = self._last = self._glanced = clock()
        self._reasons: dict[int, int | None] = {}  # as last seen, by GPU
        self._handles: list[Any] = []
        if self._nvml is not None:
            with contextlib.suppress(self._nvml.NVMLError):
                count = self._nvml.nvmlDeviceGetCount()
                self._handles = [self._nvml.nvmlDeviceGetHandleByIndex(index) for index in range(count)]

    @property
    def is_due(self) -> bool:
        """Whether the next block is one to look into."""
        return bool(self._handles) and self._clock() - self._last >= EVERY_S * 1e9

    def look_inside(self) -> None:
        """Take a reading of every GPU while a block lasts that has just begun."""
        time.sleep(_INSIDE_S)
        before, self._glanced = self._glanced, self._clock()
        for number, handle in enumerate(self._handles):
            self._keep(number, handle, before, self._glanced, in_block=True)
        self._last = self._glanced

    def look(self, now: bool = False, between: bool = False) -> None:
        """Take a reading of every GPU if the last is `EVERY_S` old, or in any case; of one that was never read, or that is
        held back by something else than before, ten times as soon. Where it is `between` blocks that are looked into, half as
        often."""
        at = self._clock()
        if not self._handles or (not now and at - self._glanced < _GLANCE_S * 1e9):
            return
        before, self._glanced = self._glanced, at
        full = now or at - self._last >= (2 if between else 1) * EVERY_S * 1e9
        for number, handle in enumerate(self._handles):
            new = number not in self._reasons
            if full or new or _throttle_bits(self._ask_reasons(handle)) != _throttle_bits(self._reasons[number]):
                self._keep(number, handle, before, at)
        if full:
            self._last = at

    def _keep(self, number: int, handle: Any, before: int, at: int, in_block: bool = False) -> None:
        state = self._read(handle)
        reasons, last = state.get("reasons"), self._reasons.get(number)
        if None not in (last, reasons) and _throttle_bits(reasons) != _throttle_bits(last) and before > self._last:
            self.readings.append({**self._timed_reading(number, before), "reasons": last or 0})
        reading: GpuReading = {**self._timed_reading(number, at), **state}
        if in_block:
            reading["in_block"] = True
        self.readings.append(reading)
        self._reasons[number] = reasons

    def _timed_reading(self, number: int, at: int) -> GpuReading:
        return {"at_s": round((at - self._start) / 1e9, 3), "gpu": number, "at_ns": at}

    def _ask_reasons(self, handle: Any) -> int | None:
        reasons = read_value(self._nvml, lambda: self._nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle))
        return None if reasons is None else int(reasons)

    def _read(self, handle: Any) -> GpuState:
        nvml = self._nvml
        calls = {key: call for key, call in clocks(nvml, handle).items() if not key.endswith("_max")}
        calls["temperature_c"] = lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU)
        calls["power_w"] = lambda: nvml.nvmlDeviceGetPowerUsage(handle) / 1000
        calls["reasons"] = lambda: self._ask_reasons(handle)
        return cast(GpuState, read_values(nvml, calls))  # the keys are those of its fields

    def count_others(self, targets: Mapping[int, Provider]) -> Callable[[], int | None]:
        """What counts the processes that compute on the GPUs of workers, by their process ids, and are none of them."""
        own = Counter(card for target in targets.values() if (card := known_card(target)) is not None)
        if not own:
            return lambda: None
        return lambda: max(max(0, self._count_processes(card) - count) for card, count in own.items())

    def _count_processes(self, card: int) -> int:
        if card >= len(self._handles):
            return 0
        return len(
            read_value(self._nvml, lambda: self._nvml.nvmlDeviceGetComputeRunningProcesses(self._handles[card])) or ()
        )

    def close(self) -> None:
        close_nvml(self._nvml)
        self._nvml, self._handles = None, []


def _throttle_bits(reasons: int | None) -> int | None:
    """What of NVML's reasons can hold a card back: idle or not changes all the time."""
    return None if reasons is None else reasons & WATCHED


def what_moved(readings: Sequence[GpuReading], throttling: bool = True) -> list[str]:
    """What a reader of the figures should know about the GPUs' state while they were measured, a sentence each; `throttling` too, unless
    it is said otherwise."""
    sentences = []
    for number in sorted({reading["gpu"] for reading in readings}):
        own = [reading for reading in readings if reading["gpu"] == number]
        inside = [reading for reading in own if reading.get("in_block")]
        busy = [reading for reading in inside or own if not reading.get("reasons", 0) & IDLE]
        for key, name in _CLOCKS:
            clocks = [reading[key] for reading in busy if key in reading]
            if clocks and max(clocks) > min(clocks) * (1 + _STEADY):
                sentences.append(f"GPU {number}: its {name} clock moved between {min(clocks)} and {max(clocks)} MHz")
        bits = [bit for bit in THROTTLES if throttling and any(reading.get("reasons", 0) & bit for reading in own)]
        if bits:
            share = sum(1 for reading in own if any(reading.get("reasons", 0) & bit for bit in bits)) / len(own)
            why = ", ".join(THROTTLES[bit] for bit in bits)
            sentences.append(f"GPU {number}: it was slowed down by {why} in {share:.0%} of the readings")
    return sentences


def moves_to_warn_of(readings: Sequence[GpuReading], throttled: Throttled | None) -> list[str]:
    if throttled is None or not throttled["left_out"]:
        return what_moved(readings, throttling=throttled is None)
    unthrottled = []
    for number in {reading["gpu"] for reading in readings}:
        own = [reading for reading in readings if reading["gpu"] == number]
        bits = throttling_bits(own)
        unthrottled += [reading for reading in own if not reading.get("reasons", 0) & bits]
    return what_moved(unthrottled)


def card_of(target: Provider, nvml: Any) -> int:
    """The number by which NVML, initialised or None, knows an EP's device; `Unsupported` where it is none of NVIDIA's, or
    which one it is cannot be told."""
    if not is_on_nvidia(target):
        raise Unsupported(f"the device of {target['ep']} is no NVIDIA GPU")
    if nvml is None:
        raise Unsupported("NVML, which tells of NVIDIA GPUs, cannot be opened here")
    try:
        count = nvml.nvmlDeviceGetCount()
        if count == 1:
            return 0
    except nvml.NVMLError as error:
        raise Unsupported(f"NVML: {error}") from None
    bus = target["device"].get("metadata", {}).get("pci_bus_id")
    if bus is None:
        raise Unsupported(f"there are {count} NVIDIA GPUs, and ONNX Runtime does not say which one it uses")
    try:
        return int(nvml.nvmlDeviceGetIndex(nvml.nvmlDeviceGetHandleByPciBusId(bus)))
    except nvml.NVMLError:
        raise Unsupported(f"NVML has no GPU on the bus of the device, {bus}") from None


def known_card(target: Provider) -> int | None:
    """The same; None where it is none of NVIDIA's, or which one it is cannot be told."""
    if is_on_nvidia(target):
        with suppress(Unsupported), opened_nvml() as nvml:
            return card_of(target, nvml)
    return None


OF_THE_PROCESS = "NVML, of the worker's process"
OF_THE_CARD = "NVML: the decrease of free GPU memory, as NVML does not report the process"


class Card(NamedTuple):
    """A card: bytes in use, and by process id what each process holds; None where NVML does not say how much."""

    used: int
    processes: dict[int, int | None]


def read_cards(nvml: Any = None) -> list[Card]:
    """Every NVIDIA card as it is now; none where there is none, or NVML does not tell."""
    with opened_nvml(nvml) as opened:
        if opened is None:
            return []
        try:
            return [_read(opened, index) for index in range(opened.nvmlDeviceGetCount())]
        except opened.NVMLError:
            return []


def _read(nvml: Any, index: int) -> Card:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    processes: dict[int, int | None] = {}
    for call in ("nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetGraphicsRunningProcesses"):
        with contextlib.suppress(Exception):  # a driver that is older than the package raises what is no NVMLError
            processes |= {it.pid: it.usedGpuMemory for it in getattr(nvml, call)(handle)}
    return Card(nvml.nvmlDeviceGetMemoryInfo(handle).used, processes)


def held_by_process(before: Sequence[Card], after: Sequence[Card], pid: int) -> tuple[int | None, str]:
    """What a process holds on all cards, bytes, and how that is known; None and why where it is not.

    A process of that id `before` it had begun to use any is another one: NVML has the ids of the system's own namespace, and a
    container has others.
    """
    if not after or len(before) != len(after):
        return None, "NVML tells nothing of the device"
    own = [
        now.processes[pid]
        for was, now in zip(before, after, strict=True)
        if pid in now.processes.keys() - was.processes
    ]
    known = [size for size in own if size is not None]
    if known and len(known) == len(own):
        return sum(known), OF_THE_PROCESS
    return sum(max(0, now.used - was.used) for was, now in zip(before, after, strict=True)), OF_THE_CARD
