"""What an inference costs besides time: the host's own work, memory, energy; of a sweep by shape."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ortbench.analysis.comparing.series import value_of
from ortbench.analysis.host import cpu_time_ns
from ortbench.analysis.memory import is_weighed
from ortbench.core import units
from ortbench.model.metrics import METRICS, Figure, Group, Metric
from ortbench.model.modes import ALL_MODES, CPU_TIME, DEVICE_MEMORY, ENERGY, ENQUEUE, HOST_MEMORY, NO_SPIN, SPIN_SHARE
from ortbench.model.result import Case, Point, Result
from ortbench.model.schema import CaseMemory
from ortbench.report.model import (
    DERIVED,
    KEY,
    MARKDOWN,
    NOTHING,
    PAGE,
    Block,
    Column,
    Kind,
    Note,
    Notes,
    Paragraph,
    Table,
    Title,
    columns,
    filled,
    maybe,
)
from ortbench.report.phrases import cell, cells, hint, mode_name, said_once

_HOST = [it for it in METRICS.values() if it.group is Group.HOST]
# Those of a pass of its own, and what comes in one: columns that stay together where the terminal is narrow.
_IN_A_PASS = {it.key for it in _HOST if it.key.endswith("spin_off")} | {SPIN_SHARE}


def host_blocks(result: Result) -> list[Block]:
    """The table with what its columns mean; nothing of a result in which nothing of it was taken."""
    table = host_table(result)
    if not table.rows:
        return []
    shown = {column.name for column in table.columns}
    said = [f"{it.title}: {it.meaning}" for it in _HOST if it.title in shown]
    first = [it.title for it in _HOST if it.title in shown][:3]
    return [table, Paragraph(" ".join(said), media=MARKDOWN | PAGE), hint(*first)]


def host_table(result: Result) -> Table:
    """A row for each mode of which something was taken; only columns that hold something."""
    shown = [case for case in result.at_point() if case.host is not None or case.median(ENQUEUE) is not None]
    # Each in its own unit: a call returns in microseconds where a run takes milliseconds.
    headed = [Column(it.title, Kind.NUMBER, 3 if it.key in _IN_A_PASS else 2) for it in _HOST]
    rows = tuple((mode_name(case), *(_host_cell(case, it) for it in _HOST)) for case in shown)
    return filled(Table((Column("mode", Kind.NAME, KEY), *headed), rows, title="Host CPU"))


def _host_cell(case: Case, metric: Metric) -> str:
    # CPU time of single blocks is too short for the system's counting.
    value = cpu_time_ns(case) if metric.key == CPU_TIME else value_of(case, Figure(metric.key, metric.usual))
    mark = DERIVED if metric.key == SPIN_SHARE else ""
    show = metric.unit.cell if metric.unit.heading in metric.title else metric.unit.text
    return NOTHING if value is None else f"{mark}{show(value)}"


_MEMORY_COLUMNS = (
    Column("mode", Kind.NAME, KEY),
    *columns(Kind.NUMBER, "device", "bound", "arena held", "arena in use", "on the card", group=1),
    *columns(Kind.NUMBER, "before", "with session", "host peak", "pinned", group=2),
)
_MEMORY_METRICS = (
    *("device_memory", "device_memory_bound", "arena_held", "arena_in_use", "device_memory_process"),
    *("host_memory_before", "host_memory_session", "host_memory"),
)  # of the columns, but the last
_PINNED = "pinned_memory"
_NODE_COLUMNS = (
    Column("node", Kind.LONG_NAME, KEY),
    Column("operator", Kind.WORDS),
    *columns(Kind.NUMBER, "allocated", "outputs", "weights"),
)
_ABOUT = "Memory: each mode in a worker of its own after the measurement: session, buffers, runs."


def memory_blocks(result: Result) -> list[Block]:
    """What there is to say of a result's memory; none where it was not measured."""
    if not is_weighed(result):
        return []
    found: list[Block] = [Paragraph(_ABOUT)]
    table = memory_table(result)
    if table.rows:
        found.append(table)
    if (nodes := node_table(result)) is not None:
        found.append(nodes)
    if notes := _memory_notes(result):
        found.append(Notes(notes))
    return found


def _weighed(result: Result) -> list[tuple[Case, CaseMemory]]:
    return [(case, case.memory) for case in result.at_point() if case.memory is not None]


def memory_table(result: Result) -> Table:
    """A row for each mode that was weighed; only columns that hold something."""
    rows = [
        (case.mode, *cells(case, _MEMORY_METRICS), cell(case, _PINNED) if case.value(_PINNED) else NOTHING)
        for case, memory in _weighed(result)
        if memory["failed"] is None
    ]
    return filled(Table(_MEMORY_COLUMNS, tuple(rows), title="Memory"))


def node_table(result: Result) -> Table | None:
    """The nodes that hold most, of the first mode that has them; None without ``--measure-nodes``."""
    for case, memory in _weighed(result):
        if memory.get("nodes"):
            rows = tuple(
                (
                    node["name"],
                    f"{node['op']} on {node['ep'].replace('ExecutionProvider', '')}",
                    maybe(node["allocated"], units.size),
                    units.size(node["output"]),
                    units.size(node["weights"]),
                )
                for node in memory["nodes"]
            )
            return filled(Table(_NODE_COLUMNS, rows, title=f"Nodes that hold most, with {case.mode}"))
    return None


def _memory_notes(result: Result) -> list[Note]:
    """How figures are known, each way once with the modes that it is of, and what could not be measured."""
    weighed = _weighed(result)
    notes = [
        Note(f"memory of {case.mode} could not be measured: {memory['failed']}", "!", "unclear")
        for case, memory in weighed
        if memory["failed"] is not None
    ]
    fine = [(case.mode, memory) for case, memory in weighed if memory["failed"] is None]
    said = [(f"device: {memory['device']}", mode) for mode, memory in fine if memory["device"] is not None]
    said += [(f"arena: {memory['arenas_how']}", mode) for mode, memory in fine]
    said += [(f"host: {memory['host']}", mode) for mode, memory in fine if memory["host"] is not None]
    return notes + [
        Note(how if len(modes) == len(fine) else f"{how} ({', '.join(modes)})")
        for how, modes in said_once(said).items()
    ]


_ENERGY_COLUMNS = (
    Column("mode", Kind.NAME, KEY),
    *columns(Kind.NUMBER, "energy/run", "95% CI", group=1),
    *columns(Kind.NUMBER, "power", "idle", "runs/J", group=2),
)
_HOW = {
    "counter": "by the energy counter of {of}",
    "power": "by readings of the power of {of}, integrated, as it has no energy counter",
    "rapl": "by the energy counters (RAPL) of {of}, whatever else they do",
}


def energy_blocks(result: Result) -> list[Block]:
    """The table with what it says, or why there is none; nothing of a result that was not asked for it."""
    asked = [(case, case.energy) for case in result.at_point() if case.energy is not None]
    if not asked:
        return []
    known = [(case, found) for case, found in asked if ENERGY in case.metrics]
    why = said_once((found["unsupported"], case.mode) for case, found in asked if "unsupported" in found)
    lacking: list[Block] = [Paragraph(f"unsupported ({', '.join(modes)}): {reason}.") for reason, modes in why.items()]
    if not known:
        return lacking
    of = dict.fromkeys(_HOW[found["how"]].format(of=found["of"]) for _, found in known)
    said = f"energy/run: {'; '.join(of)}, in a stretch of runs after the measurement, less the idle draw beside it."
    table = Table(_ENERGY_COLUMNS, tuple(_energy_row(case) for case, _ in known), title="Energy")
    return [table, Paragraph(said), *lacking, hint("energy/run", "idle")]


def _energy_row(case: Case) -> tuple[str, ...]:
    drawn, rate = case.metrics[ENERGY], case.value("inferences_per_joule")
    return (
        case.mode,
        cell(case, ENERGY),
        NOTHING if drawn.ci95 is None else " to ".join(map(units.energy, drawn.ci95)),
        *cells(case, ("power", "idle_power")),
        maybe(rate, units.rate),
    )


_SHAPE_COLUMNS = (
    Column("mode", Kind.NAME, KEY),
    Column("shape", Kind.NAME, KEY),
    *columns(Kind.NUMBER, "CPU time", "spinning", "without", group=1),
    *columns(Kind.NUMBER, "device memory", "host memory", group=2),
    *columns(Kind.NUMBER, "energy/run", "power", "items/J", group=3),
)
_CPU_STILL = f"{CPU_TIME}_{NO_SPIN}"
_OF_MEMORY = "memory: each shape and mode alone, in a worker of its own after the measurement."
_OF_ENERGY = "energy/run: in a stretch of runs after the measurement, less the idle draw beside it."
_OF_SPIN = "spinning: what threads that wait for work take of the CPU time; without: of runs, in sessions of their own, that do not."


def shape_blocks(result: Result) -> list[Block]:
    """The table with what it says and what is not known; nothing of what is no sweep or was not asked for it."""
    asked = [
        (shape, case)
        for mode in ALL_MODES
        for shape in result.shapes
        for case in result.at_point(shape.point)
        if case.mode == mode and _is_asked(case)
    ]
    if not asked:
        return []
    found: list[Block] = []
    table = filled(
        Table(_SHAPE_COLUMNS, tuple(_shape_row(shape, case) for shape, case in asked), title="What shapes cost")
    )
    if len(table.columns) > 2:
        found.append(table)
    shown = {column.name for column in table.columns}
    said = [
        text
        for text, of in ((_OF_SPIN, "spinning"), (_OF_MEMORY, "host memory"), (_OF_ENERGY, "energy/run"))
        if of in shown or (of == "host memory" and "device memory" in shown)
    ]
    if said:
        found.append(Paragraph(" ".join(said)))
    if notes := _lacking(asked):
        found.append(Notes(notes))
    return found


def _is_asked(case: Case) -> bool:
    return case.memory is not None or case.energy is not None or _CPU_STILL in case.metrics


def _shape_row(shape: Point, case: Case) -> tuple[str, ...]:
    spent, per_joule = cpu_time_ns(case) if _CPU_STILL in case.metrics else None, case.value("items_per_joule")
    return (
        case.mode,
        shape.name,
        maybe(spent, units.duration),
        cell(case, SPIN_SHARE, mark=True),
        *cells(case, (_CPU_STILL, DEVICE_MEMORY, HOST_MEMORY, ENERGY, "power")),
        maybe(per_joule, units.rate),
    )


def _lacking(asked: Sequence[tuple[Point, Case]]) -> list[Note]:
    """What could not be measured, each reason once, with the shapes and modes that it is of where those are not all."""
    why: list[tuple[str, str]] = []
    for shape, case in asked:
        of = f"{shape.name} with {case.mode}"
        if case.memory is not None and case.memory["failed"] is not None:
            why.append((f"memory could not be measured: {case.memory['failed']}", of))
        if case.energy is not None and "unsupported" in case.energy:
            why.append((f"energy is unsupported: {case.energy['unsupported']}", of))
    return [
        Note(reason if len(cases) == len(asked) else f"{', '.join(cases)}: {reason}", "!", "unclear")
        for reason, cases in said_once(why).items()
    ]


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
