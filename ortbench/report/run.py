"""The report of a result: the whole, the default screen, and the tables in its folder: ``table.md``, ``table.csv``, a loop's ``steps.csv``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ortbench.analysis.advice import Weight
from ortbench.analysis.noise import is_busy
from ortbench.analysis.placement import short
from ortbench.analysis.speedups import is_on_host
from ortbench.core import units
from ortbench.core.features import part_of
from ortbench.core.files import write_or_note
from ortbench.core.safe_text import first_of, join_words, shorten
from ortbench.facts import Fact
from ortbench.facts.run import facts_of, findings_of, repeated_warnings
from ortbench.facts.sentences import sentence_of
from ortbench.model.kinds import kind_of
from ortbench.model.modes import CPU, ITEM_THROUGHPUT, ITEM_TIME, LATENCY, mode_of
from ortbench.model.result import OK, Case, Result
from ortbench.report.brief import HEIGHT, Content, fit, narrow_table
from ortbench.report.case_table import COPIES, FILLS, PER_RUN, SPLIT, WHOLE, Own, case_table, in_groups, segments_of
from ortbench.report.model import (
    DERIVED,
    NOTHING,
    TERMINAL,
    Bar,
    Block,
    Heading,
    Paragraph,
    Report,
    SavedIn,
    Table,
)
from ortbench.report.parts import cost_parts, own_outputs, placement_parts, with_title
from ortbench.report.phrases import (
    SYNC,
    device_name,
    eps,
    first_of_shapes,
    has_items,
    measured_report,
    not_measured,
    processes_in,
    result_name,
    warnings,
)
from ortbench.report.records import markdown, records_csv


def mode_table(result: Result, own: Mapping[str, Own] | None = None) -> Table:
    """The table of modes: a row for each mode that was measured, of a run with a bar of its phases; `own` columns are
    shown in their own way."""
    cases = measured_cases(result)
    columns = {**part_of(result.kind, "report", "own_columns", _own)(result), **(own or {})}
    table = case_table(result, cases, own=columns)
    bars = splits(result) if "phases" in kind_of(result.kind).charts else []
    if len(bars) == 1 and len(bars[0]) == 1:  # neither shared out nor beside another
        bars = []
    return replace(table, bars=bars)


def measured_cases(result: Result) -> list[Case]:
    """The cases that have a row, in its order."""
    return in_groups([case for case in result.at_point() if case.stats(LATENCY) is not None])


def _own(result: Result) -> dict[str, Own]:
    own = {"copied/inf": Own(_copied_per_inference)}
    return (
        own if has_items([result]) else {**own, **dict.fromkeys((ITEM_THROUGHPUT, ITEM_TIME), Own(lambda _: NOTHING))}
    )


def _copied_per_inference(case: Case) -> str:
    if case.bytes_h2d is None or case.bytes_d2h is None:
        return NOTHING
    copied, mark = case.bytes_h2d + case.bytes_d2h, mode_of(case.mode).of_cpu_tensors
    if not copied:
        claim = case.checks.get("zero_copy")  # without which nobody knows what the EP copies
        return "0" if claim is None or claim["verdict"] == "passed" else NOTHING
    return f"{DERIVED if mark else ''}{units.size(copied)}"


def splits(result: Result) -> list[Bar]:
    """The bar of each row of `mode_table`: fills and sizes in ns (`ortbench.report.case_table.bar`), which add up to the row's latency.

    Phases are timed apart from `latency` and need not add up to it, so they share it out in proportion to their medians.
    Of a pipeline's copies there is what is not hidden.
    """
    return [_split(case, case.median(LATENCY) or 0) for case in measured_cases(result)]


def _split(case: Case, total: float) -> list[tuple[str, float]]:
    segments = segments_of(case)
    whole = sum(it.ns for it in segments)
    return [(FILLS[it.kind], it.ns / whole * total) for it in segments] if whole else [(FILLS[WHOLE], total)]


_TITLES = {"h2d": "H2D", "d2h": "D2H", COPIES: "copies (H2D and D2H)", PER_RUN: "time per inference (throughput)"}


def split_legend(parts: Sequence[Bar]) -> str:
    used = {fill for row in parts for fill, size in row if size > 0}
    fills = ", ".join(f"{fill} {_TITLES.get(kind, kind)}" for kind, fill in FILLS.items() if fill in used)
    return f"{SPLIT}: latency in the proportions of its parts, which are timed apart (one character at least): {fills}."


def build(result: Result, folder: str | None = None) -> Report:
    """The report of a result; `folder` is where it was saved, which is said in a terminal."""
    report: Report = part_of(result.kind, "report", "build", _build)(result, folder)
    return report


def _build(result: Result, folder: str | None) -> Report:
    table = mode_table(result)
    parts: list[Sequence[Block]] = []
    if table.rows:
        parts.append([table])
    if table.bars:
        parts.append([Paragraph(split_legend(table.bars), fills=True, media=TERMINAL)])
    parts += [with_title(it) for it in further_tables(result)]
    further = [*own_outputs(result), *cost_parts(result), *placement_parts(result)]
    return measured_report("ortbench", result, parts, not_measured(result), further, folder)


def further_tables(result: Result) -> list[Table]:
    """The tables beside the main one that have rows."""
    tables = part_of(result.kind, "report", "further_tables", lambda _: [])(result)
    return [table for table in tables if table.rows]


def write_run(result: Result, path: Path) -> None:
    """Write the tables of a finished result into its folder, or note that they could not be written."""
    write_or_note(path / "table.md", markdown(build(result)))
    write_or_note(path / "table.csv", records_csv(result))
    for name, made in part_of(result.kind, "report", "FILES", {}).items():
        write_or_note(path / name, made(result))


# The default screen of a result, 80 × 24: what ran where, the table, three facts with one command, what was checked, where it is saved


_DIGITS = 1  # of a per cent, of what an interval reaches
_NAMES = 3  # of inputs, stages and shapes that a heading has


def _nodes_of(result: Result) -> list[Table]:
    """The table of a result's nodes, where they were profiled."""
    if result.nodes is None:
        return []
    from ortbench.report.nodes import node_tables

    return [it for it in node_tables(result) if it.shorter]


def screen(result: Result, folder: str | None, height: int = HEIGHT) -> Report:
    facts = facts_of(result)
    told = [it for it in facts if sentence_of(it).weight in (Weight.GAIN, Weight.ANSWER)]
    findings = [it._replace(row=_row_names(result, fact)) for it, fact in zip(findings_of(told), told, strict=True)]
    content = Content(
        Heading(heading(result)),
        findings_of([it for it in facts if sentence_of(it).weight is Weight.DOUBT]),
        [*tables_of(result), *_nodes_of(result)],
        findings,
        [*not_measured(result), *warnings(result, {"cpu-nodes", *repeated_warnings(facts)})],
        [Paragraph(_checks_line(result)), SavedIn(folder)],
        [*(it.mode for it in told[:1]), CPU, *(it.mode for it in told[1:])],
    )
    return fit(result_name(result) or result.model["path"], content, height)


def _row_names(result: Result, fact: Fact) -> tuple[str, ...]:
    """What names the row of a point that a fact is about; nothing where it is of none."""
    if not fact.point:
        return ()
    shape = next((it.name for it in result.shapes if it.point == fact.point), None)
    return fact.mode, shape or part_of(result.kind, "report", "point_label")(fact.point)


def heading(result: Result) -> list[str]:
    """Two lines: the model with its inputs, or what is made of it; EP, device, threads, version and whether the machine was busy."""
    note = " ".join(str(result.note or "").split())
    target, threads = result.target, result.target.get("intra_op_threads")
    cores = result.environment["cpu"].get("usable_cores")
    where = units.count(threads, "thread") if threads else units.count(cores, "core") if cores else ""
    noise = "" if result.noise is None else "busy machine" if is_busy(result) else "quiet machine"
    ep = " and ".join(eps(result)) or f"{short(target['ep'])} EP on {device_name(result)}"
    said = (ep, where, f"ONNX Runtime {result.environment['onnxruntime']}", noise)
    of = part_of(result.kind, "report", "heading", input_shapes)(result)
    return [f"{result.model['path']} ({of}){f': {note}' if note else ''}", ", ".join(filter(None, said))]


def input_shapes(result: Result) -> str:
    inputs = first_of([f"{shorten(it['name'])}: {_shape(it['shape'])}" for it in result.model["inputs"]], _NAMES)
    return inputs + first_of_shapes(result)


def _shape(shape: list[int] | None) -> str:
    return "?" if shape is None else "x".join(map(str, shape)) or "scalar"


def _checks_line(result: Result) -> str:
    """What was verified, in how many processes and how long it was measured, and where there is more."""
    timed = [it for it in result.cases if it.status == OK and it.median(LATENCY) is not None]
    said = []
    if (sync := result.target["sync"]) is not None:
        said.append(SYNC.get(sync["kind"], f"{sync['kind']} waits"))
    equal = {it.mode for it in timed if _has_passed(it, "outputs")}
    if len(equal) > 1:
        compared = {it.mode for it in result.cases if "outputs" in it.checks}
        of = f" of {len(compared)}" if len(compared) > len(equal) else ""
        said.append(f"equal outputs in {len(equal)}{of} modes")
    copied = [*dict.fromkeys(it.mode for it in timed if _has_passed(it, "zero_copy"))]
    if copied and not is_on_host(result):
        said.append(f"{join_words(copied)} zero-copy")
    took = "" if result.took_ns is None else f" in {units.seconds(result.took_ns)}"
    many = f" in {count} processes" if (count := processes_in(result)) else ""
    ended = "Interrupted" if result.stopped and result.stopped["reason"] == "interrupted" else "Measured"
    measured = f"{ended}{took}{many}; " if took or many else ""
    return f"Checked: {', '.join(said) or 'nothing'}. {measured}-v prints more."


def _has_passed(case: Case, name: str) -> bool:
    return (check := case.checks.get(name)) is not None and check["verdict"] == "passed"


# The most important columns of the whole tables, by kind: eight at most


def _only(table: Table, names: Sequence[str]) -> Table:
    """A table with its key and as many of some columns as fit a screen, the most important ones first; each name once, without a title."""
    at_name = {it.name: at for at, it in reversed(list(enumerate(table.columns)))}
    return replace(narrow_table(table, [at_name[name] for name in names if name in at_name]), title="")


def _speedup(case: Case) -> str:
    """A speedup, and how far its interval reaches at most."""
    if case.speedup is None or case.mode == CPU:
        return "1.00×" if case.mode == CPU else NOTHING
    value, ends = case.speedup.value, case.speedup.ci95
    reach = "" if ends is None else f" ±{max(ends[1] - value, value - ends[0]) / value:.{_DIGITS}%}"
    return f"{units.times(value)}{reach}{'?' * case.noisy}"


def tables_of(result: Result) -> list[Table]:
    kind = kind_of(result.kind)
    if (by_axis := part_of(result.kind, "report", "axis_tables")) is not None:
        return [_only(table, kind.view((axis,)).screen) for axis, table in by_axis(result).items() if table.rows]
    names = part_of(result.kind, "report", "screen_columns", lambda _: kind.view().screen)(result)
    table = part_of(result.kind, "report", "mode_table", mode_table)(result, {"speedup": Own(_speedup)})
    return [_only(table, [it for it in names if it != "copies" or not is_on_host(result)])]
