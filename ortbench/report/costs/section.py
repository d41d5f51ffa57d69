"""The section "What else it costs": what each kind of cost has to show of a result, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ortbench.model.result import Result
from ortbench.report.costs.energy import energy_blocks
from ortbench.report.costs.host import host_blocks
from ortbench.report.costs.memory import memory_blocks
from ortbench.report.costs.shapes import shape_blocks
from ortbench.report.model import Block, Table, Title

TITLE = "What else it costs"

# What each is called, and its blocks: a table with what explains it, or none where a result has nothing of it.
_COSTS: tuple[tuple[str, Callable[[Result], Sequence[Block]]], ...] = (
    ("the host's own work", host_blocks),
    ("memory", memory_blocks),
    ("energy", energy_blocks),
    ("by shape", shape_blocks),
)


def cost_parts(result: Result) -> list[list[Block]]:
    """A part of a report for each kind of cost that a result has, with its title."""
    return [[Title(f"{TITLE}: {name}"), *blocks] for name, build in _COSTS if (blocks := build(result))]


def cost_tables(result: Result) -> list[Table]:
    """Their tables alone."""
    return [block for part in cost_parts(result) for block in part if isinstance(block, Table)]
