"""One bandwidth curve: its worker, the schedule of its copies, and the result it becomes, kept as it grows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from ortbench.core import units
from ortbench.core.errors import BenchmarkFailed
from ortbench.features.bandwidth.analysis import TITLES, copies, fail, put_samples, sync_of
from ortbench.features.bandwidth.model import KIND, CopiesProved, CopyEp
from ortbench.measure.describe import new_result
from ortbench.measure.environment import environment, free_memory, load_average
from ortbench.measure.experiment import Experiment
from ortbench.measure.forecast import Forecast
from ortbench.measure.gpus import Watch
from ortbench.measure.process import Client, WorkerLost
from ortbench.measure.schedule import Block, Schedule, StopRule
from ortbench.model.modes import COPY, DIRECTIONS, LATENCY
from ortbench.model.protocol import Held, Samples
from ortbench.model.result import Case, Result
from ortbench.model.schema import Direction, Stopped
from ortbench.plan.bandwidth_plan import CopyPlan, sizes
from ortbench.plan.plan import Loop, Observer

_PRECISION = 0.01  # within which every median is known when the sweep may stop early
_LEFT_OUT = "sizes-left-out"


def open_copies(plan: CopyPlan) -> Client:
    """A fresh worker that has been sent the EP whose copies it is to time."""
    client = Client(plan.timeout_s, plan.target.python)
    client.send("bandwidth_open", **plan.worker_request())
    return client


class Series(NamedTuple):
    """What alternates: copies of one size, direction and host memory."""

    direction: Direction
    memory: str
    bytes: int

    @property
    def place(self) -> tuple[str, int]:
        return self.memory, self.bytes


class CopyBench(Experiment[Series]):
    """Measures a bandwidth curve, in a worker that `open_copies` started; `keep` saves the result so far."""

    counts_waits = False  # of copies that take less than a request to the worker

    def __init__(
        self, plan: CopyPlan, client: Client, keep: Callable[[Result], None], observer: Observer | None = None
    ) -> None:
        super().__init__([], Forecast(Loop(), sides=0, modes=0), observer)
        self._plan = plan
        self._client = client
        self._save = keep
        self._kinds: list[str] = []
        self._estimates: dict[Series, dict[str, float | None]] = {}
        self._cases: dict[tuple[str, int], Case] = {}
        self._differing: dict[tuple[str, int], str] = {}
        self._samples: dict[Series, list[int]] = {}
        self._blocks: dict[Series, list[list[int]]] = defaultdict(list)
        self.result = new_result(plan.command, setup={"seed": plan.seed}, kind=KIND.key)

    @property
    def results(self) -> list[Result]:
        return [self.result]

    @property
    def _asked(self) -> CopyPlan:
        return self._plan

    def _has_begun(self) -> bool:
        return any(self._samples.values())

    def _lost(self, error: WorkerLost) -> Stopped:
        if not self._has_begun():
            raise BenchmarkFailed(f"before any copy was measured {error}") from None
        return {"reason": "error", "message": str(error)}

    def _close(self) -> None:
        self._client.close()

    # Before the measurement

    def _open(self) -> None:
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
        self._set_up()

    def _set_up(self) -> None:
        """Have every size allocated, as far as memory allows, and what ends its copies proved."""
        wanted = {kind: list(sizes(self._plan.min_bytes, self._plan.max_bytes)) for kind in self._kinds}
        while not self._allocate(wanted):
            self._client.close()
            self._client = open_copies(self._plan)
            self._client.receive()
        self._cases = {(kind, size): copies(kind, size) for kind in wanted for size in wanted[kind]}
        self._samples = {Series(direction, *place): [] for place in self._cases for direction in DIRECTIONS}
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
        self._observer.stage(f"verifying synchronization ({TITLES[kind]})")
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
            self._estimates[Series(item["direction"], kind, item["bytes"])] = {LATENCY: item["ns"]}

    # The measurement

    def _measure(self, watch: Watch) -> Stopped | None:
        if not self._estimates:
            return {"reason": "nothing_left", "per": COPY}
        duration_ns = round(self._plan.duration_s * 1e9 / len(self._estimates))
        rule = StopRule(duration_ns, _PRECISION, self._plan.iterations, per=COPY)
        schedule = Schedule(self._estimates, rule, self._plan.seed)
        with self._clocked():
            self._time_blocks(schedule)
        self._observer.stage("checking data")
        for place in dict.fromkeys(series.place for series in self._estimates):
            self._check(*place)
        if schedule.stopped is not None and schedule.stopped["reason"] == "duration":  # its budget is that of one copy
            return {"reason": "duration", "value": self._plan.duration_s}
        return schedule.stopped

    def _tell_progress(self, share: float) -> None:
        self._observer.progress(share)

    def _time(self, block: Block[Series]) -> Samples | None:
        direction, memory, size = block.series
        try:
            timed: Samples = self._client.ask(
                "bandwidth_block", direction=direction, memory=memory, size=size, n=block.n, drop=block.drop
            )
        except BenchmarkFailed as error:
            fail(self._cases[block.series.place], direction, str(error))
            if isinstance(error, WorkerLost):
                raise
            return None
        return timed

    def _timed_by(self, block: Block[Series]) -> tuple[int, Sequence[int]]:
        return 0, [self._client.pid]

    def _add(self, block: Block[Series], answer: Samples) -> None:
        self._samples[block.series] += answer["samples"]
        self._blocks[block.series].append([block.round, block.n, answer["start_ns"]])

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

    def _save_all(self) -> None:
        """Statistics of every case from its samples, and the result so far to whoever saves it."""
        for series, samples in self._samples.items():
            if samples:
                put_samples(self._cases[series.place], series.direction, samples, self._blocks[series])
        self._save(self.result)

    def _end(self, why: Stopped | None, lost: Collection[str] = ()) -> None:
        self.result.stopped, self.result.took_ns = why, self._took_ns
        self.result.environment["load_average"]["end"] = load_average()
        for series, samples in self._samples.items():
            case = self._cases[series.place]
            if series.direction not in case.checks and not samples:
                fail(case, series.direction, "the sweep ended before it was measured")
        self._keep()
