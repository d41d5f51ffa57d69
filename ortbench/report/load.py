"""The report of a load: its levels by callers and by rate, and what they come to by mode."""

from __future__ import annotations

from collections.abc import Sequence

from ortbench import units
from ortbench.analysis.advice import sentences, superseded
from ortbench.analysis.levels import (
    CONCURRENCY,
    RATE,
    at,
    by_statistic,
    figure,
    is_full,
    is_measured,
    latency_of,
    measured,
    modes_of,
    rate_of,
    rate_text,
    speed_up,
    spread_of,
)
from ortbench.analysis.load import failed, kept, knee_of, most
from ortbench.report.loops import sparkline
from ortbench.report.model import (
    BAD,
    KEY,
    MARKDOWN,
    NOTHING,
    TERMINAL,
    UNCLEAR,
    Block,
    Column,
    Command,
    Heading,
    Kind,
    Note,
    Notes,
    Paragraph,
    Report,
    SavedIn,
    Table,
    columns,
    filled,
)
from ortbench.report.words import heading, hint, result_name, warnings
from ortbench.result import NOT_MEASURED, OK, Result
from ortbench.schema import Level
from ortbench.stats import SAMPLES_FOR

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
    *columns(Kind.NUMBER, "runs/s", "±", group=1),
    *columns(Kind.NUMBER, "speed-up", "95 %", group=2),
    *_LATENCY,
    *columns(Kind.NUMBER, "CPU cores", "lock", "fairness", group=4),
    Column("SM clock", Kind.NUMBER, 5),
)
OPEN = (
    Column("mode", Kind.NAME, KEY),
    Column("rate", Kind.NUMBER, KEY),
    *_LATENCY,
    Column("SLO", Kind.WORD, 4),
    *columns(Kind.TIME, "wait", "service", group=5),
    *columns(Kind.NUMBER, "busy", "late", group=5),
    *columns(Kind.NUMBER, "runs/s", "±", group=6),
    *columns(Kind.NUMBER, "CPU cores", "lock", group=7),
    Column("SM clock", Kind.NUMBER, 8),
)
BY_MODE = (
    Column("mode", Kind.NAME, KEY),
    *columns(Kind.NUMBER, "knee", "of peak", "most runs/s", group=1),
    *columns(Kind.WORD, "runs/s by callers", "p99 by callers", group=2),
    *columns(Kind.NUMBER, "keeps SLO up to", "95 %", group=3),
    Column("p99 by rate", Kind.WORD, 4),
)


def load_tables(result: Result) -> list[Table]:
    """The tables of a load that have rows: its levels by callers, those by rate, and what they come to by mode."""
    found = [closed_table(result), open_table(result), mode_curves(result)]
    return [table for table in found if table.rows]


def _shown(result: Result, kind: str) -> list[Level]:
    """The levels that have figures, those that failed with them among them, the lowest first."""
    modes = modes_of(result)
    found = [it for it in result.levels if at(it).kind == kind and it["runs_per_s"] is not None and it["latency_ns"]]
    return sorted(found, key=lambda it: (modes.index(it["mode"]), at(it).value))


def _unit(levels: Sequence[Level]) -> tuple[str, float]:
    """The unit of latencies; queues that grow have none that says anything, so they do not choose it where others can."""
    tails = [latency_of(level)["p99"] for level in levels if not is_full(level)]
    return units.time_unit(max(tails or [latency_of(level)["p99"] for level in levels], default=1))


def _name(level: Level) -> str:
    return level["mode"] if level["status"] == OK else f"{level['mode']} (failed)"


def closed_table(result: Result) -> Table:
    """A row for each mode and number of callers; only columns that hold something."""
    levels = _shown(result, CONCURRENCY)
    unit, scale = _unit(levels)
    rows = tuple(
        (
            _name(level),
            str(level["concurrency"]),
            units.rate(rate_of(level)),
            _plus_minus(level),
            *_speed_cells(level, measured(result, CONCURRENCY, level["mode"])),
            *_latency_cells(level, scale),
            *_host_cells(level),
            _ratio(level.get("fairness")),
            _clock(level),
        )
        for level in levels
    )
    return filled(Table(CLOSED, rows, unit, title="By callers"))


def open_table(result: Result) -> Table:
    """A row for each mode and rate, above those of a mode the same runs back to back; only columns that hold something."""
    levels = _shown(result, RATE)
    unit, scale = _unit(levels)
    rows: list[tuple[str, ...]] = []
    for mode in dict.fromkeys(level["mode"] for level in levels):
        rows += _alone(result, mode, scale)
        rows += [_open_row(level, scale) for level in levels if level["mode"] == mode]
    return filled(Table(OPEN, tuple(rows), unit, title="By rate"))


def _alone(result: Result, mode: str, scale: float) -> list[tuple[str, ...]]:
    """The row of the runs back to back beside an open loop."""
    alone = (result.back_to_back or {}).get(mode)
    if alone is None:
        return []
    latency = alone["latency_ns"]
    clock = NOTHING if alone["clock_mhz"] is None else f"{alone['clock_mhz']['sm']} MHz"
    known = by_statistic(latency)
    times = (
        NOTHING if alone["n"] < SAMPLES_FOR.get(stat, 0) else units.time(known[stat], scale)
        for stat in ("p50", "p95", "p99")
    )
    taken = (NOTHING, NOTHING, units.time(latency["p50"], scale), NOTHING, NOTHING)
    per_s = units.rate(1e9 / max(latency["mean"], 1))
    return [(mode, BACK_TO_BACK, *times, *taken, per_s, NOTHING, NOTHING, NOTHING, clock)]


def _open_row(level: Level, scale: float) -> tuple[str, ...]:
    wait, service, late = level.get("wait_ns"), level.get("service_ns"), level.get("late")
    held, busy = level.get("slo_held"), level.get("utilisation")
    waited = NOTHING if wait is None else GROWS if is_full(level) else units.time(wait["mean"], scale)
    return (
        _name(level),
        f"{rate_text(level['rate'])}/s",
        *_latency_cells(level, scale),
        NOTHING if held is None else "kept" if held else "broken",
        waited,
        NOTHING if service is None else units.time(service["p50"], scale),
        NOTHING if busy is None else units.share(busy),
        NOTHING if late is None else units.share(late),
        units.rate(rate_of(level)),
        _plus_minus(level),
        *_host_cells(level),
        _clock(level),
    )


def _plus_minus(level: Level) -> str:
    off = spread_of(level)
    return NOTHING if off is None else units.share(round(off, 6), 1)


def _speed_cells(level: Level, levels: Sequence[Level]) -> tuple[str, str]:
    found = speed_up(level, levels) if is_measured(level) else None
    if found is None:
        return NOTHING, NOTHING
    return f"{units.ratio(found.ratio)}×", NOTHING if found.ci95 is None else "–".join(map(units.ratio, found.ci95))


def _latency_cells(level: Level, scale: float) -> tuple[str, str, str]:
    latency, n = by_statistic(latency_of(level)), level["n"]
    p50, p95, p99 = (
        NOTHING if n < SAMPLES_FOR.get(stat, 0) else units.time(latency[stat], scale) for stat in ("p50", "p95", "p99")
    )
    return p50, p95, p99


def _host_cells(level: Level) -> tuple[str, str]:
    waited = level["lock_wait"]
    return _ratio(level["cpu_cores"]), NOTHING if waited is None else units.share(waited)


def _ratio(value: float | None) -> str:
    return NOTHING if value is None else units.ratio(value)


def _clock(level: Level) -> str:
    return NOTHING if level["clock_mhz"] is None else f"{level['clock_mhz']['sm']} MHz"


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
        _curve(result, by_callers, "runs_per_s"),
        _curve(result, by_callers, "p99"),
        NOTHING if rate is None else f"{units.rate(rate['rate'])}/s",
        NOTHING if rate is None else "–".join(map(units.rate, rate["ci95"])),
        _curve(result, by_rate, "p99"),
    )


def _curve(result: Result, levels: Sequence[Level], stat: str) -> str:
    """A curve of a figure over levels, on one scale for all modes; queues that grow are as high as there is room."""
    if len(levels) < 2:
        return NOTHING
    others = measured(result, at(levels[0]).kind)
    top = max((figure(it, stat) for it in others if not is_full(it)), default=0.0)
    top = top or max(figure(it, stat) for it in others)
    return sparkline([min(figure(level, stat), top) for level in levels], (0, top))


# All of it


def build(result: Result, folder: str | None = None) -> Report:
    """The report of a load.

    Args:
        result: of it.
        folder: where it was saved, which is said in a terminal.
    """
    tables = load_tables(result)
    notes = [*level_failures(result), *map(Note, sentences(result)), *warnings(result, superseded(result))]
    last: list[Block] = [Notes(notes)]
    if tables:
        last.append(Paragraph(WHAT_A_LEVEL_IS, media=MARKDOWN))
    last += [Command(result.command), SavedIn(folder)]
    parts: list[Sequence[Block]] = [[Heading(heading(result))], *([table] for table in tables)]
    if tables:
        words = dict.fromkeys(column.name for table in tables for column in table.columns)
        unusual = [word for word in ("speed-up", "lock", "fairness", "wait", "busy", "late", "knee") if word in words]
        parts.append([Paragraph(WHAT_A_LEVEL_IS, media=TERMINAL), hint(*unusual)])
    return Report(f"ortbench load: {result_name(result) or result.model['path']}", [*parts, last])


def _sign(level: Level) -> tuple[str, str]:
    return ("?", UNCLEAR) if level["status"] == NOT_MEASURED else ("✗", BAD)


def level_failures(result: Result, name: str = "") -> list[Note]:
    """Why modes and levels have no figures, or none that count; after the result's name, where there is one."""
    before = f"{name}: " if name else ""
    modes = {case.mode: case for case in result.cases if case.status != OK}
    found = [
        Note(f"{before}{mode}: {case.status}: {case.reason}", "✗", BAD if case.status == "failed" else UNCLEAR)
        for mode, case in modes.items()
    ]
    found += [
        Note(f"{before}{level['mode']} {at(level).phrase}: {level['status']}: {level['reason']}", *_sign(level))
        for level in failed(result)
        if level["mode"] not in modes
    ]
    return found
