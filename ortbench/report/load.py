"""The report of a load: its levels by callers and by rate, and what they come to by mode."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ortbench.analysis.findings.advice import findings, superseded
from ortbench.analysis.loads.levels import (
    CONCURRENCY,
    RATE,
    at,
    failed,
    figure,
    is_full,
    kept,
    knee_of,
    latency_of,
    measured,
    modes_of,
    most,
    of_kind,
    rate_of,
    rate_text,
    spread_of,
)
from ortbench.core import units
from ortbench.core.stats import SAMPLES_FOR, Stats
from ortbench.model.modes import (
    CPU_CORES,
    FAIRNESS,
    GIL_WAIT,
    LATE_SHARE,
    LATENCY,
    QUEUE_DELAY,
    SERVICE_TIME,
    SM_CLOCK,
    THROUGHPUT,
    UTILISATION,
)
from ortbench.model.result import NOT_MEASURED, OK, Case, Result
from ortbench.report.composed import sparkline
from ortbench.report.costs import cost_parts
from ortbench.report.model import (
    BAD,
    KEY,
    NOTHING,
    PAGE,
    TERMINAL,
    UNCLEAR,
    Block,
    Column,
    Kind,
    Note,
    Notes,
    Paragraph,
    Report,
    Table,
    between,
    columns,
    filled,
    maybe,
)
from ortbench.report.phrases import advice, cell, hint, measured_report, mode_name, warnings
from ortbench.report.placement import on_page, placement_parts

WHAT_A_LEVEL_IS = (
    "p50, p95 and p99 are latencies: of so many callers from the start of a run, at a rate from the moment when a request was "
    "due, so that what it waited is in it."
)
BACK_TO_BACK = "back to back"
GROWS = "grows"  # in the place of a mean wait that would only say how long the level lasted

_LATENCY = columns(Kind.TIME, "p50", "p95", "p99", group=3)
CLOSED = (
    Column("mode", Kind.NAME, KEY),
    Column("callers", Kind.NUMBER, KEY),
    *columns(Kind.NUMBER, "inf/s", "±", group=1),
    *columns(Kind.NUMBER, "scaling", "95% CI", group=2),
    *_LATENCY,
    *columns(Kind.NUMBER, "CPU cores", "GIL wait", "Jain's index", group=4),
    Column("SM clock", Kind.NUMBER, 5),
)
OPEN = (
    Column("mode", Kind.NAME, KEY),
    Column("rate", Kind.NUMBER, KEY),
    *_LATENCY,
    Column("SLO", Kind.WORD, 4),
    *columns(Kind.TIME, "queue delay", "service time", group=5),
    *columns(Kind.NUMBER, "busy", "late", group=5),
    *columns(Kind.NUMBER, "inf/s", "±", group=6),
    *columns(Kind.NUMBER, "CPU cores", "GIL wait", group=7),
    Column("SM clock", Kind.NUMBER, 8),
)
BY_MODE = (
    Column("mode", Kind.NAME, KEY),
    *columns(Kind.NUMBER, "knee", "of peak", "most runs/s", group=1),
    *columns(Kind.WORD, "runs/s by callers", "p99 by callers", group=2),
    *columns(Kind.NUMBER, "keeps SLO up to", "95% CI", group=3),
    Column("p99 by rate", Kind.WORD, 4),
)


def load_tables(result: Result) -> list[Table]:
    """The tables of a load that have rows: its levels by callers, those by rate, and what they come to by mode."""
    found = [closed_table(result), open_table(result), mode_curves(result)]
    return [table for table in found if table.rows]


def _unit(levels: Sequence[Case]) -> tuple[str, float]:
    """The unit of latencies; queues that grow have none that says anything, so they do not choose it where others can."""
    tails = [latency_of(level).p99 for level in levels if not is_full(level)]
    return units.time_unit(max(tails or [latency_of(level).p99 for level in levels], default=1))


def closed_table(result: Result) -> Table:
    """A row for each mode and number of callers; only columns that hold something."""
    levels = of_kind(result, CONCURRENCY)
    unit, scale = _unit(levels)
    rows = tuple(
        (
            mode_name(level),
            f"{at(level).value:g}",
            units.rate(rate_of(level)),
            _plus_minus(level),
            *_speed_cells(level),
            *_latency_cells(latency_of(level), scale),
            *_host_cells(level),
            _cell(level, FAIRNESS, units.ratio),
            _cell(level, SM_CLOCK, _mhz),
        )
        for level in levels
    )
    return filled(Table(CLOSED, rows, unit, title="By callers"))


def open_table(result: Result) -> Table:
    """A row for each mode and rate, above those of a mode the same runs back to back; only columns that hold something."""
    levels = of_kind(result, RATE)
    unit, scale = _unit(levels)
    rows: list[tuple[str, ...]] = []
    for mode in dict.fromkeys(level.mode for level in levels):
        rows += _alone(result.case(mode), scale)
        rows += [_open_row(level, scale) for level in levels if level.mode == mode]
    return filled(Table(OPEN, tuple(rows), unit, title="By rate"))


def _alone(case: Case | None, scale: float) -> list[tuple[str, ...]]:
    """The row of the runs back to back beside an open loop."""
    latency = None if case is None else case.stats(LATENCY)
    if case is None or latency is None:
        return []
    taken = (NOTHING, NOTHING, units.time(latency.median, scale), NOTHING, NOTHING)
    rest = (units.rate(1e9 / max(latency.mean, 1)), NOTHING, NOTHING, NOTHING, _cell(case, SM_CLOCK, _mhz))
    return [(case.mode, BACK_TO_BACK, *_latency_cells(latency, scale), *taken, *rest)]


def _open_row(level: Case, scale: float) -> tuple[str, ...]:
    held, wait, service = level.checks.get("slo"), level.stats(QUEUE_DELAY), level.median(SERVICE_TIME)
    waited = NOTHING if wait is None else GROWS if is_full(level) else units.time(wait.mean, scale)
    return (
        mode_name(level),
        f"{rate_text(at(level).value)}/s",
        *_latency_cells(latency_of(level), scale),
        NOTHING if held is None else "kept" if held["verdict"] == "passed" else "broken",
        waited,
        NOTHING if service is None else units.time(service, scale),
        _cell(level, UTILISATION, units.share),
        _cell(level, LATE_SHARE, units.share),
        units.rate(rate_of(level)),
        _plus_minus(level),
        *_host_cells(level),
        _cell(level, SM_CLOCK, _mhz),
    )


def _plus_minus(level: Case) -> str:
    off = spread_of(level)
    return NOTHING if off is None else units.share(round(off, 6), 1)


def _speed_cells(level: Case) -> tuple[str, str]:
    found = level.metrics.get("scaling")
    inside = None if found is None else found.ci95
    return cell(level, "scaling"), between(inside, units.ratio)


def _latency_cells(latency: Stats, scale: float) -> tuple[str, str, str]:
    known = {"p50": latency.median, "p95": latency.p95, "p99": latency.p99}
    p50, p95, p99 = (
        NOTHING if latency.n < SAMPLES_FOR.get(stat, 0) else units.time(ns, scale) for stat, ns in known.items()
    )
    return p50, p95, p99


def _host_cells(level: Case) -> tuple[str, str]:
    return _cell(level, CPU_CORES, units.ratio), _cell(level, GIL_WAIT, units.share)


def _cell(case: Case, metric: str, show: Callable[[float], str]) -> str:
    return maybe(case.value(metric), show)


def _mhz(clock: float) -> str:
    return f"{clock:g} MHz"


def mode_curves(result: Result) -> Table:
    """What the levels come to: a row a mode, with curves from nothing to the most of all modes; none where every mode has one
    level alone."""
    rows = tuple(_mode_row(result, mode) for mode in modes_of(result))
    table = Table(BY_MODE, rows, title="By mode")
    return filled(table) if any(set(row[1:]) != {NOTHING} for row in rows) else Table(BY_MODE, ())


def _mode_row(result: Result, mode: str) -> tuple[str, ...]:
    by_callers, by_rate = measured(result, CONCURRENCY, mode), measured(result, RATE, mode)
    knee, peak, rate = knee_of(by_callers), most(by_callers), kept(result).get(mode)
    return (
        mode,
        NOTHING if knee is None else str(knee["concurrency"]),
        NOTHING if knee is None else units.share(knee["share_of_peak"]),
        NOTHING if peak is None or knee is None else units.rate(rate_of(peak)),
        _curve(result, by_callers, THROUGHPUT),
        _curve(result, by_callers, "p99"),
        NOTHING if rate is None else f"{units.rate(rate['rate'])}/s",
        NOTHING if rate is None else "–".join(map(units.rate, rate["next95"])),
        _curve(result, by_rate, "p99"),
    )


def _curve(result: Result, levels: Sequence[Case], stat: str) -> str:
    """A curve of a figure over levels, on one scale for all modes; queues that grow are as high as there is room."""
    if len(levels) < 2:
        return NOTHING
    others = measured(result, at(levels[0]).kind)
    top = max((figure(it, stat) for it in others if not is_full(it)), default=0.0)
    top = top or max(figure(it, stat) for it in others)
    return sparkline([min(figure(level, stat), top) for level in levels], (0, top))


# All of it


def build(result: Result, folder: str | None = None) -> Report:
    """The report of a load."""
    tables = load_tables(result)
    said = [
        Notes(level_failures(result)),
        advice(findings(result)),
        Notes(warnings(result, superseded(result))),
    ]
    parts: list[Sequence[Block]] = [[table] for table in tables]
    if tables:
        words = dict.fromkeys(column.name for table in tables for column in table.columns)
        unusual = [
            word
            for word in ("scaling", "GIL wait", "Jain's index", "queue delay", "busy", "late", "knee")
            if word in words
        ]
        parts.append([Paragraph(WHAT_A_LEVEL_IS, media=TERMINAL | PAGE), hint(*unusual)])
    parts += on_page([*cost_parts(result), *placement_parts(result)])
    return measured_report("ortbench load", result, parts, said, WHAT_A_LEVEL_IS if tables else "", folder)


def _sign(level: Case) -> tuple[str, str]:
    return ("?", UNCLEAR) if level.status == NOT_MEASURED else ("✗", BAD)


def level_failures(result: Result) -> list[Note]:
    """Why modes and load points have no figures, or none that count."""
    modes = {case.mode: case for case in result.at_point() if case.status != OK}
    found = [
        Note(f"{mode}: {case.status}: {case.reason}", "✗", BAD if case.status == "failed" else UNCLEAR)
        for mode, case in modes.items()
    ]
    found += [
        Note(f"{it.mode} {at(it).phrase}: {it.status.replace('_', ' ')}: {it.reason}", *_sign(it))
        for it in failed(result)
        if it.mode not in modes
    ]
    return found
