"""What load points come to: where more callers stop to bring more, and which rates keep what is asked of latency. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from ortbench.analysis.loads.levels import CONCURRENCY, RATE, At, at, is_measured, load_cases, measured, rate_of
from ortbench.model.result import Case, Result
from ortbench.model.schema import Knee, LoadSetup, SloRate

WORTH = 0.05  # by what share a level must bring more runs/s than those below it to be worth its callers


def knee_of(cases: Sequence[Case]) -> Knee | None:
    """The last closed load point of a mode, fewest clients first, that brings at least 5 % more than those below it,
    and its share of the most; None with fewer than two points."""
    if len(cases) < 2:
        return None
    knee, most = cases[0], rate_of(cases[0])
    for case in cases[1:]:
        if rate_of(case) >= most * (1 + WORTH):
            knee = case
        most = max(most, rate_of(case))
    return {"concurrency": int(at(knee).value), "share_of_peak": rate_of(knee) / most if most else 1.0}


def knees(result: Result) -> dict[str, Knee | None]:
    """The knee of each mode that has load points of closed loops, as a result has it; see `knee_of`."""
    modes = dict.fromkeys(case.mode for case in load_cases(result) if CONCURRENCY in case.point)
    return {mode: knee_of(measured(result, CONCURRENCY, mode)) for mode in modes}


def most(cases: Sequence[Case]) -> Case | None:
    """The load point with most runs/s; None without any."""
    return max(cases, key=rate_of, default=None)


def best_level(result: Result) -> Case | None:
    """The load point of closed loops with most runs/s, of any mode."""
    return most(measured(result, CONCURRENCY))


def asked_of(result: Result) -> dict[str, int] | None:
    """The SLO of a load: the most that each statistic of the latency may be, ns; None without one."""
    if result.slo is not None:
        return result.slo["asked"]
    setup: LoadSetup = result.part
    return setup["slo"]


def kept(result: Result) -> dict[str, SloRate]:
    """The highest rate that keeps the SLO, by mode, of those for which one was looked for and found."""
    found = {} if result.slo is None else result.slo["found"]
    return {mode: rate for mode, rate in found.items() if rate is not None}


def failed(result: Result) -> list[Case]:
    """The load points that failed, or that were not measured."""
    return [case for case in load_cases(result) if not is_measured(case)]


def has_rates(result: Result) -> bool:
    """Whether a load has open loops."""
    return any(RATE in case.point for case in load_cases(result))


def places(result: Result) -> list[tuple[str, At]]:
    """The modes and load points of all that was measured, closed loops before open ones."""
    return [(case.mode, at(case)) for kind in (CONCURRENCY, RATE) for case in measured(result, kind)]


RESOLUTION = 0.06  # of the rate, at which bisection ends
REPEATS = 3  # of both rates at the edge, for the interval
MOST_TRIES = 24  # of all rates: a server that drifts could be searched for ever
_LOWEST = 0.01  # of the highest rate: below that no rate is looked for


class Search:
    """Bisects between no requests and the most that can be served per second; then tries both sides of the edge again.

    One try may fall on the wrong side by chance, most of all near the edge. So what keeps the SLO there is what most
    tries of a rate say, and the interval reaches from the highest rate at which all tries held to the lowest above it
    at which none did.
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
