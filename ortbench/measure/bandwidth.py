"""One bandwidth curve: its worker, the schedule of its copies, and the result it becomes, kept as it grows."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from datetime import UTC, datetime
from typing import NamedTuple

from ortbench.analysis.bandwidth import TITLES, copies, fail, put_samples, sync_of
from ortbench.core import units
from ortbench.core.errors import BenchmarkFailed
from ortbench.core.version import __version__
from ortbench.measure.environment import environment, free_memory, load_average
from ortbench.measure.process import Client, WorkerLost, open_copies
from ortbench.measure.schedule import Block, Schedule, StopRule
from ortbench.model.modes import COPY, DIRECTIONS, LATENCY
from ortbench.model.protocol import CopiesProved, CopyEp, Held, Samples
from ortbench.model.result import BANDWIDTH, Case, Result
from ortbench.model.schema import Direction, Stopped
from ortbench.plan.bandwidth_plan import CopyPlan, sizes
from ortbench.plan.plan import Observer

_PRECISION = 0.01  # within which every median is known when the sweep may stop early
_KEEP_EVERY_S = 5.0
_LEFT_OUT = "sizes-left-out"


class Lane(NamedTuple):
    """What alternates: copies of one size, direction and host memory."""

    direction: Direction
    memory: str
    bytes: int

    @property
    def place(self) -> tuple[str, int]:
        """Of its case."""
        return self.memory, self.bytes


class CopyBench:
    """Measures a sweep.

    Args:
        plan: checked.
        client: a worker that `open_copies` started.
        keep: saves the result so far.
        observer: told what happens.
    """

    def __init__(
        self,
        plan: CopyPlan,
        client: Client,
        keep: Callable[[Result], None],
        observer: Observer | None = None,
    ) -> None:
        self._plan = plan
        self._client = client
        self._keep = keep
        self._observer = observer or Observer()
        self._kinds: list[str] = []
        self._estimates: dict[Lane, dict[str, float | None]] = {}
        self._cases: dict[tuple[str, int], Case] = {}
        self._differing: dict[tuple[str, int], str] = {}
        self._samples: dict[Lane, list[int]] = {}
        self._blocks: dict[Lane, list[list[int]]] = defaultdict(list)
        self._kept_at = time.monotonic()
        self.interrupted = False
        self.result = Result(
            tool={"name": "ortbench", "version": __version__},
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            command=list(plan.command),
            setup={"seed": plan.seed},
            kind=BANDWIDTH,
        )

    def run(self) -> Result:
        """Measure; after Ctrl-C or a lost worker the result is what there is of it.

        Raises:
            BadInput, BenchmarkFailed, Unsupported: before anything could be measured.
        """
        try:
            self._describe()
            self._set_up()
            self.result.stopped = self._measure()
        except KeyboardInterrupt:
            if not any(self._samples.values()):
                raise
            self.interrupted, self.result.stopped = True, {"reason": "interrupted"}
        except WorkerLost as error:
            if not any(self._samples.values()):
                raise BenchmarkFailed(f"before any copy was measured {error}") from None
            self.result.stopped = {"reason": "error", "message": str(error)}
        finally:
            self._client.close()
        self._end()
        return self.result

    # Before the measurement

    def _describe(self) -> None:
        self._observer.stage(f"loading {self._plan.target.ep}")
        machine = environment()
        opened: CopyEp = self._client.receive()
        self.result.environment = {**machine, **opened["runtime"]}
        self._kinds = opened["kinds"]
        self.result.target = {
            "ep": opened["ep"],
            "ep_requested": self._plan.target.ep,
            "ep_library": opened["library"],
            "ep_version": opened["version"],
            "python": self._plan.target.python,
            "device": opened["device"],
            "memory": opened["memory"],
            "sync": None,
            "copy_sync": {},
            "ep_options": {},
        }
        for note in opened["notes"]:
            self.result.warn(note["code"], note["message"])

    def _set_up(self) -> None:
        """Have every size allocated, as far as memory allows, and what ends its copies proved."""
        wanted = {kind: list(sizes(self._plan.min_bytes, self._plan.max_bytes)) for kind in self._kinds}
        while not self._allocate(wanted):
            self._client.close()
            self._client = open_copies(self._plan)
            self._client.receive()
        self._cases = {(kind, size): copies(kind, size) for kind in wanted for size in wanted[kind]}
        self._samples = {Lane(direction, *place): [] for place in self._cases for direction in DIRECTIONS}
        if not self._cases:
            reasons = [warning["message"] for warning in self.result.warnings if warning["code"] == _LEFT_OUT]
            raise BenchmarkFailed(f"no copy can be measured: {reasons[0]}")
        for place in self._differing.keys() & self._cases.keys():
            self._fail_both(place, self._differing[place])
        self.result.cases = list(self._cases.values())
        kinds, every = [kind for kind in wanted if wanted[kind]], sorted({size for _, size in self._cases})
        self.result.axes = [
            {"name": "memory", "unit": "", "values": [*kinds]},
            {"name": "size", "unit": "B", "values": [*every]},
        ]
        for kind in kinds:
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
                    self.result.warn(_LEFT_OUT, left_out)
                    del all_sizes[number:]
                    if isinstance(error, WorkerLost):
                        return False
                    break
                if added["differs"] is not None:
                    self._differing[kind, size] = added["differs"]
        return True

    def _prove(self, kind: str) -> None:
        usable = [place for place in self._cases if place[0] == kind and place not in self._differing]
        if not usable:
            return
        self._observer.stage(f"proving fences ({TITLES[kind]})")
        try:
            answer: CopiesProved = self._client.ask("bandwidth_prove", memory=kind)
        except WorkerLost:
            raise
        except BenchmarkFailed as error:
            for place in usable:
                self._fail_both(place, str(error))
            return
        sync_of(self.result)[kind] = {direction: answer[direction] for direction in DIRECTIONS}
        for item in answer["estimates"]:
            self._estimates[Lane(item["direction"], kind, item["bytes"])] = {LATENCY: item["ns"]}

    # The measurement

    def _measure(self) -> Stopped | None:
        if not self._estimates:
            return {"reason": "nothing_left", "per": COPY}
        duration_ns = round(self._plan.duration_s * 1e9 / len(self._estimates))
        rule = StopRule(duration_ns, _PRECISION, self._plan.iterations, lane=COPY)
        schedule = Schedule(self._estimates, rule, self._plan.seed)
        began = time.monotonic_ns()
        try:
            self._time_blocks(schedule)
        finally:
            self.result.took_ns = time.monotonic_ns() - began
        self._observer.stage("checking data")
        for place in dict.fromkeys(lane.place for lane in self._estimates):
            self._check(*place)
        if schedule.stopped is not None and schedule.stopped["reason"] == "duration":  # its budget is that of one copy
            return {"reason": "duration", "value": self._plan.duration_s}
        return schedule.stopped

    def _time_blocks(self, schedule: Schedule[Lane]) -> None:
        while (block := schedule.next_block()) is not None:
            self._observer.progress(schedule.progress)
            try:
                answer: Samples = self._client.ask("bandwidth_block", **_request(block))
            except BenchmarkFailed as error:
                fail(self._cases[block.lane.place], block.lane.direction, str(error))
                if isinstance(error, WorkerLost):
                    raise
                schedule.remove(block.lane)
                continue
            schedule.add(block, answer["samples"], answer["spent_ns"])
            self._add(block, answer)

    def _add(self, block: Block[Lane], answer: Samples) -> None:
        self._samples[block.lane] += answer["samples"]
        self._blocks[block.lane].append([block.round, block.n, answer["start_ns"]])
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
        if wrong is not None:
            self._fail_both((kind, size), f"after the timed copies: {wrong}")

    # The result

    def _fail_both(self, place: tuple[str, int], reason: str) -> None:
        """Fail what did not fail before; what is wrong with the data of a round trip can be either direction's fault."""
        case = self._cases[place]
        for direction in DIRECTIONS:
            if direction not in case.checks:
                fail(case, direction, reason)

    def _summarise(self) -> None:
        """Statistics of every case from its samples, and the result so far to whoever saves it."""
        for lane, samples in self._samples.items():
            if samples:
                put_samples(self._cases[lane.place], lane.direction, samples, self._blocks[lane])
        self._keep(self.result)
        self._kept_at = time.monotonic()

    def _end(self) -> None:
        self.result.environment["load_average"]["end"] = load_average()
        for lane, samples in self._samples.items():
            case = self._cases[lane.place]
            if lane.direction not in case.checks and not samples:
                fail(case, lane.direction, "the sweep ended before it was measured")
        self._summarise()


def _request(block: Block[Lane]) -> dict[str, object]:
    lane = block.lane
    return {"direction": lane.direction, "memory": lane.memory, "size": lane.bytes, "n": block.n, "drop": block.drop}
