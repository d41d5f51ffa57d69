"""How long each step of a loop takes, mode by mode."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from ortbench.analysis.loops import growth_ns, is_first_apart
from ortbench.core import units
from ortbench.model.result import Result
from ortbench.report.model import NOTHING, Column, Kind, Table, columns
from ortbench.report.page.pictures.parts import measured_cases

_ROWS = 16  # of the table, so that a long loop does not fill the page


@dataclass(frozen=True)
class Steps:
    """The median of every step of a loop in a mode, ns, and by how much a step adds to the one before it, where it does."""

    mode: str
    ns: tuple[int, ...]
    each_ns: float | None


@dataclass(frozen=True)
class StepTimes:
    """How long each step takes, by mode; `first_apart`: the first one has a shape of its own."""

    modes: tuple[Steps, ...]
    first_apart: bool
    title = "Time of each step"

    @property
    def label(self) -> str:
        """What it is, for who does not see it."""
        apart = "; the first step is a point by itself" if self.first_apart else ""
        return f"Lines of the median time of each step over its number, one for each mode{apart}."

    @property
    def caption(self) -> str:
        """What is to be seen, in words."""
        return f"Medians of a step: {'; '.join(map(self._in_words, self.modes))}."

    def _in_words(self, steps: Steps) -> str:
        first, *later = steps.ns
        if self.first_apart and later:
            said = f"{steps.mode} {units.duration(first)} for the first, then {_ends(later)}"
        else:
            said = f"{steps.mode} {_ends(steps.ns)}"
        if steps.each_ns is None:
            return said
        return f"{said}, {'+' if steps.each_ns > 0 else '−'}{units.duration(abs(steps.each_ns))} with each step"

    def table(self) -> Table:
        """What it shows, in numbers: of a long loop the ends of as many parts of equal length as there are rows for."""
        unit, scale = units.time_unit(max(max(it.ns) for it in self.modes))
        count = max(len(it.ns) for it in self.modes)
        last = min(count, _ROWS) - 1
        shown = [0] if last < 1 else [round(at * (count - 1) / last) for at in range(last + 1)]
        rows = tuple(
            (str(number), *(units.time(it.ns[number], scale) if number < len(it.ns) else NOTHING for it in self.modes))
            for number in shown
        )
        return Table((Column("step", Kind.NAME), *columns(Kind.TIME, *(it.mode for it in self.modes))), rows, unit)


def _ends(ns: tuple[int, ...] | list[int]) -> str:
    """The middle, and from where to where it is."""
    least, middle, most = map(units.duration, (min(ns), median(ns), max(ns)))
    return middle if least == most else f"{middle} (from {least} to {most})"


def step_times(result: Result) -> StepTimes | None:
    """The steps of each mode that was measured; None where no times of steps are known."""
    apart = is_first_apart(result)
    modes = tuple(
        Steps(case.mode, tuple(case.steps_ns), growth_ns(case)) for case, _ in measured_cases(result) if case.steps_ns
    )
    return StepTimes(modes, apart) if modes else None
