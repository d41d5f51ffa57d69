"""Where readings of noise come from: a Linux system's files, a meter's arithmetic, and waiting until a machine is quiet."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from ortbench.analysis.noise import POLICY
from ortbench.measure import noise
from ortbench.measure.noise import Linux, Meter, OtherSystem, wait_until_quiet
from tests.expect import there
from tests.measure.stand_ins import file_system
from tests.virtual.machine import Machine

MS = 1_000_000
linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
WORKER = 42  # a process id, of two threads


def put_threads(root: Path, *counted: str) -> None:
    file_system(root, {f"proc/{WORKER}/task/{WORKER + it}/schedstat": text for it, text in enumerate(counted)})


BUSY_THREADS = ["0 0 0"] * 4, ["5000000 5000000 5"] * 4


@linux
@pytest.mark.parametrize(
    ("threads", "used_ms", "own_ms", "row"),
    [
        # What the worker's threads waited, less what ortbench itself used.
        ((["1000000 500000 3", "0 0 1"], ["8000000 5500000 9", "50000 0 2"]), 8, 1, [10 * MS, 4 * MS, 4, 1, 7]),
        # Threads that fill all cores wait for each other alone.
        (BUSY_THREADS, 16, 0, [10 * MS, 4 * MS, 4, 4, 20]),
        (BUSY_THREADS, 20, 0, [10 * MS, 0, 4, 4, 20]),
    ],
)
def test_what_a_blocks_threads_waited(
    threads: tuple[list[str], ...], used_ms: int, own_ms: int, row: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    now, used, own = [0, 10 * MS], [0, used_ms * MS], [0, own_ms * MS]
    monkeypatch.setattr(time, "perf_counter_ns", lambda: now.pop(0))
    monkeypatch.setattr(time, "process_time_ns", lambda: own.pop(0))
    system = Linux(tmp_path, clock=lambda pid: used.pop(0))
    system.cores = 2
    monkeypatch.setattr(noise, "system", lambda: system)
    meter, (before, after) = Meter(), threads
    put_threads(tmp_path, *before)
    begun = meter.begin([WORKER])
    put_threads(tmp_path, *after)
    meter.end("side", [WORKER], begun, round=7, start_ns=123, switches=4)
    monkeypatch.undo()
    assert meter._blocks["side"] == [[7, 123, *row]]


@linux
def test_of_many_threads_those_that_ran_most_are_read(tmp_path: Path) -> None:
    put_threads(tmp_path, *(f"{it} {it} 1" for it in range(40)))
    system = Linux(tmp_path, clock=lambda pid: 0)
    found = there(system.waits([WORKER], begin=True))
    assert sorted(ran for ran, _, _ in found.threads.values()) == list(range(24, 40))
    assert found.every == 40 / 16


@linux
def test_a_worker_that_has_ended_or_a_system_without_the_files_tells_nothing(tmp_path: Path) -> None:
    assert Linux(tmp_path).waits([WORKER], begin=True) is None
    meter = Meter()
    meter.end("side", [WORKER], None, 0, 0)
    assert meter.noise_of("side") is None


@linux
def test_what_the_machine_tells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the cores that the process may run on alone, in ticks of 10 ms; version 2 of control groups."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {1})
    monkeypatch.setattr(time, "process_time_ns", lambda: 5 * MS)
    file_system(
        tmp_path,
        {
            "proc/stat": "cpu  9 9 9 9\ncpu0 900 0 0 0 0 0 0 0\ncpu1 50 10 20 700 3 5 6 8 0 0\nintr 1",
            "proc/pressure/cpu": "some avg10=1.00 avg60=1.00 avg300=1.00 total=1234\nfull avg10=0 avg60=0 avg300=0 total=0",
            "proc/self/cgroup": "0::/a",
            "sys/fs/cgroup/a/cpu.stat": "usage_usec 5\nthrottled_usec 77",
            "sys/fs/cgroup/a/cpu.max": "50000 100000",
            "sys/devices/system/cpu/cpu1/cpufreq/scaling_cur_freq": "2400000",
        },
    )
    system = Linux(tmp_path, clock=lambda pid: 30 * MS)
    assert (system.cores, system.limit) == (1, 0.5)
    found = system.counters([WORKER])
    assert found[1:] == (800 * MS, 35 * MS, 80 * MS, 1234_000, 77_000, 2400)
    assert system.counters([])[2] == 35 * MS  # a worker that has ended has used what it has used
    assert Linux(tmp_path / "nothing").counters([])[1:] == (0.0, 5 * MS, 0.0, None, None, None)


@linux
@pytest.mark.process
def test_this_system_tells_of_a_thread_and_of_all_processes() -> None:
    """Without a figure, which would depend on the machine; of a process that has few threads."""
    code = "import sys, threading; threading.Thread(target=sys.stdin.readline).start(); print(flush=True)"
    line = [sys.executable, "-S", "-c", code]
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as process:
        there(process.stdout).readline()
        found = Linux().waits([process.pid], begin=True)
        there(process.stdin).close()
    assert (found is not None and len(found.threads) == 2) == Path("/proc/self/schedstat").exists()
    assert found is None or found.cpu_ns > 0
    assert Linux().counters([os.getpid()]).used_ns > 0


def test_any_other_system_tells_what_psutil_has() -> None:
    system = OtherSystem()
    one, other = system.counters([os.getpid()]), system.counters([os.getpid()])
    assert (system.waits([os.getpid()], begin=True), one.stolen_ns, one.mhz) == (None, None, None)
    assert other.used_ns >= one.used_ns > 0
    assert other.own_ns >= one.own_ns > 0


def test_readings_a_second_or_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(others=[1.0, 0.5], stolen=0.25)
    monkeypatch.setattr(noise, "system", lambda: machine)
    meter = Meter()
    for seconds in (0.0, 1.5, 1.5, 0.25):
        machine.rest(seconds)
        meter.look(now=True)
    made = there(meter.noise_of("nobody"))
    # The last quarter of a second is no reading of its own.
    readings = [(it["others"], it.get("stolen"), round(it["took_ns"] / 1e9, 2)) for it in made["readings"]]
    assert readings == [(1.0, 0.25, 1.5), (0.5, 0.25, 1.75)]
    assert made["blocks"] == []


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noise, "POLICY", replace(POLICY, most_blocks=10, most_readings=4))
    machine = Machine()
    monkeypatch.setattr(noise, "system", lambda: machine)
    meter = Meter()
    for number in range(40):
        machine.rest(1.0)
        meter.look(now=True)
        meter.end("side", [1], meter.begin([1]), number, number)
    made = there(meter.noise_of("side"))
    assert [block[0] for block in made["blocks"]] == [0, 4, 8, 12, 16, 20, 24, 28, 32, 36]
    assert made["of"] == 40
    assert len(made["readings"]) <= 4


BUSY, QUIET = 1.0, 0.0
LAST = "other processes used 50% of 2 cores in the last second"


@pytest.mark.parametrize(
    ("others", "limit_s", "why", "waited_s"),
    [
        ([QUIET], 0, None, 2),
        ([BUSY], 0, LAST, 1),  # nothing is waited for
        ([BUSY], 5, LAST, 5),
        ([BUSY, BUSY, BUSY, QUIET], 60, None, 5),
        ([BUSY, QUIET, BUSY, QUIET, QUIET], 60, None, 5),  # two seconds in a row
    ],
)
def test_waiting_until_the_machine_is_quiet(
    others: list[float], limit_s: float, why: str | None, waited_s: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine, told = Machine(others=others), list[str]()
    monkeypatch.setattr(noise, "system", lambda: machine)
    begun = machine.counters([]).at_ns
    assert wait_until_quiet(limit_s, told.append) == why
    assert round((machine.counters([]).at_ns - begun) / 1e9) == waited_s
    assert set(told) <= {"waiting for a quiet machine: other processes used 50% of 2 cores"}
