"""One bandwidth curve: its copies, the schedule of their blocks, and the result it becomes, kept as it grows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from ortbench.core import units
from ortbench.core.errors import BenchmarkFailed
from ortbench.features.bandwidth.analysis import TITLES, copies, fail, memory_of, put_samples, size_of, sync_of
from ortbench.features.bandwidth.model import KIND, CopiesProved, CopyEp
from ortbench.features.bandwidth.plan import CopyPlan, sizes
from ortbench.measure.configuration import Configuration
from ortbench.measure.describe import new_result
from ortbench.measure.driver import Driver
from ortbench.measure.environment import free_memory, load_average
from ortbench.measure.process import Client, WorkerLost
from ortbench.measure.progress import Forecast, Progress
from ortbench.measure.schedule import Block, Estimates, Schedule, Series, StopRule
from ortbench.model.modes import COPY, D2H, DIRECTIONS, H2D, LATENCY
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
    case: Case
    samples: list[int]
    blocks: list[list[int]]

    @property
    def name(self) -> str:
        return f"{self.direction} of {units.size(size_of(self.case))} ({TITLES[memory_of(self.case)]})"


def copy_driver(
    plan: CopyPlan, client: Client, keep: Callable[[Result], None], observer: Observer | None = None
) -> Driver:
    """What measures a bandwidth curve, in a worker that `open_copies` started; `keep` saves the result so far."""

    def schedule(driver: Driver, series: Estimates[Series]) -> CopySchedule:
        driver.progress.begin("measure", "measuring")
        rule = StopRule(round(plan.duration_s * 1e9 / len(series)), _PRECISION, plan.iterations, per=COPY)
        return CopySchedule(series, rule, plan.seed)

    forecast = Forecast(Loop(), configurations=0, modes=0)
    return Driver([CopyConfiguration(plan, client, keep)], schedule, observer, forecast=forecast)


class CopySchedule(Schedule[Series]):
    """Rounds of all copies, whose time is the curve's; requests to the worker, which take longer than short copies, are no part of it."""

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
        self._series: dict[str, Copies] = {}
        self._estimates: dict[str, float | None] = {}
        self.result = new_result(plan.command, setup={"seed": plan.seed}, kind=KIND.key)

    @property
    def title(self) -> str:
        return self.plan.target.ep

    @property
    def modes(self) -> list[str]:
        """The copies that can be timed and have not failed."""
        return [name for name in self._estimates if self._series[name].direction not in self._series[name].case.checks]

    @property
    def is_open(self) -> bool:
        """Whether any copy was measured."""
        return any(it.samples for it in self._series.values())

    def reason_without_worker(self, error: WorkerLost) -> Stopped:
        if not self.is_open:
            raise BenchmarkFailed(f"before any copy was measured {error}") from None
        return {"reason": "error", "message": str(error)}

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
        cases = self.result.cases
        if not cases:
            left_out = next(it["message"] for it in self.result.warnings if it["code"] == _LEFT_OUT)
            raise BenchmarkFailed(f"no copy can be measured: {left_out}")
        series = [Copies(way, case, [], []) for case in cases for way in DIRECTIONS]
        self._series = {it.name: it for it in series}
        kinds = [*dict.fromkeys(map(memory_of, cases))]
        self.result.axes = [
            {"name": "memory", "unit": "", "values": [*kinds]},
            {"name": "size", "unit": "B", "values": sorted({*map(size_of, cases)})},
        ]
        for kind in kinds:
            self._verify(kind, progress)

    def _allocate(self, wanted: dict[str, list[int]], progress: Progress) -> bool:
        """Allocate what is wanted, a case each; what cannot be had is taken out of it. False if the worker was lost by it."""
        self.result.cases = []
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
                self.result.cases.append(case := copies(kind, size))
                if added["differs"] is not None:
                    _fail_both(case, added["differs"])
        return True

    def _verify(self, kind: str, progress: Progress) -> None:
        usable = [it for it in self._series.values() if memory_of(it.case) == kind and not it.case.checks]
        if not usable:
            return
        progress.observer.stage(f"verifying synchronization ({TITLES[kind]})")
        try:
            answer: CopiesProved = self.ask("bandwidth_prove", memory=kind)
        except WorkerLost:
            raise
        except BenchmarkFailed as error:
            for series in usable:
                _fail_both(series.case, str(error))
            return
        sync_of(self.result)[kind] = {H2D: answer[H2D], D2H: answer[D2H]}
        estimates = {(way, size): ns for way, size, ns in answer["estimates"]}
        self._estimates |= {it.name: estimates[it.direction, size_of(it.case)] for it in usable}

    def estimates_ns(self, mode: str) -> dict[str, float | None]:
        return {LATENCY: self._estimates[mode]}

    def block(self, block: Block[Series]) -> Samples | None:
        copied = self._series[block.series.mode]
        asked = {"direction": copied.direction, **copied.case.point, "n": block.n, "drop": block.drop}
        try:
            timed: Samples = self.ask("bandwidth_block", **asked)
        except BenchmarkFailed as error:
            fail(copied.case, copied.direction, str(error))
            if isinstance(error, WorkerLost):
                raise
            return None
        copied.samples.extend(timed["samples"])
        copied.blocks.append([block.round, block.n, timed["start_ns"]])
        return timed

    def finish(self, mode: str, goes_on: bool = False) -> None:
        """Compare what the timed copies left with what was to be copied, once where both directions were timed."""
        case = self._series[mode].case
        if self._series[mode].direction == D2H and H2D not in case.checks:
            return
        try:
            left: Held = self.ask("bandwidth_finish", **case.point)
            wrong = left["differs"]
        except WorkerLost:
            raise
        except BenchmarkFailed as error:
            wrong = str(error)
        if wrong is not None:
            _fail_both(case, f"after the timed copies: {wrong}")

    def keep(self) -> None:
        """Statistics of every case from its samples, and the result so far to whoever saves it."""
        for series in self._series.values():
            if series.samples:
                put_samples(series.case, series.direction, series.samples, series.blocks)
        self._keep(self.result)

    def end(self, why: Stopped | None, took_ns: int | None, lost: Collection[str] = ()) -> None:
        if why is not None and why["reason"] == "duration":  # which is that of one copy
            why = {"reason": "duration", "value": self.copy_plan.duration_s}
        self.result.stopped, self.result.took_ns = why, took_ns
        self.result.environment["load_average"]["end"] = load_average()
        for series in self._series.values():
            if series.direction not in series.case.checks and not series.samples:
                fail(series.case, series.direction, "the sweep ended before it was measured")
        self.keep()


def _fail_both(case: Case, reason: str) -> None:
    """Fail what did not fail before; what is wrong with the data of a round trip can be either direction's fault."""
    for direction in DIRECTIONS:
        if direction not in case.checks:
            fail(case, direction, reason)
