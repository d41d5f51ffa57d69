"""The table of where each mode had each input and output."""

from __future__ import annotations

from ortbench.analysis.places import Held, held, named
from ortbench.core.units import size
from ortbench.model.result import Result
from ortbench.report.model import KEY, NOTHING, Column, Kind, Medium, Table

_COLUMNS = (
    Column("tensor", Kind.LONG_NAME, KEY),
    Column("bytes"),
    Column("in modes", Kind.WORDS),
    Column("memory", Kind.WORDS),
    Column("why", Kind.WORDS),
)
MOST = 24  # rows; tensors that are alike share theirs


def places_table(result: Result, media: frozenset[Medium]) -> Table:
    """A row for each memory that a tensor, or several that are alike, had in some modes; none of a result without them."""
    found = held(result)
    rows = tuple(_row(result, it) for it in found[:MOST])
    rest = f"{len(found) - MOST} more rows are left out; result.json has all." if len(found) > MOST else ""
    return Table(_COLUMNS, rows, title="Where tensors are", rest=rest, media=media)


def _row(result: Result, it: Held) -> tuple[str, ...]:
    sizes = [tensor["bytes"] for tensor in result.model[it.side] if tensor["name"] in it.names]
    known = None if None in sizes else sum(count or 0 for count in sizes)
    return named(it), NOTHING if known is None else size(known), ", ".join(it.modes), it.memory, it.why
