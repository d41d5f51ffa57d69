"""The highest rate at which a server meets an SLO: which rates to try, and what the tries say. Pure.

All requests at a rate, of one try or more, say whether it meets the SLO (`ortbench.features.load.analysis.points.meets`). Near the edge no
number of tries tells, and far from it one does. So bisection finds about where the edge is, by the figures alone; the rates that are
tried then lie so far below (`BACK`) that the tries that are left can tell. Where a rate met the SLO early, those between it and the
edge follow.

A rate is looked at after each try, and of several rates the highest that passes is taken, each of which makes a claim by chance
likelier. That the claims hold all the same as often as is said, simulated servers show (`tests/analysis/test_rate_search.py`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

RESOLUTION = 0.05  # of the rate, at which bisection ends
BACK = 0.85  # by how much lower the next rate is, where tries cannot tell
REPEATS = 3  # tries of a rate that met the SLO, before higher ones follow
TRIES = 18  # of all rates, at most
_LOWEST = 0.01  # of the highest rate: below that no rate is looked for


class Found(NamedTuple):
    """The highest rate that was shown to meet the SLO, and the lowest above it from which on all that were tried violate it, if any."""

    rate: float
    violated_from: float | None


@dataclass
class _Rate:
    """What all tries of a rate say: whether it meets the SLO, None where they cannot tell; whether its figures do; and how many more
    tries would tell."""

    met: bool | None = None
    holds: bool = False
    more: float = 0.0
    tries: int = 0


class Search:
    """Looks between no requests and the most that can be served per second (`highest`)."""

    def __init__(self, highest: float) -> None:
        self._highest = highest
        self._rates: dict[float, _Rate] = {}
        self._edge: float | None = None  # about where it is, once bisection has ended
        self._given_up: set[float] = set()  # rates that the tries left cannot tell of
        self._at = 0.0  # the rate that is tried then

    @property
    def tries(self) -> int:
        """How many there were so far, of all rates."""
        return sum(it.tries for it in self._rates.values())

    def tell(self, rate: float, met: bool | None, holds: bool, longer: float) -> None:
        """Whether a rate meets the SLO by all requests so far, see `meets` and `meets_by_figures`, and how many times as many would tell."""
        it = self._rates.setdefault(rate, _Rate())
        it.met, it.holds, it.tries = met, holds, it.tries + 1
        it.more = it.tries * (longer - 1)

    def next(self) -> float | None:
        """The rate to try next, per second; None when enough is known."""
        if self.tries >= TRIES:
            return None
        if self._edge is None:
            low, high = self._bracket()
            if high - low > RESOLUTION * high:
                middle = _rounded((low + high) / 2)
                return middle if middle >= _LOWEST * self._highest else None
            self._edge = high
            self._at = max((it for it in self._met() if it >= BACK * low), default=self._near(low * BACK))
        while self._at >= _LOWEST * self._highest:
            it = self._rates.get(self._at, _Rate())
            if not it.tries or (it.met and it.tries < REPEATS) or self._is_open(it):
                return self._at
            if it.met is not True:
                self._given_up.add(self._at)
            lower = max(self._met(), default=None)
            upper = min((rate for rate in self._given_up if lower is None or rate > lower), default=self._edge)
            if lower is None:
                self._at = self._near(upper * BACK)
            elif upper < lower * (1 + RESOLUTION):
                return None
            else:
                self._at = self._near(math.sqrt(lower * upper))
        return None

    def best_rate(self) -> Found | None:
        """The highest rate that met the SLO below all that violated it; None without one."""
        violated = [rate for rate, it in self._rates.items() if it.met is False]
        met = max((it for it in self._met() if it < min(violated, default=math.inf)), default=None)
        others = max((rate for rate, it in self._rates.items() if it.met is not False), default=0.0)
        return None if met is None else Found(met, min((it for it in violated if it > others), default=None))

    def _near(self, rate: float) -> float:
        """A rate, or the one next to it of which tries have not told: their requests count together."""
        told = {*self._given_up, *self._met()}
        known = [it for it in self._rates if abs(it / rate - 1) < RESOLUTION / 2 and it not in told]
        return min(known, key=lambda it: abs(it - rate), default=_rounded(rate))

    def _met(self) -> list[float]:
        return [rate for rate, it in self._rates.items() if it.met]

    def _is_open(self, it: _Rate) -> bool:
        """Whether the tries that are left may tell that a rate meets the SLO."""
        return it.met is None and it.holds and it.more <= TRIES - self.tries

    def _bracket(self) -> tuple[float, float]:
        """The highest rate that meets the SLO by its figures below the lowest that does not; and that one."""
        high = min((rate for rate, it in self._rates.items() if not it.holds), default=self._highest)
        return max((rate for rate, it in self._rates.items() if it.holds and rate < high), default=0.0), high


def _rounded(rate: float) -> float:
    """With three digits, as it is shown."""
    return float(f"{rate:.3g}")
