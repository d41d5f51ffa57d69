"""What an observer is told while something is measured: how long it will still take, by what steps usually take and by what this
measurement has shown, and what is known so far."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Literal

from ortbench.core.stats import FEW
from ortbench.measure.estimates import Estimates, Row
from ortbench.measure.stopping import PART_NS
from ortbench.plan.plan import PROCESSES, Loop, Observer

Step = Literal["open", "prepare", "measure", "switch", "finish", "pass"]

_OF_MODES: tuple[Step, ...] = ("prepare", "finish", "pass")
_ORDER: tuple[Step, ...] = ("open", "prepare", "measure", "switch", "finish", "pass")
# What a step takes, in s, and in runs of the model besides.
_USUAL: dict[Step, tuple[float, float]] = {"open": (0.8, 1), "prepare": (0.4, 5), "finish": (0.1, 2), "pass": (4, 2)}
_ROUND_RUNS = 5  # of each mode, at least: blocks of a round are never cut; phases have blocks of their own
_SWITCH_RUNS = 30  # of each mode of a sweep, at least, to see what it costs that shapes change
_START_S = 1.0  # of another process, and to warm its modes up, at least
_TELLING_SHARE = 0.05  # of the measurement, from which on it tells itself how long it takes


class Forecast:
    """The time that is left, s, by the steps that are: configurations to open, and modes to prepare and measure, of all together.
    `measuring_s` says how long blocks take, of the time of an inference and the number of modes, where the loop does not."""

    def __init__(
        self,
        loop: Loop,
        configurations: int,
        modes: int,
        clock: Callable[[], float] = time.monotonic,
        passes: int = 0,
        switch: int = 0,
        measuring_s: Callable[[float, int], float] | None = None,
    ) -> None:
        self._loop, self._modes, self._clock, self._measuring_s = loop, modes, clock, measuring_s
        self._count: dict[Step, int] = {
            "open": configurations,
            "prepare": modes,
            "measure": 1,
            "switch": switch,
            "finish": modes,
            "pass": passes,
        }
        self._first_s: dict[
            int, float
        ] = {}  # of each configuration its first inference; not of those that have no mode left
        self._warm_s: dict[int, float] = {}  # of each configuration the longest one of its modes that are prepared
        self._now: Step | None = None
        self._begun = self._created = clock()
        self._start_s = _START_S
        self._known: tuple[float, float] | None = None  # how long the step would still take, and when that was known

    def begin(self, step: Step) -> None:
        for earlier in _ORDER[: _ORDER.index(step)]:
            self._count[earlier] = 0
        if self._now == "open" != step:
            self._start_s = max(_START_S, self._clock() - self._created)
        self._count[step] = max(0, self._count[step] - 1)
        self._now, self._begun, self._known = step, self._clock(), None

    def know_first(self, configuration: int, seconds: float) -> None:
        """How long a configuration's first inference took, which may be many times as long as a later one: an EP compiles its kernels in it."""
        self._first_s[configuration] = seconds

    def know_warm(self, configuration: int, seconds: float) -> None:
        """About how long an inference takes in a mode of a configuration that is prepared."""
        self._warm_s[configuration] = max(seconds, self._warm_s.get(configuration, 0.0))

    def give_up(self, configuration: int) -> None:
        self._first_s.pop(configuration, None)

    @property
    def is_warm(self) -> bool:
        return self._first_s.keys() <= self._warm_s.keys()

    @property
    def _run_s(self) -> float:
        return max((self._first_s | self._warm_s).values(), default=0.0)

    def know_modes(self, modes: int) -> None:
        """How many modes there are to be measured, now that some may have been given up."""
        self._modes = modes
        for step in _OF_MODES:
            self._count[step] = min(self._count[step], modes)

    def know_share(self, share: float) -> None:
        """How much of the measurement is done, 0 to 1."""
        if share > _TELLING_SHARE:
            self.know_left((self._clock() - self._begun) * (1 / share - 1))

    def know_left(self, seconds: float) -> None:
        """How long the step that has begun still takes."""
        self._known = (seconds, self._clock())

    def left_s(self) -> float:
        to_come = sum(count * self._expected_s(step) for step, count in self._count.items())
        if self._now is None:
            return to_come
        seconds, since = self._known or (self._expected_s(self._now), self._begun)
        return to_come + max(0.0, seconds - (self._clock() - since))

    def _expected_s(self, step: Step) -> float:
        if step == "measure":
            if self._measuring_s is not None:
                return self._measuring_s(self._run_s, self._modes)
            a_round = _ROUND_RUNS * self._run_s
            most = self._loop.duration_s
            if self._loop.until_agreed:
                most = min(most, PROCESSES * max(PART_NS / 1e9, FEW * a_round))
                return self._modes * max(most, a_round) + (PROCESSES - 1) * self._start_s
            if self._loop.iterations is not None:
                most = self._loop.iterations * 1.5 * self._run_s
            return self._modes * max(most, a_round)
        if step == "switch":
            return max(self._loop.duration_s if self._loop.iterations is None else 0.0, _SWITCH_RUNS * self._run_s)
        seconds, runs = _USUAL[step]
        return seconds + runs * self._run_s


class Progress:
    """Tells `observer`, by a forecast and by estimates of what is measured."""

    def __init__(self, observer: Observer, forecast: Forecast) -> None:
        self.observer, self.forecast = observer, forecast
        self.estimates = Estimates()
        self._has_told_forecast = False

    def begin(self, step: Step, text: str) -> None:
        self.forecast.begin(step)
        self.observer.stage(text)
        self.tell_left()

    def tell_left(self) -> None:
        self.observer.left(self.forecast.left_s())

    def tell_left_s(self, seconds: float) -> None:
        """The step that has begun still takes so long."""
        self.forecast.know_left(seconds)
        self.tell_left()

    def tell_forecast(self) -> None:
        """Say how long it takes, once: when each configuration has a mode whose inferences are known to be warm."""
        if self.forecast.is_warm and not self._has_told_forecast:
            self._has_told_forecast = True
            self.observer.forecast(self.forecast.left_s())

    def tell_share(self, share: float | None) -> None:
        """So much of the measurement is done, if that is known."""
        if share is not None:
            self.forecast.know_share(share)
            self.tell_left()

    def add(self, name: str, samples: Sequence[float], unit: str | None = None) -> None:
        """Take a block into account: durations, ns, or the one rate, in a unit, that it had."""
        if self.observer.shows_estimates:
            self.estimates.add(name, samples, unit)

    def tell_estimates(self, rows: Callable[[], Iterable[Row]]) -> None:
        if self.observer.shows_estimates and self.estimates.is_due():
            self.observer.estimates([*rows()])
