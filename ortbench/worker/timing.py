"""Timing one block: the loop every figure comes from, inside NVTX ranges for Nsight Systems, and what the host takes for it.

The ranges are in the domain ``ortbench``, pushed and popped around the very calls that take the time:

=====================  ====================  ========  =============================================
range                  name                  category  payload
=====================  ====================  ========  =============================================
one a block            ``<mode>``            phase     bytes copied by each call of the phase, int64
in it one a sample     ``<mode>/<phase>``    phase     its number in the block, from 0, int64
in that one a step     ``<mode>/step``       step      its number in the loop, from 0, int64
=====================  ====================  ========  =============================================

Only a loop has steps, and there a sample of ``latency`` is a whole loop, whose range is called ``<mode>/loop``; in a chain
it is ``<mode>/chain``, and each stage ``<mode>/<stage>`` with its number. In the modes `pipelined` and `device-resident-async`
a sample of ``latency`` is a round or burst: its range spans all its runs.
Each phase has its colour. Payloads are plain integers because every tool shows and exports these (Nsight Systems: the
column ``int64Value`` of its SQLite files); payloads with a schema did not reach the SQLite files of Nsight Systems 2024.2.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ortbench.core.processes import CAPTURE, DOMAIN, is_profiled
from ortbench.model.modes import LATENCY, PHASE_NAMES, STEP

if TYPE_CHECKING:
    from ortbench.model.protocol import CpuTime


# A timed call takes two arguments, which it may ignore: ORT's own bound run takes two, and any wrapper around it would
# cost several percent of a 2 µs run.
TimedCall = tuple[Callable[[Any, Any], object], Any, Any]
# A call that returns before what it starts is done, and the wait for that.
SplitCall = tuple[TimedCall, Callable[[], object]]

# ARGB; four of Okabe and Ito's, which people who cannot tell red from green can tell apart.
COLORS = {"h2d": 0xFFE69F00, "inference": 0xFF009E73, "d2h": 0xFFCC79A7, "latency": 0xFF0072B2}

_MAX_WARMUP = 1000
_TELLING_NS = 10_000_000  # so long must a phase run to tell how long one run takes


def time_call(call: Callable[..., object], *arguments: object) -> int:
    start = time.perf_counter_ns()
    call(*arguments)
    return time.perf_counter_ns() - start


def cpu_ns() -> tuple[int, int]:
    """CPU time of all threads of this process so far, ns: user and system. Linux and macOS count it in µs, Windows in ticks of 16 ms. Linux
    adds what a thread has run at the end of its time slice: a short block has some ms too much or too little, the sum over many is right."""
    if sys.platform == "win32":
        spent = os.times()
        return round(spent.user * 1e9), round(spent.system * 1e9)
    import resource  # which Windows has not

    usage = resource.getrusage(resource.RUSAGE_SELF)
    return round(usage.ru_utime * 1e9), round(usage.ru_stime * 1e9)


def system_counts() -> dict[str, int]:
    """What the system has counted of this process so far, by metric; nothing on Windows, which does not tell."""
    if sys.platform == "win32":
        return {}
    import resource

    usage = resource.getrusage(resource.RUSAGE_SELF)
    return {"page_faults": usage.ru_minflt + usage.ru_majflt, "involuntary_switches": usage.ru_nivcsw}


class HostTime:
    """Taken beside the samples of a block by `time_block`: of a phase whose call does not wait (`split`) the time until it
    returned, of each sample, ns; the CPU time of all of them; and what the system counted meanwhile."""

    def __init__(self, split: SplitCall | None = None) -> None:
        self.split = split
        self.enqueues: list[int] = []
        self.cpu: CpuTime  # from `end` on
        self.counts: dict[str, int] = {}

    def begin(self) -> None:
        self._counted = system_counts()
        self._start = *cpu_ns(), perf_counter_ns()

    def end(self) -> None:
        end, (user, system) = perf_counter_ns(), cpu_ns()
        began = self._start
        self.cpu = {"user_ns": user - began[0], "system_ns": system - began[1], "wall_ns": end - began[2]}
        self.counts = {key: count - self._counted[key] for key, count in system_counts().items()}


# Parts that begin at set moments, one after the other, behind what is done before the first of them in no time that counts.
Stream = tuple[Callable[[], object], Sequence[Callable[[], object]]]


class TimedMode(Protocol):
    """What blocks are timed of: a mode, or copies alone. The attributes are those of `ortbench.worker.mode_base.Mode`."""

    name: str
    per_call: int
    call_name: str
    part_names: tuple[str, ...]

    @property
    def bytes_in(self) -> int | None: ...

    @property
    def bytes_out(self) -> int | None: ...

    def phases(self) -> dict[str, TimedCall]:
        """What can be timed, each synced at its end."""


class Ranges:
    """NVTX ranges of one mode. Where nothing listens they cost and do nothing."""

    def __init__(self, mode: TimedMode) -> None:
        domain = _open_domain()
        self.listening = domain is not None  # a tool is attached that takes the ranges of this domain
        self.is_in_block = False  # one is, and a block is open: what runs before a block's first sample has no ranges
        self.push: Callable[[Any], object] = _do_nothing
        self.pop: Callable[[], object] = _do_nothing
        self.sample: dict[str, Any] = dict.fromkeys(PHASE_NAMES)  # whose payload is set before each sample
        self._block: dict[str, Any] = dict.fromkeys(PHASE_NAMES)
        if domain is None:
            return
        self.push, self.pop = domain.push_range, domain.pop_range
        bytes_in, bytes_out = mode.bytes_in or 0, mode.bytes_out or 0
        payloads = {"h2d": bytes_in, "d2h": bytes_out, "latency": (bytes_in + bytes_out) * mode.per_call}
        for phase in PHASE_NAMES:
            style = {"color": COLORS[phase], "category": phase}
            self._block[phase] = domain.get_event_attributes(message=mode.name, payload=payloads.get(phase, 0), **style)
            call_name = mode.call_name if phase == LATENCY else phase
            self.sample[phase] = domain.get_event_attributes(message=f"{mode.name}/{call_name}", **style)
        style = {"color": COLORS["inference"], "category": STEP}
        self._parts = [
            domain.get_event_attributes(message=f"{mode.name}/{part}", payload=0, **style) for part in mode.part_names
        ]

    @contextmanager
    def block(self, phase: str) -> Iterator[None]:
        self.push(self._block[phase])
        self.is_in_block = self.listening
        try:
            yield
        finally:
            self.is_in_block = False
            self.pop()

    @contextmanager
    def part(self, number: int) -> Iterator[None]:
        """The range around a part of a call, where a tool listens; none outside of blocks. All steps of a loop are alike."""
        if not self.is_in_block:
            yield
            return
        attributes = self._parts[number % len(self._parts)]
        attributes.payload = number
        self.push(attributes)
        try:
            yield
        finally:
            self.pop()


def _open_domain() -> Any:
    """The NVTX domain, or None: with no tool, without the nvtx package (it has no macOS build), with NVTX_DISABLE."""
    if not is_profiled():  # nvtx would find that out too, in 6 ms
        return None
    try:
        import nvtx
    except ImportError:
        return None
    if not nvtx.enabled():
        return None
    domain = nvtx.get_domain(DOMAIN)  # of another class where it thinks that no tool listens
    return domain if isinstance(domain, nvtx.Domain) else _domain_of_old_tool(nvtx)


def _domain_of_old_tool(nvtx: Any) -> Any:
    """The domain for a tool that does not know the question whether it listens, as Nsight Systems 2024.2 and older, which nvtx 0.2.12 and
    newer take for a no; None where nvtx is made otherwise."""
    try:
        from nvtx._lib.lib import DomainHandle

        domain = object.__new__(nvtx.Domain)
        domain.handle = DomainHandle(DOMAIN)
        domain.__init__(DOMAIN)
    except Exception:
        return None
    return domain


class Capture:
    """The range that tells a profiler what to record: ``capture``, a process range, so that no other nests in it."""

    def __init__(self) -> None:
        self._domain = _open_domain()
        self.listening = self._domain is not None
        self._end: Callable[[], object] = _do_nothing

    def begin(self) -> None:
        if self.listening:
            started = self._domain.start_range(self._domain.get_event_attributes(message=CAPTURE))
            self._end = lambda: self._domain.end_range(started)

    def end(self) -> None:
        self._end()


def _do_nothing(*_: Any) -> None:
    """No NVTX."""


def time_block(
    mode: TimedMode,
    ranges: Ranges,
    phase: str,
    n: int,
    drop: int,
    clock: Callable[[], int] = time.perf_counter_ns,
    starts: list[int] | None = None,
    host: HostTime | None = None,
) -> list[int]:
    """Time n iterations of one phase of a mode, after `drop` that are not recorded: durations in ns, in order. For a timeline `starts` takes
    when each sample began; `host` takes down what the recorded iterations cost the host."""
    split = None if host is None else host.split
    (call, a, b), wait = (mode.phases()[phase], None) if split is None else split
    returns: list[int] = []
    listening, push, pop, attributes = ranges.listening, ranges.push, ranges.pop, ranges.sample[phase]
    samples: list[int] = []
    add = samples.append
    with no_garbage_collection():
        for _ in range(drop):
            call(a, b)
            if wait is not None:
                wait()
        with ranges.block(phase):
            if host is not None:
                host.begin()
            for number in range(n):
                if listening:
                    attributes.payload = number
                    push(attributes)
                try:
                    if wait is None:  # asked outside of the clock
                        start = clock()
                        # As `outputs = session.run(…)` of a program, which frees what the last one returned.
                        _kept = call(a, b)
                        end = clock()
                    else:
                        start = clock()
                        _kept = call(a, b)
                        returned = clock()
                        wait()
                        end = clock()
                        returns.append(returned - start)
                finally:
                    if listening:
                        pop()
                add(end - start)
                if starts is not None:
                    starts.append(start)
            if host is not None:
                host.end()
                host.enqueues += returns
    return samples


class Paced(NamedTuple):
    """Calls that began at set moments: when and how long each took, ns; how many had to wait for the one before; CPU time of all threads from
    one to the next, ns."""

    starts: list[int]
    samples: list[int]
    missed: int
    cpu_ns: int


def time_paced(first: Stream, streams: Sequence[Stream], every_ns: int) -> Paced:
    """Time calls that begin one each `every_ns`, as those of a program that sleeps until there is something to do. Those of the `first` stream
    are not recorded."""
    clock, starts, samples, missed, spent_ns = time.perf_counter_ns, list[int](), list[int](), 0, 0
    due, is_late = 0, False
    with no_garbage_collection():
        for stream in (first, *streams):
            begin, calls = stream
            begin()
            due, before_ns = max(due, clock()), sum(cpu_ns())
            for call in calls:
                missed += is_late and stream is not first
                if (left := due - clock()) > 0:
                    time.sleep(left / 1e9)
                start = clock()
                _kept = call()  # and frees what the last one returned, see `time_block`
                end = clock()
                due += every_ns
                is_late = end > due
                if stream is not first:
                    starts.append(start)
                    samples.append(end - start)
            if stream is not first:
                spent_ns += sum(cpu_ns()) - before_ns
    return Paced(starts, samples, missed, spent_ns)


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """A collection inside a sample would be Python's time, not the runtime's (timeit does the same)."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def warm_up(call: TimedCall, count: int | None, budget_ns: int, earlier: Sequence[int] = ()) -> float | None:
    """Run a phase of a mode, and say what one run takes: the median of the later half, ns; None without any. Without a `count` as many runs
    as fill what is left of the budget, and no fewer than tell how long one takes; what `earlier` runs took, ns, then counts too."""
    run, a, b = call
    times: list[int] = []
    if count is not None:
        least, most, budget_ns = count, count, 0
    else:
        times += earlier
        budget_ns = max(budget_ns, _TELLING_NS - sum(earlier))
        least, most = 1, _MAX_WARMUP
    spent = 0
    while len(times) < least or (spent < budget_ns and len(times) < most):
        times.append(time_call(run, a, b))
        spent += times[-1]
    if not times:
        return None
    later = sorted(times[len(times) // 2 :])
    return float(later[len(later) // 2])
