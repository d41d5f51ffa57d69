"""The report of a bandwidth sweep: its heading, tables, what they mean; and its figures as CSV."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from ortbench import units
from ortbench.analysis.bandwidth import (
    DIRECTIONS,
    DOWNLOAD,
    MEMORIES,
    ORDINARY,
    TITLES,
    UPLOAD,
    CopySweep,
    Point,
    advantage,
)
from ortbench.analysis.curve import half_rate_bytes
from ortbench.report.bars import bar
from ortbench.report.csv import csv_text
from ortbench.report.model import (
    BAD,
    KEY,
    NOTHING,
    Block,
    Column,
    Command,
    Heading,
    Kind,
    Note,
    Notes,
    Paragraph,
    Report,
    SavedIn,
    Table,
    Title,
    columns,
)
from ortbench.report.words import ended, ep_line, memory_name, warnings
from ortbench.result import OK
from ortbench.stats import Ratio, Stats

_COLUMNS = (
    Column("size", Kind.NUMBER, KEY),
    *columns(Kind.NUMBER, "upload", "GB/s up"),
    Column("", Kind.WORD),  # bars need no headings, only names that differ
    *columns(Kind.NUMBER, "download", "GB/s down"),
    Column(" ", Kind.WORD),
)
_WAYS = {UPLOAD: "up", DOWNLOAD: "down"}
_CELLS = 14  # of the longest bar
_FALLEN = 0.8  # of the peak: large copies below it are worth a sentence
_FILL = "█"


def heading(sweep: CopySweep) -> list[str]:
    """The lines above the tables: sizes, EP, device, versions, fence, memory."""
    target = sweep.target
    fences = _grouped({TITLES[kind]: _fence(sweep, kind) for kind in MEMORIES if kind in target["fence"]})
    ends = f"fence: {fences}; " if fences else ""
    end = "" if sweep.stopped is None else f"; {ended(sweep.stopped, sweep.took_ns)}"
    return [
        f"copies of {_span([point.bytes for point in sweep.points])} between host and device",
        ep_line(sweep),
        f"{ends}memory: {memory_name(target['memory'])}{end}",
    ]


def _fence(sweep: CopySweep, kind: str) -> str:
    upload = sweep.target["fence"][kind]["upload"]
    if upload["kind"] == "run":
        return "the copy itself waits"
    return f"reading a value back, {units.duration(upload['cost_ns'])} of every upload"


def _grouped(said: dict[str, str]) -> str:
    """What is said of several things; once where it is the same for all."""
    values = list(said.values())
    if len(set(values)) <= 1:
        return "".join(values[:1])
    return "; ".join(f"{name}: {value}" for name, value in said.items())


def tables(sweep: CopySweep) -> list[Table]:
    """A table for each kind of host memory: a row a size, medians, rates and their bars."""
    most = max((point.gbps for point in sweep.measured()), default=0.0)
    found = []
    for kind in MEMORIES:
        points = {(point.bytes, point.direction): point for point in sweep.points if point.memory == kind}
        sizes = sorted({size for size, _ in points})
        rows = tuple(
            (units.size(size), *(cell for way in DIRECTIONS for cell in _cells(points.get((size, way)), most)))
            for size in sizes
        )
        if rows:
            found.append(Table(_COLUMNS, rows, title=TITLES[kind]))
    return found


def _cells(point: Point | None, most: float) -> tuple[str, str, str]:
    if point is None or point.stats is None:
        return ("failed" if point else NOTHING), NOTHING, ""
    time = units.duration(point.stats.median_ns)
    if point.status != OK:
        return f"{time} (failed)", units.digits(point.gbps), ""
    return time, units.digits(point.gbps), bar([(_FILL, point.gbps)], most, _CELLS)


def failures(sweep: CopySweep) -> list[str]:
    """Why points failed: one note for all of one reason."""
    found: dict[str, dict[tuple[str, str], list[int]]] = {}
    for point in sweep.points:
        if point.status != OK:
            groups = found.setdefault(str(point.reason), {})
            groups.setdefault((point.direction, point.memory), []).append(point.bytes)
    return [
        f"{', '.join(_many(*key, sizes) for key, sizes in groups.items())} failed: {reason}"
        for reason, groups in found.items()
    ]


def _many(way: str, memory: str, sizes: list[int]) -> str:
    number = way if len(sizes) == 1 else f"{len(sizes)} {way}s"
    return f"{number} of {_span(sizes)} ({TITLES[memory]})"


def _span(sizes: list[int]) -> str:
    least, most = units.size(min(sizes)), units.size(max(sizes))
    return least if least == most else f"{least} to {most}"


def conclusions(sweep: CopySweep) -> list[str]:
    """What the figures mean: latency, the limit, where half of it is reached, and what HOST_ACCESSIBLE memory is worth."""
    if not sweep.measured():
        return []
    return [*_latency(sweep), _limit(sweep), *_fall(sweep), *_half(sweep), *_accessible(sweep)]


def _latency(sweep: CopySweep) -> list[str]:
    least = [point for way in DIRECTIONS for point in sweep.measured(way, ORDINARY)[:1]]
    if len({point.bytes for point in least}) != 1:
        return []
    times = [f"{units.duration(point.stats.median_ns)} {_WAYS[point.direction]}" for point in least if point.stats]
    return [f"The smallest copy, {units.size(least[0].bytes)}, takes {' and '.join(times)}."]


def _limit(sweep: CopySweep) -> str:
    peaks = [peak for way in DIRECTIONS if (peak := sweep.peak(way)) is not None]
    rates = [f"{units.digits(peak.gbps)} GB/s {_WAYS[peak.direction]}" for peak in peaks]
    several = len({point.memory for point in sweep.points}) > 1
    places = [units.size(peak.bytes) + (f" from {TITLES[peak.memory]}" if several else "") for peak in peaks]
    if len(set(places)) == 1:
        return f"The link's peak is {' and '.join(rates)}, with {places[0]}."
    parts = [f"{rate}, with {place}" for rate, place in zip(rates, places, strict=True)]
    return f"The link's peak is {'; '.join(parts)}."


def _fall(sweep: CopySweep) -> list[str]:
    """That large copies stay below the peak, where it is so: smaller ones may find their data in the host's caches."""
    said = []
    for way in DIRECTIONS:
        points = sweep.measured(way, ORDINARY)
        if points and points[-1].gbps < _FALLEN * max(point.gbps for point in points):
            said.append(f"{units.digits(points[-1].gbps)} GB/s {_WAYS[way]}, with {units.size(points[-1].bytes)}")
    return [f"The largest copies of ordinary memory are slower: {'; '.join(said)}."] if said else []


def _half(sweep: CopySweep) -> list[str]:
    curves = {way: sweep.curve(way, ORDINARY) for way in DIRECTIONS}
    sizes = {_WAYS[way]: units.size(half_rate_bytes(curve)) for way, curve in curves.items() if len(curve) > 1}
    if not sizes:
        return []
    reached = " and ".join(f"{size} {way}" for way, size in sizes.items())
    return [f"Ordinary memory reaches half of its peak rate at {reached}; smaller copies are mostly latency."]


def _accessible(sweep: CopySweep) -> list[str]:
    said: dict[str, list[str]] = {}
    for way in DIRECTIONS:
        found = advantage(sweep, way)
        if found is not None:
            said.setdefault(f"{_times(found[1])}, with {units.size(found[0])}", []).append(_WAYS[way])
    if not said:
        return []
    parts = [f"{' and '.join(ways)} {text}" for text, ways in said.items()]
    return [f"HOST_ACCESSIBLE memory against ordinary memory: {'; '.join(parts)}."]


def _times(ratio: Ratio) -> str:
    """How many times as fast, as far as that is known."""
    if ratio.ci95 is None:
        return f"{ratio.ratio:.2f} times as fast (too few blocks for an interval)"
    low, high = ratio.ci95
    if low <= 1 <= high:
        return "not measurably faster"
    return f"{ratio.ratio:.2f} times as fast (95 %: {low:.2f} to {high:.2f})"


_LEGEND = "Medians of single copies, each ended by its fence; GB/s of 1e9 bytes."


def build(sweep: CopySweep, folder: str | None = None) -> Report:
    """The report of a bandwidth sweep; `folder` is where it was saved, which is said in a terminal."""
    notes = [*(Note(text, "✗", BAD) for text in failures(sweep)), *map(Note, conclusions(sweep)), *warnings(sweep)]
    last: list[Block] = [Notes(notes), Paragraph(_LEGEND), Command(sweep.command), SavedIn(folder)]
    found = ([Title(table.title), table] for table in tables(sweep))
    return Report(f"ortbench bandwidth: {sweep.target['ep']}", ([Heading(heading(sweep))], *found, last))


def csv(sweep: CopySweep) -> str:
    """Every point as a line of CSV: its statistics in ns, None left empty, and its rate in GB/s."""
    statistics = [item.name for item in fields(Stats) if item.name != "ci95_ns"]
    names = ["direction", "memory", "bytes", "status", "reason"]
    rows = []
    for point in sweep.points:
        row: dict[str, Any] = {name: getattr(point, name) for name in names}
        if point.stats is not None:
            low, high = point.stats.ci95_ns
            row |= {name: getattr(point.stats, name) for name in statistics}
            row |= {"ci95_low_ns": low, "ci95_high_ns": high, "gbps": round(point.gbps, 6)}
        rows.append(row)
    return csv_text([*names, *statistics, "ci95_low_ns", "ci95_high_ns", "gbps"], rows)
