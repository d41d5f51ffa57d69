"""What others do on the machine while blocks are timed, from what the system tells: read between blocks, never inside one.

Each block: for how long threads of its workers could run and had no CPU (Linux ``/proc/PID/task/*/schedstat``). Over a second or
more: the CPU time of all processes that are not ortbench's own, and what else slows a machine down. `system` makes the one source
of readings; tests put another in its place.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Collection, Hashable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple, Protocol

from ortbench.analysis.noise import POLICY, busy_reasons, used_by_others
from ortbench.core import signals
from ortbench.measure import process
from ortbench.measure.environment import control_groups, core_limit, read_text
from ortbench.model.schema import MachineNoise, NoiseReading


class Waits(NamedTuple):
    """What the system has counted of some workers so far, ns."""

    at_ns: int
    cpu_ns: int  # of all their threads
    own_ns: int  # CPU time of this process
    # of those that are read: CPU time, time on the run queue, how often it got a CPU
    threads: dict[int, tuple[int, int, int]]
    every: float = 1.0  # how many threads there are for each of them


class Counters(NamedTuple):
    """What the system has counted of the whole machine so far, on the cores that the workers may run on, ns."""

    at_ns: int
    used_ns: float  # CPU time of all processes
    own_ns: int  # of it that of this process and its workers
    stolen_ns: float | None = None
    stalled_ns: int | None = None  # in which some process waited for a CPU
    throttled_ns: int | None = None
    mhz: int | None = None  # as it is now


class Source(Protocol):
    cores: int
    limit: float | None = None

    def waits(self, pids: Sequence[int], begin: bool) -> Waits | None:
        """Of workers, at the beginning of a block or at its end; None where the system does not tell."""
        return None

    def counters(self, pids: Collection[int]) -> Counters:
        """Of the machine; `pids`: of all workers."""

    def rest(self, seconds: float) -> None:
        time.sleep(seconds)


class OwnCpuTime:
    """The CPU time of this process and of all workers that there were, ns."""

    def __init__(self, clock: Callable[[int], int]) -> None:
        self._clock, self._known = clock, dict[int, int]()

    def total(self, pids: Collection[int]) -> int:
        """With those that have ended, as far as was known of them."""
        for pid in pids:
            with contextlib.suppress(OSError):
                self._known[pid] = self._clock(pid)
        return time.process_time_ns() + sum(self._known.values())


class Linux(Source):
    """A Linux system; `root` is its file system."""

    def __init__(self, root: Path = Path("/"), clock: Callable[[int], int] | None = None) -> None:
        self._root = root
        self._clock = clock or _cpu_ns
        self._own = OwnCpuTime(self._clock)
        self._cpus = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
        self.cores, self.limit = len(self._cpus) or 1, core_limit(root)
        self._tick_ns = 1e9 / os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 1e7
        self._groups = [group / "cpu.stat" for group in control_groups(root)]
        self._files: dict[int, dict[int, int]] = {}  # by worker and thread
        self._every = 1.0

    def waits(self, pids: Sequence[int], begin: bool) -> Waits | None:
        at = time.perf_counter_ns()
        try:
            if begin:
                self._open(pids)
            files = [file for pid in pids for file in self._files.get(pid, {}).values()]
            threads = {file: times for file in files if (times := _schedstat(file)) is not None}
            if not threads:
                return None
            return Waits(at, sum(map(self._clock, pids)), time.process_time_ns(), threads, self._every)
        except OSError:  # a worker has ended, or the system keeps no such file
            return None

    def _open(self, pids: Sequence[int]) -> None:
        """Have the files of the workers' threads open, of many those that have run most."""
        most = max(2, POLICY.most_threads // len(pids))
        total = read = 0
        for pid in self._files.keys() - {*pids}:
            _close(self._files.pop(pid))
        for pid in pids:
            folder = self._root / f"proc/{pid}/task"
            numbers = sorted(map(int, os.listdir(folder)))
            total += len(numbers)
            known = self._files.setdefault(pid, {})
            if not known.keys() <= {*numbers} or len(known) < min(most, len(numbers)):
                _close(known)
                known |= {it: os.open(folder / str(it) / "schedstat", os.O_RDONLY) for it in numbers}
                ran = sorted(known, key=lambda it: -(_schedstat(known[it]) or (0,))[0])
                _close({it: known.pop(it) for it in ran[most:]})
            read += len(known)
        self._every = total / max(1, read)

    def counters(self, pids: Collection[int]) -> Counters:
        used = stolen = 0.0
        lines = dict(line.split(" ", 1) for line in self._text("proc/stat").splitlines() if line.startswith("cpu"))
        for cpu in self._cpus:
            counted = [int(it) for it in lines.get(f"cpu{cpu}", "").split()]
            used += sum(counted[:3]) * self._tick_ns  # user, nice and system; interrupts are nobody's
            stolen += (counted[7] if len(counted) > 7 else 0) * self._tick_ns
        pressure = self._text("proc/pressure/cpu").partition("total=")[2].split("\n")[0]
        return Counters(
            time.perf_counter_ns(), used, self._own.total(pids), stolen,
            int(pressure) * 1000 if pressure.isdigit() else None, self._throttled_ns(), self._mhz(),
        )  # fmt: skip

    def _text(self, name: str) -> str:
        return read_text(self._root / name) or ""

    def _throttled_ns(self) -> int | None:
        """By which of the groups most: version 2 counts in µs, version 1 in ns."""
        times_ns = []
        for file in self._groups:
            counted = dict(line.split() for line in (read_text(file) or "").splitlines() if len(line.split()) == 2)
            if "throttled_usec" in counted or "throttled_time" in counted:
                times_ns.append(int(counted.get("throttled_usec", 0)) * 1000 + int(counted.get("throttled_time", 0)))
        return max(times_ns, default=None)

    def _mhz(self) -> int | None:
        files = [
            f"sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_cur_freq" for cpu in self._cpus[: POLICY.clock_cores]
        ]
        return max((int(khz) // 1000 for file in files if (khz := self._text(file)).isdigit()), default=None)


def _cpu_ns(pid: int) -> int:
    """CPU time of all threads of a process: Linux has a clock of each process by its number."""
    return time.clock_gettime_ns(~pid << 3 | 2) if hasattr(time, "clock_gettime_ns") else 0


def _schedstat(file: int) -> tuple[int, int, int] | None:
    """CPU time, time on the run queue, and how often it got a CPU, of a thread; None of one that has ended."""
    if sys.platform == "win32":  # there is no such file
        return None
    try:
        ran, waited, slices = os.pread(file, 128, 0).split()
        return int(ran), int(waited), int(slices)
    except (OSError, ValueError):
        return None


def _close(files: dict[int, int]) -> None:
    for file in files.values():
        with contextlib.suppress(OSError):
            os.close(file)
    files.clear()


class OtherSystem(Source):
    """Any other system, by psutil, which tells of no waits."""

    def __init__(self) -> None:
        import psutil

        self._psutil = psutil
        self._own = OwnCpuTime(lambda pid: _used_ns(psutil.Process(pid).cpu_times()))
        self.cores = psutil.cpu_count() or 1

    def counters(self, pids: Collection[int]) -> Counters:
        alive = [pid for pid in pids if self._psutil.pid_exists(pid)]
        return Counters(time.perf_counter_ns(), _used_ns(self._psutil.cpu_times()), self._own.total(alive))


def _used_ns(times: object) -> int:
    return round(sum(getattr(times, key, 0.0) for key in ("user", "nice", "system")) * 1e9)


system: Callable[[], Source] = Linux if sys.platform == "linux" else OtherSystem


class Meter:
    """Reads a source between blocks, and makes of it what results have.

    Attributes:
        on_gpu: tells how many other processes compute on the workers' GPU, None where nobody knows.
    """

    def __init__(self) -> None:
        self._source = system()
        self.on_gpu: Callable[[], int | None] = lambda: None
        self._read: list[tuple[Counters, int | None]] = []
        self._period_ns = POLICY.reading_ns
        self._blocks: dict[Hashable, list[list[int]]] = {}
        self._counts: dict[Hashable, int] = {}
        self._every: dict[Hashable, int] = {}
        self._ended_ns = 0  # CPU time of processes that were blocks

    def begin(self, pids: Sequence[int]) -> Waits | None:
        return self._source.waits(pids, begin=True) if pids else None

    def add_process(
        self, number: Hashable, round: int, start_ns: int, took_ns: int, cpu_ns: int, waits: Sequence[int] | None
    ) -> None:
        """After a block that was a process of its own, which has ended: its CPU time, and what the system counted of its first thread:
        CPU time, time on the run queue, how often it got a CPU."""
        self._ended_ns += cpu_ns
        if waits is not None:
            self._add(number, [round, start_ns, took_ns, waits[1], 0, 1, waits[2]])

    def end(
        self, number: Hashable, pids: Sequence[int], before: Waits | None, round: int, start_ns: int, switches: int = 0
    ) -> None:
        """After it; `switches`: how often the system took a CPU from a worker's thread."""
        after = None if before is None else self._source.waits(pids, begin=False)
        if before is None or after is None:
            return
        took = after.at_ns - before.at_ns
        threads = [(it, before.threads[key]) for key, it in after.threads.items() if key in before.threads]
        waited = sum(now[1] - then[1] for now, then in threads) * after.every
        ran = sum(now[0] - then[0] >= POLICY.ran * took for now, then in threads) * after.every
        slices = sum(now[2] - then[2] for now, then in threads) * after.every
        cpu, own = after.cpu_ns - before.cpu_ns, after.own_ns - before.own_ns
        # What ortbench's own threads use cannot be what others took: neither those of this process, nor those of the workers.
        by_others = min(waited - own, self._source.cores * took - cpu - own)
        self._add(number, [round, start_ns, took, max(0, int(by_others)), switches, max(1, int(ran)), int(slices)])

    def _add(self, number: Hashable, block: list[int]) -> None:
        blocks, every = self._blocks.setdefault(number, []), self._every.setdefault(number, 1)
        self._counts[number] = self._counts.get(number, 0) + 1
        if block[0] % every == 0:
            blocks.append(block)
        if len(blocks) > POLICY.most_blocks:
            self._every[number] = every = every * 2
            blocks[:] = [it for it in blocks if it[0] % every == 0]

    def look(self, now: bool = False) -> None:
        """Read the whole machine where the last reading is a second old, or in any case."""
        if not now and self._read and time.perf_counter_ns() - self._read[-1][0].at_ns < self._period_ns:
            return
        counters = self._source.counters(process.running_pids())
        self._read.append((counters._replace(own_ns=counters.own_ns + self._ended_ns), self.on_gpu()))
        if len(self._read) > POLICY.most_readings:
            self._read, self._period_ns = self._read[::2], 2 * self._period_ns

    def noise_of(self, number: Hashable) -> MachineNoise | None:
        """What is known by now of the blocks of somebody; None before there are readings."""
        readings = self.readings()
        if not readings:
            return None
        blocks = self._blocks.get(number, [])
        noise: MachineNoise = {"cores": self._source.cores, "blocks": [*blocks], "readings": readings}
        if self._source.limit is not None and self._source.limit < self._source.cores:
            noise["limit"] = self._source.limit
        if len(blocks) < self._counts.get(number, 0):
            noise["of"] = self._counts[number]
        return noise

    def readings(self) -> list[NoiseReading]:
        read = [*self._read]
        if len(read) > 2 and read[-1][0].at_ns - read[-2][0].at_ns < POLICY.shortest_reading * self._period_ns:
            del read[-2]  # a part of a second is counted too coarsely
        return [
            _reading(before, after, gpu) for (before, _), (after, gpu) in pairwise(read) if after.at_ns > before.at_ns
        ]


def _reading(before: Counters, after: Counters, on_gpu: int | None) -> NoiseReading:
    took = after.at_ns - before.at_ns
    others = (after.used_ns - before.used_ns) - (after.own_ns - before.own_ns)
    reading: NoiseReading = {"at_ns": before.at_ns, "took_ns": took, "others": round(max(0.0, others / took), 4)}
    if before.stolen_ns is not None and after.stolen_ns is not None:
        reading["stolen"] = round(max(0.0, (after.stolen_ns - before.stolen_ns) / took), 4)
    if before.stalled_ns is not None and after.stalled_ns is not None:
        reading["pressure"] = round(min(1.0, max(0.0, (after.stalled_ns - before.stalled_ns) / took)), 4)
    if before.throttled_ns is not None and after.throttled_ns is not None:
        reading["throttled_ns"] = max(0, after.throttled_ns - before.throttled_ns)
    if after.mhz is not None:
        reading["mhz"] = after.mhz
    if on_gpu:
        reading["gpu_processes"] = on_gpu
    return reading


def noise_for(seconds: float) -> MachineNoise | None:
    meter, source = Meter(), system()
    meter.look(now=True)
    with signals.stoppable_wait():
        source.rest(seconds)
    meter.look(now=True)
    return meter.noise_of(None)


# Of what is no block, and on no GPU.
_WHY = {"stopped": "a CPU limit stopped this process", "stolen": "the hypervisor took CPU time"}


def wait_until_quiet(limit_s: float, tell: Callable[[str], None]) -> str | None:
    """Wait, so long at most, until the machine was quiet for two seconds in a row; why it never was, else None."""
    quiet, passed = 0, 0
    while True:
        noise = noise_for(1.0)
        found = [] if noise is None else busy_reasons(noise)
        passed += 1
        quiet = 0 if found else quiet + 1
        if quiet == POLICY.quiet_s:
            return None
        if noise is not None and found:
            why = used_by_others(noise) if found[0] == "others" else _WHY[found[0]]
            if passed >= limit_s:
                return f"{why} in the last second"
            tell(f"waiting for a quiet machine: {why}")
