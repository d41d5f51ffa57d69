"""The table of a run: one model of it, and its Markdown and CSV forms. The terminal's form is in `ortbench.terminal`."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from csv import DictWriter
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from ortbench import nodes, units
from ortbench.advice import sentences
from ortbench.bars import COPIES, FILLS, PER_RUN, WHOLE
from ortbench.compare import EVERYTHING, Row, Selection, Spread, rows, word
from ortbench.pairs import timed_phase
from ortbench.plan import ASYNC, CPU, CPU_TENSOR_MODES, is_rate
from ortbench.result import OK, Case, Result
from ortbench.schedule import TOTAL
from ortbench.stats import Stats

if TYPE_CHECKING:
    import pandas

    from ortbench.bandwidth import Sweep

NOTHING = "–"
DERIVED = "≈"
# A percentile needs at least one sample beyond it, or it is only another name for the slowest one.
SAMPLES_FOR = {"p95": 20, "p99": 100}


@dataclass(frozen=True)
class Table:
    """A table of text.

    Attributes:
        columns: headings; the first column is the mode's.
        rows: a cell for each column.
        notes: for modes without figures, why.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...]

    def select(self, columns: tuple[str, ...]) -> Table:
        """The table with some of its columns, without notes."""
        at = [self.columns.index(name) for name in columns]
        return Table(columns, tuple(tuple(row[index] for index in at) for row in self.rows), ())


TIME_COLUMNS = ("total", "p95", "p99", "upload", "inference", "download")
SPLIT = "split"  # the column of bars, which the terminal adds
# The columns in the order of their weight; those of a group stay together where the terminal is narrow.
RUN_COLUMNS = (
    ("total",),
    ("vs cpu", "95 %"),
    ("p95", "p99"),
    ("upload", "inference", "download"),
    ("runs/s", "copied/run", "copy rate"),
)
STEP_COLUMNS = ("mode", "result", "median", "vs first", "95 %", "verdict")  # of three results and more
PREVIOUS_COLUMNS = ("vs previous", "step")


def build(result: Result) -> tuple[Table, str]:
    """The table of a result, and the unit of its times."""
    medians = [median for case in result.cases if (median := case.median(TOTAL))] or [1]
    unit, scale = units.time_unit(min(medians), max(medians))
    lines = tuple(_row(case, scale) for case in result.cases if case.phases[TOTAL] is not None)
    notes = tuple(f"{case.mode}: {case.status}: {case.reason}" for case in result.cases if case.status != OK)
    columns = [name for group in RUN_COLUMNS for name in group]
    return Table(("mode", *columns), lines, notes), unit


def _row(case: Case, scale: float) -> tuple[str, ...]:
    total = case.phases[TOTAL]
    assert total is not None
    name = case.mode if case.status == OK else f"{case.mode} (failed)"
    return (
        name,
        units.time(total.median_ns, scale),
        *_ratio_cells(case),
        _percentile(case, total, "p95", scale),
        _percentile(case, total, "p99", scale),
        *_phase_cells(case, scale),
        units.rate(1e9 / max(total.median_ns, 1)),
        *_copy_cells(case),
    )


def _phase_cells(case: Case, scale: float) -> tuple[str, str, str]:
    if case.mode in CPU_TENSOR_MODES:
        if case.derived is None:
            return NOTHING, NOTHING, NOTHING
        copies, inference = (units.time(case.derived[key], scale) for key in ("copies_ns", "inference_ns"))
        # What a run with CPU tensors copies is known only in sum, so the sum stands for both directions.
        return f"{DERIVED}{copies if case.derived['copies_ns'] > 0 else 0}", f"{DERIVED}{inference}", "(both)"
    cells = []
    for phase in FILLS:
        median = case.median(phase)
        cells.append(NOTHING if median is None else units.time(median, scale))
    return cells[0], cells[1], cells[2]


def _percentile(case: Case, stats: Stats, name: str, scale: float) -> str:
    # Everyone takes these columns for percentiles of latency.
    if is_rate(case.mode, TOTAL) or stats.n < SAMPLES_FOR[name]:
        return NOTHING
    return units.time(getattr(stats, f"{name}_ns"), scale)


def _ratio_cells(case: Case) -> tuple[str, str]:
    if case.vs_cpu is None:
        return NOTHING, NOTHING
    if case.mode == CPU:
        return "1.00×", NOTHING
    interval = case.vs_cpu["ci95"]
    return f"{units.ratio(case.vs_cpu['ratio'])}×", NOTHING if interval is None else "–".join(
        map(units.ratio, interval)
    )


def _copy_cells(case: Case) -> tuple[str, str]:
    if case.bytes_in is None or case.bytes_out is None:
        return NOTHING, NOTHING
    copied = case.bytes_in + case.bytes_out
    if not copied:
        return "0", NOTHING
    if case.mode in CPU_TENSOR_MODES:
        took = case.derived["copies_ns"] if case.derived else 0
        return f"{DERIVED}{units.size(copied)}", f"{DERIVED}{_per_second(copied, took)}" if took > 0 else NOTHING
    upload, download = case.median("upload"), case.median("download")
    took = (upload or 0) + (download or 0)
    return units.size(copied), _per_second(copied, took) if took else NOTHING


def _per_second(count: int, ns: int) -> str:
    return f"{units.size(count / ns * 1e9)}/s"


# The bars


def splits(result: Result) -> list[list[tuple[str, float]]]:
    """The bar of each row of `build`: fills and sizes in ns (`ortbench.bars.bar`), which add up to the row's total.

    Phases are timed apart from `total` and need not add up to it, so they share it out in proportion to their medians.
    Of a pipeline's copies there is what is not hidden.
    """
    return [_split(case, total) for case in result.cases if (total := case.median(TOTAL)) is not None]


def _split(case: Case, total: int) -> list[tuple[str, float]]:
    if case.mode == ASYNC:
        return [(PER_RUN, total)]
    if is_rate(case.mode, TOTAL):
        return _left_over(case, total)
    phases = FILLS.keys() if timed_phase(case.mode, "inference") != TOTAL else ("inference",)
    medians = {phase: median for phase in phases if (median := case.median(phase)) is not None}
    parts: list[tuple[str, float]] = []
    if len(medians) == len(phases):
        parts = [(FILLS[phase], median) for phase, median in medians.items()]
    elif case.derived is not None:
        parts = [(COPIES, max(case.derived["copies_ns"], 0)), (FILLS["inference"], case.derived["inference_ns"])]
    whole = sum(size for _, size in parts)
    return [(fill, size / whole * total) for fill, size in parts] if whole else [(WHOLE, total)]


def _left_over(case: Case, total: int) -> list[tuple[str, float]]:
    """What a pipeline still waits for: the copies that are not hidden, and inference."""
    if case.pipeline is None or case.pipeline["copies_ns"] is None:
        return [(WHOLE, total)]
    copies = case.pipeline["copies_ns"] - case.pipeline["hidden_ns"]
    return [(COPIES, copies), (FILLS["inference"], max(total - copies, 0))]


_FILLED = {**{fill: phase for phase, fill in FILLS.items()}, COPIES: "copies both ways"}
_FILLED |= {PER_RUN: "time per run (throughput)", WHOLE: "not split"}


def split_legend(parts: Sequence[Sequence[tuple[str, float]]]) -> str:
    """What bars mean."""
    used = {fill for row in parts for fill, size in row if size > 0}
    fills = " ".join(f"{fill} {phase}" for fill, phase in _FILLED.items() if fill in used)
    return f"{SPLIT}: {fills}, scaled to total"


# Tables in a terminal's width


def stacked(
    key: Sequence[str], groups: Sequence[Sequence[str]], widths: Mapping[str, int], width: int, gap: int = 2
) -> list[tuple[str, ...]]:
    """The columns of tables to print one below the other, each within a width.

    Args:
        key: the columns that every table begins with.
        groups: columns that stay together, unless even a table of their own is too wide for them.
        widths: of each column, in cells.
        width: that a table may have. A single column that is too wide stands alone all the same.
        gap: between columns.

    Returns:
        The columns of each table, those of `groups` in their order and each once.
    """

    def fits(columns: Sequence[str]) -> bool:
        return sum(widths[name] for name in (*key, *columns)) + gap * (len(key) + len(columns) - 1) <= width

    stack: list[list[str]] = [[]]
    for group in groups:
        for piece in [group] if fits(group) else [[name] for name in group]:
            if stack[-1] and not fits([*stack[-1], *piece]):
                stack.append([])
            stack[-1] += piece
    return [(*key, *columns) for columns in stack]


# Results side by side


def comparison(
    results: Sequence[Result],
    names: Sequence[str],
    same: float | None,
    in_order: bool,
    only: Selection = EVERYTHING,
) -> tuple[Table, str]:
    """Results side by side, and the unit of the times.

    Args:
        results: at least two. Two give every mode and phase, more the total of every mode.
        names: what to call them.
        same: up to which share a difference does not matter; None leaves the words out.
        in_order: they are steps of one history, so each is held against the one before it too.
        only: these modes and phases.
    """
    if len(results) > 2 and not only.phases:
        only = Selection(only.modes, (TOTAL,))
    found = rows(results, only)
    medians = [median for row in found for median in row.medians_ns if median]
    unit, scale = units.time_unit(min(medians, default=1), max(medians, default=1))
    if len(results) == 2:
        pairs = tuple(_pair_row(row, scale, same) for row in found)
        words = () if same is None else ("verdict",)
        return Table(("mode", "phase", *names, "ratio", "95 %", *words), pairs, _only(results, names)), unit
    columns = [*STEP_COLUMNS, *PREVIOUS_COLUMNS] if in_order else [*STEP_COLUMNS]
    steps = tuple(line for row in found for line in _step_rows(row, names, scale, same, in_order))
    return Table(tuple(columns), steps, _only(results, names)), unit


def comparison_columns(table: Table) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """The columns of a comparison: those that say what a row is of, and groups of the others; see `stacked`."""
    if table.columns[:2] != STEP_COLUMNS[:2]:
        return table.columns[:2], [table.columns[2:4], table.columns[4:]]
    last = [PREVIOUS_COLUMNS] if PREVIOUS_COLUMNS[0] in table.columns else []
    return STEP_COLUMNS[:2], [STEP_COLUMNS[2:3], STEP_COLUMNS[3:], *last]


def _pair_row(row: Row, scale: float, same: float | None) -> tuple[str, ...]:
    cells = (NOTHING if median is None else units.time(median, scale) for median in row.medians_ns)
    return (row.mode, row.phase, *cells, *_spread_cells(row.since_first[1], same))


def _step_rows(
    row: Row, names: Sequence[str], scale: float, same: float | None, in_order: bool
) -> list[tuple[str, ...]]:
    lines = []
    for number, (name, median) in enumerate(zip(names, row.medians_ns, strict=True)):
        cells = [row.mode if row.phase == TOTAL else f"{row.mode} {row.phase}"] if number == 0 else [""]
        cells += [name, NOTHING if median is None else units.time(median, scale)]
        cells += _spread_cells(row.since_first[number], same)
        if in_order:
            ratio, _, *words = _spread_cells(row.since_last[number], same)
            cells += [ratio, *words]
        lines.append(tuple(cells))
    return lines


def _spread_cells(spread: Spread | None, same: float | None) -> list[str]:
    """Ratio of times, its interval, and the word for it."""
    if spread is None:
        return [NOTHING] * (2 if same is None else 3)
    interval = NOTHING
    if spread.low is not None and spread.high is not None:
        interval = f"{units.ratio(spread.low, 3)}–{units.ratio(spread.high, 3)}"
    return [f"×{units.ratio(spread.ratio, 3)}", interval] + ([] if same is None else [word(spread, same)])


def _only(results: Sequence[Result], names: Sequence[str]) -> tuple[str, ...]:
    """Why a mode of one result has no figures."""
    return tuple(
        f"{name}: {case.mode}: {case.status}: {case.reason}"
        for name, result in zip(names, results, strict=True)
        for case in result.cases
        if case.status != OK
    )


def comparison_markdown(
    results: Sequence[Result],
    names: Sequence[str],
    same: float | None,
    in_order: bool,
    only: Selection = EVERYTHING,
    remarks: Sequence[str] = (),
) -> str:
    """A comparison as Markdown; see `comparison`."""
    table, unit = comparison(results, names, same, in_order, only)
    lines = [f"# ortbench compare: {', '.join(names)}", ""]
    lines += [f"{name}: {line}  " for name, it in zip(names, results, strict=True) for line in side_heading(it)]
    lines += ["", table_markdown(table, unit, (*names, "median")), ""]
    lines += [f"- {note}" for note in (*table.notes, *remarks)]
    lines += ["", comparison_legend(results, same), ""]
    return "\n".join(lines)


def comparison_legend(results: Sequence[Result], same: float | None) -> str:
    """What the columns of a comparison mean."""
    alternated = len({result.setup.get("run_id") for result in results}) == 1 and results[0].setup.get("run_id")
    how = "blocks of the same rounds" if alternated else "runs at different times, with the noise that each recorded"
    within = "" if same is None else f"; same: within ±{same * 100:g} % for certain"
    return f"ratio: of median times, above 1 is slower, from {how}{within}."


def comparison_records(
    results: Sequence[Result], names: Sequence[str], same: float, only: Selection = EVERYTHING
) -> list[dict[str, Any]]:
    """A comparison as flat records, one a mode, phase and result: medians in ns, ratios of times, words."""
    found = []
    for row in rows(results, only):
        for number, name in enumerate(names):
            record: dict[str, Any] = {"mode": row.mode, "phase": row.phase, "result": name}
            record["median_ns"] = row.medians_ns[number]
            for key, spread in (("vs_first", row.since_first[number]), ("vs_previous", row.since_last[number])):
                record[key] = spread and {**asdict(spread), "verdict": word(spread, same)}
            found.append(record)
    return found


def side_heading(result: Result) -> list[str]:
    """One result in two lines: what ran where, and when."""
    lines = heading(result)[:2]
    return [lines[0], f"{lines[1]}; {result.created}"]


def table_markdown(table: Table, unit: str, timed: Sequence[str]) -> str:
    """A table as Markdown; columns named in `timed` get the unit."""
    columns = [f"{name} ({unit})" if name in timed else name for name in table.columns]
    lines = [_line(columns), _line(["---", *["---:"] * (len(columns) - 1)]), *map(_line, table.rows)]
    return "\n".join(lines)


def heading(result: Result) -> list[str]:
    """The lines above the table: model, EP, device, versions, fence."""
    target = result.target
    shapes = ", ".join(f"{tensor['name']} {_shape(tensor)}" for tensor in result.model["inputs"])
    lines = [f"{result.model['path']} ({shapes})", ep_line(result)]
    if target["fence"] is not None:
        cost = f", {units.duration(target['fence']['cost_ns'])} of every run" if target["fence"]["cost_ns"] else ""
        lines.append(f"fence: {_FENCES.get(target['fence']['kind'], target['fence']['kind'])}{cost}")
    lines[-1] += f"; memory: {memory_name(target['memory'])}"
    if result.stopped is not None:
        lines[-1] += f"; stopped by {result.stopped}"
    return lines


def _shape(tensor: dict[str, Any]) -> str:
    if tensor["shape"] is None:
        return str(tensor["type"])
    return "x".join(map(str, tensor["shape"])) or "scalar"


_FENCES = {"run": "the run itself waits", "readback": "reading a value back"}


def ep_line(result: Result | Sweep) -> str:
    """EP, device and versions."""
    ep = f"{result.target['ep']} {result.target['ep_version'] or ''}".strip()
    chosen = f" (chosen by {result.target['policy']})" if result.target.get("policy") else ""
    return f"{ep} on {device_name(result)}{chosen}, ONNX Runtime {result.environment['onnxruntime']}"


def memory_name(memory: dict[str, Any]) -> str:
    """An EP's memory in a few words."""
    kinds = {"ep-device": "EP device ", "named-device": "device by name ", "host": "", "none": "no device memory"}
    shared = f" and {memory['host_accessible']}" if memory["host_accessible"] else ""
    return f"{kinds.get(memory['kind'], '')}{memory['default'] or ''}{shared}"


def device_name(result: Result | Sweep) -> str:
    """The device in a few words."""
    device = result.target["device"]
    if device["type"] == "CPU":
        return str(result.environment["cpu"]["model"])
    gpus = [gpu["name"] for gpu in result.environment["gpus"] if "name" in gpu]
    if device.get("vendor_id") == 0x10DE and len(gpus) == 1:
        return f"{device['type']} {gpus[0]}"
    if "vendor_id" not in device:
        return f"{device['type']} {device['name']}:{device['index']}"
    vendor = f"{device['vendor']} " if device["vendor"] else ""
    return f"{device['type']} {vendor}{device['vendor_id']:04x}:{device['device_id']:04x}"


def markdown(result: Result) -> str:
    """The report as Markdown: heading, table, what it means, warnings."""
    table, unit = build(result)
    lines = [f"# ortbench: {result.model['path']}", "", *(f"{line}  " for line in heading(result)), ""]
    if table.rows:
        lines += [table_markdown(table, unit, TIME_COLUMNS), ""]
    lines += _nodes_markdown(result)
    lines += [f"- {note}" for note in table.notes]
    lines += [f"- {sentence}" for sentence in sentences(result)]
    lines += [f"- warning: {warning['message']}" for warning in result.warnings]
    lines += ["", f"Times are medians. {DERIVED} marks what was derived, not measured.", ""]
    lines += [f"`{' '.join(result.command)}`"] if result.command else []
    return "\n".join(lines) + "\n"


def _nodes_markdown(result: Result) -> list[str]:
    """The tables of `ortbench.nodes` as Markdown, where nodes were profiled."""
    if result.nodes is None:
        return []
    lines = [nodes.heading(result), ""]
    for section in nodes.sections(result.nodes):
        rule = ["---" if name in section.left else "---:" for name in section.columns]
        lines += [_line(section.columns), _line(rule), *map(_line, section.rows)]
        lines += ["", *([section.rest, ""] if section.rest else [])]
    return lines


def _line(cells: tuple[str, ...] | list[str]) -> str:
    return "| " + " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in cells) + " |"


def records(result: Result) -> list[dict[str, Any]]:
    """The figures as flat records, one a mode: every statistic of every phase in ns, bytes, ratios; None if not known."""
    found = []
    for case in result.cases:
        row: dict[str, Any] = {"mode": case.mode, "status": case.status, "reason": case.reason}
        for phase, stats in case.phases.items():
            for key in ("n", "median_ns", "p95_ns", "p99_ns", "min_ns", "max_ns", "mean_ns", "stdev_ns"):
                row[f"{phase}_{key}"] = None if stats is None else getattr(stats, key)
            row[f"{phase}_ci95_low_ns"], row[f"{phase}_ci95_high_ns"] = (None, None) if stats is None else stats.ci95_ns
        row["derived_copies_ns"] = case.derived and case.derived["copies_ns"]
        row["bytes_in"], row["bytes_out"] = case.bytes_in, case.bytes_out
        row["vs_cpu"] = case.vs_cpu and case.vs_cpu["ratio"]
        row["vs_cpu_ci95_low"], row["vs_cpu_ci95_high"] = (case.vs_cpu and case.vs_cpu["ci95"]) or (None, None)
        row["outputs_match"] = case.outputs_match
        row["zero_copy_proved"] = case.zero_copy and case.zero_copy["proved"]
        row["depth"] = case.pipeline and case.pipeline["depth"]
        row["hidden_share"] = case.pipeline and case.pipeline["hidden_share"]
        found.append(row)
    return found


def csv(result: Result) -> str:
    """The records as CSV. Python's own writer: pandas takes longer to import than a short benchmark takes to run."""
    lines = records(result)
    text = io.StringIO()
    writer = DictWriter(text, fieldnames=list(lines[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return text.getvalue()


def frame(results: Sequence[Result]) -> pandas.DataFrame:
    """The records of many results as a data frame, for a notebook: one row a case, with model, EP and time of the run.

    Columns are those of `records`, with pandas' nullable dtypes.
    """
    import pandas

    lines = [
        {"created": result.created, "model": result.model["path"], "ep": result.target["ep"], **record}
        for result in results
        for record in records(result)
    ]
    return pandas.DataFrame(lines).convert_dtypes()
