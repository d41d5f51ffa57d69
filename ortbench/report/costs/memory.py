"""What each mode takes of memory."""

from __future__ import annotations

from itertools import groupby

from ortbench.analysis.memory import is_weighed
from ortbench.core import units
from ortbench.model.result import Case, Result
from ortbench.model.schema import CaseMemory
from ortbench.report.cells import cell, cells
from ortbench.report.model import KEY, NOTHING, Block, Column, Kind, Note, Notes, Paragraph, Table, columns, filled

COLUMNS = (
    Column("mode", Kind.NAME, KEY),
    *columns(Kind.NUMBER, "device", "bound", "arena held", "arena in use", "on the card", group=1),
    *columns(Kind.NUMBER, "before", "with session", "host peak", "pinned", group=2),
)
_METRICS = (
    *("device_memory", "device_memory_bound", "arena_held", "arena_in_use", "device_memory_process"),
    *("host_memory_before", "host_memory_session", "host_memory"),
)  # of the columns, but the last
_PINNED = "pinned_memory"
NODE_COLUMNS = (
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
    if notes := _notes(result):
        found.append(Notes(notes))
    return found


def _weighed(result: Result) -> list[tuple[Case, CaseMemory]]:
    return [(case, case.memory) for case in result.at_point() if case.memory is not None]


def memory_table(result: Result) -> Table:
    """A row for each mode that was weighed; only columns that hold something."""
    rows = [
        (case.mode, *cells(case, _METRICS), cell(case, _PINNED) if case.value(_PINNED) else NOTHING)
        for case, memory in _weighed(result)
        if memory["failed"] is None
    ]
    return filled(Table(COLUMNS, tuple(rows), title="Memory"))


def node_table(result: Result) -> Table | None:
    """The nodes that hold most, of the first mode that has them; None without ``--nodes``."""
    for case, memory in _weighed(result):
        if memory.get("nodes"):
            rows = tuple(
                (
                    node["name"],
                    f"{node['op']} on {node['ep'].replace('ExecutionProvider', '')}",
                    NOTHING if node["allocated"] is None else units.size(node["allocated"]),
                    units.size(node["output"]),
                    units.size(node["weights"]),
                )
                for node in memory["nodes"]
            )
            return filled(Table(NODE_COLUMNS, rows, title=f"Nodes that hold most, with {case.mode}"))
    return None


def _notes(result: Result) -> list[Note]:
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
    for how, group in groupby(
        sorted(said, key=lambda it: [text for text, _ in said].index(it[0])), key=lambda it: it[0]
    ):
        modes = [mode for _, mode in group]
        notes.append(Note(how if len(modes) == len(fine) else f"{how} ({', '.join(modes)})"))
    return notes
