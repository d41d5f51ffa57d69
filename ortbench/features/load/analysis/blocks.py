"""A block of a load: what clients did in a closed loop, or what became of the requests that were due in an open one. Pure.

**Closed loop.** A block counts from the moment at which every client has done its first run to the end of the measured time, up to which
all clients are busy (`ortbench.features.load.worker` sees to that). A run that lies partly in that time counts as that part of one,
which on average is what is done in it, however unequally clients are served; a client's runs divided by its own time would be more. A
block that is over before that moment counts as a whole.

**Open loop.** Latency and queue delay count from when a request was due; a delay ends when a client is free, so that it does not count
how late the request was issued then. What was not begun when a block was cut off has waited at least until then, and counts as that.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from ortbench.model import protocol
from ortbench.model.schema import LoadBlock

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Moments = NDArray[np.int64]

LATE_NS = 100_000  # a request is late if it was issued so long after it was due, or after a client was free, if that was later
_PARTS = 8  # of a block of an open loop, at most
_REQUESTS = 20  # in each of them, at least
_CPU_REQUESTS = 3  # the same of parts that CPU time is read at: neighbours that wait together take no more of it


def part_bounds(size: int, least: int = _REQUESTS) -> list[tuple[int, int]]:
    """Where the parts of so many requests begin and end, each of which has so many at `least`."""
    count = min(_PARTS, size // least)
    return [*pairwise(round(size * it / max(count, 1)) for it in range(count + 1))]


class CpuPart(NamedTuple):
    """CPU time of all worker processes in a part of a load point, time by the clock, both ns, and how many inferences were in it."""

    cpu_ns: int
    wall_ns: int
    inferences: int


def cpu_marks(size: int) -> list[int]:
    """The first requests of the parts that CPU time is read at, of so many, and the end of the last one."""
    parts = part_bounds(size, _CPU_REQUESTS)
    return [*(begin for begin, _ in parts), *(end for _, end in parts[-1:])]


def cpu_parts(marks: Sequence[int], numbers: Moments, readings: Sequence[Sequence[Sequence[int]]]) -> list[CpuPart]:
    """The parts of a block between `marks`, by the numbers of the requests that were served and the readings of each process: when
    it got to a mark, and its CPU time by then."""
    import numpy as np

    served = np.diff(np.searchsorted(numbers, marks)) if marks else ()
    whole = [(min(at for at, _ in of_all), sum(ns for _, ns in of_all)) for of_all in zip(*readings, strict=True)]
    return [
        CpuPart(cpu - before, at - began, int(n))
        for n, ((began, before), (at, cpu)) in zip(served, pairwise(whole), strict=True)
    ]


def join_cpu(parts: Iterable[CpuPart]) -> CpuPart:
    return CpuPart(*map(sum, zip(CpuPart(0, 0, 0), *parts, strict=True)))


@dataclass(frozen=True, kw_only=True)
class _Block:
    """What both loops have of a block."""

    cpu_ns: int  # CPU time of all worker processes
    wall_ns: int
    begin_ns: int = 0  # when the clients began
    round: int = 0  # in which it was taken
    lock: tuple[int, int] | None = None  # how many clients were seen waiting for the GIL, of how many looks


class Window(NamedTuple):
    """What of a block of a closed loop counts: runs per second, and of how long, ns; runs of each client, from when to when, ns, and of each
    client from which run to which."""

    throughput: float | None
    took_ns: int
    each: list[int]
    span: tuple[int, int]
    runs: list[slice]


@dataclass(frozen=True)
class ClosedLoopBlock(_Block):
    # starts, ends: of the runs of each client, ns
    starts: Sequence[Moments]
    ends: Sequence[Moments]
    until_ns: int  # the end of the measured time
    shapes: Sequence[Moments] = ()  # of the runs of each client, by number

    @property
    def end_ns(self) -> int:
        """When the last run ended."""
        return max((int(it[-1]) for it in self.ends if it.size), default=self.begin_ns)

    @property
    def inferences(self) -> int:
        return sum(it.size for it in self.ends)

    @property
    def throughput(self) -> float | None:
        return self.window.throughput

    @cached_property
    def window(self) -> Window:
        """The time in which all clients have inferences behind them and have not ended; nothing where a client had no inference."""
        import numpy as np

        if any(ends.size < 2 for ends in self.ends):
            return Window(None, 0, [0] * len(self.ends), (0, 0), [slice(0) for _ in self.ends])
        begin = max(int(ends[0]) for ends in self.ends)
        until = min(self.until_ns, *(int(ends[-1]) for ends in self.ends))
        if begin >= until:  # it ended before every client had an inference: from the first start to the last end
            each, span = [ends.size for ends in self.ends], (min(int(it[0]) for it in self.starts), self.end_ns)
            took = max(span[1] - span[0], 1)
            return Window(sum(each) * 1e9 / took, took, each, span, [slice(it) for it in each])
        each, runs, done, until_last = [], [], 0.0, begin
        for ends in self.ends:
            first = int(np.searchsorted(ends, begin))
            last = min(int(np.searchsorted(ends, until)), ends.size - 1)
            runs.append(slice(first + 1, last + 1))
            each.append(int(np.searchsorted(ends, until, side="right")) - first)
            until_last = max(until_last, int(ends[last]))
            was, now = np.interp([begin, until], ends, np.arange(ends.size))
            done += float(now - was)
        return Window(done * 1e9 / (until - begin), until - begin, each, (begin, until_last), runs)

    @property
    def of_clients(self) -> list[Moments]:
        """The latencies that count, of each client."""
        runs = zip(self.starts, self.ends, self.window.runs, strict=True)
        return [(ends - starts)[run] for starts, ends, run in runs]

    @property
    def latencies(self) -> Moments:
        """Those that count, in the order in which they ended."""
        return self._in_order(self.of_clients)

    @property
    def shapes_of_latencies(self) -> Moments:
        return self._in_order([of[run] for of, run in zip(self.shapes, self.window.runs, strict=True)])

    def _in_order(self, of_clients: Sequence[Moments]) -> Moments:
        import numpy as np

        ends = np.concatenate([it[run] for it, run in zip(self.ends, self.window.runs, strict=True)])
        found: Moments = np.concatenate(of_clients)[np.argsort(ends, kind="stable")]
        return found

    def on_timeline(self, mode: str, name: str) -> protocol.LoadBlock:
        import numpy as np

        both = zip(self.starts, self.ends, strict=True)
        runs = [protocol.ClientRuns(starts, ends, np.arange(starts.size)) for starts, ends in both]
        return protocol.LoadBlock(mode, name, self.round, self.begin_ns, self.end_ns - self.begin_ns, runs)


@dataclass(frozen=True)
class OpenLoopBlock(_Block):
    """Each request that was due, in order, ns from the beginning on, shape (n,)."""

    due: Moments  # when it was
    free: Moments  # from when on the client that served it was
    # start, end: of its run. All three are shorter than `due` where the block was cut off.
    start: Moments
    end: Moments
    cutoff_ns: int | None  # when it was cut off; None where all were served
    clients: int  # that served it
    from_ns: int = 0  # from when on it counts
    client: Moments | None = None  # which one served it, from 0
    shapes: Moments | Sequence[int] = ()  # of all that were due, by number
    cpu_parts: Sequence[CpuPart] = ()  # of all that were due
    skipped: int = 0  # how many of those that were served at the beginning do not count

    @property
    def inferences(self) -> int:
        """How many CPU time is of."""
        return self.start.size + self.skipped

    @property
    def throughput(self) -> float | None:
        return self.start.size * 1e9 / max(self.lasted_ns, 1) if self.start.size else None

    @property
    def waits(self) -> Moments:
        """From due to start; of those that were not begun, until it was cut off."""
        return self._from_due(self.start)

    @property
    def delays(self) -> Moments:
        """From due until a client was free; of those that were not begun, until it was cut off."""
        found = self.waits
        found[: self.start.size] -= self.late
        return found

    @property
    def latencies(self) -> Moments:
        """From due to end; of those that were not begun, until it was cut off."""
        return self._from_due(self.end)

    @property
    def shapes_of_latencies(self) -> Moments:
        import numpy as np

        return np.asarray(self.shapes)

    @property
    def late(self) -> Moments:
        """How late each was issued although a client was free, ns."""
        import numpy as np

        served = self.start.size
        return np.maximum(0, self.start - np.maximum(self.due[:served], self.free))

    @property
    def lasted_ns(self) -> int:
        """From when it counts to the last request that was due or done."""
        return max(int(self.end.max(initial=0)), int(self.due[-1])) - self.from_ns if self.due.size else 0

    @property
    def anew(self) -> NDArray[np.bool_]:
        """Which requests were due when all before them had been served: from there on nothing knows of what was before."""
        import numpy as np

        done = np.full(self.due.size, np.iinfo(np.int64).max)
        done[: self.end.size] = np.maximum.accumulate(self.end)
        return np.concatenate([[True], self.due[1:] >= done[:-1]]) if self.due.size else np.empty(0, bool)

    def figures_of_parts(self) -> list[LoadBlock]:
        """The figures of as many parts of consecutive requests, `_PARTS` at most, as leave `_REQUESTS` in each: neighbours queue together."""
        times, due = self.latencies, self.due
        found = []
        for number, (begin, end) in enumerate(part_bounds(int(times.size))):
            lasted = float(due[end - 1] - (due[begin - 1] if begin else 0))
            found.append(_figures(number, times[begin:end], (end - begin) * 1e9 / max(lasted, 1.0)))
        return found

    def without_first(self, count: int) -> OpenLoopBlock:
        """The same without the first requests; all of it where there are no more."""
        if self.due.size <= count:
            return self
        return replace(
            self,
            due=self.due[count:],
            free=self.free[count:],
            start=self.start[count:],
            end=self.end[count:],
            client=None if self.client is None else self.client[count:],
            shapes=self.shapes[count:],
            skipped=min(count, self.start.size),
            from_ns=int(self.due[count - 1]) if count else self.from_ns,
        )

    def _from_due(self, moments: Moments) -> Moments:
        import numpy as np

        left = self.due[moments.size :]
        rest = np.maximum(0, (self.cutoff_ns or 0) - left)
        return np.concatenate([moments - self.due[: moments.size], rest])

    def on_timeline(self, mode: str, name: str) -> protocol.LoadBlock:
        import numpy as np

        begin, numbers = self.begin_ns, np.arange(self.start.size)
        client = np.zeros_like(numbers) if self.client is None else self.client
        of_clients = [numbers[client == it] for it in range(self.clients)]
        runs = [protocol.ClientRuns(self.start[own] + begin, self.end[own] + begin, own) for own in of_clients]
        return protocol.LoadBlock(mode, name, self.round, begin + self.from_ns, self.lasted_ns, runs, self.due + begin)


Block = ClosedLoopBlock | OpenLoopBlock


def cpu_of(block: Block) -> CpuPart:
    return CpuPart(block.cpu_ns, block.wall_ns, block.inferences)


def figures_of_block(block: Block) -> LoadBlock | None:
    """None where nothing of it counts."""
    if block.throughput is None:
        return None
    found = _figures(block.round, block.latencies, block.throughput)
    found["cpu_time"] = round(block.cpu_ns / block.inferences)
    found["cpu_cores"] = block.cpu_ns / max(block.wall_ns, 1)
    return found


def _figures(number: int, times: Moments, per_s: float) -> LoadBlock:
    import numpy as np

    median, p95, p99 = (round(float(it)) for it in np.quantile(times, (0.5, 0.95, 0.99)))
    found = {"mean": round(float(times.mean())), "median": median, "p95": p95, "p99": p99, "max": int(times.max())}
    return {"round": number, "n": int(times.size), "throughput": per_s, "latency": found}
