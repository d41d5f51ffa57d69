"""The SM clock of an NVIDIA GPU while something ran."""

from __future__ import annotations

from ortbench.core.errors import Unsupported
from ortbench.measure.card import card_of, is_on_nvidia
from ortbench.measure.gpus import Watch, open_nvml
from ortbench.model.result import Result


class Clocks:
    """Readings of the card that a result is of; none where it is of no NVIDIA GPU, or which one cannot be told.

    Args:
        watch: that reads all cards.
        result: whose model is open.
    """

    def __init__(self, watch: Watch, result: Result) -> None:
        self._watch = watch
        self._card: int | None = None
        if is_on_nvidia(result.target):
            nvml = open_nvml()
            try:
                self._card = card_of(result.target, nvml)
            except Unsupported:
                pass
            finally:
                if nvml is not None:
                    nvml.nvmlShutdown()

    def look(self) -> None:
        """Take a reading if it is time for one."""
        self._watch.look()

    def end(self) -> None:
        """Take the last one."""
        self._watch.look(now=True)

    def since(self, start_ns: int) -> list[int]:
        """The SM clock, MHz, by all readings from a moment of `time.perf_counter_ns` on, and one now."""
        if self._card is None:
            return []
        self._watch.look(now=True)
        return [
            it["sm_mhz"]
            for it in self._watch.readings
            if it["gpu"] == self._card and "sm_mhz" in it and it.get("at_ns", 0) >= start_ns
        ]
