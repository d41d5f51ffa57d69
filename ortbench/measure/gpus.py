"""NVIDIA GPUs through NVML: what there is, whether their state moved while something was measured on them, and which rounds were throttled.

Readings come between blocks, ten a second: the time between two of them counts as throttled if one of them says so. A round is
left out whole, with all its modes and configurations, so that blocks that alternated stay pairs.
"""

from __future__ import annotations

import contextlib
import sys
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any, Literal, NamedTuple, cast

from ortbench.analysis.intervals import ROUNDS, block_spans, taken_blocks
from ortbench.core.errors import Unsupported
from ortbench.model.result import OK, Case
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


IDLE = 0x01
# Bits of nvmlClocksEventReasons in NVML's API reference that mean: slower than the GPU was asked to be.
THROTTLES = {
    0x04: "the power cap",
    0x08: "a hardware slowdown",
    0x10: "another GPU of its boost group",
    0x20: "its temperature (software)",
    0x40: "its temperature (hardware)",
    0x80: "the power brake",
    0x100: "the clocks of its display",
}
# What somebody set for the card holds back where it came or went meanwhile: then somebody else set it.
_SET = 0x02
WATCHED = sum(THROTTLES) | _SET
_SET_WORDS = "clocks that another process set"

Span = tuple[float, float]


def held_by(reasons: int) -> list[str]:
    """What holds a GPU back by NVML's bits, in words."""
    return [words for bit, words in THROTTLES.items() if reasons & bit]


def throttling_bits(readings: Sequence[GpuReading]) -> int:
    """Which bits of a GPU's readings hold it back: those that always do, and a setting that came or went."""
    busy = [reading["reasons"] for reading in readings if "reasons" in reading and not reading["reasons"] & IDLE]
    changed = len({reasons & _SET for reasons in busy}) > 1
    return sum(THROTTLES) | (_SET if changed else 0)


def throttled_rounds(
    readings: Sequence[GpuReading], cases: Sequence[Case], cards: Collection[int] | None = None
) -> Throttled | None:
    """Which rounds were measured while a GPU was throttled, and whether the others suffice; None where none was.

    Readings are of all GPUs, in order; those of `cards` count, which were measured, or of all where nobody knows (None).
    """
    spans: list[Span] = []
    reasons: dict[str, None] = {}
    for card in sorted({reading["gpu"] for reading in readings} if cards is None else {*cards}):
        own = [reading for reading in readings if reading["gpu"] == card]
        bits = throttling_bits(own)
        spans += _spans(own, bits)
        for reading in own:
            reasons |= dict.fromkeys(held_by(reading.get("reasons", 0)))
            reasons |= dict.fromkeys([_SET_WORDS] if reading.get("reasons", 0) & bits & _SET else [])
    taken = [span for case in cases for phase in case.blocks for span in block_spans(case, phase)]
    starts, ends = _merge_spans(spans)
    found = sorted({number for number, begin, end in taken if _touches(begin, end, starts, ends)})
    if not found:
        return None
    every = {number for number, _, _ in taken}
    return {"rounds": found, "of": len(every), "reasons": list(reasons), "left_out": _suffices(cases, set(found))}


def _spans(readings: Sequence[GpuReading], bits: int) -> Iterator[Span]:
    """When a GPU was throttled, ns."""
    known = [(reading["at_ns"], bool(reading["reasons"] & bits)) for reading in readings
             if "at_ns" in reading and "reasons" in reading]  # fmt: skip
    if known and known[0][1]:
        yield float("-inf"), known[0][0]
    for (begin, one), (end, other) in pairwise(known):
        if one or other:
            yield begin, end
    if known and known[-1][1]:
        yield known[-1][0], float("inf")


def _merge_spans(spans: Sequence[Span]) -> tuple[list[float], list[float]]:
    """The same without overlaps: where they begin, and where they end."""
    starts: list[float] = []
    ends: list[float] = []
    for begin, end in sorted(spans):
        if ends and begin <= ends[-1]:
            ends[-1] = max(ends[-1], end)
        else:
            starts.append(begin)
            ends.append(end)
    return starts, ends


def _touches(begin: float, end: float, starts: Sequence[float], ends: Sequence[float]) -> bool:
    at = bisect_right(starts, end) - 1
    return at >= 0 and ends[at] >= begin


def _suffices(cases: Sequence[Case], rounds: Collection[int]) -> bool:
    """Whether every mode that is ok keeps as many rounds of each phase as a comparison takes."""
    left = [
        sum(number not in rounds for number, _, _ in blocks)
        for case in cases
        if case.status == OK
        for blocks in case.blocks.values()
    ]
    return bool(left) and min(left) >= ROUNDS


def leave_out(case: Case, rounds: Collection[int]) -> None:
    """Put the blocks of some rounds aside, with their samples."""
    aside: dict[str, list[list[int]]] = {}
    samples: dict[str, list[int | float]] = {}
    for phase, blocks in case.blocks.items():
        away: list[int | float] = []
        kept: list[int | float] = []
        for number, _, own in taken_blocks(case, phase):
            (away if number in rounds else kept).extend(own)
        aside[phase], samples[phase] = [it for it in blocks if it[0] in rounds], away
        case.blocks[phase], case.samples[phase] = [it for it in blocks if it[0] not in rounds], kept
    if any(aside.values()):
        case.left_out = {"samples": samples, "blocks": aside}


def sentence(found: Throttled, decided: bool = False) -> str:
    """What a reader should know of it; a gate that was `decided` rests on all rounds, so none is left out."""
    said = f"the GPU was throttled by {', '.join(found['reasons'])} in {len(found['rounds'])} of {found['of']} rounds"
    if found["left_out"]:
        return f"{said}: left out of all figures, kept in the result"
    why = "as the gate was decided by all rounds" if decided else "too few are left without"
    return f"{said}: all figures have them, {why}"
