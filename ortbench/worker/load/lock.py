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
from collections import Counter

_LOOKS = 40  # at most
_ENOUGH = 5  # of them at the same place
_APART_US = 2000
_LEAST_ADDRESS = 1 << 16
_FORM = re.compile(rb"(\d+) 0x([0-9a-f]+) ")


def waiting_place() -> list[int] | None:
    """The number of the system call and the address at which threads wait for Python's lock; None where that cannot be seen."""
    if not sys.platform.startswith("linux"):
        return None
    native: list[int] = []
    done = threading.Event()

    def want() -> None:
        native.append(threading.get_native_id())
        while not done.is_set():
            time.sleep(0)  # lets go of the lock, and wants it back

    thread = threading.Thread(target=want, daemon=True)
    thread.start()
    try:
        while not native:
            time.sleep(0.001)
        return _seen(native[0])
    except (OSError, AttributeError):
        return None
    finally:
        done.set()
        thread.join()


def _seen(native: int) -> list[int] | None:
    """The same, by looks at a thread that wants the lock while the caller has it."""
    keeping = ctypes.PyDLL(None)
    buffer = ctypes.create_string_buffer(256)
    seen: Counter[tuple[int, int]] = Counter()
    file = os.open(f"/proc/self/task/{native}/syscall", os.O_RDONLY)
    try:
        for _ in range(_LOOKS):
            keeping.usleep(_APART_US)
            read = keeping.pread(file, buffer, 256, 0)
            found = _FORM.match(buffer.raw[: max(0, read)])
            # Else it runs, has no core to do so, or sleeps where the first argument is no address.
            if found is not None and int(found[2], 16) >= _LEAST_ADDRESS:
                seen[int(found[1]), int(found[2], 16)] += 1
            for place, times in seen.most_common(1):
                if times == _ENOUGH:
                    return list(place)
    finally:
        os.close(file)
    return None
