"""What tells how much energy a device has drawn: a card's counter, readings of its power, or the counters of the CPU."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, Protocol

from ortbench.core.errors import Unsupported
from ortbench.measure.card import card_of
from ortbench.model.schema import Provider

RAPL = Path("sys/class/powercap")


class Meter(Protocol):
    """Counts joules.

    Attributes:
        of: what draws them, in words.
        poll_s: how often it is to be read.
        settle_s: after a change of what is done, how long readings still are of what was done before.
    """

    of: str
    poll_s: float
    settle_s: float

    @property
    def how(self) -> Literal["counter", "power", "rapl"]:
        """See `ortbench.model.schema.Energy`."""

    def joules(self) -> float:
        """What it stands at, J; it only rises."""


def meter_for(target: Provider, nvml: Any, root: Path = Path("/")) -> Meter:
    """The meter of the device that an EP runs on.

    Args:
        target: of a result.
        nvml: the module ``pynvml``, initialised; None where it cannot be.
        root: of the file system that is read.

    Raises:
        Unsupported: nothing can be read there, and why.
    """
    if target["device"]["type"] == "CPU":
        return Rapl(root)
    card = card_of(target, nvml)
    try:
        handle = nvml.nvmlDeviceGetHandleByIndex(card)
        try:
            return Counter(nvml, handle, card)
        except nvml.NVMLError:  # before Volta, and where it is virtual
            return Power(nvml, handle, card)
    except nvml.NVMLError as error:
        raise Unsupported(f"GPU {card} tells neither its energy nor its power: {error}") from None


class Counter:
    """The card's own counter of energy, of which NVML tells.

    Raises:
        NVMLError: it has none.
    """

    how: Literal["counter"] = "counter"
    poll_s = 0.002  # of a step of 20 to 100 ms
    settle_s = 0.3

    def __init__(self, nvml: Any, handle: Any, card: int) -> None:
        self.of = f"GPU {card}"
        self._read: Callable[[], float] = lambda: nvml.nvmlDeviceGetTotalEnergyConsumption(handle) / 1000
        self.joules()

    def joules(self) -> float:
        return self._read()


class Power:
    """Readings of the card's power, integrated.

    Raises:
        NVMLError: there are none.
    """

    how: Literal["power"] = "power"
    poll_s = 0.02
    settle_s = 1.2  # from Ampere on a reading is the mean of the last second

    def __init__(self, nvml: Any, handle: Any, card: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.of = f"GPU {card}"
        self._read: Callable[[], float] = lambda: nvml.nvmlDeviceGetPowerUsage(handle) / 1000
        self._clock = clock
        self._at, self._watts, self._joules = clock(), self._read(), 0.0

    def joules(self) -> float:
        """The power since the reading before is the mean of the two."""
        at, watts = self._clock(), self._read()
        self._joules += (watts + self._watts) / 2 * (at - self._at)
        self._at, self._watts = at, watts
        return self._joules


class Rapl:
    """The counters of the CPU's packages, by Linux's powercap: Intel's, and AMD's by the same name.

    Args:
        root: of the file system that is read.

    Raises:
        Unsupported: there are none, or they may not be read.
    """

    how: Literal["rapl"] = "rapl"
    of = "the CPU's packages"
    poll_s = 0.02  # it moves each millisecond, and reading it wakes a core
    settle_s = 0.1

    def __init__(self, root: Path = Path("/")) -> None:
        self._files: list[Path] = []
        self._ranges: list[int] = []
        folder = root / RAPL
        try:
            for zone in sorted(folder.glob("intel-rapl:*")):
                if zone.name.count(":") == 1 and (zone / "name").read_text().startswith("package"):
                    self._files.append(zone / "energy_uj")
                    self._ranges.append(int((zone / "max_energy_range_uj").read_text()))
            self._last = self._values()
        except OSError as error:
            file = "/" / Path(error.filename).relative_to(root)
            raise Unsupported(f"{file} cannot be read: {error.strerror}; root may read it") from None
        if not self._files:
            raise Unsupported(f"this CPU has no energy counter (RAPL) in /{RAPL}")
        self._joules = 0.0

    def _values(self) -> list[int]:
        return [int(file.read_text()) for file in self._files]

    def joules(self) -> float:
        """A counter that has come to its end begins again at 0."""
        values = self._values()
        for value, last, end in zip(values, self._last, self._ranges, strict=True):
            self._joules += ((value - last) if value >= last else (value + end + 1 - last)) / 1e6
        self._last = values
        return self._joules
