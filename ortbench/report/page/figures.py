"""What the pictures of a report show: shaped from results, each with a caption in words and its figures as a table. Pure.

Only modes that are ok are pictured; the report's table has the others too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ortbench import units
from ortbench.modes import TOTAL, is_rate, mode_of
from ortbench.report.run import SAMPLES_FOR
from ortbench.report.table import DERIVED, NOTHING, Table
from ortbench.result import Case, Result
from ortbench.stats import Stats

UPLOAD, INFERENCE, DOWNLOAD = "upload", "inference", "download"
COPIES = "copies"  # of mode cpu: both directions together, derived
WHOLE = "not split"  # a run whose parts nobody timed
PER_RUN = "time per run"  # of many runs with one wait, which have no parts

_QUARTERS = 4
_FEW = 4  # so many are told one by one
_SLOW = 1.5  # how many times its mode's median a run takes that is called slow


@dataclass(frozen=True)
class Segment:
    """A part of a bar: what it is, how long it takes (ns), and whether that was derived."""

    kind: str
    ns: int
    derived: bool = False


@dataclass(frozen=True)
class Bar:
    """One mode's time: its parts, and the median of whole inferences (ns), which they need not add up to."""

    mode: str
    segments: tuple[Segment, ...]
    total_ns: int


@dataclass(frozen=True)
class Split:
    """Where the time of an inference goes, mode by mode."""

    bars: tuple[Bar, ...]
    title = "Where the time goes"
    label = "Stacked bars, one for each mode: upload, inference and download, and a mark for the whole inference."

    @property
    def caption(self) -> str:
        """What is to be seen, in words."""
        said = [_bar_in_words(bar) for bar in self.bars if len(bar.segments) > 1]
        for kind, about in _ALONE.items():
            alone = [bar for bar in self.bars if [segment.kind for segment in bar.segments] == [kind]]
            if alone:
                said.append(f"{about}: {', '.join(f'{bar.mode} {units.duration(bar.total_ns)}' for bar in alone)}.")
        return " ".join(said)

    def table(self) -> Table:
        """The same as figures."""
        unit, scale = units.time_unit(min(bar.total_ns for bar in self.bars))
        columns = ("mode", *(f"{name} ({unit})" for name in (UPLOAD, INFERENCE, DOWNLOAD, "together", TOTAL)))
        return Table(columns, tuple(_bar_cells(bar, scale) for bar in self.bars), ())


_ALONE = {
    INFERENCE: "Inference only",
    PER_RUN: "Time per run of many with one wait, which is throughput and not latency, copied once outside",
    WHOLE: "Not split into phases",
}


def _bar_in_words(bar: Bar) -> str:
    times = {segment.kind: units.duration(segment.ns) for segment in bar.segments}
    whole = units.duration(bar.total_ns)
    if COPIES in times:
        return (
            f"{bar.mode}: {DERIVED}{times[COPIES]} of copies, both directions together, and {DERIVED}{times[INFERENCE]} of "
            f"inference make up {whole}."
        )
    parts = ", ".join(f"{time} {kind}" for kind, time in times.items())
    together = units.duration(sum(segment.ns for segment in bar.segments))
    if is_rate(bar.mode, TOTAL):
        return f"{bar.mode}: {parts}: {together} one after the other; {whole} an item with several in flight."
    return f"{bar.mode}: {parts}: {together} together, timed in blocks of their own; {whole} from end to end."


def _bar_cells(bar: Bar, scale: float) -> tuple[str, ...]:
    found = {segment.kind: segment for segment in bar.segments}
    cells = []
    for kind in (UPLOAD, INFERENCE, DOWNLOAD):
        segment = found.get(COPIES if kind == UPLOAD and COPIES in found else kind)
        mark = DERIVED if segment and segment.derived else ""
        cells.append(NOTHING if segment is None else mark + units.digits(segment.ns / scale))
    if COPIES in found:
        cells[2] = "(both)"
    together = sum(segment.ns for segment in bar.segments)
    return (bar.mode, *cells, units.digits(together / scale), units.digits(bar.total_ns / scale))


def split(result: Result) -> Split | None:
    """Medians of the phases by mode; None where nothing was measured."""
    bars = tuple(_bar(case, total) for case, total in _measured(result))
    return Split(bars) if bars else None


def _bar(case: Case, total: Stats) -> Bar:
    if mode_of(case.mode).in_bursts:
        return Bar(case.mode, (Segment(PER_RUN, total.median_ns),), total.median_ns)
    if case.derived is not None and case.derived["copies_ns"] > 0:
        copies = Segment(COPIES, case.derived["copies_ns"], derived=True)
        return Bar(case.mode, (copies, Segment(INFERENCE, case.derived["inference_ns"], derived=True)), total.median_ns)
    timed = [(kind, case.median(kind)) for kind in (UPLOAD, INFERENCE, DOWNLOAD)]
    parts = tuple(Segment(kind, median) for kind, median in timed if median is not None)
    return Bar(case.mode, parts or (Segment(WHOLE, total.median_ns),), total.median_ns)


def _measured(result: Result) -> Iterator[tuple[Case, Stats]]:
    """The modes that are ok and have been measured, and the statistics of their total."""
    for case in result.cases:
        total = case.phases[TOTAL]
        if result.case(case.mode) is case and total is not None:
            yield case, total


@dataclass(frozen=True)
class Samples:
    """The samples of one mode's total.

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
    """How the samples of each mode are distributed."""

    modes: tuple[Samples, ...]
    title = "How long inferences take"
    label = "Histograms of the time of one inference, one for each mode, with lines at the median and at the p95."

    @property
    def caption(self) -> str:
        """What is to be seen, in words."""
        halves = [f"{it.mode} {units.duration(it.stats.median_ns)}{_p95_in_words(it.stats)}" for it in self.modes]
        widest = max(self.modes, key=lambda it: it.stats.max_ns / max(it.stats.median_ns, 1))
        text = f"Half of all inferences took at most, and 95 % at most: {'; '.join(halves)}."
        if widest.stats.n > 1:
            times = widest.stats.max_ns / max(widest.stats.median_ns, 1)
            text += (
                f" The slowest beside its median is one of {widest.mode}: {units.duration(widest.stats.max_ns)}, "
                f"{units.digits(times)} times as long."
            )
        return text

    def table(self) -> Table:
        """The same as figures."""
        unit, scale = units.time_unit(min(it.stats.median_ns for it in self.modes))
        names = ("min", "median", "95 % of the median", "p90", "p95", "p99", "max", "std dev")
        columns = ("mode", "samples", *(f"{name} ({unit})" for name in names))
        return Table(columns, tuple(_stats_cells(it, scale) for it in self.modes), ())


def _p95_in_words(stats: Stats) -> str:
    return f" and {units.duration(stats.p95_ns)}" if stats.n >= SAMPLES_FOR["p95"] else " (too few for a p95)"


def _stats_cells(samples: Samples, scale: float) -> tuple[str, ...]:
    stats = samples.stats
    low, high = (units.digits(ns / scale) for ns in stats.ci95_ns)
    tails = [
        units.digits(getattr(stats, f"{name}_ns") / scale) if stats.n >= least else NOTHING
        for name, least in SAMPLES_FOR.items()
    ]
    shown = [
        units.digits(ns / scale) for ns in (stats.min_ns, stats.median_ns, stats.p90_ns, stats.max_ns, stats.stdev_ns)
    ]
    return (samples.mode, str(stats.n), shown[0], shown[1], f"{low}–{high}", shown[2], *tails, *shown[3:])


def spread(result: Result) -> Spread | None:
    """The samples of each mode that times inferences; None where there are none."""
    modes = tuple(_samples(result))
    return Spread(modes) if modes else None


def _samples(result: Result) -> Iterator[Samples]:
    start = _start(result)
    for case, stats in _inferences(result):
        ns = np.asarray(case.samples_ns.get(TOTAL, []), dtype=np.int64)
        if ns.size:
            yield Samples(case.mode, ns, _since(case, ns, start), stats)


def _inferences(result: Result) -> Iterator[tuple[Case, Stats]]:
    """Those of `_measured` whose total says how long an inference takes, and not how often one is done."""
    return ((case, total) for case, total in _measured(result) if not is_rate(case.mode, TOTAL))


def _start(result: Result) -> int:
    """When the first block of any mode began, on the worker's clock."""
    return min((start for case, _ in _measured(result) for _, _, start in case.blocks.get(TOTAL, [])), default=0)


def _since(case: Case, ns: NDArray[np.int64], start: int) -> NDArray[np.float64]:
    """When each sample began, in seconds since `start`: its block's start and the samples before it in the block."""
    found = []
    at = 0
    for _, size, began in case.blocks.get(TOTAL, []):
        inside = ns[at : at + size]
        found.append(began - start + np.cumsum(inside) - inside)
        at += size
    if at != ns.size:
        return np.empty(0)
    return np.concatenate(found) / 1e9


@dataclass(frozen=True)
class Drift:
    """The samples of each mode over the run: drift and outliers."""

    modes: tuple[Samples, ...]
    title = "Over the run"
    label = "The time of every inference by when it was measured, one panel for each mode, all on one time axis."

    @property
    def caption(self) -> str:
        """What is to be seen, in words."""
        changes = [f"{it.mode} {_percent(ends[1] / ends[0])}" for it in self.modes if (ends := _ends(it))]
        said = [f"From the first to the last quarter of its samples the median moved: {', '.join(changes)}."]
        if not changes:
            said = ["Too few samples to tell drift."]
        slow = sum(int(np.count_nonzero(it.ns > _SLOW * it.stats.median_ns)) for it in self.modes)
        count = sum(it.ns.size for it in self.modes)
        said.append(f"{slow or 'None'} of {count} inferences took more than {_SLOW:g} times their mode's median.")
        return " ".join(said)

    def table(self) -> Table:
        """The same as figures."""
        unit, scale = units.time_unit(min(it.stats.median_ns for it in self.modes))
        columns = (
            "mode", f"first quarter ({unit})", f"last quarter ({unit})", "change", f"slowest ({unit})", "after (s)", "slow",
        )  # fmt: skip
        return Table(columns, tuple(_drift_cells(it, scale) for it in self.modes), ())


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
    after, slow = float(samples.seconds[slowest]), np.count_nonzero(samples.ns > _SLOW * samples.stats.median_ns)
    return (samples.mode, *moved, units.digits(float(samples.ns[slowest]) / scale), units.digits(after), str(slow))


def drift(result: Result) -> Drift | None:
    """The samples of each mode by time; None where it is not known when they were taken, or there is but one."""
    modes = tuple(samples for samples in _samples(result) if samples.seconds.size)
    return Drift(modes) if any(samples.seconds.any() for samples in modes) else None


@dataclass(frozen=True)
class Copy:
    """A copy of known size and time: `kind` is upload, download, or copies (both directions inside mode cpu, derived)."""

    name: str
    kind: str
    count: int
    ns: int

    @property
    def rate(self) -> float:
        """Bytes per ns, which is GB/s."""
        return self.count / self.ns

    @property
    def in_words(self) -> str:
        """For example ``device upload: 24.9 MB in 4.82 ms, 5.16 GB/s``."""
        mark = DERIVED if self.kind == COPIES else ""
        both = " in both directions" if self.kind == COPIES else ""
        took = f"{units.size(self.count)}{both} in {mark}{units.duration(self.ns)}"
        return f"{self.name}: {took}, {mark}{units.digits(self.rate)} GB/s"


@dataclass(frozen=True)
class Curve:
    """A sweep of copies in one direction: `kind` is upload or download, `points` are bytes and ns, by size."""

    kind: str
    points: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Bandwidth:
    """Copies by size and rate, and the curves of a sweep where one was measured."""

    copies: tuple[Copy, ...]
    curves: tuple[Curve, ...] = ()
    title = "Copies: bandwidth against size"
    label = "Bytes per copy against bytes per second on logarithmic scales; thin diagonals join equal times."

    @property
    def caption(self) -> str:
        """What is to be seen, in words."""
        said = [f"{copy.in_words}." for copy in self.copies] if len(self.copies) <= _FEW else self._ranges()
        for curve in self.curves:
            count, ns = max(curve.points, key=lambda point: point[0] / point[1])
            said.append(f"Sweep, {curve.kind}: at best {units.digits(count / ns)} GB/s, with {units.size(count)}.")
        return " ".join(said)

    def _ranges(self) -> list[str]:
        """All copies of a kind in a sentence: from which to which size and rate."""
        said = []
        for kind in dict.fromkeys(copy.kind for copy in self.copies):
            found = [copy for copy in self.copies if copy.kind == kind]
            sizes, rates = sorted(copy.count for copy in found), sorted(copy.rate for copy in found)
            mark, name = (
                (DERIVED, "copies inside runs with CPU tensors, both directions") if kind == COPIES else ("", kind)
            )
            size = _from_to(units.size(sizes[0]), units.size(sizes[-1]))
            rate = _from_to(f"{mark}{units.digits(rates[0])}", f"{mark}{units.digits(rates[-1])}")
            said.append(f"{name}: {size}, {rate} GB/s.")
        return said

    def table(self) -> Table:
        """The same as figures."""
        rows = [(copy.name, copy.count, copy.ns) for copy in self.copies]
        rows += [(f"sweep, {curve.kind}", count, ns) for curve in self.curves for count, ns in curve.points]
        cells = ((name, units.size(count), units.duration(ns), units.digits(count / ns)) for name, count, ns in rows)
        return Table(("copy", "bytes", "time", "GB/s"), tuple(cells), ())


def _from_to(low: str, high: str) -> str:
    return low if low == high else f"{low} to {high}"


def bandwidth(results: Sequence[Result], names: Sequence[str]) -> Bandwidth | None:
    """The copies of results by size and rate; None where nothing was copied.

    Args:
        results: at least one. The sweep of a link is shown where there is only one.
        names: of the results, used where there are several.
    """
    many = len(results) > 1
    copies = [
        copy
        for name, result in zip(names, results, strict=True)
        for case, _ in _measured(result)
        for copy in _copies(case, f"{name}: " if many else "")
    ]
    curves = () if many else tuple(_curves(results[0]))
    return Bandwidth(tuple(copies), curves) if copies or curves else None


def _copies(case: Case, prefix: str) -> Iterator[Copy]:
    for kind, count in ((UPLOAD, case.bytes_in), (DOWNLOAD, case.bytes_out)):
        ns = case.median(kind)
        if count and ns:
            yield Copy(f"{prefix}{case.mode} {kind}", kind, count, ns)
    copied = (case.bytes_in or 0) + (case.bytes_out or 0)
    if case.derived is not None and case.derived["copies_ns"] > 0 and copied:
        yield Copy(f"{prefix}inside {case.mode}", COPIES, copied, case.derived["copies_ns"])


def _curves(result: Result) -> Iterator[Curve]:
    """The sweep of the link that `ortbench bandwidth` left in the result."""
    link = result.link
    curves = {} if link is None else {UPLOAD: link.get("upload", []), DOWNLOAD: link.get("download", [])}
    for kind, curve in curves.items():
        points = tuple((int(count), int(ns)) for count, ns in curve if count and ns)
        if points:
            yield Curve(kind, points)


@dataclass(frozen=True)
class Totals:
    """The medians of several results, mode by mode: `rows` are names and the modes' stats."""

    rows: tuple[tuple[str, tuple[tuple[str, Stats], ...]], ...]
    title = "One inference, result by result"
    label = "Dots for the median of one inference, a row for each result, a shape for each mode."

    @property
    def caption(self) -> str:
        """What is to be seen, in words."""
        shortest = [(name, *min(modes, key=lambda mode: mode[1].median_ns)) for name, modes in self.rows]
        said = [f"{name} {units.duration(stats.median_ns)} with {mode}" for name, mode, stats in shortest]
        if len(said) <= _FEW:
            return f"Shortest medians: {'; '.join(said)}."
        order = sorted(range(len(said)), key=lambda number: shortest[number][2].median_ns)
        return f"Shortest medians: from {said[order[0]]} to {said[order[-1]]}."

    def table(self) -> Table:
        """The same as figures."""
        modes = tuple(dict.fromkeys(mode for _, found in self.rows for mode, _ in found))
        rows = tuple(
            (name, *(units.duration(by_mode[mode].median_ns) if mode in by_mode else NOTHING for mode in modes))
            for name, found in self.rows
            for by_mode in [dict(found)]
        )
        return Table(("result", *modes), rows, ())


def totals(results: Sequence[Result], names: Sequence[str]) -> Totals | None:
    """The median inference of every mode of every result; None where nothing was measured."""
    rows = tuple(
        (name, found)
        for name, result in zip(names, results, strict=True)
        if (found := tuple((case.mode, stats) for case, stats in _inferences(result)))
    )
    return Totals(rows) if rows else None


Figure = Split | Spread | Drift | Bandwidth | Totals


def of_one(result: Result) -> list[Figure]:
    """The figures of one result, as many as it has samples for."""
    found: list[Figure | None] = [split(result), spread(result), drift(result), bandwidth([result], [""])]
    return [figure for figure in found if figure is not None]


def of_many(results: Sequence[Result], names: Sequence[str]) -> list[Figure]:
    """The figures that hold several results side by side."""
    found: list[Figure | None] = [totals(results, names), bandwidth(results, names)]
    return [figure for figure in found if figure is not None]
