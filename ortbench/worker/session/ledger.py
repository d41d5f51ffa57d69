"""What ortbench itself allocates of a device's memory and of pinned memory, counted while somebody wants to know."""

from __future__ import annotations

import weakref
from typing import Any

DEVICE, PINNED = "device", "pinned"


class Ledger:
    """Counts values from when they are allocated until they are gone.

    Attributes:
        now: bytes by kind, `DEVICE` or `PINNED`.
        most: of each kind, the most at a time.
    """

    def __init__(self) -> None:
        self.now = dict.fromkeys((DEVICE, PINNED), 0)
        self.most = dict(self.now)

    def add(self, kind: str, value: Any, size: int) -> None:
        """Count a value of so many bytes, which is held by an object that can be referred to weakly."""
        self.now[kind] += size
        self.most[kind] = max(self.most[kind], self.now[kind])
        weakref.finalize(value, self._drop, kind, size).atexit = False

    def _drop(self, kind: str, size: int) -> None:
        self.now[kind] -= size


_open: Ledger | None = None


def begin() -> Ledger:
    """Count from here on, until the process ends."""
    global _open
    _open = Ledger()
    return _open


def note(kind: str, value: Any, size: int) -> None:
    """A value was allocated. Timed calls may allocate, so where nobody counts this does nothing."""
    if _open is not None:
        _open.add(kind, value, size)
