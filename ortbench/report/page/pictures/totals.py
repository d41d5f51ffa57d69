"""The medians of several results, mode by mode."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ortbench.core import units
from ortbench.core.stats import Stats
from ortbench.model.result import Result
from ortbench.report.model import NOTHING, Column, Kind, Table, columns
from ortbench.report.page.pictures.parts import FEW, timed_cases, what_is_timed


@dataclass(frozen=True)
class Totals:
    """The medians of several results, mode by mode: `rows` are names and the modes' stats, `one` is what they are of."""

    rows: tuple[tuple[str, tuple[tuple[str, Stats], ...]], ...]
    one: str

    @property
    def title(self) -> str:
        """Of the picture."""
        return f"One {self.one}, result by result"

    @property
    def label(self) -> str:
        """What it is, for who does not see it."""
        return f"Dots for the median of one {self.one}, a row for each result, a shape for each mode."

    @property
    def caption(self) -> str:
        """What is to be seen, in words."""
        shortest = [(name, *min(modes, key=lambda mode: mode[1].median)) for name, modes in self.rows]
        said = [f"{name} {units.duration(stats.median)} with {mode}" for name, mode, stats in shortest]
        if len(said) <= FEW:
            return f"Shortest medians: {'; '.join(said)}."
        order = sorted(range(len(said)), key=lambda number: shortest[number][2].median)
        return f"Shortest medians: from {said[order[0]]} to {said[order[-1]]}."

    def table(self) -> Table:
        """What it shows, in numbers."""
        modes = tuple(dict.fromkeys(mode for _, found in self.rows for mode, _ in found))
        rows = tuple(
            (name, *(units.duration(by_mode[mode].median) if mode in by_mode else NOTHING for mode in modes))
            for name, found in self.rows
            for by_mode in [dict(found)]
        )
        return Table((Column("result", Kind.NAME), *columns(Kind.NUMBER, *modes)), rows)


def totals(results: Sequence[Result], names: Sequence[str]) -> Totals | None:
    """The median inference of every mode of every result; None where nothing was measured."""
    rows = tuple(
        (name, found)
        for name, result in zip(names, results, strict=True)
        if (found := tuple((case.mode, stats) for case, stats in timed_cases(result)))
    )
    return Totals(rows, what_is_timed(results)) if rows else None
