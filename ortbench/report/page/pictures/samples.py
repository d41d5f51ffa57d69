"""How long inferences take: how samples are distributed, and how they went over the run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ortbench.core import units
from ortbench.core.stats import SAMPLES_FOR, Stats
from ortbench.model.modes import LATENCY
from ortbench.model.result import Case, Result
from ortbench.report.model import NOTHING, Column, Kind, Table, columns
from ortbench.report.page.pictures.parts import measured_cases, timed_cases, what_is_timed

_QUARTERS = 4
_SLOW = 1.5  # how many times its mode's median a run takes that is called slow


@dataclass(frozen=True)
class Samples:
    """The samples of one mode's latency.

    Attributes:
        mode: its name.
        ns: durations, int64, shape (n,), in the order taken.
        seconds: when each began, since the first of all modes, float64, shape (n,); empty where that is not known.
        stats: of all samples.
    """

    mode: str
    ns: NDArray[np.int64]
    seconds: NDArray[np.float64]
    stats: Stats


@dataclass(frozen=True)
class Spread:
    """How the samples of each mode are distributed; `one` is what a sample is of."""

    modes: tuple[Samples, ...]
    one: str

    @property
    def title(self) -> str:
        """Of the picture."""
        return f"How long {self.one}s take"

    @property
    def label(self) -> str:
        """What it is, for who does not see it."""
        return f"Histograms of the time of one {self.one}, one for each mode, with lines at the median and at the p95."

    @property
    def caption(self) -> str:
        """What is to be seen, in words."""
        halves = [f"{it.mode} {units.duration(it.stats.median)}{_p95_in_words(it.stats)}" for it in self.modes]
        widest = max(self.modes, key=lambda it: it.stats.max / max(it.stats.median, 1))
        text = f"Half of all {self.one}s took at most, and 95 % at most: {'; '.join(halves)}."
        if widest.stats.n > 1:
            times = widest.stats.max / max(widest.stats.median, 1)
            text += (
                f" The slowest beside its median is one of {widest.mode}: {units.duration(widest.stats.max)}, "
                f"{units.digits(times)} times as long."
            )
        return text

    def table(self) -> Table:
        """What it shows, in numbers."""
        unit, scale = units.time_unit(max(it.stats.median for it in self.modes))
        names = ("min", "median", "95 % of the median", "p90", "p95", "p99", "max", "std dev")
        headed = (Column("mode", Kind.NAME), Column("samples"), *columns(Kind.TIME, *names))
        return Table(headed, tuple(_stats_cells(it, scale) for it in self.modes), unit)


def _p95_in_words(stats: Stats) -> str:
    return f" and {units.duration(stats.p95)}" if stats.n >= SAMPLES_FOR["p95"] else " (too few for a p95)"


def _stats_cells(samples: Samples, scale: float) -> tuple[str, ...]:
    stats = samples.stats
    low, high = (units.digits(ns / scale) for ns in stats.ci95)
    tails = [
        units.digits(getattr(stats, name) / scale) if stats.n >= least else NOTHING
        for name, least in SAMPLES_FOR.items()
    ]
    shown = [units.digits(ns / scale) for ns in (stats.min, stats.median, stats.p90, stats.max, stats.stdev)]
    return (samples.mode, str(stats.n), shown[0], shown[1], f"{low}–{high}", shown[2], *tails, *shown[3:])


def spread(result: Result) -> Spread | None:
    """The samples of each mode that times inferences; None where there are none."""
    modes = tuple(_samples(result))
    return Spread(modes, what_is_timed([result])) if modes else None


def _samples(result: Result) -> Iterator[Samples]:
    start = _start(result)
    for case, stats in timed_cases(result):
        ns = np.asarray(case.samples.get(LATENCY, []), dtype=np.int64)
        if ns.size:
            yield Samples(case.mode, ns, _since(case, ns, start), stats)


def _start(result: Result) -> int:
    """When the first block of any mode began, on the worker's clock."""
    return min((start for case, _ in measured_cases(result) for _, _, start in case.blocks.get(LATENCY, [])), default=0)


def _since(case: Case, ns: NDArray[np.int64], start: int) -> NDArray[np.float64]:
    """When each sample began, in seconds since `start`: its block's start and the samples before it in the block."""
    found = []
    at = 0
    for _, size, began in case.blocks.get(LATENCY, []):
        inside = ns[at : at + size]
        found.append(began - start + np.cumsum(inside) - inside)
        at += size
    if at != ns.size:
        return np.empty(0)
    return np.concatenate(found) / 1e9


@dataclass(frozen=True)
class Drift:
    """The samples of each mode over the run: drift and outliers; `one` is what a sample is of."""

    modes: tuple[Samples, ...]
    one: str
    title = "Over the run"

    @property
    def label(self) -> str:
        """What it is, for who does not see it."""
        return f"The time of every {self.one} by when it was measured, one panel for each mode, all on one time axis."

    @property
    def caption(self) -> str:
        """What is to be seen, in words."""
        changes = [f"{it.mode} {_percent(ends[1] / ends[0])}" for it in self.modes if (ends := _ends(it))]
        said = [f"From the first to the last quarter of its samples the median moved: {', '.join(changes)}."]
        if not changes:
            said = ["Too few samples to tell drift."]
        slow = sum(int(np.count_nonzero(it.ns > _SLOW * it.stats.median)) for it in self.modes)
        count = sum(it.ns.size for it in self.modes)
        said.append(f"{slow or 'None'} of {count} {self.one}s took more than {_SLOW:g} times their mode's median.")
        return " ".join(said)

    def table(self) -> Table:
        """What it shows, in numbers."""
        unit, scale = units.time_unit(max(it.stats.median for it in self.modes))
        headed = (
            Column("mode", Kind.NAME),
            *columns(Kind.TIME, "first quarter", "last quarter"),
            Column("change"),
            Column("slowest", Kind.TIME),
            *columns(Kind.NUMBER, "after (s)", "slow"),
        )
        return Table(headed, tuple(_drift_cells(it, scale) for it in self.modes), unit)


def _ends(samples: Samples) -> tuple[float, float] | None:
    """The medians of the first and of the last quarter of the samples, ns; None with too few."""
    size = samples.ns.size // _QUARTERS
    if size < 2:
        return None
    first, last = float(np.median(samples.ns[:size])), float(np.median(samples.ns[-size:]))
    return (first, last) if first > 0 else None


def _percent(ratio: float) -> str:
    change = round((ratio - 1) * 100, 1)
    return f"{'+' if change > 0 else '−' if change < 0 else '±'}{abs(change):g} %"


def _drift_cells(samples: Samples, scale: float) -> tuple[str, ...]:
    ends = _ends(samples)
    moved = (NOTHING,) * 3
    if ends is not None:
        moved = (units.digits(ends[0] / scale), units.digits(ends[1] / scale), _percent(ends[1] / ends[0]))
    slowest = int(np.argmax(samples.ns))
    after, slow = float(samples.seconds[slowest]), np.count_nonzero(samples.ns > _SLOW * samples.stats.median)
    return (samples.mode, *moved, units.digits(float(samples.ns[slowest]) / scale), units.digits(after), str(slow))


def drift(result: Result) -> Drift | None:
    """The samples of each mode by time; None where it is not known when they were taken, or there is but one."""
    modes = tuple(samples for samples in _samples(result) if samples.seconds.size)
    return Drift(modes, what_is_timed([result])) if any(samples.seconds.any() for samples in modes) else None
