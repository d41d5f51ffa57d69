"""One bandwidth sweep: its worker, the schedule of its copies, and the sweep it becomes, kept as it grows."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from datetime import UTC, datetime
from statistics import median
from typing import NamedTuple

from ortbench import __version__, units
from ortbench.analysis.bandwidth import DIRECTIONS, KEPT_SAMPLES, TITLES, CopySweep, Point
from ortbench.answers import CopiesProved, CopyEp, Held, Samples
from ortbench.bandwidth_plan import CopyPlan, sizes
from ortbench.errors import BenchmarkFailed
from ortbench.measure.environment import environment, free_memory, load_average
from ortbench.measure.process import Client, WorkerLost, open_copies
from ortbench.measure.schedule import Block, Schedule, StopRule
from ortbench.modes import TOTAL
from ortbench.plan import Observer
from ortbench.result import FAILED, OK
from ortbench.schema import Direction
from ortbench.stats import summarise

_PRECISION = 0.01  # within which every median is known when the sweep may stop early
_KEEP_EVERY_S = 5.0
_LEFT_OUT = "sizes-left-out"


class Lane(NamedTuple):
    """What alternates: copies of one size, direction and host memory."""

    direction: Direction
    memory: str
    bytes: int


class CopyBench:
    """Measures a sweep.

    Args:
        plan: checked.
        client: a worker that `open_copies` started.
        keep: saves the sweep so far.
        observer: told what happens.
    """

    def __init__(
        self,
        plan: CopyPlan,
        client: Client,
        keep: Callable[[CopySweep], None],
        observer: Observer | None = None,
    ) -> None:
        self._plan = plan
        self._client = client
        self._keep = keep
        self._observer = observer or Observer()
        self._kinds: list[str] = []
        self._estimates: dict[Lane, dict[str, float | None]] = {}
        self._points: dict[Lane, Point] = {}
        self._samples: dict[Lane, list[int]] = defaultdict(list)
        self._kept_at = time.monotonic()
        self.interrupted = False
        self.sweep = CopySweep(
            tool={"name": "ortbench", "version": __version__},
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            command=list(plan.command),
            setup={"seed": plan.seed},
        )

    def run(self) -> CopySweep:
        """Measure; after Ctrl-C or a lost worker the sweep is what there is of it.

        Raises:
            BadInput, BenchmarkFailed, Unsupported: before anything could be measured.
        """
        try:
            self._describe()
            self._set_up()
            self.sweep.stopped = self._measure()
        except KeyboardInterrupt:
            if not any(self._samples.values()):
                raise
            self.interrupted, self.sweep.stopped = True, "interrupted"
        except WorkerLost as error:
            if not any(self._samples.values()):
                raise BenchmarkFailed(f"before any copy was measured {error}") from None
            self.sweep.stopped = f"an error: {error}"
        finally:
            self._client.close()
        self._end()
        return self.sweep

    # Before the measurement

    def _describe(self) -> None:
        self._observer.stage(f"loading {self._plan.target.ep}")
        machine = environment()
        opened: CopyEp = self._client.receive()
        self.sweep.environment = {**machine, **opened["runtime"]}
        self._kinds = opened["kinds"]
        self.sweep.target = {
            "ep": opened["ep"],
            "ep_requested": self._plan.target.ep,
            "ep_library": opened["library"],
            "ep_version": opened["version"],
            "python": self._plan.target.python,
            "device": opened["device"],
            "memory": opened["memory"],
            "fence": {},
        }
        for note in opened["notes"]:
            self.sweep.warn(note["code"], note["message"])

    def _set_up(self) -> None:
        """Have every size allocated, as far as memory allows, and what ends its copies proved."""
        wanted = {kind: list(sizes(self._plan.min_bytes, self._plan.max_bytes)) for kind in self._kinds}
        while not self._allocate(wanted):
            self._client.close()
            self._client = open_copies(self._plan)
            self._client.receive()
        lanes = [Lane(direction, kind, size) for kind in wanted for size in wanted[kind] for direction in DIRECTIONS]
        if not lanes:
            reasons = [warning["message"] for warning in self.sweep.warnings if warning["code"] == _LEFT_OUT]
            raise BenchmarkFailed(f"no copy can be measured: {reasons[0]}")
        self._points = {lane: self._points.get(lane, Point(*lane)) for lane in lanes}
        self.sweep.points = list(self._points.values())
        for kind in wanted:
            self._prove(kind)

    def _allocate(self, wanted: dict[str, list[int]]) -> bool:
        """Allocate what is wanted; what cannot be had is taken out of it. False if the worker was lost by it."""
        for kind, all_sizes in wanted.items():
            for number, size in enumerate(all_sizes):
                self._observer.stage(f"allocating {units.size(size)} ({TITLES[kind]})")
                try:
                    added: Held = self._client.ask("bandwidth_add", memory=kind, size=size, free=free_memory())
                except BenchmarkFailed as error:
                    left_out = f"copies of {units.size(size)} and more ({TITLES[kind]}) are left out: {error}"
                    self.sweep.warn(_LEFT_OUT, left_out)
                    del all_sizes[number:]
                    if isinstance(error, WorkerLost):
                        return False
                    break
                if added["differs"] is not None:
                    self._points |= {lane: Point(*lane, FAILED, added["differs"]) for lane in _both(kind, size)}
        return True

    def _prove(self, kind: str) -> None:
        usable = [lane for lane, point in self._points.items() if lane.memory == kind and point.status == OK]
        if not usable:
            return
        self._observer.stage(f"proving fences ({TITLES[kind]})")
        try:
            answer: CopiesProved = self._client.ask("bandwidth_prove", memory=kind)
        except WorkerLost:
            raise
        except BenchmarkFailed as error:
            for lane in usable:
                self._fail(lane, str(error))
            return
        self.sweep.target["fence"][kind] = {direction: answer[direction] for direction in DIRECTIONS}
        for item in answer["estimates"]:
            self._estimates[Lane(item["direction"], kind, item["bytes"])] = {TOTAL: item["ns"]}

    # The measurement

    def _measure(self) -> str:
        if not self._estimates:
            return "no copy left to measure"
        duration_ns = round(self._plan.duration_s * 1e9 / len(self._estimates))
        rule = StopRule(duration_ns, _PRECISION, self._plan.iterations)
        schedule = Schedule(self._estimates, rule, self._plan.seed)
        began = time.monotonic_ns()
        try:
            self._time_blocks(schedule)
        finally:
            self.sweep.took_ns = time.monotonic_ns() - began
        self._observer.stage("checking data")
        for kind, size in dict.fromkeys((lane.memory, lane.bytes) for lane in self._estimates):
            self._check(kind, size)
        return self._why(schedule.stopped or "")

    def _time_blocks(self, schedule: Schedule[Lane]) -> None:
        while (block := schedule.next_block()) is not None:
            self._observer.progress(schedule.progress)
            try:
                answer: Samples = self._client.ask("bandwidth_block", **_request(block))
            except BenchmarkFailed as error:
                self._fail(block.lane, str(error))
                if isinstance(error, WorkerLost):
                    raise
                schedule.remove(block.lane)
                continue
            schedule.add(block, answer["samples"], answer["spent_ns"])
            self._add(block, answer)

    def _add(self, block: Block[Lane], answer: Samples) -> None:
        samples = answer["samples"]
        self._samples[block.lane] += samples
        self._points[block.lane].blocks.append([block.round, block.n, answer["start_ns"], round(median(samples))])
        if time.monotonic() - self._kept_at > _KEEP_EVERY_S:
            self._summarise()

    def _check(self, kind: str, size: int) -> None:
        """Hold what the timed copies left against what was to be copied."""
        try:
            left: Held = self._client.ask("bandwidth_finish", memory=kind, size=size)
            wrong = left["differs"]
        except WorkerLost:
            raise
        except BenchmarkFailed as error:
            wrong = str(error)
        for lane in _both(kind, size) if wrong is not None else ():
            if self._points[lane].status == OK:
                self._fail(lane, f"after the timed copies: {wrong}")

    def _why(self, stopped: str) -> str:
        """Why the schedule stopped; its budget is that of a lane, the user's that of the sweep."""
        return {
            "duration": f"duration: {self._plan.duration_s:g} s",
            "iterations": f"iterations: {self._plan.iterations} of each copy",
            "no mode left to measure": "no copy left to measure",
        }.get(stopped.partition(":")[0], stopped)

    # The sweep

    def _fail(self, lane: Lane, reason: str) -> None:
        point = self._points[lane]
        point.status, point.reason = FAILED, reason

    def _summarise(self) -> None:
        """Statistics of every point from its samples, and the sweep so far to whoever saves it."""
        for lane, point in self._points.items():
            samples = self._samples[lane]
            if samples:
                point.stats = summarise(samples, [block[1] for block in point.blocks])
                point.samples_ns = samples if len(samples) <= KEPT_SAMPLES else None
        self._keep(self.sweep)
        self._kept_at = time.monotonic()

    def _end(self) -> None:
        self.sweep.environment["load_average"]["end"] = load_average()
        for lane, point in self._points.items():
            if point.status == OK and not self._samples[lane]:
                self._fail(lane, "the sweep ended before it was measured")
        self._summarise()


def _both(kind: str, size: int) -> list[Lane]:
    """A size in both directions: what is wrong with the data of a round trip can be either's fault."""
    return [Lane(direction, kind, size) for direction in DIRECTIONS]


def _request(block: Block[Lane]) -> dict[str, object]:
    lane = block.lane
    return {"direction": lane.direction, "memory": lane.memory, "size": lane.bytes, "n": block.n, "drop": block.drop}
