"""What became of a case over many days: its median result by result, with the steps that were found."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from ortbench.analysis.comparing.history import Figure, Series, Step
from ortbench.core import units
from ortbench.report.history import day, mode_cell, verdict
from ortbench.report.model import NOTHING, Column, Kind, Table, columns


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
        ends = f"{mode_cell(self.series)}: {self.show(figures[0].value)} on {day(figures[0].run.at)}"
        if len(figures) > 1:
            ends += f", {self.show(figures[-1].value)} on {day(figures[-1].run.at)}"
        return "; ".join((ends, *map(self.step_in_words, self.series.steps))) + "."

    def step_in_words(self, step: Step) -> str:
        """A step, when it was and how great."""
        since = day(self.series.figures[step.at].run.at)
        return f"{verdict(self.series, step.size)} since {since}, ×{units.ratio(step.size.ratio, 3)}"

    def show(self, value: float) -> str:
        """A figure with its unit."""
        return self.series.key.metric.unit.text(value)

    @property
    def levels(self) -> list[tuple[tuple[Figure, ...], float]]:
        """The figures between steps, and their median."""
        return [(level, median(it.value for it in level)) for level in self.series.levels]

    def table(self) -> Table:
        """What it shows, in numbers."""
        unit, cell = self.series.key.metric.unit.column(max(it.value for it in self.series.figures))
        headed = (
            Column("measured", Kind.NAME),
            Column("median", Kind.TIME),
            *columns(Kind.NUMBER, "95% CI"),
            Column("place", Kind.LONG_NAME),
        )
        rows = tuple(
            (
                day(it.run.at),
                cell(it.value),
                NOTHING if it.ci95 is None else "–".join(map(cell, it.ci95)),
                it.run.place,
            )
            for it in self.series.figures
        )
        return Table(headed, rows, unit)
