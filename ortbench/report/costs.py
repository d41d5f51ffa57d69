"""Resource usage, besides time: host CPU, memory, what features measure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ortbench.analysis.host import cpu_time_ns
from ortbench.analysis.memory import is_weighed
from ortbench.core import units
from ortbench.core.features import part_of, passes
from ortbench.model.kinds import kind_of
from ortbench.model.metrics import METRICS, Group
from ortbench.model.modes import CPU_TIME, ENQUEUE, NO_SPIN, SPIN_SHARE
from ortbench.model.result import Case, Result
from ortbench.model.schema import CaseMemory
from ortbench.report import model
from ortbench.report.case_table import Own, figure_table, in_groups
from ortbench.report.phrases import cell, hint, said_once

_HOST = [it for it in METRICS.values() if it.group is Group.HOST]
# Those of a pass of its own, and what comes in one: columns that stay together where the terminal is narrow.
_IN_A_PASS = [it.key for it in _HOST if it.key.endswith(NO_SPIN) or it.key == SPIN_SHARE]
_ALWAYS = [it.key for it in _HOST if it.key not in _IN_A_PASS]
# CPU time of single blocks is too short for the system's counting.
CPU_COLUMN = {CPU_TIME: Own(lambda case: model.maybe(cpu_time_ns(case), units.duration))}


def host_blocks(result: Result) -> list[model.Block]:
    """The table with what its columns mean; nothing of a result in which nothing of it was taken."""
    table = host_table(result)
    if not table.rows:
        return []
    shown = [it for it in _HOST if it.title in {column.name for column in table.columns}]
    said = " ".join(f"{it.title}: {it.meaning}" for it in shown).replace("per inference", f"per {_work(result)}")
    return [table, model.Paragraph(said, media=model.MARKDOWN | model.PAGE), hint(*(it.title for it in shown[:3]))]


def _work(result: Result) -> str:
    return kind_of(result.kind).work


def host_table(result: Result) -> model.Table:
    """A row for each mode of which something was taken; only columns that hold something."""
    cases = [case for case in _cases(result) if case.host is not None or case.median(ENQUEUE) is not None]
    return figure_table((_ALWAYS, _IN_A_PASS), cases, own=CPU_COLUMN, title="Host CPU")


def _cases(result: Result) -> list[Case]:
    """In the order of the table above."""
    return in_groups(result.at_point())


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


def memory_blocks(result: Result) -> list[model.Block]:
    """What there is to say of a result's memory; none where it was not measured."""
    if not is_weighed(result):
        return []
    found: list[model.Block] = [model.Paragraph(_ABOUT)]
    table = memory_table(result)
    if table.rows:
        found.append(table)
    if (nodes := node_table(result)) is not None:
        found += [model.Title(nodes.title, media=model.PRINTED), nodes]
    if notes := _memory_notes(result):
        found.append(model.Notes(notes))
    return found


def _weighed(result: Result) -> list[tuple[Case, CaseMemory]]:
    return [(case, case.memory) for case in _cases(result) if case.memory is not None]


def memory_table(result: Result) -> model.Table:
    """A row for each mode that was weighed; only columns that hold something."""
    cases = [case for case, memory in _weighed(result) if memory["failed"] is None]
    pinned = Own(lambda case: cell(case, _PINNED) if case.value(_PINNED) else model.NOTHING)
    return figure_table(_MEMORY, cases, own={_PINNED: pinned}, title="Memory")


def node_table(result: Result) -> model.Table | None:
    """The nodes that hold most, of the first mode that has them; None without ``--measure-nodes``."""
    for case, memory in _weighed(result):
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
            return model.filled(model.Table(_NODE_COLUMNS, rows, title=f"Nodes that hold most, with {case.mode}"))
    return None


def _memory_notes(result: Result) -> list[model.Note]:
    """How figures are known, each way once with the modes that it is of, and what could not be measured."""
    weighed = _weighed(result)
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


TITLE = "Resource usage"

# What each of the core is called, and its blocks: a table with what explains it, or none where a result has nothing of it.
_COSTS: tuple[tuple[str, Callable[[Result], Sequence[model.Block]]], ...] = (
    ("host CPU per {work}", host_blocks),
    ("memory", memory_blocks),
)


def cost_parts(result: Result) -> list[list[model.Block]]:
    """A part of a report for each kind of cost that a result has, with its title."""
    per, cases = {"work": _work(result)}, result.at_point()
    of_features = (
        (it.key, part_of(feature, "report", "cost_blocks"))
        for feature, it in passes().values()
        if any(it.key in case.own for case in cases)
    )
    return [
        [model.Title(f"{TITLE}: {name.format(**per)}"), *blocks]
        for name, build in (*_COSTS, *of_features)
        if (blocks := build(result))
    ]
