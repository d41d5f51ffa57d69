"""The copies of modes by size and rate beside the bandwidth curve of their link."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil, floor, log10
from typing import NamedTuple

from ortbench.core import units
from ortbench.features.page.report.chart_data.model import Axis, Chart, Line, LineChart, Look, Panel, measured_cases
from ortbench.model.modes import COPY_RATE, COPY_TIME, D2H, H2D, mode_of
from ortbench.model.result import Case, Result
from ortbench.report.bars import COPIES
from ortbench.report.model import DERIVED, Column, Kind, Table, columns

LOOKS = {H2D: Look("h2d", "^"), D2H: Look("d2h", "v", dash=1), COPIES: Look("copies", "D", hollow=True)}
_NAMES = {H2D: "H2D", D2H: "D2H", COPIES: f"{DERIVED} copies, both directions (derived)"}


class Copy(NamedTuple):
    """A copy of known size and time: `kind` is h2d, d2h, or copies (both directions inside mode cpu-tensors, derived)."""

    name: str
    kind: str
    size: int
    ns: float


def bandwidth(result: Result) -> Chart | None:
    """The copies of a result by size and rate; None where no bandwidth curve is beside them."""
    curves = dict(_curves(result))
    if not curves:
        return None
    copies = [copy for case, _ in measured_cases(result) for copy in copies_of(case)]
    rows = [(copy.name, copy.size, copy.ns) for copy in copies]
    rows += [(f"curve, {kind.upper()}", count, ns) for kind, points in curves.items() for count, ns in points]
    cells = ((name, units.size(count), units.duration(ns), units.digits(count / ns)) for name, count, ns in rows)
    lines = [
        Line(f"{_NAMES[kind]}, bandwidth curve", LOOKS[kind]._replace(marker=""), tuple(map(_point, points)))
        for kind, points in curves.items()
    ]
    lines += [
        Line(_NAMES[it.kind], LOOKS[it.kind], (_point((it.size, it.ns)),), it.name, joined=False) for it in copies
    ]
    return Chart(
        "Copy bandwidth by size",
        "Bytes per second of copies over bytes per copy.",
        Table((Column("copy", Kind.NAME), *columns(Kind.NUMBER, "bytes", "time", "GB/s")), tuple(cells)),
        by_size(lines),
    )


def _point(copy: tuple[int, float]) -> tuple[float, float]:
    count, ns = copy
    return count, 1e9 * count / ns


def by_size(lines: Sequence[Line], name: str = "") -> LineChart:
    """Lines of bytes per second over bytes."""
    sizes = [size for line in lines for size, _ in line.points]
    decades = range(floor(log10(min(sizes))), ceil(log10(max(sizes))) + 1)
    axis = Axis("sizes", "bytes per copy", tuple((10.0**it, units.size(10**it)) for it in decades))
    return LineChart((Panel(tuple(lines), axis, lambda rate: f"{units.size(rate)}/s", name),))


def copies_of(case: Case) -> Iterator[Copy]:
    for kind, count in ((H2D, case.bytes_h2d), (D2H, case.bytes_d2h)):
        ns = case.median(kind)
        if count and ns:
            yield Copy(f"{case.mode} {kind.upper()}", kind, count, ns)
    took = round(case.value(COPY_TIME) or 0)
    if took and mode_of(case.mode).of_cpu_tensors and COPY_RATE in case.metrics:  # else more than the link can do
        yield Copy(f"inside {case.mode}", COPIES, (case.bytes_h2d or 0) + (case.bytes_d2h or 0), took)


def _curves(result: Result) -> Iterator[tuple[str, Sequence[tuple[int, int]]]]:
    """The curve of the link that `ortbench bandwidth` left in the result, by direction."""
    link = result.link
    for kind, curve in () if link is None else ((H2D, link.get("h2d", [])), (D2H, link.get("d2h", []))):
        points = [(int(size), int(ns)) for size, ns in curve if size and ns]
        if points:
            yield kind, points
