"""One configuration of a load: its clients, what was taken of its load points, and the result that becomes of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import islice
from statistics import median
from typing import TypeVar

from ortbench.analysis.loads import queueing
from ortbench.analysis.loads.knees import knees
from ortbench.analysis.loads.levels import CONCURRENCY, RATE, LoadPoint, at, load_cases, put_scaling
from ortbench.analysis.loads.load_levels import (
    LATE_NS,
    LOCK_MATTERS,
    ClosedLoopBlock,
    LoadSamples,
    Requests,
    case_of,
    put_clock,
)
from ortbench.analysis.loads.mixing import put_shapes
from ortbench.core.errors import OrtbenchError, WrongOutputs
from ortbench.measure.client_pool import ClientPool
from ortbench.measure.configuration import Configuration
from ortbench.measure.gpus import Watch, known_card
from ortbench.measure.process import Client, WorkerLost
from ortbench.measure.schedule import Block, dropped
from ortbench.model.modes import GIL_WAIT, LATE_SHARE, LATENCY
from ortbench.model.result import FAILED, LOAD, Case
from ortbench.model.schema import PROCESS, SloRate
from ortbench.plan.load_plan import AUTO, UNIFORM, LoadPlan, read_timestamps, settings
from ortbench.plan.plan import Observer

FEWEST_CYCLES = 5  # of a client in a block, if all wait for one another
SHORTEST_BLOCK_NS = 20_000_000
SKIPPED = 3  # requests at the beginning of a stretch that a judge looks at
_ROUNDS = 32  # that a load point's time is to be enough for with a judge, unless its blocks must be longer
_LONGEST_JUDGED_S = 0.25  # of such a block of a closed loop: more short blocks tell more than fewer long ones
ALONE_S = 0.1  # of a block of one client alone
_MOST_RUNS = 3_000_000  # of a load point that are kept
_ORDER = 4096  # shapes, after which clients begin again with the first
_UNITS = {CONCURRENCY: "clients", RATE: "requests/s"}  # of the axes
T = TypeVar("T")


class ArrivalSchedule:
    """Makes the moments of a load before anything begins."""

    def __init__(self, load: LoadPlan, seed: int) -> None:
        self._load, self._seed = load, seed
        self._stamps = None if load.file is None else read_timestamps(load.file)

    @property
    def level_s(self) -> float:
        """How long a load point is meant to be, s."""
        return self._load.level_s(None if self._stamps is None else self._stamps[-1])

    @property
    def rates(self) -> tuple[float, ...]:
        rate = self._load.rate
        if isinstance(rate, tuple):
            return rate
        return () if rate == AUTO or self._stamps is None else (queueing.own_rate(self._stamps),)

    def longest_s(self, rate: float) -> float | None:
        """How long a file of arrivals goes on at a rate, s; None where arrivals are made up."""
        return None if self._stamps is None else (len(self._stamps) - 1) / rate

    def judged_block_s(self, place: LoadPoint, least: int, run_s: float) -> float:
        """How long a block of a load point is that a judge looks at: so that there are `_ROUNDS`, or as long as the `least` runs take."""
        fair_s = self.level_s / _ROUNDS
        if place.kind == CONCURRENCY:
            needed_s = max(SHORTEST_BLOCK_NS / 1e9, FEWEST_CYCLES * run_s * place.value, least * run_s)
            return max(needed_s, min(fair_s, _LONGEST_JUDGED_S))
        block_s = max(fair_s, (least + SKIPPED) / place.value)
        longest_s = self.longest_s(place.value)
        return block_s if longest_s is None else min(block_s, longest_s)

    def moments(self, rate: float, duration_s: float, repeat: int) -> queueing.Moments:
        """When requests are due, ns from the beginning on, shape (n,); the same for the same `repeat`."""
        if self._stamps is not None:
            return queueing.replayed(self._stamps, rate, duration_s)
        if self._load.arrivals == UNIFORM:
            return queueing.uniform(rate, duration_s)
        return queueing.poisson(rate, duration_s, self._seed, repeat)


class LoadSide:
    """A configuration, and the load that is put on it, piece by piece; who uses it says when, and what comes next.

    Attributes:
        taken: what was taken of each level.
        processes: the first round of each process, where there are to be several.
        found: of modes for which the highest rate was looked for, that one.
    """

    def __init__(self, side: Configuration, load: LoadPlan, level_s: float, observer: Observer) -> None:
        self.side, self._load, self._level_s, self._observer = side, load, level_s, observer
        self._seed, self._stream = side.plan.inputs.seed, side.plan.stream
        self.clients = ClientPool(side, load.sessions, self._seed, observer.stage)
        self._ready: dict[str, int] = {}  # clients by mode
        self._worker: Client | None = None  # that has them
        self._every: dict[int, int] = {}
        self._watch: Watch | None = None
        self._card: int | None = None
        self._alone_clocks: dict[str, list[int]] = {}
        self._rows: dict[int, tuple[object, Case]] = {}
        self.taken: list[LoadSamples] = []
        self.processes: list[int] = []
        self.found: dict[str, SloRate | None] = {}

    # Before the first block

    def opened(self) -> None:
        self.fill()
        if self.side.plan.inputs.path is not None and max(self._load.closed, default=self._load.workers) > 1:
            same = (
                "all clients have the same inputs, from --input: the comparison of outputs cannot show mixed-up buffers"
            )
            self.side.result.warn("same-inputs", same)

    def have_clients(self, rates: Sequence[float]) -> None:
        """Have the clients of all load points that are known before, of the modes that are set up."""
        side = self.side
        for mode in side.modes:
            for key in (*((CONCURRENCY, it) for it in self._load.closed), *((RATE, it) for it in rates)):
                self.add(mode, key)
        self._prepare()

    def _prepare(self) -> None:
        for taken in self.taken:
            if taken.failed is None:
                self._observer.stage(f"preparing clients of {taken.mode} ({self.side.name})")
                self._attempt(taken, lambda: None)

    def begin_process(self, number: int) -> None:
        """Have clients in another worker, from this round on; what does not run there fails."""
        self.processes.extend([number] * bool(self.side.modes))
        for taken in self.taken:
            if taken.mode not in self.side.modes:
                taken.failed = taken.failed or self.side.cases[taken.mode].reason
        self._prepare()

    def add(self, mode: str, key: tuple[str, float]) -> LoadSamples:
        """Another load point, of which nothing was taken yet."""
        apart = {it.name: LoadSamples(mode, key) for it in self._stream.shapes} if self._stream else {}
        limited = key[0] == RATE or not self._load.is_open  # with both, clients are there for the peak
        taken = LoadSamples(
            mode, key, slo=self._load.slo if limited else None, apart=apart,
            processes=self.processes,
        )  # fmt: skip
        self.taken.append(taken)
        return taken

    def watch(self, watch: Watch) -> None:
        """Take the GPU's clock at each load point from what is read from now on."""
        self._watch, self._card = watch, known_card(self.side.result.target)

    # Measuring

    @property
    def pids(self) -> list[int]:
        return [self.side.worker.pid, *self.clients.pids]

    def usable(self, taken: LoadSamples) -> bool:
        return taken.failed is None and taken.mode in self.side.modes

    def one_run_ns(self, mode: str) -> float:
        """About how long one run of one client alone takes."""
        known = self.side.cases[mode].samples.get(LATENCY)
        if known:
            return max(1.0, sum(known) / len(known))
        return max(1.0, self.side.estimates_ns(mode).get(LATENCY) or self.side.first_ns)

    def highest_rate(self, mode: str) -> float:
        """About how many requests a second can be served at most: what noise of the machine added to some is no part of it."""
        known = self.side.cases[mode].samples.get(LATENCY)
        return self._load.workers * 1e9 / max(1.0, median(known) if known else self.one_run_ns(mode))

    def alone(self, mode: str, number: int) -> None:
        """A block of one client alone, back to back: the sample of the mode's case."""
        if mode not in self.side.modes:
            return
        n = min(1000, max(3, round(ALONE_S * 1e9 / self.one_run_ns(mode))))
        begun = time.perf_counter_ns()
        self.side.block(mode, Block(number, mode, LATENCY, n, dropped(n)))
        self._alone_clocks.setdefault(mode, []).extend(self._clock_since(begun))

    def block(
        self, taken: LoadSamples, duration_ns: int, number: int, shape: int | None = None
    ) -> ClosedLoopBlock | None:
        """A block of a load point of a closed loop, or of one of its shapes apart; None where the load point failed in it."""
        count, order = int(taken.key[1]), self._order(number, _ORDER, shape)
        burst = self._attempt(taken, lambda: self.clients.closed(taken.mode, count, duration_ns, number, order))
        if burst is not None:
            taken.of(shape).clock_mhz += self._clock_since(burst.begin_ns)
            taken.outputs_match = True
            self._keep_burst(taken.of(shape), burst)
        return burst

    def stretch(
        self,
        taken: LoadSamples,
        due: queueing.Moments,
        cutoff_s: float,
        number: int,
        skip: int = 0,
        shape: int | None = None,
    ) -> Requests | None:
        """A stretch of requests at a rate, due ns from its beginning on, of which the first `skip` do not count; `shape` as of
        `block`; None where the load point failed in it."""
        count, cutoff_ns = self._load.workers, round(cutoff_s * 1e9)
        order = self._order(number, due.size, shape)
        found = self._attempt(taken, lambda: self.clients.open(taken.mode, count, due, cutoff_ns, number, order))
        if found is None:
            return None
        counts = found.without_first(skip)
        taken.of(shape).stretches.append(counts)
        taken.of(shape).clock_mhz += self._clock_since(found.begin_ns)
        taken.outputs_match = True
        return counts

    def _order(self, number: int, count: int, shape: int | None) -> list[int]:
        if self._stream is None or shape is not None:
            return [shape or 0]
        return list(islice(self._stream.numbers(self._seed + number), count))

    def _clock_since(self, begun: int) -> list[int]:
        """The SM clock, MHz, by all readings from a moment of `time.perf_counter_ns` on, and one now."""
        if self._watch is None or self._card is None:
            return []
        self._watch.look(now=True)
        own = [it for it in self._watch.readings if it["gpu"] == self._card and it.get("at_ns", 0) >= begun]
        return [it["sm_mhz"] for it in own if "sm_mhz" in it]

    def _attempt(self, taken: LoadSamples, do: Callable[[], T]) -> T | None:
        """Have something done with the clients of a load point; None where it failed, which the load point then says."""
        name, value = taken.key
        count = int(value) if name == CONCURRENCY else self._load.workers
        try:
            if self._worker is not self.side.worker:  # it is another one now, which has no clients yet
                self._ready.clear()
                self.clients.close()
                self._worker = self.side.worker
            if self._ready.get(taken.mode, 0) < count:
                self.clients.prepare(taken.mode, count)
                self._ready[taken.mode] = count
            return do()
        except WorkerLost as error:
            taken.failed = str(error)
            self.side.restart()
        except OrtbenchError as error:
            taken.failed = str(error)
            if isinstance(error, WrongOutputs):
                taken.outputs_match = False
        return None

    def _keep_burst(self, taken: LoadSamples, burst: ClosedLoopBlock) -> None:
        """Keep a block, unless there are more runs than a result holds: then one in several."""
        every = self._every.setdefault(id(taken), 1)
        if burst.round % every == 0:
            taken.bursts.append(burst)
        while len(taken.bursts) > 1 and sum(ends.size for it in taken.bursts for ends in it.ends) > _MOST_RUNS:
            every *= 2
            taken.bursts = [it for it in taken.bursts if it.round % every == 0]
            kept = "more inferences were timed than a result holds: some load points keep one block in several, and all figures are of these"
            self.side.result.warn("load-downsampled", kept)
        self._every[id(taken)] = every

    # The result

    def fill(self) -> None:
        side, load = self.side, self._load
        if not side.is_open:
            return
        result = side.result
        result.kind = LOAD
        result.load = settings(load, self._seed, self._level_s, self._stream)
        self.taken.sort(key=lambda it: (side.plan.modes.index(it.mode), it.is_open, it.key[1]))
        result.cases = [*side.cases.values(), *map(self._case, self.taken)]
        values = {name: sorted({it.key[1] for it in self.taken if it.key[0] == name}) for name in _UNITS}
        result.axes = [{"name": it, "unit": _UNITS[it], "values": [*found]} for it, found in values.items() if found]
        put_scaling(result)
        result.knee = knees(result)
        for mode, readings in self._alone_clocks.items():
            put_clock(side.cases[mode], readings)
        if load.slo is not None:
            result.slo = {"asked": dict(load.slo), "found": dict(self.found)}

    def _case(self, taken: LoadSamples) -> Case:
        parts = [*(it.round for it in taken.bursts), *(it.round for it in taken.stretches)]
        apart = [len(it.bursts) + len(it.stretches) for it in taken.apart.values()]
        known = (parts, apart, taken.failed, taken.outputs_match, len(taken.clock_mhz), len(self.processes))
        before = self._rows.get(id(taken))
        if before is not None and before[0] == known and parts:
            return before[1]
        found, alone = case_of(taken), self.side.cases[taken.mode]
        if taken.apart:
            put_shapes(found, taken)
        if not parts and taken.failed is None and alone.status == FAILED:
            found.status, found.reason = FAILED, alone.reason
        self._rows[id(taken)] = (known, found)
        return found

    def remark(self) -> None:
        """Warn of what a reader of the figures should know: that requests were late, that clients waited for one another, that
        a load point was cut off."""
        result = self.side.result
        cut_off = [said for it in self.taken if (said := _cut_off(it))]
        if cut_off and self._load.rate != AUTO:  # a search tries such rates too
            what = "requests came faster than they were served, so latencies are lower bounds"
            result.warn("overload", f"{what}: {', '.join(cut_off)}")
        waiting: dict[str, tuple[float, str]] = {}
        for case in load_cases(result):
            mode, where = case.mode, at(case).phrase
            if (waited := case.value(GIL_WAIT) or 0) > max(LOCK_MATTERS, waiting.get(mode, (0.0, ""))[0]):
                waiting[mode] = (waited, where)
            if (late := case.value(LATE_SHARE) or 0) > 0.01:
                how = f"more than {LATE_NS / 1e6:g} ms after they were due although a worker was free"
                message = f"{late:.1%} of the requests of {mode} {where} were issued {how}: the machine was busy"
                result.warn("late-requests", message)
        for mode, (share, where) in waiting.items():
            cure = "" if self._load.sessions == PROCESS else "; --sessions process measures without a shared GIL"
            message = f"clients of {mode} waited for the GIL {share:.0%} of their time {where}: copies and Python itself hold the GIL{cure}"
            result.warn("gil-wait", message)


def _cut_off(taken: LoadSamples) -> str:
    """How many requests were served where more came; nothing where that is not so."""
    if all(it.cutoff_ns is None for it in taken.stretches):
        return ""
    due, served = (sum(sizes) for sizes in zip(*((it.due.size, it.start.size) for it in taken.stretches), strict=True))
    return f"{served} of {due} served with {taken.mode} at {taken.key[1]:g} requests/s"
