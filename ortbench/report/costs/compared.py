"""What results cost besides their times, held against each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ortbench import units
from ortbench.analysis.compare import Selection, Spread, cost_rows
from ortbench.analysis.energy_change import energy_rows
from ortbench.analysis.memory import changes
from ortbench.modes import CPU_TIME, SUBMIT
from ortbench.report.costs.section import TITLE
from ortbench.report.model import KEY, NOTHING, Column, Kind, Table, columns
from ortbench.report.spreads import spread_cells
from ortbench.result import Result


@dataclass(frozen=True)
class Compared:
    """One cost of a mode of all results.

    Attributes:
        mode: its name.
        what: the cost, as the columns of one result call it.
        cells: the figure of each result with its unit.
        exact: it is one number, of which there are no samples.
        since_first, since_last: against the first and the previous result; see `ortbench.analysis.compare.Row`.
    """

    mode: str
    what: str
    cells: Sequence[str]
    since_first: Sequence[Spread | None]
    since_last: Sequence[Spread | None]
    exact: bool = False


def _host(results: Sequence[Result], only: Selection) -> list[Compared]:
    """The host's own work."""
    called = {SUBMIT: "submit", CPU_TIME: "CPU time"}
    return [
        Compared(
            row.mode,
            called[row.phase],
            [NOTHING if median is None else units.duration(median) for median in row.medians_ns],
            row.since_first,
            row.since_last,
        )
        for row in cost_rows(results, only)
    ]


def _memory(results: Sequence[Result], only: Selection) -> list[Compared]:
    """What modes take of each side's memory, one number each."""
    return [
        Compared(
            it.mode,
            f"{it.side} memory",
            [NOTHING if size is None else units.size(size) for size in it.figures],
            [it.against(0, number) for number in range(len(it.figures))],
            [it.against(number - 1, number) for number in range(len(it.figures))],
            exact=True,
        )
        for it in changes(results, only.modes)
        if not only.phases
    ]


def _energy(results: Sequence[Result], only: Selection) -> list[Compared]:
    """What runs draw."""
    return [
        Compared(
            row.mode,
            "energy/run",
            [NOTHING if joules is None else units.energy(joules) for joules in row.joules],
            row.since_first,
            row.since_last,
        )
        for row in energy_rows(results, only)
    ]


_COSTS: tuple[Callable[[Sequence[Result], Selection], list[Compared]], ...] = (_host, _memory, _energy)


def compared_costs(results: Sequence[Result], only: Selection) -> list[Compared]:
    """All costs that results have, mode by mode.

    Args:
        results: at least two.
        only: these modes, and these phases where it names some.
    """
    found = [it for cost in _COSTS for it in cost(results, only)]
    order = list(dict.fromkeys(it.mode for it in found))
    return sorted(found, key=lambda it: order.index(it.mode))


_WHAT = (Column("mode", Kind.NAME, KEY), Column("cost", Kind.WORD, KEY))
_AGAINST = (*columns(Kind.NUMBER, "ratio", "95 %", group=2), Column("verdict", Kind.WORD, 2))
_STEPS = (
    Column("mode", Kind.NAME, KEY),
    Column("cost", Kind.WORD, KEY),
    Column("result", Kind.WORD, KEY),
    Column("median", Kind.NUMBER, 1),
    *columns(Kind.NUMBER, "vs first", "95 %", group=2),
    Column("verdict", Kind.WORD, 2),
)
_PREVIOUS = (Column("vs previous", Kind.NUMBER, 3), Column("step", Kind.WORD, 3))


def cost_table(found: Sequence[Compared], names: Sequence[str], same: float | None, in_order: bool) -> Table:
    """A row for each cost of each mode, of more than two results one for each of them.

    Args:
        found: by `compared_costs`.
        names: of the results.
        same: up to which share a difference does not matter; None leaves the words out.
        in_order: results are steps of one history.
    """
    if len(names) == 2:
        rows = (
            (it.mode, it.what, *it.cells, *spread_cells(it.since_first[1], same, of_cost=True, exact=it.exact))
            for it in found
        )
        return Table((*_WHAT, *columns(Kind.NUMBER, *names), *_AGAINST), tuple(rows), title=TITLE)
    lines = tuple(line for it in found for line in _lines(it, names, same, in_order))
    return Table((*_STEPS, *_PREVIOUS) if in_order else _STEPS, lines, title=TITLE)


def _lines(it: Compared, names: Sequence[str], same: float | None, in_order: bool) -> list[tuple[str, ...]]:
    lines = []
    for number, name in enumerate(names):
        cells = [it.mode, it.what] if number == 0 else ["", ""]
        cells += [name, it.cells[number], *spread_cells(it.since_first[number], same, of_cost=True, exact=it.exact)]
        if in_order:
            ratio, _, *words = spread_cells(it.since_last[number], same, of_cost=True, exact=it.exact)
            cells += [ratio, *words]
        lines.append(tuple(cells))
    return lines
