"""The report of a bandwidth curve: its heading, tables, what they mean."""

from __future__ import annotations

from collections.abc import Sequence

from ortbench.core import units
from ortbench.core.stats import SAMPLES_FOR, Stats, percentile
from ortbench.facts.run import findings_of
from ortbench.facts.sentences import in_order
from ortbench.features.bandwidth.analysis import TITLES, gbps, measured_cases, memory_of, size_of, sync_of
from ortbench.features.bandwidth.analysis import failures as failures_of
from ortbench.features.bandwidth.facts import curve_facts
from ortbench.model.modes import DIRECTIONS, H2D, MEMORIES, RUN
from ortbench.model.result import Case, Result
from ortbench.model.schema import Direction, Sync
from ortbench.report import model
from ortbench.report.case_table import bar
from ortbench.report.parts import noise_part
from ortbench.report.phrases import end_text, ep_line, memory_said, warnings

_COLUMNS = (
    model.Column("size", model.Kind.NUMBER, model.KEY),
    *model.columns(model.Kind.NUMBER, "H2D", "H2D GB/s"),
    model.Column("", model.Kind.WORD),  # bars need no headings, only names that differ
    *model.columns(model.Kind.NUMBER, "D2H", "D2H GB/s", group=2),
    model.Column(" ", model.Kind.WORD, 2),
    *model.columns(model.Kind.NUMBER, *(f"{way} {it}" for way in ("H2D", "D2H") for it in SAMPLES_FOR), group=3),
)
_CELLS = 14  # of the longest bar
_FILL = "█"


def heading(result: Result) -> list[str]:
    """The lines above the tables: sizes, EP, device, versions, synchronization, memory."""
    syncs = {TITLES[kind]: _sync(sync_of(result)[kind][H2D]) for kind in MEMORIES if kind in sync_of(result)}
    said = [*dict.fromkeys(syncs.values())]
    if len(said) > 1:
        said = [f"{kind}: {how}" for kind, how in syncs.items()]
    ends = f"synchronization: {'; '.join(said)} (verified); " if said else ""
    end = "" if result.stopped is None else f"; {end_text(result.stopped, result.took_ns)}"
    return [
        f"copies of {_span([*map(size_of, result.cases)])} between host and device",
        ep_line(result),
        f"{ends}{memory_said(result.target)}{end}",
    ]


def _sync(h2d: Sync) -> str:
    if h2d["kind"] == RUN:
        return "a copy returns when it is complete"
    return f"a value is read back after each copy, {units.duration(h2d['cost_ns'])} of each H2D copy"


def tables(result: Result) -> list[model.Table]:
    """A table for each kind of host memory: a row a size, medians, rates and their bars."""
    most = max((gbps(case, way) for way in DIRECTIONS for case in measured_cases(result, way)), default=0.0)
    found = []
    for kind in MEMORIES:
        rows = tuple(
            (
                units.size(size_of(case)),
                *(cell for way in DIRECTIONS for cell in _cells(case, way, most)),
                *(_percentile(case.stats(way), it) for way in DIRECTIONS for it in SAMPLES_FOR),
            )
            for case in sorted(result.cases, key=size_of)
            if memory_of(case) == kind
        )
        if rows:
            found.append(model.drop_empty_columns(model.Table(_COLUMNS, rows, title=TITLES[kind])))
    return found


def _percentile(stats: Stats | None, name: str) -> str:
    return model.maybe(None if stats is None else percentile(stats, name), units.duration)


def _cells(case: Case, way: Direction, most: float) -> tuple[str, str, str]:
    failed, median = way in case.checks, case.median(way)
    if median is None:
        return ("failed" if failed else model.NOTHING), model.NOTHING, ""
    time, rate = units.duration(median), gbps(case, way)
    if failed:
        return f"{time} (failed)", units.digits(rate), ""
    return time, units.digits(rate), bar([(_FILL, rate)], most, _CELLS)


def failures(result: Result) -> list[str]:
    """Why copies failed: a line for all of one reason."""
    found: dict[str, dict[tuple[str, str], list[int]]] = {}
    for case in result.cases:
        for way, why in failures_of(case).items():
            found.setdefault(why, {}).setdefault((way.upper(), TITLES[memory_of(case)]), []).append(size_of(case))
    lines = []
    for why, groups in found.items():
        failed = [f"{way} copies of {_span(sizes)} ({memory})" for (way, memory), sizes in groups.items()]
        lines.append(f"{', '.join(failed)} failed: {why}")
    return lines


def _span(sizes: list[int]) -> str:
    least, most = units.size(min(sizes)), units.size(max(sizes))
    return least if least == most else f"{least} to {most}"


def build(result: Result, folder: str | None = None) -> model.Report:
    """The report of a bandwidth curve; `folder` is where it was saved, which is said in a terminal."""
    facts = findings_of(in_order([*curve_facts(result)]))
    last: list[model.Block] = [
        *([model.Findings(facts)] if facts else []),
        model.Notes([*(model.Note(text, "✗", model.BAD) for text in failures(result)), *warnings(result)]),
        model.Command(result.command),
        model.SavedIn(folder),
    ]
    parts: list[Sequence[model.Block]] = [[model.Heading(heading(result))], *noise_part([result])]
    parts += [(model.Title(table.title), table) for table in tables(result)]
    return model.Report(f"ortbench bandwidth: {result.target['ep']}", (*parts, last))
