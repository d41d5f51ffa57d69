"""Parts that reports of several kinds have: a busy machine, outputs that moved, resource usage, where nodes ran and tensors were."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

from ortbench.analysis.derive import cpu_time_ns
from ortbench.analysis.noise import is_busy, join_noise
from ortbench.analysis.outputs import EXPECTED, MEASURES, is_synthetic, moved_outputs, worst
from ortbench.analysis.placement import moved_inside
from ortbench.core import units
from ortbench.core.features import part_of, passes
from ortbench.core.safe_text import join_words, shorten
from ortbench.facts import doubt_facts, noise_facts
from ortbench.facts.run import findings_of
from ortbench.model.kinds import kind_of
from ortbench.model.metrics import METRICS, Group, metric
from ortbench.model.modes import CPU_TIME, ENQUEUE, NO_SPIN, SPIN_SHARE
from ortbench.model.result import OK, Result, are_one_run
from ortbench.model.schema import Gpu, OutputDistance, OutputsCompared, Tensor
from ortbench.report.case_table import Own, figure_table, in_groups
from ortbench.report.model import (
    EVERYWHERE,
    KEY,
    MARKDOWN,
    PAGE,
    PRINTED,
    UNCLEAR,
    Block,
    Column,
    Findings,
    Kind,
    Medium,
    Note,
    Notes,
    Paragraph,
    Table,
    Title,
    drop_empty_columns,
    maybe,
)
from ortbench.report.phrases import SYNC, device_name, eps


def noise_part(results: Sequence[Result], of_gate: bool = False) -> list[Sequence[Block]]:
    """The part that stands first; none where the machine was quiet, or nobody knows. Blocks of one run took turns: what disturbed one
    disturbed all."""
    busy = next((it for it in results if is_busy(it)), results[0])
    if all(are_one_run(results[0], it) for it in results):
        busy = replace(results[0], noise=join_noise(it.noise for it in results))
    found = list(noise_facts(busy))
    if not found:
        return []
    if of_gate:
        found = [it._replace(next="") for it in found]
    return [[Findings(findings_of(found))]]


_MOST = 5  # outputs of a comparison that have a row
_LEAST_COSINE = 0.99  # of outputs that are about the same
_OUTPUT_COLUMNS = (
    *(Column(metric(f"outputs.{key}").title, Kind.NUMBER, 2 if key in ("cosine", "top1") else 1) for key in MEASURES),
    Column("input sets", Kind.NUMBER, 2),
)


def outputs_part(results: Sequence[Result], names: Sequence[str]) -> list[Sequence[Block]]:
    """The outputs that moved, those that moved most first; no part where all are the same to the last bit, or compared with none."""
    found = [(name, result, it) for name, result in zip(names, results, strict=True) for it in result.outputs or ()]
    return _part(found, len(results) > 1, EVERYWHERE)


def own_outputs(result: Result) -> list[Sequence[Block]]:
    """The same of one result: beside those of other configurations on a page alone, as a comparison shows them elsewhere."""
    found = [("", result, it) for it in result.outputs or ()]
    expected = [it for it in found if it[2]["against"] == EXPECTED]
    others = [it for it in found if it not in expected]
    return [*_part(expected, False, EVERYWHERE), *_part(others, False, PAGE)]


def doubt_part(
    results: Sequence[Result], names: Sequence[str], media: frozenset[Medium] = EVERYWHERE
) -> list[Sequence[Block]]:
    """Which figures are doubtful and what mends it; no part where none are."""
    several = len(results) > 1
    facts = [it for name, one in zip(names, results, strict=True) for it in doubt_facts(one, name * several)]
    return [[Findings(findings_of(facts), media=media)]] if facts else []


def _part(
    found: Sequence[tuple[str, Result, OutputsCompared]], named: bool, media: frozenset[Medium]
) -> list[Sequence[Block]]:
    rows = [(name, it["against"], one) for name, _, it in found for one in list(moved_outputs(it))[:_MOST]]
    if not rows:
        return []
    more = sum(max(0, len(list(moved_outputs(it))) - _MOST) for *_, it in found)
    headed = (
        *([Column("outputs of", Kind.WORD, KEY)] if named else []),
        Column("compared with", Kind.WORD, KEY),
    )
    columns = (*headed, Column("output", Kind.LONG_NAME, KEY), *_OUTPUT_COLUMNS)
    cells = tuple((*([name] if named else []), against, one["name"], *_cells(one)) for name, against, one in rows)
    rest = f"and {more} more that moved less" if more else ""
    table = Table(columns, cells, title="How far outputs moved", rest=rest, media=media)
    said: list[Block] = []
    if any(is_synthetic(it) for _, it, _ in found):
        said.append(Paragraph(_SYNTHETIC, media=media))
    if far := [text for name, _, it in found if (text := _far_outputs(name, it))]:
        said.append(Notes([Note(it, "!", UNCLEAR) for it in far], media=media))
    return [[drop_empty_columns(table), *said]]


def _far_outputs(name: str, outputs: OutputsCompared) -> str:
    """That outputs which pass are far off; empty where they are not, or do not pass."""
    found = worst(outputs["distances"])
    least = {"top1": 1.0, "cosine": _LEAST_COSINE}
    off = [metric(f"outputs.{key}") for key in least if found.get(key, 1.0) < least[key]]
    if outputs["differs"] is not None or not off:
        return ""
    figures = " and ".join(f"{of.title} {of.unit.text(found[of.key.removeprefix('outputs.')])}" for of in off)
    return f"{f'{name}: ' if name else ''}outputs with {figures} pass only by the tolerance (--rtol, --atol)"


_SYNTHETIC = "Inputs are synthetic; --input PATH, such as a folder of samples, shows how far outputs move with real ones, and top-1."


def _cells(one: OutputDistance) -> list[str]:
    values = (one["max_error"], one["mean_error"], one["sqnr"], one["cosine"], one["top1"])
    formats = (metric(f"outputs.{key}").unit.text for key in MEASURES)
    return [*(maybe(value, show) for value, show in zip(values, formats, strict=True)), maybe(one.get("inputs"), str)]


_HOST = [it for it in METRICS.values() if it.group is Group.HOST]
# Those of a pass of its own, and what comes in one: columns that stay together where the terminal is narrow.
_IN_A_PASS = [it.key for it in _HOST if it.key.endswith(NO_SPIN) or it.key == SPIN_SHARE]
_ALWAYS = [it.key for it in _HOST if it.key not in _IN_A_PASS]
# CPU time of single blocks is too short for the system's counting.
CPU_COLUMN = {CPU_TIME: Own(lambda case: maybe(cpu_time_ns(case), units.duration))}


TITLE = "Resource usage"


def host_table(result: Result) -> Table:
    """A row for each mode of which something was taken; only columns that hold something."""
    cases = in_groups([it for it in result.at_point() if it.host is not None or it.median(ENQUEUE) is not None])
    return figure_table((_ALWAYS, _IN_A_PASS), cases, own=CPU_COLUMN, title="Host CPU")


def cost_parts(result: Result) -> list[list[Block]]:
    """A part of a report for each kind of cost that a result has, with its title."""
    table, parts = host_table(result), []
    if table.rows:
        parts.append([Title(f"{TITLE}: host CPU per {kind_of(result.kind).work}"), table])
    for feature, found in passes().values():
        has_it = any(found.key in case.own for case in result.at_point())
        if has_it and (blocks := part_of(feature, "report", "cost_blocks")(result)):
            parts.append([Title(f"{TITLE}: {found.key}"), *blocks])
    return parts


def with_title(table: Table) -> list[Block]:
    """A table under its title, which a page shows of every table."""
    return [Title(table.title, media=PRINTED), table]


_COLUMNS = (
    Column("tensor", Kind.LONG_NAME, KEY),
    Column("bytes"),
    Column("in modes", Kind.WORDS),
    Column("memory", Kind.WORDS),
    Column("why", Kind.WORDS),
)
Direction = Literal["inputs", "outputs"]
_DIRECTIONS: tuple[Direction, ...] = ("inputs", "outputs")
MOST_MEMORY_ROWS = 24  # rows; tensors that are alike share theirs
_MOST_NAMES = 3  # in a row


def placement_parts(result: Result) -> list[Sequence[Block]]:
    """All of it, with what `--measure-nodes` found."""
    parts: list[Sequence[Block]] = [_placement(result)]
    if (memory := memory_table(result)).rows:
        parts.append([memory])
    if result.nodes is not None:
        from ortbench.report.nodes import node_tables, nodes_heading

        first, *others = node_tables(result)
        parts.append([Paragraph(nodes_heading(result)), *with_title(first)])
        parts += [with_title(it) for it in others]
    return [*parts, [_environment(result)]]


def on_page(parts: Sequence[Sequence[Block]]) -> list[Sequence[Block]]:
    return [[replace(block, media=PAGE) for block in part if block.media & PAGE] for part in parts]


def _placement(result: Result) -> list[Block]:
    placed, left = result.placement["nodes"], result.placement.get("cpu_operators") or {}
    if placed is None:
        said = "This ONNX Runtime or model format does not report where nodes are placed."
        return [Title("Placement", media=PAGE), Paragraph(said, media=PAGE)]
    rows = tuple((ep, str(count)) for ep, count in placed.items())
    found = []
    if left:
        listed = ", ".join(f"{name} ({count})" if count > 1 else name for name, count in left.items())
        found.append(f"Left on the CPU: {listed}.")
    memcpy = result.placement["memcpy_nodes"]
    if memcpy:
        found.append(f"{moved_inside(result)} in each inference.")
    elif memcpy is None:
        found.append("How many Memcpy nodes copy in an inference is not known.")
    else:
        found.append("No copies between nodes: there is no Memcpy node in the graph.")
    headed = (Column("on", Kind.NAME), Column("nodes"))
    return [*(Paragraph(it, media=PAGE) for it in found), Table(headed, rows, title="Placement", media=PAGE)]


def memory_table(result: Result) -> Table:
    """A row for each memory that tensors had in some modes for the same reason; none of a result without them."""
    cases = [case for case in result.at_point() if case.status == OK]
    alike: dict[tuple[Direction, str, str, tuple[str, ...]], list[Tensor]] = {}
    for direction in _DIRECTIONS:
        for tensor in result.model[direction]:
            modes: dict[tuple[str, str], list[str]] = {}
            for case in cases:
                for own in case.places[direction] if case.places is not None else ():
                    if own["name"] == tensor["name"]:
                        modes.setdefault((own["memory"], own["why"]), []).append(case.mode)
            for where, its_modes in modes.items():
                alike.setdefault((direction, *where, tuple(its_modes)), []).append(tensor)
    rows = tuple(
        (_tensor_names(direction, tensors), maybe(_bytes_of(tensors), units.size), ", ".join(modes), memory, why)
        for (direction, memory, why, modes), tensors in alike.items()
    )
    more = len(rows) - MOST_MEMORY_ROWS
    rest = f"{more} more rows are left out; result.json has all." if more > 0 else ""
    return Table(_COLUMNS, rows[:MOST_MEMORY_ROWS], title="Tensor memory", rest=rest, media=MARKDOWN | PAGE)


def _tensor_names(direction: Direction, tensors: Sequence[Tensor]) -> str:
    """The tensors, the first few of many."""
    names, more = [shorten(it["name"]) for it in tensors[:_MOST_NAMES]], len(tensors) - _MOST_NAMES
    return f"{direction.removesuffix('s') if len(tensors) == 1 else direction} {join_words([*names, *([f'{more} more'] if more > 0 else [])])}"


def _bytes_of(tensors: Sequence[Tensor]) -> int | None:
    sizes = [tensor["bytes"] for tensor in tensors]
    return None if None in sizes else sum(size or 0 for size in sizes)


def _environment(result: Result) -> Table:
    environment, target, setup = result.environment, result.target, result.setup
    cpu = environment["cpu"]
    sync = target["sync"]
    known = {
        "ONNX Runtime": environment["onnxruntime"],
        "execution providers": "; ".join(eps(result)),
        "execution provider": f"{target['ep']} {target.get('ep_version') or ''}".strip(),
        "library": target.get("ep_library"),
        "device": device_name(result),
        "EP options": _pairs(target["ep_options"]),
        "session configuration": _pairs(target.get("session_config")),
        "intra-op threads": target.get("intra_op_threads"),
        "inter-op threads": target.get("inter_op_threads"),
        "execution mode": target.get("execution_mode"),
        "CPU arena": _switched_off(target.get("cpu_mem_arena")),
        "memory pattern": _switched_off(target.get("mem_pattern")),
        "optimized model": target.get("optimized_model"),
        "custom operators": ", ".join(target.get("custom_ops", ())) or None,
        "graph optimization": target.get("opt_level"),
        "sync": sync and f"{SYNC.get(sync['kind'], sync['kind'])}: {sync.get('how') or ''}".removesuffix(": "),
        "session creation": setup.get("session_ns") and units.duration(setup["session_ns"]),
        "first inference": setup.get("first_inference_ns") and units.duration(setup["first_inference_ns"]),
        "CPU": f"{cpu['model']}, {cpu.get('usable_cores')} of {cpu.get('cores')} cores usable",
        "GPUs": "; ".join(map(_gpu, environment["gpus"])),
        "system": environment.get("os"),
        "packages": ", ".join(f"{name} {version}" for name, version in (environment.get("packages") or {}).items()),
        "interpreter": target.get("python"),
        "Python, NumPy": ", ".join(filter(None, (environment.get("python"), environment.get("numpy")))),
    }
    rows = tuple((name, str(value)) for name, value in known.items() if value not in (None, ""))
    return Table((), rows, title="Environment", media=PAGE)


def _switched_off(switch: bool | None) -> str | None:
    return "off" if switch is False else None


def _pairs(pairs: dict[str, Any] | None) -> str:
    return ", ".join(f"{key}={value}" for key, value in (pairs or {}).items())


def _gpu(gpu: Gpu) -> str:
    driver = f", driver {gpu['driver']}" if "driver" in gpu else ""
    return f"{gpu.get('name') or gpu.get('error')}{driver}"
