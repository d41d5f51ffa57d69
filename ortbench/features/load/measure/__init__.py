"""A configuration under load: its clients, what was taken of its load points, and the result that becomes of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

from ortbench.analysis.load_points import INFERENCES, figures_of
from ortbench.core.errors import OrtbenchError, WrongOutputs
from ortbench.features.load.analysis import CONCURRENCY, RATE, LoadPoint, knees, put_scaling, queueing
from ortbench.features.load.analysis.blocks import Block as LoadedBlock
from ortbench.features.load.analysis.blocks import figures_of_block
from ortbench.features.load.analysis.samples import (
    GROUPED,
    LoadSamples,
    arrays,
    case_of,
    load_blocks,
    put_clock,
    put_shapes,
    write_samples,
)
from ortbench.features.load.measure.client_pool import ClientPool
from ortbench.features.load.model import KIND, SloRate
from ortbench.features.load.plan import AUTO, UNIFORM, LoadPlan, load_in, read_timestamps, settings
from ortbench.measure.gpus import known_card
from ortbench.measure.process import Client, WorkerLost
from ortbench.measure.progress import Progress
from ortbench.measure.rounds import StreamConfiguration
from ortbench.measure.schedule import Block, Series, dropped_count
from ortbench.model.modes import LATENCY, THROUGHPUT
from ortbench.model.protocol import Samples
from ortbench.model.result import FAILED, Case
from ortbench.model.schema import Machine, Stopped

FEWEST_CYCLES = 5  # of a client in a block, if all wait for one another
SHORTEST_BLOCK_NS = 20_000_000
SKIPPED = 3  # requests at the beginning of a stretch that a test looks at
_ROUNDS = 32  # that a load point's time is to be enough for with a test, unless its blocks must be longer
_LONGEST_TESTED_S = 0.25  # of such a block of a closed loop: more short blocks tell more than fewer long ones
_DURATION_S = 2.0  # of a load point
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
    def point_s(self) -> float:
        """How long a load point is meant to be, s: as long as a file of timestamps whose rate is its own."""
        if self._stamps is not None and self._load.rate is None and self._load.duration_s is None:
            return self._stamps[-1]
        return self._load.duration_s or _DURATION_S

    def tested_block_s(self, point: LoadPoint, least: int, run_s: float) -> float:
        """How long a block of a load point is that a test looks at: so that there are `_ROUNDS`, or as long as the `least` runs take."""
        fair_s = self.point_s / _ROUNDS
        if point.kind == CONCURRENCY:
            needed_s = max(SHORTEST_BLOCK_NS / 1e9, FEWEST_CYCLES * run_s * point.value, least * run_s)
            return max(needed_s, min(fair_s, _LONGEST_TESTED_S))
        block_s = max(fair_s, (least + SKIPPED) / point.value)
        return block_s if self._stamps is None else min(block_s, (len(self._stamps) - 1) / point.value)

    def moments(self, rate: float, duration_s: float, repeat: int) -> queueing.Moments:
        """When requests are due, ns from the beginning on, shape (n,); the same for the same `repeat`."""
        if self._stamps is not None:
            return queueing.replayed_arrivals(self._stamps, rate, duration_s)
        if self._load.arrivals == UNIFORM:
            return queueing.uniform_arrivals(rate, duration_s)
        return queueing.poisson_arrivals(rate, duration_s, self._seed, repeat)


@dataclass(frozen=True)
class LoadBlock(Block[Series]):
    """A block at a load point, or without one of one client alone."""

    duration_s: float = 0.0  # of a block of a closed loop, or of the time in which requests are due
    due: queueing.Moments | None = None  # when requests are due, ns from the beginning on
    cutoff_s: float = 0.0  # after that none is begun
    skipped: int = 0  # so many at the beginning do not count
    # that all inferences have, by its number; None for all of the stream. Of padded requests any says that they come shape after shape
    shape: int | None = None
    requests: int = 0  # of each client of a closed loop, in place of a time; 0 for none


class LoadConfiguration(StreamConfiguration):
    """A configuration, and the load that is put on it, block by block."""

    must_open = True
    can_look_inside = False
    leaves_out_throttled = False
    has_close_ups = False

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        load = load_in(self.plan)
        self._load, self._seed, self._stream = load, self.plan.inputs.seed, self.plan.stream
        self.taken: list[LoadSamples] = []  # all that was measured, by load point
        self.due = ArrivalSchedule(load, self._seed)
        self.clients = ClientPool(self, load.sessions)
        self._ready: dict[str, int] = {}  # clients by mode
        self._worker: Client | None = None  # that has them
        self._card: int | None = None
        self._alone_clocks: dict[str, list[int]] = {}
        self._rows: dict[int, tuple[object, Case]] = {}
        self._last: LoadedBlock | None = None
        self._has_ended = False
        self.processes: list[int] = []  # the first round of each, where there are to be several
        self.best_rates: dict[str, SloRate | None] = {}  # of modes for which the highest rate was looked for

    def open(self, machine: Machine, run_id: str) -> None:
        super().open(machine, run_id)
        self._fill()

    def prepare_all(self, progress: Progress) -> None:
        """Have the clients of all load points that are known before, of the modes that are set up."""
        self._card = known_card(self.result.target)
        self.clients.tell = progress.observer.stage
        for mode in self.modes:
            for count in self._load.client_counts:
                self.add(mode, LoadPoint(CONCURRENCY, count))
            for rate in self._load.rates:
                self.add(mode, LoadPoint(RATE, rate))
        self._prepare_clients()

    def _prepare_clients(self) -> None:
        for taken in self.taken:
            if taken.failed is None:
                self.clients.tell(f"preparing clients of {taken.mode} ({self.name})")
                self._attempt(taken, lambda: None)

    def begin_process(self, number: int, round: int) -> None:
        """Have clients in another worker, from this round on; what does not run there fails."""
        self.clients.close()
        super().begin_process(number, round)
        self.processes.extend([round] * bool(self.modes))
        for taken in self.taken:
            if taken.mode not in self.modes:
                taken.failed = taken.failed or self.cases[taken.mode].reason
        self._prepare_clients()

    def close(self) -> None:
        self.clients.close()
        super().close()

    def add(self, mode: str, point: LoadPoint) -> LoadSamples:
        """Another load point, of which nothing was taken yet."""
        shapes = [it.name for it in self._stream.shapes] if self._stream else []
        apart = {name: LoadSamples(mode, point) for name in ([GROUPED] if self._load.pads else shapes)}
        limited = point.kind == RATE or not self._load.is_open  # with both, clients are there for the peak
        slo = self._load.slo if limited else None
        taken = LoadSamples(mode, point, slo=slo, shapes=shapes, apart=apart, processes=self.processes)
        self.taken.append(taken)
        return taken

    @property
    def pids(self) -> list[int]:
        return [self.worker.pid, *self.clients.pids]

    def is_usable(self, taken: LoadSamples) -> bool:
        return taken.failed is None and taken.mode in self.modes

    def inference_ns(self, mode: str) -> float:
        """About how long an inference of one client alone takes."""
        known = self.cases[mode].samples.get(LATENCY)
        if known:
            return max(1.0, sum(known) / len(known))
        return max(1.0, self.estimates_ns(mode).get(LATENCY) or self.first_ns)

    def highest_rate(self, mode: str) -> float:
        """About how many requests a second can be served at most: what noise of the machine added to some is no part of it."""
        known = self.cases[mode].samples.get(LATENCY)
        return self._load.workers * 1e9 / max(1.0, median(known) if known else self.inference_ns(mode))

    def block(self, block: Block[Series]) -> Samples | None:
        """A block of a load point, or of one client alone, which is a sample of the mode's case; None where it failed."""
        assert isinstance(block, LoadBlock)
        begun_ns = time.perf_counter_ns()
        is_done = self._block_alone(block) if block.point is None else self._block_of_point(block)
        return {"samples": [], "start_ns": begun_ns, "spent_ns": 0} if is_done else None

    def _block_alone(self, block: LoadBlock) -> bool:
        self._last, mode = None, block.series.mode
        if mode not in self.modes:
            return False
        n = min(1000, max(3, round(ALONE_S * 1e9 / self.inference_ns(mode))))
        begun = time.perf_counter_ns()
        answer = super().block(replace(block, n=n, drop=dropped_count(n)))
        self._alone_clocks.setdefault(mode, []).extend(self._clock_since(begun))
        return answer is not None

    def _block_of_point(self, block: LoadBlock) -> bool:
        assert block.point is not None
        mode, point = block.series.mode, LoadPoint(*block.point)
        taken = next(it for it in self.taken if (it.mode, it.point) == (mode, point))
        self._last = self._attempt(taken, lambda: self._run(block, point))
        if self._last is None:
            return False
        own = taken.samples_of(block.shape)
        own.clock_mhz += self._clock_since(self._last.begin_ns)
        taken.outputs_match = True
        own.blocks.append(self._last)
        if not own.is_open:
            own.blocks = [it for it in own.blocks if it.round % own.every == 0]
            while len(own.blocks) > 1 and sum(it.inferences for it in own.blocks) > _MOST_RUNS:
                own.every *= 2  # a result holds no more
                own.blocks = [it for it in own.blocks if it.round % own.every == 0]
                note = "more inferences were timed than a result holds: some load points keep one block in several, and all figures are of these"
                self.result.warn("load-downsampled", note)
        return True

    def _run(self, block: LoadBlock, point: LoadPoint) -> LoadedBlock:
        mode, duration_ns = block.series.mode, 0 if block.requests else round(block.duration_s * 1e9)
        if block.due is None:
            order = self._shape_order(block.round, block.requests or _ORDER, block.shape)
            return self.clients.run_closed(mode, int(point.value), duration_ns, block.round, order, block.requests)
        order = self._shape_order(block.round, block.due.size, block.shape)
        cutoff_ns, workers = round(block.cutoff_s * 1e9), self._load.workers
        taken = self.clients.run_open(mode, workers, block.due, cutoff_ns, block.round, order)
        return taken.without_first(block.skipped)

    def load_block(
        self, series: Series, number: int, point: LoadPoint, seconds: float, repeat: int, patience_s: float
    ) -> LoadBlock:
        """A block of a closed loop, so long; of an open loop the requests that are due in that time, none of which is begun later than the
        time again, `patience_s` or ten inferences after it."""
        block = LoadBlock(number, series, LATENCY, 0, 0, point, seconds)
        if point.kind == CONCURRENCY:
            return block
        patience_s = max(seconds, patience_s, 10 * self.inference_ns(series.mode) / 1e9)
        due = self.due.moments(point.value, seconds, repeat)
        return replace(block, due=due, cutoff_s=seconds + patience_s)

    def samples_for_verdict(self, block: Block[Series], answer: Samples) -> dict[str, list[int] | list[float]]:
        """The figures of a block, by their names."""
        return {name: [figure] for name, figure in self._figures(block).items()}

    def shown_samples(self, block: Block[Series], answer: Samples) -> Sequence[tuple[str, Sequence[float], str | None]]:
        figures = self._figures(block)
        if not figures or block.point is None:
            return []
        name, unit = row_of(block.series.mode, LoadPoint(*block.point))
        return [(name, [figures[THROUGHPUT if unit else "median"]], unit)]

    def _figures(self, block: Block[Series]) -> dict[str, float]:
        if self._last is None or (isinstance(block, LoadBlock) and block.shape is not None):
            return {}
        of_block = figures_of_block(self._last)
        return {} if of_block is None else figures_of(of_block)

    def _shape_order(self, number: int, count: int, shape: int | None) -> list[int]:
        if self._stream is None or (shape is not None and not self._load.pads):
            return [shape or 0]
        order = list(islice(self._stream.numbers(self._seed + number), count))
        return order if shape is None else sorted(order)

    def _clock_since(self, begun: int) -> list[int]:
        """The SM clock, MHz, by all readings from a moment of `time.perf_counter_ns` on, and one now."""
        if self.watch is None or self._card is None:
            return []
        self.watch.look(now=True)
        own = [it for it in self.watch.readings if it["gpu"] == self._card and it.get("at_ns", 0) >= begun]
        return [it["sm_mhz"] for it in own if "sm_mhz" in it]

    def _attempt(self, taken: LoadSamples, do: Callable[[], T]) -> T | None:
        """Have something done with the clients of a load point; None where it failed, which the load point then says."""
        count = self._load.workers if taken.is_open else int(taken.point.value)
        try:
            if self._worker is not self.worker:  # it is another one now, which has no clients yet
                self._ready.clear()
                self.clients.close()
                self._worker = self.worker
            if self._ready.get(taken.mode, 0) < count:
                self.clients.prepare(taken.mode, count)
                self._ready[taken.mode] = count
            return do()
        except WorkerLost as error:
            taken.failed = str(error)
            self.restart()
        except OrtbenchError as error:
            taken.failed = str(error)
            if isinstance(error, WrongOutputs):
                taken.outputs_match = False
        return None

    def samples_apart(self) -> Any:
        return arrays(self.taken)

    def write_samples(self, folder: Path) -> None:
        write_samples(self.taken, folder)

    def keep(self) -> None:
        if not self._has_ended:
            self._fill()
        super().keep()

    def end(self, why: Stopped | None, took_ns: int | None, lost: Collection[str] = ()) -> None:
        self._fill()
        cut_off = [text for it in self.taken if (text := _cut_off(it))]
        if cut_off and self._load.rate != AUTO:  # a search tries such rates too
            what = "requests came faster than they were served, so latencies are lower bounds"
            self.result.warn("overload", f"{what}: {', '.join(cut_off)}")
        self._has_ended = True
        if self.timeline is not None:
            self.timeline.load += load_blocks(self.taken)
        super().end(why, took_ns, lost)

    def _fill(self) -> None:
        if not self.is_open:
            return
        result, load = self.result, self._load
        result.kind = KIND.key
        result.own[KIND.key] = settings(load, self._seed, self.due.point_s, self._stream)
        self.taken.sort(key=lambda it: (self.plan.modes.index(it.mode), it.is_open, it.point.value))
        result.cases = [*self.cases.values(), *map(self._case, self.taken)]
        values = {name: sorted({it.point.value for it in self.taken if it.point.kind == name}) for name in _UNITS}
        result.axes = [{"name": it, "unit": _UNITS[it], "values": [*found]} for it, found in values.items() if found]
        put_scaling(result)
        result.own["knee"] = knees(result)
        for mode, readings in self._alone_clocks.items():
            put_clock(self.cases[mode], readings)
        if load.slo is not None:
            result.own["slo"] = {"asked": dict(load.slo), "found": dict(self.best_rates)}

    def _case(self, taken: LoadSamples) -> Case:
        parts = [it.round for it in taken.blocks]
        apart = [len(it.blocks) for it in taken.apart.values()]
        known = (parts, apart, taken.failed, taken.outputs_match, len(taken.clock_mhz), len(self.processes))
        before = self._rows.get(id(taken))
        if before is not None and before[0] == known and parts:
            return before[1]
        case, alone = case_of(taken), self.cases[taken.mode]
        if taken.shapes:
            put_shapes(case, taken)
        if not parts and taken.failed is None and alone.status == FAILED:
            case.status, case.reason = FAILED, alone.reason
        self._rows[id(taken)] = (known, case)
        return case


def row_of(mode: str, point: LoadPoint) -> tuple[str, str | None]:
    """What a row of estimates is of, and the unit of the rate that a closed loop has."""
    return f"{mode} {point.kind}={point.value:g}", INFERENCES if point.kind == CONCURRENCY else None


def _cut_off(taken: LoadSamples) -> str:
    """How many requests were served where more came; nothing where that is not so."""
    blocks = taken.open_blocks
    if all(it.cutoff_ns is None for it in blocks):
        return ""
    due, served = sum(it.due.size for it in blocks), sum(it.start.size for it in blocks)
    return f"{served} of {due} served with {taken.mode} at {taken.point.value:g} requests/s"
