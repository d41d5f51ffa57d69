"""The section "What else it costs" of a run's report."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ortbench.report.costs.memory import compared_table, memory_blocks
from ortbench.report.model import Block, Table, Title
from ortbench.result import Result

TITLE = "What else it costs"

# Each kind of cost gives what it has to say of a result, or nothing.
COSTS: tuple[Callable[[Result], Sequence[Block]], ...] = (memory_blocks,)
# The same of several results, side by side: a table, or None.
COMPARED: tuple[Callable[[Sequence[Result], Sequence[str], float | None, Sequence[str]], Table | None], ...] = (
    compared_table,
)


def blocks(result: Result) -> list[Block]:
    """The whole section; none where nothing of it was measured."""
    found = [block for cost in COSTS for block in cost(result)]
    return [Title(TITLE), *found] if found else []


def compared(
    results: Sequence[Result], names: Sequence[str], same: float | None, modes: Sequence[str] = ()
) -> list[Block]:
    """The section of a comparison.

    Args:
        results: at least two.
        names: of them.
        same: up to which share they are called the same; None leaves the words out.
        modes: these; empty for all.
    """
    found = [table for cost in COMPARED if (table := cost(results, names, same, modes)) is not None]
    return [Title(TITLE), *found] if found else []
