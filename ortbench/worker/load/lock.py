"""Where threads wait for Python's lock, as the Linux kernel sees it.

A thread that waits for the lock sleeps in a futex at an address inside the interpreter's own state. That address is found
out by having a thread want the lock while this one has it and looks where the other sleeps: calls by `ctypes.PyDLL` keep
the lock. From then on anybody who may look at the process can see which of its threads wait for the lock, at any moment,
without needing the lock themselves: `ortbench.measure.lock_watch` does.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
import threading
import time

_LOOKS = 3
_APART_US = 2000
_FORM = re.compile(rb"(\d+) 0x([0-9a-f]+) ")


def waiting_place() -> list[int] | None:
    """The number of the system call and the address at which threads wait for Python's lock; None where that cannot be seen."""
    if not sys.platform.startswith("linux"):
        return None
    native: list[int] = []
    done = False

    def want() -> None:
        native.append(threading.get_native_id())
        while not done:
            pass

    interval = sys.getswitchinterval()
    thread = threading.Thread(target=want, daemon=True)
    try:
        thread.start()
        while not native:
            time.sleep(0.001)
        sys.setswitchinterval(10)  # so long this thread keeps the lock that it has
        return _seen(native[0])
    except (OSError, AttributeError):
        return None
    finally:
        done = True
        sys.setswitchinterval(interval)
        thread.join()


def _seen(native: int) -> list[int] | None:
    """The same, of a thread that waits for the lock now, which the caller has."""
    keeping = ctypes.PyDLL(None)
    buffer = ctypes.create_string_buffer(256)
    file = os.open(f"/proc/self/task/{native}/syscall", os.O_RDONLY)
    try:
        places = set()
        for _ in range(_LOOKS):
            keeping.usleep(_APART_US)
            read = keeping.pread(file, buffer, 256, 0)
            found = _FORM.match(buffer.raw[: max(0, read)])
            if found is None:
                return None
            places.add((int(found[1]), int(found[2], 16)))
    finally:
        os.close(file)
    return list(places.pop()) if len(places) == 1 else None
