"""Resource usage, besides time: host CPU, memory, what features measure; of a sweep by shape."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ortbench.analysis.host import cpu_time_ns
from ortbench.analysis.memory import is_weighed
from ortbench.analysis.shapes import mode_by_mode
from ortbench.core import units
from ortbench.core.features import part_of, passes
from ortbench.model.kinds import kind_of
from ortbench.model.metrics import METRICS, Group
from ortbench.model.modes import CPU_TIME, DEVICE_MEMORY, ENERGY, ENQUEUE, HOST_MEMORY, NO_SPIN, SPIN_SHARE
from ortbench.model.result import Case, Point, Result
from ortbench.model.schema import CaseMemory
from ortbench.report import model
from ortbench.report.case_table import MODE, KeyColumn, Own, figure_table, in_groups
from ortbench.report.phrases import cell, hint, said_once

_HOST = [it for it in METRICS.values() if it.group is Group.HOST]
# Those of a pass of its own, and what comes in one: columns that stay together where the terminal is narrow.
_IN_A_PASS = [it.key for it in _HOST if it.key.endswith(NO_SPIN) or it.key == SPIN_SHARE]
_ALWAYS = [it.key for it in _HOST if it.key not in _IN_A_PASS]
# CPU time of single blocks is too short for the system's counting.
_CPU = {CPU_TIME: Own(lambda case: model.maybe(cpu_time_ns(case), units.duration))}


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
    return figure_table((_ALWAYS, _IN_A_PASS), cases, own=_CPU, title="Host CPU")


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


_CPU_STILL = f"{CPU_TIME}_{NO_SPIN}"
_SHAPES = ((CPU_TIME, SPIN_SHARE, _CPU_STILL), (DEVICE_MEMORY, HOST_MEMORY), (ENERGY, "power", "items_per_joule"))
# What a column means, by its metric.
_SAID = {
    SPIN_SHARE: "spinning: the share of the CPU time that threads spend waiting for work; no spin: of inferences, in sessions of "
    "their own, whose threads do not.",
    DEVICE_MEMORY: "memory: each shape and mode alone, in a worker of its own, after the timing.",
    HOST_MEMORY: "memory: each shape and mode alone, in a worker of its own, after the timing.",
    ENERGY: "energy: of one inference, measured after the timing, less idle power.",
}


def shape_blocks(result: Result) -> list[model.Block]:
    """The table with what it says and what is not known; nothing of what is no sweep or was not asked for it."""
    asked = [(shape, case) for shape, case in mode_by_mode(result) if _is_asked(case)]
    if not asked:
        return []
    found: list[model.Block] = []
    names = {id(case): shape.name for shape, case in asked}
    own = {CPU_TIME: Own(lambda case: _CPU[CPU_TIME].cell(case) if _CPU_STILL in case.metrics else model.NOTHING)}
    shape_of: KeyColumn = (model.Column("shape", model.Kind.NAME, model.KEY), lambda case: names[id(case)])
    table = figure_table(_SHAPES, [case for _, case in asked], [MODE, shape_of], own, "By shape")
    if len(table.columns) > 2:
        found.append(table)
    shown = {column.name for column in table.columns}
    if said := dict.fromkeys(text for key, text in _SAID.items() if METRICS[key].title in shown):
        found.append(model.Paragraph(" ".join(said)))
    if notes := _lacking(asked):
        found.append(model.Notes(notes))
    return found


def _is_asked(case: Case) -> bool:
    return case.memory is not None or bool(case.own) or _CPU_STILL in case.metrics


def _lacking(asked: Sequence[tuple[Point, Case]]) -> list[model.Note]:
    """What could not be measured, each reason once, with the shapes and modes that it is of where those are not all."""
    why: list[tuple[str, str]] = []
    for shape, case in asked:
        of = f"{shape.name} with {case.mode}"
        if case.memory is not None and case.memory["failed"] is not None:
            why.append((f"memory could not be measured: {case.memory['failed']}", of))
        why += [
            (f"{key} is unsupported: {part['unsupported']}", of)
            for key, part in case.own.items()
            if "unsupported" in part
        ]
    return [
        model.Note(reason if len(cases) == len(asked) else f"{', '.join(cases)}: {reason}", "!", "unclear")
        for reason, cases in said_once(why).items()
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
        for name, build in (*_COSTS, *of_features, ("by shape", shape_blocks))
        if (blocks := build(result))
    ]
