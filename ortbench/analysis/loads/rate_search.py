"""The highest rate at which a server meets an SLO: which rates to try, and what the tries say. Pure.

Whether one try of a rate meets the SLO is chance near the edge: requests come at random, and so do other processes. So bisection only
finds about where the edge is, and then a staircase decides: a step up after a try that met the SLO, a step down after one that did not, by
more where several in a row say the same (the up-and-down method of Dixon & Mood, J. American Statistical Association 43 (1948) 109).
Most tries are near the edge then, whatever bisection made of chance.

How far the next run's rate may be off follows from all tries: the edge and how wide it is, of a logistic curve with a share of tries that
fail for other reasons (`_LAPSES`), each as likely as the tries make it. The next run is off as well, so its variance counts
twice: that is a prediction interval, not one of confidence. `_WIDTH` is how many of these standard deviations hold 95 % of
next runs, which simulated servers say whose edges are 0.5 to 10 % wide (`tests/analysis/test_rate_search.py`).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

RESOLUTION = 0.06  # of the rate, at which bisection ends
STEP = 1.05  # by how many times the staircase goes up and down
DECIDING = 10  # tries of the staircase
KNOWN = 0.035  # the share by which the edge may be off (one standard deviation) when it ends
REPEATS = 3  # of the rate that was found, at least
MOST_TRIES = 24  # of all rates: a server that drifts could be searched for ever
USUAL_TRIES = 18
_MOST_STEPS = 4  # at a time
_LOWEST = 0.01  # of the highest rate: below that no rate is looked for
_LAPSES = 0.04
_WIDTH = 1.8
_PRIOR = 0.2  # the power of the edge's width by which wider ones are likelier before any try
_NARROWEST, _WIDEST = 0.005, 0.4  # the edge's standard deviation, as a share of the rate
_PLACES, _SCALES = 400, 12  # that are weighed
_BEYOND = 0.4  # how far from all tries the edge may be, as a logarithm


class Found(NamedTuple):
    """The rate that was found, where that of the next run lies with 95 %, and how many tries of the rate there were and met the SLO."""

    rate: float
    next95: tuple[float, float]
    tries: int
    met: int


class Search:
    """Bisects between no requests and the most that can be served per second (`highest`); then goes up and down at the edge until
    it is known where that is (`KNOWN`)."""

    def __init__(self, highest: float) -> None:
        self._highest = highest
        self._tries: list[tuple[float, bool]] = []
        self._decides_from: int | None = None  # the try with which the staircase begins
        self._begins_at = 0.0

    @property
    def tries(self) -> int:
        """How many rates were tried so far, repeats counted."""
        return len(self._tries)

    def next(self) -> float | None:
        """The rate to try next, per second; None when enough is known."""
        if self.tries >= MOST_TRIES:
            return None
        if self._decides_from is None:
            low, high = self._edge()
            if high - low > RESOLUTION * high:
                middle = (low + high) / 2
                return middle if middle >= _LOWEST * self._highest else None
            self._decides_from, self._begins_at = self.tries, low
        if self.tries - self._decides_from < DECIDING or self._weighed()[1] > KNOWN:
            return self._step()
        found = self.found()
        return None if found is None or found.tries >= REPEATS else found.rate

    def tell(self, rate: float, met: bool) -> None:
        """Whether a rate that was tried met the SLO."""
        self._tries.append((rate, met))

    def meets(self, rate: float) -> bool:
        """Whether most tries of a rate that was tried met the SLO."""
        tries = self._of(rate)
        return 2 * sum(tries) > len(tries)

    def found(self) -> Found | None:
        """The highest rate below the edge of which most tries met the SLO; None where none did."""
        good = sorted(rate for rate in {rate for rate, _ in self._tries} if self.meets(rate))
        if not good:
            return None
        edge, off = self._weighed()
        below = [rate for rate in good if rate <= edge * STEP**0.5]
        rate = below[-1] if below else good[0]
        reach = math.exp(_WIDTH * math.sqrt(2) * off)
        tries = self._of(rate)
        return Found(rate, (rate / reach, rate * reach), len(tries), sum(tries))

    def _of(self, rate: float) -> list[bool]:
        return [met for tried, met in self._tries if tried == rate]

    def _edge(self) -> tuple[float, float]:
        """The highest rate that met the SLO below the lowest that did not; and that one."""
        high = min((rate for rate, met in self._tries if not met), default=self._highest)
        return max((rate for rate, met in self._tries if met and rate < high), default=0.0), high

    def _step(self) -> float:
        """The next step of the staircase."""
        least, most = (math.floor(math.log(it / self._begins_at, STEP)) for it in self._ends())
        at = in_a_row = 0
        before: bool | None = None
        for _, met in self._tries[self._decides_from :]:
            in_a_row = in_a_row + 1 if met is before else 1
            before = met
            steps = min(_MOST_STEPS, 2 ** max(0, in_a_row - 2))
            at = min(max(at + (steps if met else -steps), least), most)
        return self._begins_at * STEP**at

    def _ends(self) -> tuple[float, float]:
        return _LOWEST * self._highest, max(self._highest, self._begins_at)

    def _weighed(self) -> tuple[float, float]:
        """Where the edge is by all tries, and by what share that may be off (one standard deviation)."""
        import numpy as np

        tried = np.log([rate for rate, _ in self._tries])
        met = np.array([met for _, met in self._tries])
        deciding = tried[self._decides_from or 0 :]
        places = np.linspace(deciding.min() - _BEYOND, deciding.max() + _BEYOND, _PLACES)
        scales = np.geomspace(_NARROWEST, _WIDEST, _SCALES)
        # 1.702: a logistic curve is then within 1 % of the normal distribution with this standard deviation.
        logit = 1.702 * (places[:, None, None] - tried) / scales[:, None]
        chance: NDArray[np.float64] = _LAPSES / 2 + (1 - _LAPSES) / (1 + np.exp(np.clip(-logit, -50, 50)))
        weights = (np.where(met, chance, 1 - chance).prod(axis=2) * scales**_PRIOR).sum(axis=1)
        weights /= weights.sum()
        edge = float(weights @ places)
        return math.exp(edge), math.sqrt(float(weights @ (places - edge) ** 2))
