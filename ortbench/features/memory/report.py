from __future__ import annotations

from ortbench.analysis.derive import KEY
from ortbench.core import units
from ortbench.features.memory.model import CaseMemory
from ortbench.model.result import Case, Result
from ortbench.report import model
from ortbench.report.case_table import Own, figure_table, in_groups
from ortbench.report.phrases import cell, said_once

_MEMORY = (
    ("device_memory", "device_memory_bound", "device_memory_process"),
    ("arena_held", "arena_in_use"),
    ("host_memory_before", "host_memory_session", "host_memory", _PINNED := "pinned_memory"),
)
_NODE_COLUMNS = (
    model.Column("node", model.Kind.LONG_NAME, model.KEY),
    model.Column("operator", model.Kind.WORDS),
    *model.columns(model.Kind.NUMBER, "allocated", "outputs", "weights"),
)
_ABOUT = "Each mode alone in a worker of its own, after the timing."


def cost_blocks(result: Result) -> list[model.Block]:
    """What there is to say of a result's memory."""
    found: list[model.Block] = [model.Paragraph(_ABOUT)]
    table = memory_table(result)
    if table.rows:
        found.append(table)
    if (nodes := node_table(result)) is not None:
        found += [model.Title(nodes.title, media=model.PRINTED), nodes]
    if notes := _memory_notes(result):
        found.append(model.Notes(notes))
    return found


def _weighed_cases(result: Result) -> list[tuple[Case, CaseMemory]]:
    return [(case, case.own[KEY]) for case in in_groups(result.at_point()) if KEY in case.own]


def memory_table(result: Result) -> model.Table:
    """A row for each mode that was weighed; only columns that hold something."""
    cases = [case for case, memory in _weighed_cases(result) if memory["failed"] is None]
    pinned = Own(lambda case: cell(case, _PINNED) if case.value(_PINNED) else model.NOTHING)
    return figure_table(_MEMORY, cases, own={_PINNED: pinned}, title="Memory")


def node_table(result: Result) -> model.Table | None:
    """The nodes that hold most, of the first mode that has them; None without ``--measure-nodes``."""
    for case, memory in _weighed_cases(result):
        if memory.get("nodes"):
            rows = tuple(
                (
                    node["name"],
                    f"{node['op']} on {node['ep'].replace('ExecutionProvider', '')}",
                    model.maybe(node["allocated"], units.size),
                    units.size(node["output"]),
                    units.size(node["weights"]),
                )
                for node in memory["nodes"]
            )
            return model.drop_empty_columns(
                model.Table(_NODE_COLUMNS, rows, title=f"Nodes that hold most, with {case.mode}")
            )
    return None


def _memory_notes(result: Result) -> list[model.Note]:
    """How figures are known, each way once with the modes that it is of, and what could not be measured."""
    weighed = _weighed_cases(result)
    notes = [
        model.Note(f"memory of {case.mode} could not be measured: {memory['failed']}", "!", "unclear")
        for case, memory in weighed
        if memory["failed"] is not None
    ]
    fine = [(case.mode, memory) for case, memory in weighed if memory["failed"] is None]
    said = [(f"device: {memory['device']}", mode) for mode, memory in fine if memory["device"] is not None]
    said += [(f"arena: {memory['arenas_how']}", mode) for mode, memory in fine]
    said += [(f"host: {memory['host']}", mode) for mode, memory in fine if memory["host"] is not None]
    return notes + [
        model.Note(how if len(modes) == len(fine) else f"{how} ({', '.join(modes)})")
        for how, modes in said_once(said).items()
    ]


def problem(part: CaseMemory) -> str | None:
    return None if part["failed"] is None else f"memory could not be measured: {part['failed']}"
