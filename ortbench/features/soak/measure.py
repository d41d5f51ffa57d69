"""Soaks: blocks of inferences come one after the other, with what the worker's process holds after each."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any, Generic, TypeVar

from ortbench.core.stats import summarise
from ortbench.features.soak.analysis import verdicts
from ortbench.features.soak.model import KIND, Soak, SoakReading
from ortbench.features.soak.plan import Soak as SoakPlan
from ortbench.measure.gpus import Card, close_nvml, held_by_process, open_nvml, read_cards
from ortbench.measure.progress import Row
from ortbench.measure.rounds import StreamConfiguration
from ortbench.measure.schedule import Block, OneByOne, Series
from ortbench.model.modes import LATENCY
from ortbench.model.protocol import Samples
from ortbench.model.schema import Machine, is_on_nvidia

MOST_READINGS = 2000
_MOST_OF_SHAPE = 1000  # samples of each shape that are kept
_BLOCKS = 400  # of a soak, about
_BLOCK_NS = 20_000_000, 1_000_000_000  # at least and at most
_MOST = 2_000  # inferences in a block, whose durations the worker holds
_MORE = 4  # times the inferences of the block before, at most

T = TypeVar("T")


class Downsampled(Generic[T]):
    """All that was added, or every nth of it where that would be more than `most`; and what was added last."""

    def __init__(self, most: int) -> None:
        self._most, self._every, self.count = most, 1, 0
        self._kept: list[T] = []
        self._last: list[T] = []  # where it is not among those

    def add(self, item: T) -> None:
        if self.count % self._every == 0:
            self._kept.append(item)
        if len(self._kept) > self._most:
            del self._kept[1::2]
            self._every *= 2
        self._last = [item] if self.count % self._every else []
        self.count += 1

    @property
    def items(self) -> list[T]:
        return self._kept + self._last


class SoakSchedule(OneByOne[Series]):
    """Blocks: each is a 400th of the soak, but for the first ones, which show growth from the first inference on."""

    def add(self, block: Block[Series], samples: Sequence[int], spent_ns: int, waited_ns: int = 0) -> None:
        super().add(block, samples, spent_ns, waited_ns)
        least, most = (ns * block.n // max(spent_ns, 1) for ns in _BLOCK_NS)
        wanted = self._rule.iterations or self._rule.duration_ns * block.n // max(spent_ns, 1)
        if self._rule.iterations is None:
            wanted = max(wanted, least * _BLOCKS)
        n = max(1, min(wanted // _BLOCKS, most, _MORE * block.n, _MOST))
        if not block.n / 2 <= n < block.n * 2:  # what a block itself takes in the worker is to stay the same
            self._size[block.series, block.phase] = n


class SoakConfiguration(StreamConfiguration):
    """The plan of a soak; `before` are the cards before any worker of it was told to open its model."""

    drops = False  # all of it counts
    is_soak = True
    per = "configuration"
    schedule = SoakSchedule
    may_renew = False

    def __init__(self, *arguments: Any, before: Sequence[Card], **named: Any) -> None:
        super().__init__(*arguments, **named)
        assert isinstance(self.plan.part, SoakPlan)
        self.reopen = self.plan.part.reopen
        self._shapes = () if self.plan.stream is None else self.plan.stream.shapes
        self._of_shapes: list[Downsampled[int]] = [Downsampled(_MOST_OF_SHAPE) for _ in self._shapes]
        self._readings: Downsampled[SoakReading] = Downsampled(MOST_READINGS)
        self._inferences = self._begun_ns = 0
        self._soak: Soak | None = None
        self._before, self._nvml = before, open_nvml()

    def open(self, machine: Machine, run_id: str) -> None:
        super().open(machine, run_id)
        self.result.kind = KIND.key
        order = None if self.plan.stream is None else self.plan.stream.order
        self._soak = {"order": order, "reopened": self.reopen, "shapes": [], "readings": []}
        self.result.own[KIND.key] = self._soak

    def block(self, block: Block[Series]) -> Samples | None:
        answer = super().block(block)
        if answer is None:
            return None
        for at, ns in zip(self.asked or (), answer["samples"], strict=False):
            self._of_shapes[at].add(ns)
        self._inferences += len(answer["samples"]) * self.cases[block.series.mode].inferences(LATENCY)
        self._begun_ns = self._begun_ns or answer["start_ns"]
        self._readings.add(
            {
                "inferences": self._inferences,
                "at_ns": answer["start_ns"] + answer["spent_ns"] - self._begun_ns,
                **answer["reading"],
                "device": self.on_device(),
                "median_ns": round(median(answer["samples"])),
            }
        )
        return answer

    def on_device(self) -> int | None:
        """What the worker holds on NVIDIA GPUs, bytes; None where that is not known."""
        if self._nvml is None or not is_on_nvidia(self.result.target):
            return None
        return held_by_process(self._before, read_cards(self._nvml), self.worker.pid)[0]

    def rows(self) -> list[Row]:
        self._put_readings()
        assert self._soak is not None
        return verdicts(self._soak)

    def _put_readings(self) -> None:
        if self._soak is not None:
            self._soak["readings"] = self._readings.items

    def keep(self) -> None:
        self._put_readings()
        found = [(shape.name, kept) for shape, kept in zip(self._shapes, self._of_shapes, strict=True) if kept.count]
        if self._soak is not None:
            self._soak["shapes"] = [
                {"name": name, "n": kept.count, "median_ns": round(stats.median), "p99_ns": round(stats.p99)}
                for name, kept in found
                for stats in [summarise(kept.items)]
            ]
        super().keep()

    def finish(self, mode: str, goes_on: bool = False) -> None:
        """Check the outputs; not where the session was closed, and the mode with it."""
        if self.reopen is None:
            super().finish(mode, goes_on)

    def close(self) -> None:
        super().close()
        close_nvml(self._nvml)
        self._nvml = None
