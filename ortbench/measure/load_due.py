"""When the requests of a load are due: at which rates, for how long, and their moments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ortbench.analysis.loads import arrivals
from ortbench.plan.load_plan import AUTO, UNIFORM, LoadPlan, read_timestamps

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Moments = NDArray[np.int64]


class Due:
    """Makes the moments of a load before anything begins.

    Args:
        load: checked.
        seed: of arrivals that are made up.
    """

    def __init__(self, load: LoadPlan, seed: int) -> None:
        self._load, self._seed = load, seed
        self._stamps = None if load.file is None else read_timestamps(load.file)

    @property
    def level_s(self) -> float:
        """How long a level is meant to be, s."""
        return self._load.level_s(None if self._stamps is None else self._stamps[-1])

    @property
    def rates(self) -> tuple[float, ...]:
        """Of the levels that are known before."""
        rate = self._load.rate
        if isinstance(rate, tuple):
            return rate
        return () if rate == AUTO or self._stamps is None else (arrivals.own_rate(self._stamps),)

    def longest_s(self, rate: float) -> float | None:
        """How long a file of arrivals goes on at a rate, s; None where arrivals are made up."""
        return None if self._stamps is None else (len(self._stamps) - 1) / rate

    def moments(self, rate: float, duration_s: float, repeat: int) -> Moments:
        """When requests are due, ns from the beginning on, shape (n,); the same for the same `repeat`."""
        if self._stamps is not None:
            return arrivals.replayed(self._stamps, rate, duration_s)
        if self._load.arrivals == UNIFORM:
            return arrivals.uniform(rate, duration_s)
        return arrivals.poisson(rate, duration_s, self._seed, repeat)
