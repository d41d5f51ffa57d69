"""The tables of profiled nodes: time by operator and EP, copies inside the graph, and who forces them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ortbench.analysis.findings.node_advice import MOST, NOT_KNOWN, forced_by, operators_of, share_text, short
from ortbench.core.units import duration, size
from ortbench.model.modes import CPU
from ortbench.model.result import Result
from ortbench.model.schema import InnerCopies, Island, MemcpyNode, Nodes
from ortbench.report.model import KEY, NOTHING, Column, Kind, Table, columns

_FIGURES = columns(Kind.NUMBER, "nodes", "time", "share")
_OPERATORS = (Column("operator", Kind.LONG_NAME, KEY), Column("on", Kind.WORDS), *_FIGURES)
_EPS = (Column("on", Kind.WORDS, KEY), *_FIGURES)
_MEMCPY = (
    Column("copied tensor", Kind.LONG_NAME, KEY),
    Column("direction", Kind.WORDS),
    *columns(Kind.NUMBER, "bytes", "time"),
    Column("forced by", Kind.LONG_NAME),
    Column("island"),
)
_ISLANDS = (
    Column("island", Kind.WORDS, KEY),
    Column("on the CPU", Kind.LONG_NAME),
    *columns(Kind.NUMBER, "nodes", "copies", "bytes", "in nodes", "in copies", "share"),
)


def heading(result: Result) -> str:
    """What the tables are about, and how far their times can be trusted."""
    nodes = result.nodes
    assert nodes is not None
    cpu = result.case(CPU)
    measured = None if cpu is None else cpu.median("latency")
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


def tables(nodes: Nodes) -> list[Table]:
    """The tables of a result's ``nodes``."""
    return [_operators(nodes), _eps(nodes), *outline(nodes)]


def outline(nodes: InnerCopies) -> list[Table]:
    """The tables of Memcpy nodes and islands, where there are any; without times where nothing was timed."""
    found = [_memcpy(nodes["memcpy"])] if nodes["memcpy"] else []
    return found + ([_islands(nodes["islands"])] if nodes["islands"] else [])


def _operators(nodes: Nodes) -> Table:
    rows = [
        (row["op"], short(row["ep"]), str(row["nodes"]), duration(row["ns"]), share_text(row["share"]))
        for row in nodes["operators"][:MOST]
    ]
    rest = _rest([row["share"] for row in nodes["operators"]], _of_a_run)
    return Table(_OPERATORS, tuple(rows), title="Nodes by operator", rest=rest)


def _eps(nodes: Nodes) -> Table:
    rows = [
        (short(row["ep"]), str(row["nodes"]), duration(row["ns"]), share_text(row["share"])) for row in nodes["eps"]
    ]
    outside = nodes["outside_ns"]
    share = outside / nodes["run_ns"] if nodes["run_ns"] else 0.0
    rows.append(("outside of nodes", NOTHING, duration(outside), share_text(share)))
    return Table(_EPS, tuple(rows), title="Nodes by execution provider")


def _memcpy(copies: Sequence[MemcpyNode]) -> Table:
    rows = [
        (
            row["tensor"] or row["name"] or NOT_KNOWN,
            row["direction"],
            _maybe(row["bytes"], size),
            _maybe(row["ns"], duration),
            forced_by(row["forced_by"]),
            NOTHING if row["island"] is None else str(row["island"] + 1),
        )
        for row in copies[:MOST]
    ]
    return _known(_MEMCPY, rows, "Copies inside the graph", _rest([row["bytes"] for row in copies], size))


def _islands(islands: Sequence[Island]) -> Table:
    rows = [
        (
            str(number),
            operators_of(row),
            str(len(row["nodes"])),
            str(row["to_host"] + row["from_host"]),
            _maybe(row["bytes"], size),
            _maybe(row["node_ns"], duration),
            _maybe(row["memcpy_ns"], duration),
            _maybe(row["share"], share_text),
        )
        for number, row in enumerate(islands[:MOST], 1)
    ]
    return _known(_ISLANDS, rows, "Islands on the CPU", _rest([row["share"] for row in islands], _of_a_run))


def _rest(values: Sequence[float | None], text: Callable[[float], str]) -> str:
    """What the rows come to that there was no room for, as far as it is known."""
    others = values[MOST:]
    known = [value for value in others if value is not None]
    if not others:
        return ""
    return f"and {len(others)} more" + (f": {text(sum(known))}" if len(known) == len(others) else "")


def _of_a_run(share: float) -> str:
    return f"{share_text(share)} of a run"


def _known(every: Sequence[Column], rows: Sequence[tuple[str, ...]], title: str, rest: str) -> Table:
    """A table without the columns of which nothing is known."""
    kept = [at for at in range(len(every)) if any(row[at] for row in rows)]
    cells = tuple(tuple(row[at] or NOTHING for at in kept) for row in rows)
    return Table(tuple(every[at] for at in kept), cells, title=title, rest=rest)


def _maybe(value: Any, form: Callable[[Any], str]) -> str:
    return "" if value is None else form(value)
