"""The tables of profiled nodes: time by operator and EP, copies inside the graph, and who forces them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ortbench.analysis.node_advice import MOST, NOT_KNOWN, cut, forced_by, operators_of, share_text, short
from ortbench.modes import CPU
from ortbench.result import Result
from ortbench.schema import InnerCopies, Island, MemcpyNode, Nodes
from ortbench.units import duration, size

NARROW, WIDE = 19, 60  # characters of a name; with the shorter ones every table fits 80 columns


@dataclass(frozen=True)
class Section:
    """A table of text.

    Attributes:
        columns: headings.
        rows: a cell for each column.
        left: the columns of text, which are aligned left.
        rest: what was left out, or "".
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left: tuple[str, ...]
    rest: str = ""


def heading(result: Result) -> str:
    """What the tables are about, and how far their times can be trusted."""
    nodes = result.nodes
    assert nodes is not None
    cpu = result.case(CPU)
    measured = None if cpu is None else cpu.median("total")
    beside = "" if measured is None else f", {duration(measured)} as measured"
    text = (
        f"Nodes: {nodes['runs']} runs in ONNX Runtime's profiler, which slows them ({duration(nodes['run_ns'])} a run"
        f"{beside}). The times are the host's: shares and hints, not measurements."
    )
    if result.target["memory"]["kind"] == "host":
        return text
    return (
        f"{text} Where {short(result.target['ep'])} works asynchronously, a node's time is that of its launch, and a copy "
        "to the host also waits for what was launched before. Outside of nodes are the copies of inputs and outputs and "
        "the wait at the end."
    )


def sections(nodes: Nodes, longest: int = WIDE) -> list[Section]:
    """The tables of a result's ``nodes``.

    Args:
        nodes: the key.
        longest: how many characters of a name are shown, from its end.
    """
    return [_operators(nodes, longest), _eps(nodes), *outline(nodes, longest)]


def outline(nodes: InnerCopies, longest: int = WIDE) -> list[Section]:
    """The tables of Memcpy nodes and islands, where there are any; without times where nothing was timed."""
    found = [_memcpy(nodes["memcpy"], longest)] if nodes["memcpy"] else []
    return found + ([_islands(nodes["islands"], longest)] if nodes["islands"] else [])


def _operators(nodes: Nodes, longest: int) -> Section:
    rows = tuple(
        (cut(row["op"], longest), short(row["ep"]), str(row["nodes"]), duration(row["ns"]), share_text(row["share"]))
        for row in nodes["operators"][:MOST]
    )
    others = nodes["operators"][MOST:]
    rest = f"and {len(others)} more: {share_text(sum(row['share'] for row in others))} of a run" if others else ""
    return Section(("operator", "on", "nodes", "time", "share"), rows, ("operator", "on"), rest)


def _eps(nodes: Nodes) -> Section:
    rows = [
        (short(row["ep"]), str(row["nodes"]), duration(row["ns"]), share_text(row["share"])) for row in nodes["eps"]
    ]
    outside = nodes["outside_ns"]
    share = outside / nodes["run_ns"] if nodes["run_ns"] else 0.0
    rows.append(("outside of nodes", "–", duration(outside), share_text(share)))
    return Section(("on", "nodes", "time", "share"), tuple(rows), ("on",))


def _memcpy(copies: Sequence[MemcpyNode], longest: int) -> Section:
    shown, others = copies[:MOST], copies[MOST:]
    columns = ["copied tensor", "direction", "bytes", "time", "forced by", "island"]
    rows = [
        [
            cut(row["tensor"] or row["name"] or NOT_KNOWN, longest),
            row["direction"],
            _maybe(row["bytes"], size),
            _maybe(row["ns"], duration),
            forced_by(row["forced_by"], longest),
            "–" if row["island"] is None else str(row["island"] + 1),
        ]
        for row in shown
    ]
    rest = ""
    if others:
        known = all(row["bytes"] is not None for row in others)
        rest = f"and {len(others)} more" + (f": {size(sum(row['bytes'] or 0 for row in others))}" if known else "")
    return _section(columns, rows, ("copied tensor", "direction", "forced by"), rest)


def _islands(islands: Sequence[Island], longest: int) -> Section:
    columns = ["island", "on the CPU", "nodes", "copies", "bytes", "in nodes", "in copies", "share"]
    rows = [
        [
            str(number),
            cut(operators_of(row), longest),
            str(len(row["nodes"])),
            str(row["to_host"] + row["from_host"]),
            _maybe(row["bytes"], size),
            _maybe(row["node_ns"], duration),
            _maybe(row["memcpy_ns"], duration),
            _maybe(row["share"], share_text),
        ]
        for number, row in enumerate(islands[:MOST], 1)
    ]
    others = islands[MOST:]
    rest = ""
    if others:
        known = all(row["share"] is not None for row in others)
        rest = f"and {len(others)} more" + (
            f": {share_text(sum(row['share'] or 0 for row in others))} of a run" if known else ""
        )
    return _section(columns, rows, ("island", "on the CPU"), rest)


def _section(columns: list[str], rows: list[list[str]], left: tuple[str, ...], rest: str) -> Section:
    """A table without the columns of which nothing is known."""
    kept = [index for index in range(len(columns)) if any(row[index] for row in rows)]
    cells = tuple(tuple(row[index] or "–" for index in kept) for row in rows)
    return Section(tuple(columns[index] for index in kept), cells, left, rest)


def _maybe(value: Any, form: Any) -> str:
    return "" if value is None else str(form(value))
