"""The default screen of a result, 80 × 24: what ran where, the table, three facts with one command, what was checked, where it is saved.

Everything else is in the whole report, which ``--verbose`` prints and ``table.md`` and the page have.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ortbench.analysis.advice import Weight
from ortbench.analysis.noise import is_busy
from ortbench.analysis.placement import short
from ortbench.analysis.speedups import is_on_host
from ortbench.core import units
from ortbench.core.features import part_of
from ortbench.core.safe_text import first_of, join_words, shorten
from ortbench.facts.fact import Fact
from ortbench.facts.findings import facts_of, repeated_warnings, shown
from ortbench.facts.sentences import sentence_of
from ortbench.model.kinds import kind_of
from ortbench.model.modes import CPU, LATENCY
from ortbench.model.result import OK, Case, Result
from ortbench.report.case_table import Own
from ortbench.report.model import (
    NOTHING,
    Heading,
    Paragraph,
    Report,
    SavedIn,
    Table,
)
from ortbench.report.phrases import SYNC, device_name, eps, not_measured, processes_in, result_name, warnings
from ortbench.report.run import mode_table
from ortbench.report.screens.brief import HEIGHT, Content, fit
from ortbench.report.screens.narrow import narrowed

_PLACES = 1  # of a per cent, of what an interval reaches
_NAMES = 3  # of inputs, stages and shapes that a heading has


def screen(result: Result, folder: str | None, height: int = HEIGHT) -> Report:
    facts = facts_of(result)
    told = [it for it in facts if sentence_of(it).weight in (Weight.GAIN, Weight.ANSWER)]
    findings = [it._replace(row=_row_names(result, fact)) for it, fact in zip(shown(told), told, strict=True)]
    content = Content(
        Heading(heading(result)),
        shown([it for it in facts if sentence_of(it).weight is Weight.DOUBT]),
        tables_of(result),
        findings,
        [*not_measured(result), *warnings(result, {"cpu-nodes", *repeated_warnings(facts)})],
        [Paragraph(_checked(result)), SavedIn(folder)],
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
    return first_of([f"{shorten(it['name'])}: {_shape(it['shape'])}" for it in result.model["inputs"]], _NAMES)


def _shape(shape: list[int] | None) -> str:
    return "?" if shape is None else "x".join(map(str, shape)) or "scalar"


def _checked(result: Result) -> str:
    """What was verified, in how many processes and how long it was measured, and where there is more."""
    timed = [it for it in result.cases if it.status == OK and it.median(LATENCY) is not None]
    said = []
    if (sync := result.target["sync"]) is not None:
        said.append(SYNC.get(sync["kind"], f"{sync['kind']} waits"))
    equal = {it.mode for it in timed if _passed(it, "outputs")}
    if len(equal) > 1:
        compared = {it.mode for it in result.cases if "outputs" in it.checks}
        of = f" of {len(compared)}" if len(compared) > len(equal) else ""
        said.append(f"equal outputs in {len(equal)}{of} modes")
    copied = [*dict.fromkeys(it.mode for it in timed if _passed(it, "zero_copy"))]
    if copied and not is_on_host(result):
        said.append(f"{join_words(copied)} zero-copy")
    took = "" if result.took_ns is None else f" in {units.seconds(result.took_ns)}"
    many = f" in {count} processes" if (count := processes_in(result)) else ""
    ended = "Interrupted" if result.stopped and result.stopped["reason"] == "interrupted" else "Measured"
    measured = f"{ended}{took}{many}; " if took or many else ""
    return f"Checked: {', '.join(said) or 'nothing'}. {measured}-v prints more."


def _passed(case: Case, name: str) -> bool:
    return (check := case.checks.get(name)) is not None and check["verdict"] == "passed"


# The most important columns of the whole tables, by kind: eight at most


def _only(table: Table, names: Sequence[str]) -> Table:
    """A table with its key and as many of some columns as fit a screen, the most important ones first; each name once, without a title."""
    at_name = {it.name: at for at, it in reversed(list(enumerate(table.columns)))}
    return replace(narrowed(table, [at_name[name] for name in names if name in at_name]), title="")


def _speedup(case: Case) -> str:
    """A speedup, and how far its interval reaches at most."""
    if case.speedup is None or case.mode == CPU:
        return "1.00×" if case.mode == CPU else NOTHING
    value, ends = case.speedup.value, case.speedup.ci95
    reach = "" if ends is None else f" ±{max(ends[1] - value, value - ends[0]) / value:.{_PLACES}%}"
    return f"{units.times(value)}{reach}{'?' * case.noisy}"


def _of_modes(result: Result) -> list[Table]:
    names = part_of(result.kind, "report", "screen_columns", lambda _: kind_of(result.kind).view().screen)(result)
    table = part_of(result.kind, "report", "mode_table", mode_table)(result, {"speedup": Own(_speedup)})
    return [_only(table, [it for it in names if it != "copies" or not is_on_host(result)])]


def tables_of(result: Result) -> list[Table]:
    by_axis = part_of(result.kind, "report", "axis_tables")
    if by_axis is None:
        return _of_modes(result)
    kind = kind_of(result.kind)
    return [_only(table, kind.view((axis,)).screen) for axis, table in by_axis(result).items() if table.rows]
