"""How long a load will still take, told from the first second on."""

from __future__ import annotations

import time
from collections.abc import Callable

_OPEN_S, _PREPARE_S = 1.5, 1.0  # to open the model, and to prepare a mode and its callers


class Left:
    """The time that is left.

    Args:
        modes: to prepare.
        measuring_s: of all levels, as far as is known.
        say: told how many seconds are left.
        clock: s.
    """

    def __init__(
        self, modes: int, measuring_s: float, say: Callable[[float], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._say, self._clock = say, clock
        self._before_s, self._measuring_s = _OPEN_S + modes * _PREPARE_S, measuring_s
        self._since = clock()

    def begin_measuring(self, measuring_s: float) -> None:
        """What comes before the levels is over."""
        self._before_s, self._measuring_s, self._since = 0.0, measuring_s, self._clock()
        self.tell()

    def done(self, seconds: float) -> None:
        """So much of the levels is over."""
        self._measuring_s, self._since = max(0.0, self._measuring_s - seconds), self._clock()
        self.tell()

    def left_s(self) -> float:
        """How long it will still take, about."""
        gone = self._clock() - self._since
        if self._before_s:
            return max(0.0, self._before_s - gone) + self._measuring_s
        return max(0.0, self._measuring_s - gone)

    def tell(self) -> None:
        """Tell it."""
        self._say(self.left_s())
