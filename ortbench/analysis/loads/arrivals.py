"""When requests of an open loop are due: made before it begins, whatever happens in it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Moments = NDArray[np.int64]

MOST_REQUESTS = 2_000_000  # of a level: they are kept in memory, and more say nothing new


def uniform(rate: float, duration_s: float) -> Moments:
    """Moments at equal distances, ns from the level's start on, shape (n,), int64; at least one."""
    import numpy as np

    count = min(MOST_REQUESTS, max(1, int(rate * duration_s)))
    return np.round(np.arange(count) * (1e9 / rate)).astype(np.int64)


def poisson(rate: float, duration_s: float, seed: int, repeat: int = 0) -> Moments:
    """Moments of a Poisson process, as `uniform` gives them: distances are exponential, from NumPy's default generator.

    The same seed and repeat give the same moments.
    """
    import numpy as np

    generator = np.random.default_rng([seed, repeat])
    wanted = min(MOST_REQUESTS, int(rate * duration_s) + 1)
    moments = np.cumsum(generator.exponential(1e9 / rate, wanted))
    while moments[-1] < duration_s * 1e9 and moments.size < MOST_REQUESTS:
        more = np.cumsum(generator.exponential(1e9 / rate, max(16, wanted // 4)))
        moments = np.concatenate([moments, moments[-1] + more])
    kept = moments[moments < duration_s * 1e9][:MOST_REQUESTS]
    return np.round(kept if kept.size else moments[:1]).astype(np.int64)


def replayed(seconds: Sequence[float], rate: float | None, duration_s: float) -> Moments:
    """Moments of a file, as `uniform` gives them: `seconds` ascend from 0, and are stretched to a mean rate where there
    is one."""
    import numpy as np

    moments = np.asarray(seconds, dtype=np.float64) * (1.0 if rate is None else own_rate(seconds) / rate)
    return np.round(moments[moments <= duration_s][:MOST_REQUESTS] * 1e9).astype(np.int64)


def own_rate(seconds: Sequence[float]) -> float:
    """The mean requests per second of a file: its distances by its length."""
    return (len(seconds) - 1) / seconds[-1]
