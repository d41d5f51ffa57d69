"""What became of a case over many days: its median result by result, with the steps that were found."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from ortbench import units
from ortbench.analysis.history import Figure, Series, Step
from ortbench.report.history import day, mode_cell, verdict
from ortbench.report.model import Column, Kind, Table, columns


@dataclass(frozen=True)
class OverTime:
    """A series, and what it is called."""

    title: str
    series: Series

    @property
    def label(self) -> str:
        """What it is, for who does not see it."""
        steps = "; level lines are the medians between steps, upright ones the steps" if self.series.steps else ""
        return f"A line of the median of each result over time, in a band of its 95 % interval{steps}."

    @property
    def caption(self) -> str:
        """What is to be seen, in words."""
        figures = self.series.figures
        ends = f"{mode_cell(self.series)}: {units.duration(figures[0].median_ns)} on {day(figures[0].run.at)}"
        if len(figures) > 1:
            ends += f", {units.duration(figures[-1].median_ns)} on {day(figures[-1].run.at)}"
        return "; ".join((ends, *map(self.step_in_words, self.series.steps))) + "."

    def step_in_words(self, step: Step) -> str:
        """A step, when it was and how great."""
        since = day(self.series.figures[step.at].run.at)
        return f"{verdict(step.size)} since {since}, ×{units.ratio(step.size.ratio, 3)}"

    @property
    def levels(self) -> list[tuple[tuple[Figure, ...], float]]:
        """The figures between steps, and their median in ns."""
        return [(level, median(it.median_ns for it in level)) for level in self.series.levels]

    def table(self) -> Table:
        """What it shows, in numbers."""
        unit, scale = units.time_unit(max(it.median_ns for it in self.series.figures))
        headed = (
            Column("measured", Kind.NAME),
            Column("median", Kind.TIME),
            *columns(Kind.NUMBER, "95 %"),
            Column("place", Kind.LONG_NAME),
        )
        rows = tuple(
            (
                day(it.run.at),
                units.time(it.median_ns, scale),
                "–".join(units.time(ns, scale) for ns in it.ci95_ns),
                it.run.place,
            )
            for it in self.series.figures
        )
        return Table(headed, rows, unit)
