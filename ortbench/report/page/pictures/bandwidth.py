"""Copies by size and rate, beside what a sweep says the link can do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ortbench.core import units
from ortbench.model.modes import COPY_TIME, mode_of
from ortbench.model.result import Case, Result
from ortbench.report.model import DERIVED, Column, Kind, Table, columns
from ortbench.report.page.pictures.parts import COPIES, D2H, FEW, H2D, measured_cases


@dataclass(frozen=True)
class Copy:
    """A copy of known size and time: `kind` is h2d, d2h, or copies (both directions inside mode cpu-tensors, derived)."""

    name: str
    kind: str
    count: int
    ns: float

    @property
    def rate(self) -> float:
        """Bytes per ns, which is GB/s."""
        return self.count / self.ns

    @property
    def in_words(self) -> str:
        """For example ``device-tensors H2D: 24.9 MB in 4.82 ms, 5.16 GB/s``."""
        mark = DERIVED if self.kind == COPIES else ""
        both = " in both directions" if self.kind == COPIES else ""
        took = f"{units.size(self.count)}{both} in {mark}{units.duration(self.ns)}"
        return f"{self.name}: {took}, {mark}{units.digits(self.rate)} GB/s"


@dataclass(frozen=True)
class Curve:
    """A sweep of copies in one direction: `kind` is h2d or d2h, `points` are bytes and ns, by size."""

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
        said = [f"{copy.in_words}." for copy in self.copies] if len(self.copies) <= FEW else self._ranges()
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
        """What it shows, in numbers."""
        rows = [(copy.name, copy.count, copy.ns) for copy in self.copies]
        rows += [(f"sweep, {curve.kind}", count, ns) for curve in self.curves for count, ns in curve.points]
        cells = ((name, units.size(count), units.duration(ns), units.digits(count / ns)) for name, count, ns in rows)
        return Table((Column("copy", Kind.NAME), *columns(Kind.NUMBER, "bytes", "time", "GB/s")), tuple(cells))


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
        for case, _ in measured_cases(result)
        for copy in _copies(case, f"{name}: " if many else "")
    ]
    curves = () if many else tuple(_curves(results[0]))
    return Bandwidth(tuple(copies), curves) if copies or curves else None


def _copies(case: Case, prefix: str) -> Iterator[Copy]:
    for kind, count in ((H2D, case.bytes_h2d), (D2H, case.bytes_d2h)):
        ns = case.median(kind)
        if count and ns:
            yield Copy(f"{prefix}{case.mode} {kind}", kind, count, ns)
    copied = (case.bytes_h2d or 0) + (case.bytes_d2h or 0)
    took = case.value(COPY_TIME) or 0
    if mode_of(case.mode).of_cpu_tensors and took > 0 and copied:
        yield Copy(f"{prefix}inside {case.mode}", COPIES, copied, round(took))


def _curves(result: Result) -> Iterator[Curve]:
    """The sweep of the link that `ortbench bandwidth` left in the result."""
    link = result.link
    curves = {} if link is None else {H2D: link.get("h2d", []), D2H: link.get("d2h", [])}
    for kind, curve in curves.items():
        points = tuple((int(count), int(ns)) for count, ns in curve if count and ns)
        if points:
            yield Curve(kind, points)
