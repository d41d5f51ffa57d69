"""One bandwidth curve: its copies, the schedule of their blocks, and the result it becomes, kept as it grows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from ortbench.core import units
from ortbench.core.errors import BenchmarkFailed
from ortbench.features.bandwidth.analysis import TITLES, copies, fail, put_samples, sync_of
from ortbench.features.bandwidth.model import KIND, CopiesProved, CopyEp
from ortbench.features.bandwidth.plan import CopyPlan, sizes
from ortbench.measure.configuration import Configuration
from ortbench.measure.describe import new_result
from ortbench.measure.driver import Driver
from ortbench.measure.environment import free_memory, load_average
from ortbench.measure.forecast import Forecast, Progress
from ortbench.measure.process import Client, WorkerLost
from ortbench.measure.schedule import Block, Estimates, Schedule, Series, StopRule
from ortbench.model.modes import COPY, DIRECTIONS, LATENCY
from ortbench.model.protocol import Held, Samples
from ortbench.model.result import Case, Result
from ortbench.model.schema import Direction, Machine, Stopped
from ortbench.plan.plan import Loop, Observer, Plan

_PRECISION = 0.01  # within which every median is known when the sweep may stop early
_LEFT_OUT = "sizes-left-out"


def open_copies(plan: CopyPlan) -> Client:
    """A fresh worker that has been sent the EP whose copies it is to time."""
    client = Client(plan.timeout_s, plan.target.python)
    client.send("bandwidth_open", **plan.worker_request())
    return client


class Copies(NamedTuple):
    """A series: copies of one size, direction and host memory."""

    direction: Direction
    memory: str
    bytes: int

    @property
    def row(self) -> tuple[str, int]:
        """What the case of both directions is of."""
        return self.memory, self.bytes

    @property
    def name(self) -> str:
        return f"{self.direction} of {units.size(self.bytes)} ({TITLES[self.memory]})"


def copy_driver(
    plan: CopyPlan, client: Client, keep: Callable[[Result], None], observer: Observer | None = None
) -> Driver:
    """What measures a bandwidth curve, in a worker that `open_copies` started; `keep` saves the result so far."""
    forecast = Forecast(Loop(), configurations=0, modes=0)
    return Driver([CopyConfiguration(plan, client, keep)], CopySchedule, observer, forecast=forecast)


class CopySchedule(Schedule[Series]):
    """Rounds of all copies, whose time is the curve's; requests to the worker, which take longer than short copies, are no part of it."""

    def __init__(self, driver: Driver, series: Estimates[Series]) -> None:
        (configuration,) = driver.configurations
        assert isinstance(configuration, CopyConfiguration)
        self._plan, self._observer = configuration.copy_plan, driver.progress.observer
        duration_ns = round(self._plan.duration_s * 1e9 / len(series))
        rule = StopRule(duration_ns, _PRECISION, self._plan.iterations, per=COPY)
        super().__init__(series, rule, self._plan.seed)

    def next_block(self) -> Block[Series] | None:
        block = super().next_block()
        if block is not None:
            self._observer.progress(self.progress)
        elif self.stopped is not None and self.stopped["reason"] == "duration":  # its budget is that of one copy
            self.stopped = {"reason": "duration", "value": self._plan.duration_s}
        return block

    def add(self, block: Block[Series], samples: Sequence[int], spent_ns: int, waited_ns: int = 0) -> None:
        super().add(block, samples, spent_ns)


class CopyConfiguration(Configuration):
    """A bandwidth curve of one EP, whose modes are the series of its copies, by their names."""

    per = COPY
    watches_gpus = False
    first_ns = 0

    def __init__(self, plan: CopyPlan, client: Client, keep: Callable[[Result], None]) -> None:
        whole = Plan(
            "", plan.target, modes=(), timeout_s=plan.timeout_s, wait_quiet_s=plan.wait_quiet_s,
            require_quiet=plan.require_quiet, command=plan.command,
        )  # fmt: skip
        super().__init__(whole, client, keep)
        self.copy_plan = plan
        self._kinds: list[str] = []
        self._estimates: dict[str, float | None] = {}
        self._rows: dict[tuple[str, int], Case] = {}
        self._differing: dict[tuple[str, int], str] = {}
        self._series: dict[str, Copies] = {}
        self._samples: dict[str, list[int]] = {}
        self._blocks: dict[str, list[list[int]]] = defaultdict(list)
        self._finished: set[tuple[str, int]] = set()
        self.result = new_result(plan.command, setup={"seed": plan.seed}, kind=KIND.key)

    @property
    def title(self) -> str:
        return self.plan.target.ep

    @property
    def modes(self) -> list[str]:
        """The copies that can be timed and have not failed."""
        return [name for name in self._estimates if self._series[name].direction not in self._case(name).checks]

    def _case(self, name: str) -> Case:
        return self._rows[self._series[name].row]

    @property
    def is_open(self) -> bool:
        """Whether any copy was measured."""
        return any(self._samples.values())

    def reason_without_worker(self, error: WorkerLost) -> Stopped:
        if not self.is_open:
            raise BenchmarkFailed(f"before any copy was measured {error}") from None
        return {"reason": "error", "message": str(error)}

    # Before the measurement

    def open(self, machine: Machine, run_id: str) -> None:
        opened: CopyEp = self.worker.receive()
        self.result.environment = {**machine, **opened["runtime"]}
        self._kinds = opened["kinds"]
        self.result.target = {
            "ep": opened["ep"],
            "ep_requested": self.plan.target.ep,
            "ep_library": opened["library"],
            "ep_version": opened["version"],
            "python": self.plan.target.python,
            "device": opened["device"],
            "memory": opened["memory"],
            "sync": None,
            "copy_sync": {},
            "ep_options": {},
        }
        for note in opened["notes"]:
            self.result.warn(note["code"], note["message"])

    def prepare_all(self, progress: Progress) -> None:
        """Have every size allocated, as far as memory allows, and what ends its copies verified."""
        plan = self.copy_plan
        wanted = {kind: list(sizes(plan.min_bytes, plan.max_bytes)) for kind in self._kinds}
        while not self._allocate(wanted, progress):
            self._close_worker()
            self._client = open_copies(plan)
            self.worker.receive()
        self._rows = {(kind, size): copies(kind, size) for kind in wanted for size in wanted[kind]}
        series = [Copies(direction, *row) for row in self._rows for direction in DIRECTIONS]
        self._series = {it.name: it for it in series}
        self._samples = {name: [] for name in self._series}
        if not self._rows:
            reasons = [warning["message"] for warning in self.result.warnings if warning["code"] == _LEFT_OUT]
            raise BenchmarkFailed(f"no copy can be measured: {reasons[0]}")
        for row in self._differing.keys() & self._rows.keys():
            self._fail_both(row, self._differing[row])
        self.result.cases = list(self._rows.values())
        kinds, every = [kind for kind in wanted if wanted[kind]], sorted({size for _, size in self._rows})
        self.result.axes = [
            {"name": "memory", "unit": "", "values": [*kinds]},
            {"name": "size", "unit": "B", "values": [*every]},
        ]
        for kind in kinds:
            self._verify(kind, progress)

    def _allocate(self, wanted: dict[str, list[int]], progress: Progress) -> bool:
        """Allocate what is wanted; what cannot be had is taken out of it. False if the worker was lost by it."""
        for kind, all_sizes in wanted.items():
            for number, size in enumerate(all_sizes):
                progress.observer.stage(f"allocating {units.size(size)} ({TITLES[kind]})")
                try:
                    added: Held = self.ask("bandwidth_add", memory=kind, size=size, free=free_memory())
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

    def _verify(self, kind: str, progress: Progress) -> None:
        usable = [row for row in self._rows if row[0] == kind and row not in self._differing]
        if not usable:
            return
        progress.observer.stage(f"verifying synchronization ({TITLES[kind]})")
        try:
            answer: CopiesProved = self.ask("bandwidth_prove", memory=kind)
        except WorkerLost:
            raise
        except BenchmarkFailed as error:
            for row in usable:
                self._fail_both(row, str(error))
            return
        sync_of(self.result)[kind] = {direction: answer[direction] for direction in DIRECTIONS}
        for item in answer["estimates"]:
            self._estimates[Copies(item["direction"], kind, item["bytes"]).name] = item["ns"]

    # The measurement

    def estimates_ns(self, mode: str) -> dict[str, float | None]:
        return {LATENCY: self._estimates[mode]}

    def block(self, block: Block[Series]) -> Samples | None:
        name = block.series.mode
        direction, memory, size = self._series[name]
        try:
            timed: Samples = self.ask(
                "bandwidth_block", direction=direction, memory=memory, size=size, n=block.n, drop=block.drop
            )
        except BenchmarkFailed as error:
            fail(self._case(name), direction, str(error))
            if isinstance(error, WorkerLost):
                raise
            return None
        self._samples[name] += timed["samples"]
        self._blocks[name].append([block.round, block.n, timed["start_ns"]])
        return timed

    def finish(self, mode: str, goes_on: bool = False) -> None:
        """Compare what the timed copies left with what was to be copied."""
        row = kind, size = self._series[mode].row
        if row in self._finished:
            return
        self._finished.add(row)
        try:
            left: Held = self.ask("bandwidth_finish", memory=kind, size=size)
            wrong = left["differs"]
        except WorkerLost:
            raise
        except BenchmarkFailed as error:
            wrong = str(error)
        if wrong is not None:
            self._fail_both(row, f"after the timed copies: {wrong}")

    # The result

    def _fail_both(self, row: tuple[str, int], reason: str) -> None:
        """Fail what did not fail before; what is wrong with the data of a round trip can be either direction's fault."""
        case = self._rows[row]
        for direction in DIRECTIONS:
            if direction not in case.checks:
                fail(case, direction, reason)

    def keep(self) -> None:
        """Statistics of every case from its samples, and the result so far to whoever saves it."""
        for name, samples in self._samples.items():
            if samples:
                put_samples(self._case(name), self._series[name].direction, samples, self._blocks[name])
        self._keep(self.result)

    def end(self, why: Stopped | None, took_ns: int | None, lost: Collection[str] = ()) -> None:
        self.result.stopped, self.result.took_ns = why, took_ns
        self.result.environment["load_average"]["end"] = load_average()
        for name, samples in self._samples.items():
            case, direction = self._case(name), self._series[name].direction
            if direction not in case.checks and not samples:
                fail(case, direction, "the sweep ended before it was measured")
        self.keep()
