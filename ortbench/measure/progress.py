"""What is known of a measurement while it goes on: each series so far, when processes agree or a test is decided, and the time left."""

from __future__ import annotations

import time
from bisect import insort
from collections.abc import Callable, Iterable, Sequence
from statistics import median
from typing import Literal, Protocol

from ortbench.analysis.intervals import by_round
from ortbench.core import units
from ortbench.core.stats import FEW, figure_of, of_processes, sign_test_rank
from ortbench.model.modes import CPU, LATENCY
from ortbench.model.result import Case
from ortbench.model.schema import Stopped
from ortbench.plan.plan import PROCESSES, Loop, Observer

# What is known so far of each series: a median and its interval, in words
#
# Of a block nothing is kept but its median, in order, so that a look takes as long after an hour as after a second.


EVERY_S = 0.25  # at most so often a look is taken
_MOST = 50_000  # blocks of a series that are kept: of more, one in two is let go
Row = tuple[str, str]  # what it is of, and what is known of it


class Running:
    """The median of what blocks gave, and its 95 % interval by the sign test."""

    def __init__(self) -> None:
        self._ordered: list[float] = []

    def add(self, value: float) -> None:
        if len(self._ordered) == _MOST:
            del self._ordered[::2]
        insort(self._ordered, value)

    def text(self, rate: str | None = None) -> str:
        """The median in words: a duration, ns, or a `rate`, which is its unit; without an interval while there are few blocks."""
        if not self._ordered:
            return "–"
        n, rank = len(self._ordered), sign_test_rank(len(self._ordered))
        middle = (self._ordered[(n - 1) // 2] + self._ordered[n // 2]) / 2
        name, size = (rate, 1.0) if rate else units.time_unit(middle)

        def number(value: float) -> str:
            return units.rate(value) if rate else units.time(value, size)

        shown = f"{number(middle)} {name}"
        if rank is None:
            return shown
        return f"{shown} (95% CI {number(self._ordered[rank])}–{number(self._ordered[n - 1 - rank])})"


class Estimates:
    """What is known of all series, in the order in which they are `named`."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._looked_at = clock, clock() - EVERY_S
        self._series: dict[str, tuple[Running, str | None]] = {}

    def series(self, name: str, rate: str | None = None) -> Running:
        return self._series.setdefault(name, (Running(), rate))[0]

    def add(self, name: str, samples: Sequence[float], rate: str | None = None) -> None:
        """Take a block into account: its samples, ns, or the one rate that it had."""
        if samples:
            self.series(name, rate).add(median(samples))

    def is_due(self) -> bool:
        """Whether the last look is long enough ago; the next one is then counted from now on."""
        now = self._clock()
        if now - self._looked_at < EVERY_S:
            return False
        self._looked_at = now
        return True

    def rows(self) -> list[Row]:
        return [(name, running.text(rate)) for name, (running, rate) in self._series.items()]


# When a measurement ends of which nothing says how much is measured: when processes agree, or a sequential test is decided


PART_NS = 300_000_000  # of each mode in each process
AGREEMENT = 0.02  # how far from their middle figures of processes that agree lie, at most
TO_START = 1 / 3  # of the time, that other processes may take to start


class SequentialTest(Protocol):
    """Looks at blocks as they come and says of what more are wanted: see `ortbench.features.gate.gates.baseline`. By itself it wants all."""

    @property
    def needed_rounds(self) -> int:
        """How many rounds a verdict takes, at least."""
        return 1

    def add(
        self,
        configuration: int,
        mode: str,
        phase: str,
        round: int,
        samples: Sequence[float],
        point: tuple[str, float] | None = None,
    ) -> None:
        """Take the samples of a block into account, ns; at a load point one of the block's figures, by its name."""
        return

    def needs_more(self, mode: str, point: tuple[str, float] | None = None, rounds: int = 0) -> bool:
        """Whether more rounds than these are of use."""
        return True

    def least_runs(self, mode: str, point: tuple[str, float]) -> int:
        """How many runs a block of a load point takes."""
        return 1

    def progress_rows(self) -> list[Row]:
        """What is known of each ratio by now, in words."""
        return []


class Undecided(SequentialTest):
    """Of several configurations of which nothing is to be decided."""


def disagreeing_modes(cases: Sequence[Case]) -> list[str]:
    """The modes that are to go on in another process: those whose speedup over `cpu-tensors` is not the same within ± `AGREEMENT` in
    `FEW` processes or more, and that one with them. Where it is alone, or not measured, medians are to be the same."""
    base = next((it for it in cases if it.mode == CPU and len(cases) > 1), None)
    modes = [it.mode for it in cases if it is not base and not agree(_figures_of_processes(it, base))]
    return [base.mode, *modes] if base is not None and modes else modes


def reason_of_processes(cases: Sequence[Case]) -> Stopped:
    """Why a run ends of which processes are to agree."""
    return {"reason": "processes" if disagreeing_modes(cases) else "agreement", "value": AGREEMENT}


def _figures_of_processes(case: Case, base: Case | None) -> list[float]:
    """The median latency of a case in each of its processes, by that of another case where there is one."""
    own = by_round(case, LATENCY)
    based = own if base is None else by_round(base, LATENCY)
    processes = of_processes(own.keys() & based.keys(), case.first_rounds)
    figures = [
        [max(figure_of({it: blocks[it] for it in rounds}), 1) for rounds in processes] for blocks in (own, based)
    ]
    return figures[0] if base is None else [ns / base_ns for ns, base_ns in zip(*figures, strict=True)]


def agree(figures: Sequence[float]) -> bool:
    """Whether figures of `FEW` processes or more lie within ± `AGREEMENT` of their middle."""
    return len(figures) >= FEW and max(figures) <= (1 + AGREEMENT) ** 2 * min(figures)


def processes_that_start(budget_s: float, start_s: float) -> int:
    """How many processes there can be of which all but the first start in a third of a time."""
    return 1 + int(budget_s * TO_START / start_s)


def duration_for(processes: int, start_s: float, round_s: float) -> float:
    """The time that so many processes take, s, by that to start one and that of a round: of their starts, and of `FEW` rounds each."""
    return max((processes - 1) * start_s / TO_START, processes * FEW * round_s)


# How long it will still take: by what steps usually take and by what this measurement has shown


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
        self.observer.show_time_left(self.forecast.left_s())

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


class TimeLeft(Observer):
    """Tells how long several measurements still take until they end (`time.monotonic`), whichever goes on."""

    def __init__(self, told: Observer, ends: float) -> None:
        self._told, self._ends = told, ends

    def stage(self, text: str) -> None:
        self._told.stage(text)

    def show_time_left(self, seconds: float) -> None:
        self._told.show_time_left(max(0.0, self._ends - time.monotonic()))
