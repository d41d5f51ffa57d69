"""``--measure-energy``: a stretch of each mode of its own, beside which the energy counter of its device is read."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, NamedTuple

from ortbench.core import signals
from ortbench.core.errors import OrtbenchError, Unsupported
from ortbench.features.energy.analysis import PARTS, Part, idle_parts, put_energy
from ortbench.features.energy.model import KEY, StretchTimes
from ortbench.measure.configuration import Configuration
from ortbench.measure.gpus import card_of, opened_nvml
from ortbench.measure.process import WorkerLost
from ortbench.model.modes import LATENCY
from ortbench.model.schema import Provider

SHORTEST_S = 2.0  # of a stretch
IDLE_S = 1.0  # of the idle time before and after each
_STEPS = 2 * PARTS  # of the counter, that a stretch holds
_IDLE_STEPS = 4
_LONGEST_S = 30.0  # of a stretch, so that it holds a run for each part; two runs it always holds
_IDLE_LONGEST_S = 10.0
RAPL = Path("sys/class/powercap")


class Meter(NamedTuple):
    """Counts joules; for `settle_s` after a change readings are of what was done before."""

    how: Literal["counter", "power", "rapl"]  # see `ortbench.features.energy.model.Energy`
    of: str  # what draws them
    poll_s: float
    settle_s: float
    joules: Callable[[], float]  # what it stands at, J; it only rises


class Recorder:
    """Reads a meter for a while; the clock, ns, is the worker's."""

    def __init__(
        self, meter: Meter, clock: Callable[[], int] = time.perf_counter_ns, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self.meter = meter
        self.step_s = meter.poll_s
        self._clock, self._sleep = clock, sleep

    def record(self, seconds: float, steps: int = 0) -> list[tuple[int, float]]:
        """Each time at which the meter was seen to have moved, after it has settled, and where it stood from then on: for so
        long, and longer until it has moved so many times."""
        settled = self._clock() + round(self.meter.settle_s * 1e9)
        until = settled + round(seconds * 1e9)
        at_most = settled + round(max(seconds, _IDLE_LONGEST_S) * 1e9)
        moves: list[tuple[int, float]] = []
        last: float | None = None
        while (now := self._clock()) < until or (len(moves) < steps and now < at_most):
            signals.stop_if_asked()
            joules, at = self.meter.joules(), self._clock()
            if last is not None and joules != last and at >= settled:
                moves.append((at, joules))
            last = joules
            self._sleep(self.meter.poll_s)
        return moves

    def idle(self) -> list[Part]:
        """Parts of a time without runs, which also shows how often the meter moves."""
        moves = self.record(IDLE_S, _IDLE_STEPS)
        if len(moves) > 1:
            self.step_s = (moves[-1][0] - moves[0][0]) / 1e9 / (len(moves) - 1)
        return idle_parts(moves)

    def stretch_s(self, call_s: float) -> float:
        """How long a stretch must be whose runs take so long, without the time in which the meter settles."""
        return max(SHORTEST_S, _STEPS * self.step_s, min(PARTS * call_s, _LONGEST_S), 2 * call_s)


def measure_energy(configuration: Configuration, tell: Callable[[str], None]) -> None:
    """Have a stretch of each mode run, when all figures are there; where there is nothing to read each case says why."""
    try:
        with opened_nvml() as nvml:
            recorder = Recorder(meter_for(configuration.result.target, nvml))
            idle = recorder.idle()
            for mode in list(configuration.modes):
                tell(f"measuring the energy of {mode} ({configuration.name})")
                idle = _measure(configuration, mode, recorder, idle)
    except (Unsupported, WorkerLost) as error:
        for mode in configuration.modes:
            configuration.cases[mode].own.setdefault(KEY, {"unsupported": str(error)})
    configuration.keep()


def _measure(configuration: Configuration, mode: str, recorder: Recorder, before: list[Part]) -> list[Part]:
    """Measure one mode; returns the idle time after it, which is that before the next one."""
    case, meter = configuration.cases[mode], recorder.meter
    call_s = (case.median(LATENCY) or 0) * case.inferences(LATENCY) / 1e9
    seconds = recorder.stretch_s(call_s)
    readings: list[tuple[int, float]] = []
    configuration.worker.meanwhile = lambda: readings.extend(recorder.record(seconds))
    try:
        with configuration.stage(f"energy of {mode}"):
            answer: StretchTimes = configuration.ask("run_stretch", mode=mode, seconds=meter.settle_s + seconds)
    except WorkerLost:
        raise
    except OrtbenchError as error:
        case.own[KEY] = {"unsupported": f"the stretch failed: {error}"}
        return before
    after = recorder.idle()
    put_energy(case, meter.how, meter.of, readings, answer["start_ns"], answer["ended"], [*before, *after])
    return after


def meter_for(target: Provider, nvml: Any) -> Meter:
    """The meter of the device that an EP runs on; `Unsupported` where nothing can be read there, and why."""
    if target["device"]["type"] == "CPU":
        return rapl(Path("/"))
    card = card_of(target, nvml)
    try:
        handle = nvml.nvmlDeviceGetHandleByIndex(card)
        try:
            return counter(nvml, handle, card)
        except nvml.NVMLError:  # before Volta, and where it is virtual
            return power(nvml, handle, card)
    except nvml.NVMLError as error:
        raise Unsupported(f"GPU {card} tells neither its energy nor its power: {error}") from None


def counter(nvml: Any, handle: Any, card: int) -> Meter:
    """The card's own counter of energy, which moves each 20 to 100 ms; `NVMLError` where it has none."""

    def joules() -> float:
        return float(nvml.nvmlDeviceGetTotalEnergyConsumption(handle)) / 1000

    joules()
    return Meter("counter", f"GPU {card}", 0.002, 0.3, joules)


def power(nvml: Any, handle: Any, card: int, clock: Callable[[], float] = time.monotonic) -> Meter:
    """Readings of the card's power, integrated: between two it is their mean; `NVMLError` where there are none."""

    def read() -> tuple[float, float]:
        return clock(), float(nvml.nvmlDeviceGetPowerUsage(handle)) / 1000

    last, total = read(), 0.0

    def joules() -> float:
        nonlocal last, total
        (before, was), last = last, read()
        total += (last[1] + was) / 2 * (last[0] - before)
        return total

    return Meter("power", f"GPU {card}", 0.02, 1.2, joules)  # from Ampere on a reading is the mean of the last second


def rapl(root: Path) -> Meter:
    """The counters of the CPU's packages, by Linux's powercap: Intel's, and AMD's by the same name; `Unsupported` where there
    are none, or they may not be read."""
    total = 0.0
    try:
        zones = [it for it in sorted((root / RAPL).glob("intel-rapl:*")) if it.name.count(":") == 1]
        zones = [it for it in zones if (it / "name").read_text().startswith("package")]
        ranges = [int((it / "max_energy_range_uj").read_text()) for it in zones]
        last = [int((it / "energy_uj").read_text()) for it in zones]
    except OSError as error:
        file = "/" / Path(error.filename).relative_to(root)
        raise Unsupported(f"{file} cannot be read: {error.strerror}; root may read it") from None
    if not zones:
        raise Unsupported(f"this CPU has no energy counter (RAPL) in /{RAPL}")

    def joules() -> float:
        nonlocal total
        for at, (zone, before, end) in enumerate(zip(zones, last, ranges, strict=True)):
            last[at] = int((zone / "energy_uj").read_text())
            total += (last[at] - before) % (end + 1) / 1e6  # behind its end it begins again at 0
        return total

    # It moves each millisecond, and reading it wakes a core.
    return Meter("rapl", "the CPU's packages", 0.02, 0.1, joules)
