"""The highest rate that keeps an SLO, by bisection: which rate to try next, and what was found. Pure."""

from __future__ import annotations

from ortbench.model.schema import SloRate

RESOLUTION = 0.06  # of the rate, at which bisection ends
REPEATS = 3  # of both rates at the edge, for the interval
MOST_TRIES = 24  # of all rates: a server that drifts could be searched for ever
_LOWEST = 0.01  # of the highest rate: below that no rate is looked for


class Search:
    """Bisects between no requests and the most that can be served; then tries both sides of the edge again.

    One try may fall on the wrong side by chance, most of all near the edge. So what keeps the SLO there is what most tries
    of a rate say, and the interval reaches from the highest rate at which all tries held to the lowest above it at which none did.

    Args:
        highest: requests per second above which the queue would only grow.
    """

    def __init__(self, highest: float) -> None:
        self._highest = highest
        self._tries: dict[float, list[bool]] = {}

    @property
    def tries(self) -> int:
        """How many rates were tried so far, repeats counted."""
        return sum(map(len, self._tries.values()))

    def next(self) -> float | None:
        """The rate to try next, per second; None when enough is known."""
        low, high = self._edge()
        if self.tries >= MOST_TRIES:
            return None
        if high - low > RESOLUTION * high:
            middle = (low + high) / 2
            return middle if middle >= _LOWEST * self._highest else None
        return next((rate for rate in (low, high) if rate in self._tries and len(self._tries[rate]) < REPEATS), None)

    def tell(self, rate: float, held: bool) -> None:
        """Whether a rate that was tried kept the SLO."""
        self._tries.setdefault(rate, []).append(held)

    def keeps(self, rate: float) -> bool:
        """Whether most tries of a rate that was tried kept the SLO."""
        tries = self._tries[rate]
        return 2 * sum(tries) > len(tries)

    def found(self) -> SloRate | None:
        """The rate and its interval; None where none that was tried held."""
        low, _ = self._edge()
        if not low:
            return None
        surely = [rate for rate, tries in self._tries.items() if all(tries) and rate <= low]
        not_so = [rate for rate, tries in self._tries.items() if not any(tries) and rate > low]
        return {"rate": low, "ci95": [max(surely, default=0.0), min([*not_so, self._highest])]}

    def _edge(self) -> tuple[float, float]:
        """The highest rate at which most tries held, below the lowest at which most did not; and that one."""
        failed = [rate for rate in self._tries if not self.keeps(rate)]
        high = min([*failed, self._highest])
        held = [rate for rate, tries in self._tries.items() if rate < high and rate not in failed]
        return max(held, default=0.0), high
