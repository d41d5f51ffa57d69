"""Charts of copies by size and rate beside what a bandwidth curve says the link can do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ortbench.analysis.residency import is_on_host
from ortbench.core import units
from ortbench.features.page.report.chart_data.model import FEW, Chart, Line, Look, Mark, Scatter, measured_cases
from ortbench.model.modes import COPY_RATE, COPY_TIME, D2H, H2D, mode_of
from ortbench.model.result import Case, Result
from ortbench.report.bars import COPIES
from ortbench.report.model import DERIVED, Column, Kind, Table, columns

_LABEL = "Bytes per copy against bytes per second on logarithmic scales; thin diagonals join equal times."
LOOKS = {H2D: Look("h2d", "^"), D2H: Look("d2h", "v", dash=1), COPIES: Look("copies", "D", hollow=True)}


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
        mark, both = (DERIVED, " in both directions") if self.kind == COPIES else ("", "")
        took = f"{units.size(self.count)}{both} in {mark}{units.duration(self.ns)}"
        return f"{self.name}: {took}, {mark}{units.digits(self.rate)} GB/s"


_Points = Sequence[tuple[int, int]]  # bytes and ns, by size


def bandwidth(results: Sequence[Result], names: Sequence[str]) -> Chart | None:
    """The copies of results by size and rate; None where nothing was copied over a link. The curve of a link is shown where there is one result."""
    many = len(results) > 1
    copies = [
        copy
        for name, result in zip(names, results, strict=True)
        for case, _ in ([] if is_on_host(result) else measured_cases(result))
        for copy in copies_of(case, f"{name}: " if many else "")
    ]
    curves = {} if many else dict(_curves(results[0]))
    if not copies and not curves:
        return None
    said = [f"{copy.in_words}." for copy in copies] if len(copies) <= FEW else _ranges(copies)
    for kind, points in curves.items():
        count, ns = max(points, key=lambda point: point[0] / point[1])
        said.append(
            f"Bandwidth curve, {kind.upper()}: at most {units.digits(count / ns)} GB/s, with {units.size(count)}."
        )
    rows = [(copy.name, copy.count, copy.ns) for copy in copies]
    rows += [(f"curve, {kind.upper()}", count, ns) for kind, points in curves.items() for count, ns in points]
    cells = ((name, units.size(count), units.duration(ns), units.digits(count / ns)) for name, count, ns in rows)
    lines = tuple(
        Line(
            f"{kind.upper()}, bandwidth curve",
            LOOKS[kind]._replace(marker=""),
            tuple((n, 1e9 * n / ns) for n, ns in points),
        )
        for kind, points in curves.items()
    )
    return Chart(
        "Copy bandwidth by size",
        _LABEL,
        " ".join([*said, "Copies on a diagonal take equally long."]),
        Table((Column("copy", Kind.NAME), *columns(Kind.NUMBER, "bytes", "time", "GB/s")), tuple(cells)),
        Scatter(tuple(map(_mark, copies)), lines),
    )


def _mark(copy: Copy) -> Mark:
    derived = DERIVED if copy.kind == COPIES else ""
    name = f"{DERIVED} copies, both directions (derived)" if derived else copy.kind.upper()
    text = f"{copy.name}\n{derived}{units.digits(copy.rate)} GB/s"
    return Mark(name, LOOKS[copy.kind], copy.count, 1e9 * copy.rate, copy.in_words, text)


def _ranges(copies: Sequence[Copy]) -> list[str]:
    """All copies of a kind in a sentence: from which to which size and rate."""
    said = []
    for kind in dict.fromkeys(copy.kind for copy in copies):
        found = [copy for copy in copies if copy.kind == kind]
        sizes, rates = sorted(copy.count for copy in found), sorted(copy.rate for copy in found)
        mark, name = (DERIVED, "copies inside cpu-tensors, both directions") if kind == COPIES else ("", kind.upper())
        size = _from_to(units.size(sizes[0]), units.size(sizes[-1]))
        rate = _from_to(f"{mark}{units.digits(rates[0])}", f"{mark}{units.digits(rates[-1])}")
        said.append(f"{name}: {size}, {rate} GB/s.")
    return said


def _from_to(low: str, high: str) -> str:
    return low if low == high else f"{low} to {high}"


def copies_of(case: Case, prefix: str = "") -> Iterator[Copy]:
    for kind, count in ((H2D, case.bytes_h2d), (D2H, case.bytes_d2h)):
        ns = case.median(kind)
        if count and ns:
            yield Copy(f"{prefix}{case.mode} {kind.upper()}", kind, count, ns)
    copied = (case.bytes_h2d or 0) + (case.bytes_d2h or 0)
    took = case.value(COPY_TIME) or 0
    if (
        round(took) and mode_of(case.mode).of_cpu_tensors and COPY_RATE in case.metrics
    ):  # else it is more than the link can do
        yield Copy(f"{prefix}inside {case.mode}", COPIES, copied, round(took))


def _curves(result: Result) -> Iterator[tuple[str, _Points]]:
    """The curve of the link that `ortbench bandwidth` left in the result, by direction."""
    link = result.link
    curves = {} if link is None else {H2D: link.get("h2d", []), D2H: link.get("d2h", [])}
    for kind, curve in curves.items():
        points = [(int(count), int(ns)) for count, ns in curve if count and ns]
        if points:
            yield kind, points
