"""What each mode takes of memory: for a run's report, for a comparison, and as flat records."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from ortbench import units
from ortbench.analysis.compare import word
from ortbench.analysis.memory import DEVICE, HOST, changes, figure, is_weighed
from ortbench.report.model import KEY, NOTHING, Block, Column, Kind, Note, Notes, Paragraph, Table, columns, filled
from ortbench.result import Case, Result
from ortbench.schema import CaseMemory

COLUMNS = (
    Column("mode", Kind.NAME, KEY),
    *columns(Kind.NUMBER, "device", "bound", "arena held", "arena in use", "on the card", group=1),
    *columns(Kind.NUMBER, "before", "with session", "host peak", "pinned", group=2),
)
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
    return [(case, case.memory) for case in result.cases if case.memory is not None]


def memory_table(result: Result) -> Table:
    """A row for each mode that has figures; only columns that hold something."""
    rows = tuple(_row(case, memory) for case, memory in _weighed(result) if memory["failed"] is None)
    return filled(Table(COLUMNS, rows, title="Memory"))


def _row(case: Case, memory: CaseMemory) -> tuple[str, ...]:
    device, host = memory["device"], memory["host"]
    held, in_use = _of_arenas(memory)
    sizes = [
        figure(case, DEVICE),
        device and device["bound"],
        held,
        in_use,
        device and device["card"],
        *((None, None, None) if host is None else (host["before"], host["session"], host["peak"])),
        host and (host["pinned"] or None),
    ]
    return (case.mode, *(NOTHING if size is None else units.size(size) for size in sizes))


def _of_arenas(memory: CaseMemory | None) -> tuple[int | None, int | None]:
    """What all arenas held and had in use, bytes; None where none is known."""
    arenas = [] if memory is None else memory["arenas"]
    return (sum(it["held"] for it in arenas), sum(it["in_use"] for it in arenas)) if arenas else (None, None)


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
    said = [(f"device: {memory['device']['how']}", mode) for mode, memory in fine if memory["device"] is not None]
    said += [(f"arena: {memory['arenas_how']}", mode) for mode, memory in fine]
    said += [(f"host: {memory['host']['how']}", mode) for mode, memory in fine if memory["host"] is not None]
    for how, group in groupby(
        sorted(said, key=lambda it: [text for text, _ in said].index(it[0])), key=lambda it: it[0]
    ):
        modes = [mode for _, mode in group]
        notes.append(Note(how if len(modes) == len(fine) else f"{how} ({', '.join(modes)})"))
    return notes


# For other programs


def change_records(
    results: Sequence[Result], names: Sequence[str], same: float, modes: Sequence[str]
) -> list[dict[str, Any]]:
    """A comparison of memory as flat records, one a mode, side and result: ``phase`` is such as ``memory.device``."""
    return [
        {
            "mode": change.mode,
            "phase": f"memory.{change.side}",
            "result": name,
            "bytes": change.figures[number],
            "vs_first": None
            if (found := change.against(0, number)) is None
            else {"ratio": found.ratio, "verdict": word(found, same, of_cost=True)},
        }
        for change in changes(results, modes)
        for number, name in enumerate(names)
    ]


def memory_record(case: Case) -> dict[str, int | None]:
    """The columns of a mode's memory, bytes; None for what is not known."""
    memory = case.memory
    device, host = (None, None) if memory is None else (memory["device"], memory["host"])
    held, in_use = _of_arenas(memory)
    return {
        "memory_device": figure(case, DEVICE),
        "memory_bound": device and device["bound"],
        "memory_arena_held": held,
        "memory_arena_in_use": in_use,
        "memory_card": device and device["card"],
        "memory_before": host and host["before"],
        "memory_session": host and host["session"],
        "memory_host": figure(case, HOST),
        "memory_pinned": host and host["pinned"],
    }
