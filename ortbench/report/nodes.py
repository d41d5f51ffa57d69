"""The tables of a result's nodes: each, by operator and by EP, Memcpy nodes and what falls back to the CPU."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import fmean

from ortbench.analysis.node_times import faster, first_name, operator
from ortbench.analysis.placement import MOST, NOT_KNOWN, forced_by, operators_of, short
from ortbench.core import units
from ortbench.core.units import duration, size
from ortbench.model.metrics import SHARE
from ortbench.model.modes import CPU
from ortbench.model.result import Result
from ortbench.model.schema import InnerCopies, Island, MemcpyNode, NodeKernels, Nodes, ProfiledNode
from ortbench.report.model import KEY, NOTHING, Column, Kind, Table, columns, cut_start, drop_empty_columns, maybe

_FIGURES = columns(Kind.NUMBER, "nodes", "time", "share of inference")
_NODES = (
    Column("node", Kind.LONG_NAME, KEY),
    Column("operator", Kind.WORDS, KEY),
    Column("on", Kind.WORDS),
    *columns(Kind.NUMBER, "time", "share"),
    Column("runs in an inference", group=2),
)
_SHORT = 20, 28  # characters of both names on a screen
_KERNELS = (
    *columns(Kind.LONG_NAME, "node", "operator", group=KEY),
    *columns(Kind.NUMBER, "kernels", "GPU time", "share of GPU time"),
)
_OPERATORS = (Column("operator", Kind.LONG_NAME, KEY), Column("on", Kind.WORDS), *_FIGURES)
_EPS = (Column("on", Kind.WORDS, KEY), *_FIGURES)
_MEMCPY = (
    Column("copied tensor", Kind.LONG_NAME, KEY),
    Column("direction", Kind.WORDS),
    *columns(Kind.NUMBER, "bytes", "time"),
    Column("forced by", Kind.LONG_NAME),
    Column("CPU fallback"),
)
_ISLANDS = (
    Column("CPU fallback", Kind.WORDS, KEY),
    Column("operators", Kind.LONG_NAME),
    *columns(Kind.NUMBER, "nodes", "copies", "bytes", "time in nodes", "time in copies", "share of inference"),
)


def nodes_heading(result: Result) -> str:
    """What the tables are about, and how far their times can be trusted."""
    nodes = result.nodes
    assert nodes is not None
    said = f"Nodes: {units.count(nodes['runs'], 'inference')} under ONNX Runtime's profiler, {duration(nodes['run_ns'])} each with its own time{_plain_latency(result, nodes)}."
    if nodes["outside_ns"] < 0:
        return f"{said} Nodes ran at the same time: their shares add up to more than 100%."
    is_on_host = result.target["memory"]["kind"] == "host"
    return said if is_on_host else f"{said} Where the EP is asynchronous, a node's time is that of its launch."


def _plain_latency(result: Result, nodes: Nodes) -> str:
    """What an inference takes without the profiler, which only adds to that: what takes less with it was measured at a quieter time."""
    latency_ns = result.median(CPU, "latency")
    if latency_ns is None:
        return ""
    return f", {duration(latency_ns)} without" + " at a busier time" * (latency_ns > nodes["run_ns"])


def node_tables(result: Result) -> list[Table]:
    """The tables of a result's ``nodes``; the first has the profiler's own cost below it."""
    nodes = result.nodes
    assert nodes is not None
    cost = (
        f"Under ONNX Runtime's profiler an inference takes {duration(nodes['run_ns'])}{_plain_latency(result, nodes)}."
    )
    each = [_each(nodes, cost)] if "each" in nodes else []
    kernels = [_kernels(nodes["kernels"], nodes.get("each", ()))] if "kernels" in nodes else []
    return [*each, *kernels, _operators(nodes), _eps(nodes), *outline(nodes)]


def table_of_nodes(
    columns: Sequence[Column],
    rows: Sequence[Sequence[tuple[str, ...]]],
    last: Callable[[int], Sequence[tuple[str, ...]]],
    unit: str = "",
    rest: str = "",
) -> Table:
    """A table of nodes: of each the lines, the first of which is all that a screen shows; `last` has the rows of what the first so many
    nodes leave. A screen has the columns of the first group, and `rest` below them."""
    full = (*(line for lines in rows for line in lines), *last(len(rows)))
    on = next(at for at, it in enumerate(columns) if it.name == "on")
    is_one_ep = len({lines[0][on] for lines in rows}) == 1  # which the heading names
    kept = [at for at, it in enumerate(columns) if it.group <= 1 and not (is_one_ep and at == on)]

    def shorten(line: Sequence[str]) -> tuple[str, ...]:
        return tuple(cut_start(line[at], _SHORT[at]) if at < len(_SHORT) else line[at] for at in kept)

    counts = range(min(len(rows), MOST), 0, -1)
    screens = [[*(shorten(lines[0]) for lines in rows[:count]), *map(shorten, last(count))] for count in counts]
    shown = tuple(columns[at] for at in kept)
    shorter = tuple(
        drop_empty_columns(Table(shown, (*lines,), unit, rest=rest)) for lines in screens if len(lines) <= MOST
    )
    return replace(drop_empty_columns(Table((*columns,), full, unit, title="Nodes")), shorter=shorter)


def _each(nodes: Nodes, rest: str) -> Table:
    """The nodes, those that take most first; one with branches or a body takes what the nodes in these take, which are below it."""
    each, kept = nodes["each"], faster(nodes["rounds_ns"])
    total = fmean(nodes["rounds_ns"][at] for at in kept)
    taken = [fmean(it["ns"][at] for at in kept) for it in each]
    inner: dict[int | None, list[int]] = defaultdict(list)
    for at in reversed(range(len(each))):
        inner[each[at]["inside"]].append(at)
        if (outer := each[at]["inside"]) is not None:
            taken[outer] += taken[at]
    for members in inner.values():
        members.sort(key=lambda at: (-taken[at], at))

    def lines(at: int, depth: int = 0) -> list[tuple[str, ...]]:
        node, count = each[at], len(inner[at])
        op = operator(node) + f" ({units.count(count, 'node')})" * bool(count)
        runs = NOTHING if node["count"] == 1 else f"{node['count']:g}"
        cells = ("└ " * depth + first_name(node), op, short(node["ep"]), *_time_and_share(taken[at], total), runs)
        return [cells, *(line for it in inner[at] for line in lines(it, depth + 1))]

    def last(count: int) -> list[tuple[str, ...]]:
        left = len(inner[None]) - count
        remainder = total - sum(taken[at] for at in inner[None][:count])
        sums = ((remainder_names(left), remainder), (("whole inference", NOTHING), total))
        return [(*names, NOTHING, *_time_and_share(ns, total), NOTHING) for names, ns in sums]

    return table_of_nodes(_NODES, [lines(at) for at in inner[None]], last, rest=rest)


def _kernels(rows: Sequence[NodeKernels], each: Sequence[ProfiledNode]) -> Table:
    """What runs on a GPU for each node, by the GPU's clock; `each` are the nodes, by whose names readers know them."""
    names = {(it["name"], it["op"], it["ep"]): (first_name(it), operator(it)) for it in each}
    lines = []
    for row in rows:
        name, op, ep = row["name"], row["op"], row["ep"]
        known = ("of no node", NOTHING)
        if name is not None and op is not None and ep is not None:
            known = names.get((name, op, ep), (name, op))
        lines.append((*known, f"{row['kernels']:g}", duration(row["ns"]), SHARE.text(row["share"])))
    return Table(_KERNELS, tuple(lines), title="GPU kernels by node")


def remainder_names(count: int) -> tuple[str, str]:
    """What the row with the remainder is of, beside so many nodes."""
    return (units.count(count, "other node"), "and outside of nodes") if count else ("outside of nodes", NOTHING)


def _time_and_share(ns: float, total: float) -> tuple[str, str]:
    return duration(ns), SHARE.text(ns / total if total else 0.0)


def outline(nodes: InnerCopies) -> list[Table]:
    """The tables of Memcpy nodes and of what falls back to the CPU, where there are any; without times where nothing was timed."""
    found = [_memcpy(nodes["memcpy"])] if nodes["memcpy"] else []
    return found + ([_islands(nodes["islands"])] if nodes["islands"] else [])


def _operators(nodes: Nodes) -> Table:
    rows = [
        (row["op"], short(row["ep"]), str(row["nodes"]), duration(row["ns"]), SHARE.text(row["share"]))
        for row in nodes["operators"][:MOST]
    ]
    rest = _rest([row["share"] for row in nodes["operators"]], _of_a_run)
    return Table(_OPERATORS, tuple(rows), title="Nodes by operator", rest=rest)


def _eps(nodes: Nodes) -> Table:
    rows = [
        (short(row["ep"]), str(row["nodes"]), duration(row["ns"]), SHARE.text(row["share"])) for row in nodes["eps"]
    ]
    outside = nodes["outside_ns"]
    if outside >= 0:  # else nodes ran at the same time
        share = outside / nodes["run_ns"] if nodes["run_ns"] else 0.0
        rows.append(("outside of nodes", NOTHING, duration(outside), SHARE.text(share)))
    return Table(_EPS, tuple(rows), title="Nodes by execution provider")


def _memcpy(copies: Sequence[MemcpyNode]) -> Table:
    rows = [
        (
            row["tensor"] or row["name"] or NOT_KNOWN,
            row["direction"],
            maybe(row["bytes"], size),
            maybe(row["ns"], duration),
            forced_by(row["forced_by"]) or NOTHING,
            NOTHING if row["island"] is None else str(row["island"] + 1),
        )
        for row in copies[:MOST]
    ]
    return drop_empty_columns(
        Table(_MEMCPY, tuple(rows), title="Memcpy nodes", rest=_rest([row["bytes"] for row in copies], size))
    )


def _islands(islands: Sequence[Island]) -> Table:
    rows = [
        (
            str(number),
            operators_of(row),
            str(len(row["nodes"])),
            str(row["to_host"] + row["from_host"]),
            maybe(row["bytes"], size),
            maybe(row["node_ns"], duration),
            maybe(row["memcpy_ns"], duration),
            maybe(row["share"], SHARE.text),
        )
        for number, row in enumerate(islands[:MOST], 1)
    ]
    rest = _rest([row["share"] for row in islands], _of_a_run)
    return drop_empty_columns(Table(_ISLANDS, tuple(rows), title="CPU fallback", rest=rest))


def _rest(values: Sequence[float | None], text: Callable[[float], str]) -> str:
    """What the rows come to that there was no room for, as far as it is known."""
    others = values[MOST:]
    known = [value for value in others if value is not None]
    if not others:
        return ""
    return f"and {len(others)} more" + (f": {text(sum(known))}" if len(known) == len(others) else "")


def _of_a_run(share: float) -> str:
    return f"{SHARE.text(share)} of an inference"
