"""Virtual time: what a run measures on the reference device is the same to the nanosecond on every machine.

`Clock` makes the file in which a test's clock lies; ``clock.c`` says how it goes. The clock of a process is put in the
place of Python's before anything of ortbench is loaded (`take_place`), and is the system's until the process is attached to
a file (`attach`), which its environment names (`VARIABLE`). Of a command only the worker's calls take time: its parent
waits, and reads the clock as it stands. `time.monotonic`, by which waits are limited, stays the system's.
"""

from __future__ import annotations

import ctypes
import os
import struct
import time
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.compiling import compile_library

VARIABLE = "ORTBENCH_TESTS_CLOCK"
START_NS = 10**12
CALL_NS = 1_000  # what a call of the host's takes: a reading of the clock, or a call of the device's
_HEAD = struct.Struct("<4q")  # now, CPU time, readings, how many pauses


def build(directory: Path) -> Path:
    """Compile the clock into a folder, and return the library's path."""
    here = Path(__file__).parent
    return compile_library(
        "the virtual clock", [here / "clock.c", here / "clock.h"], directory, libraries=("-lpthread",)
    )


class Clock:
    """A clock for commands and their workers, in a file, which begins anew."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.restart()

    def restart(self, pauses: Mapping[int, int] | None = None) -> None:
        """Begin anew; `pauses`: how long the host is held up, ns, before its nth reading of the clock (from 1)."""
        script = b"".join(struct.pack("<2q", *pause) for pause in sorted((pauses or {}).items()))
        self.path.write_bytes(_HEAD.pack(START_NS, 0, 0, len(script) // 16) + script)

    @property
    def readings(self) -> int:
        """How often the host has read the clock."""
        return int(_HEAD.unpack(self.path.read_bytes()[: _HEAD.size])[2])


_library: Any = None
_works = False


def take_place(library: Path) -> None:
    """Put the clock in the place of Python's, for all that is loaded from now on."""
    global _library
    _library = ctypes.PyDLL(str(library))
    for name in ("clock_read", "clock_now", "clock_cpu"):
        getattr(_library, name).restype = ctypes.c_int64
    _library.clock_sleep_until.argtypes = [ctypes.c_int64]
    _library.clock_attach.argtypes = [ctypes.c_char_p, ctypes.c_int64]
    import resource

    sleep, sched_yield, usage = time.sleep, os.sched_yield, resource.getrusage

    def slept(seconds: float) -> None:
        if not _works:  # who waits for another process waits for it to do something
            sleep(seconds)
            return
        sleep(0)  # others have their turn all the same
        _library.clock_sleep_until(_library.clock_read() + round(seconds * 1e9))

    def yielded() -> None:
        if not _library.clock_spin():
            sched_yield()

    def used(who: int) -> Any:
        if (cpu_ns := _library.clock_cpu()) < 0:
            return usage(who)
        return SimpleNamespace(ru_utime=cpu_ns / 1e9, ru_stime=0.0, ru_minflt=0, ru_majflt=0, ru_nivcsw=0)

    time.perf_counter_ns = time.monotonic_ns = _library.clock_read
    time.sleep, os.sched_yield = slept, yielded  # type: ignore[assignment]
    resource.getrusage = used


def attach(works: bool) -> None:
    """Go by the clock that the environment names, if it names one; `works`: whether what this process calls takes time."""
    global _works
    path = os.environ.get(VARIABLE)
    _works = works and path is not None
    if path is not None and _library.clock_attach(os.fsencode(path), CALL_NS if works else 0) != 0:
        raise OSError(f"{path} is no clock")
