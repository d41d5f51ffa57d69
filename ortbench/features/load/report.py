"""The report of a load: its load points by clients and by rate, the shapes that it mixes, and what they come to by mode."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from ortbench.analysis.findings.node_advice import short
from ortbench.analysis.noise import is_busy
from ortbench.analysis.point_blocks import INFERENCES, by_name, figure, is_full, latency_of, rate_of
from ortbench.core import units
from ortbench.core.resampling import FEW
from ortbench.core.stats import SAMPLES_FOR, Stats, Value, percentile
from ortbench.core.units import change, rate_asked
from ortbench.features.load.analysis.knees import bend_of, knee_of
from ortbench.features.load.analysis.points import (
    CONCURRENCY,
    RATE,
    best_case,
    best_of,
    cases_with_figures,
    failed_cases,
    has_figure,
    is_measured,
    is_of_few,
    load_cases,
    load_point,
    load_point_of,
    measured_cases,
    meets,
    modes_of,
    processes_of,
    slo_in,
    slo_limits,
    slo_rates,
    slo_text,
    tail_of,
)
from ortbench.features.load.model import LoadSetup
from ortbench.model.metric_names import AxisValue
from ortbench.model.metrics import SHARE, TIME
from ortbench.model.modes import (
    ALL_SHAPES,
    APART,
    LATENCY,
    MIXED,
    MIXING,
    QUEUE_DELAY,
    THROUGHPUT,
)
from ortbench.model.result import NOT_MEASURED, OK, Case, Result
from ortbench.report import model
from ortbench.report.bars import sparkline
from ortbench.report.case_table import MODE, KeyColumn, Own, case_table, in_groups, legend
from ortbench.report.costs import cost_parts
from ortbench.report.phrases import ORDERS, hint, measured_report, not_measured, processes_in
from ortbench.report.placement import on_page, placement_parts, titled
from ortbench.report.records import with_units
from ortbench.report.screens.screen import input_shapes

if TYPE_CHECKING:
    import numpy as np
    import pandas
    from numpy.typing import NDArray

WHAT_A_LATENCY_IS = {
    CONCURRENCY: "latency (closed loop): from the start of an inference to its outputs.",
    RATE: "latency (open loop): from the moment when a request was due to its outputs, queue delay included.",
}
BACK_TO_BACK = "back to back"
SATURATED = "saturated"  # in the place of a mean delay that would only say how long the load point lasted
BY_MODE = (
    model.Column("mode", model.Kind.NAME, model.KEY),
    *model.columns(model.Kind.NUMBER, "knee", "share of peak", "peak inf/s", group=1),
    *model.columns(model.Kind.WORD, "inf/s by clients", "p99 by clients", group=2),
    *model.columns(model.Kind.NUMBER, "highest rate in SLO", "violated from", group=3),
    model.Column("p99 by rate", model.Kind.WORD, 4),
)


def load_tables(result: Result) -> list[model.Table]:
    """The tables of a load that have rows: by clients, by rate, by shape, and what the load points come to by mode."""
    found = [closed_table(result), open_table(result), shape_table(result), mode_curves(result)]
    return [table for table in found if table.rows]


def closed_table(result: Result) -> model.Table:
    """A row for each mode and number of clients; only columns that hold something."""
    clients: KeyColumn = (model.Column("clients", model.Kind.NUMBER, model.KEY), lambda case: load_point_of(case).label)
    own = {"SLO": Own(partial(_slo_cell, result), model.Kind.WORD)}
    return case_table(result, cases_with_figures(result, CONCURRENCY), [MODE, clients], own, CONCURRENCY, "By clients")


def open_table(result: Result) -> model.Table:
    """A row for each mode and rate, above those of a mode the same inferences back to back; only columns that hold something."""
    points = cases_with_figures(result, RATE)
    alone = [case for mode in modes_of(result) if (case := result.case(mode)) and case.stats(LATENCY)] if points else []
    cases = sorted([*alone, *points], key=lambda case: modes_of(result).index(case.mode))
    rate: KeyColumn = (
        model.Column("rate", model.Kind.NUMBER, model.KEY),
        lambda case: load_point_of(case).label if case.point else BACK_TO_BACK,
    )
    counts = {processes_of(it) for it in points if it.load_blocks}
    own = {
        "SLO": Own(partial(_slo_cell, result), model.Kind.WORD),
        "processes": Own(partial(_processes_cell, counts)),
        "queue_delay.mean": Own(partial(_delay_cell, result)),
    }
    return case_table(result, cases, [MODE, rate], own, RATE, title="By rate")


CANNOT_TELL = "cannot tell"
_MET = {"passed": "met", "failed": "violated", "unclear": CANNOT_TELL}
_TIMES = ("once", "twice")  # in a process, in two


def _slo_cell(result: Result, case: Case) -> str:
    found = case.checks.get("slo")
    if found is None:
        return model.NOTHING
    higher = (
        it for it in measured_cases(result, RATE, case.mode) if load_point_of(it).value > load_point_of(case).value
    )
    told, passed = found["verdict"], {"verdict": "passed"}
    if told == "unclear" and load_point_of(case).kind == RATE and any(it.checks.get("slo") == passed for it in higher):
        return _MET["passed"]
    if told == "unclear" and meets(case, slo_limits(result) or {}):
        told = "passed"
    cell = _MET[told]
    cell += _few(result, case) if told != "unclear" else ""
    return _doubted(result, cell) if told == "failed" else cell


def _few(result: Result, case: Case) -> str:
    """In how many processes a load point was measured, in words where they are too few to tell how processes differ."""
    return f" {_TIMES[processes_of(case) > 1]}" if is_of_few(result, case) else ""


def _processes_cell(counts: Collection[int], case: Case) -> str:
    """In how many processes a load point was measured, where they are not as many for all."""
    return str(processes_of(case)) if case.load_blocks and len(counts) > 1 else model.NOTHING


def _delay_cell(result: Result, case: Case) -> str:
    delay = case.stats(QUEUE_DELAY)
    return (
        model.NOTHING if delay is None else _doubted(result, SATURATED) if is_full(case) else units.duration(delay.mean)
    )


def _doubted(result: Result, cell: str) -> str:
    """That an SLO is violated, or workers are saturated, with the doubt that findings have of it, which the facts have too."""
    return f"{cell}{model.DOUBTED if is_busy(result) else ''}"


_MOST_SHAPES = 12  # of a load point that are shown
_SHAPE_COLUMNS = (
    model.Column("mode", model.Kind.NAME, model.KEY),
    model.Column("load point", model.Kind.NAME, model.KEY),
    model.Column("shape", model.Kind.NAME, model.KEY),
    model.Column("inferences", model.Kind.NUMBER),
    *model.columns(model.Kind.TIME, "latency", "p99", group=1),
    *model.columns(model.Kind.TIME, "apart", "p99 apart", group=2),
    *model.columns(model.Kind.NUMBER, "p99 ratio", "95% CI", group=3),
)


def shape_table(result: Result) -> model.Table:
    """A row for each load point and shape, the slowest where there are many, and for all shapes: in the mix and apart; none where there
    is one shape. Of a search for a rate the one that was found."""
    names = result.part.get("shapes", ())
    cases = (
        [it for kind in (CONCURRENCY, RATE) for it in measured_cases(result, kind) if _is_shown(result, it)]
        if names
        else []
    )
    modes = {it.mode for it in cases}
    most = {name: max((it.p99 for case in cases if (it := case.stats(f"{MIXED}.{name}"))), default=0) for name in names}
    slowest = sorted(names, key=lambda name: -most[name])[:_MOST_SHAPES]
    rows = [
        (
            case.mode if len(modes) > 1 else model.NOTHING,
            load_point_of(case).text,
            name,
            mixed,
            case.stats(f"{APART}.{name}"),
            case.metrics.get(f"{MIXING}.{name}"),
        )
        for case in cases
        for name in (*(it for it in names if it in slowest), ALL_SHAPES)
        if (mixed := case.stats(LATENCY if name == ALL_SHAPES else f"{MIXED}.{name}"))
    ]
    both = [it for *_, mixed, apart, _ in rows for it in (mixed, apart) if it is not None]
    unit, show = TIME.column(ns for it in both for ns in (it.median, it.p99))
    cells = (
        (
            mode,
            place,
            name,
            str(mixed.n),
            *(cell for it in (mixed, apart) for cell in _typical_and_tail(it, show)),
            *(
                (change(ratio.value), model.between(ratio.ci95, change))
                if isinstance(ratio, Value)
                else (model.NOTHING, model.NOTHING)
            ),
        )
        for mode, place, name, mixed, apart, ratio in rows
    )
    title = "By shape" if len(slowest) == len(names) else f"By shape, the {len(slowest)} slowest of {len(names)}"
    return model.filled(model.Table(_SHAPE_COLUMNS, tuple(cells), unit, title=title))


def _is_shown(result: Result, case: Case) -> bool:
    found = slo_rates(result).get(case.mode)
    return f"{APART}.{ALL_SHAPES}" in case.metrics or (found is not None and found["rate"] == case.point.get(RATE))


def _typical_and_tail(stats: Stats | None, show: Callable[[float], str]) -> tuple[str, str]:
    return (
        (model.NOTHING, model.NOTHING)
        if stats is None
        else (show(stats.median), model.maybe(percentile(stats, "p99"), show))
    )


def mode_curves(result: Result) -> model.Table:
    """What the load points come to: a row a mode, with curves from nothing to the most of all modes; none where every mode has
    one alone."""
    modes = dict.fromkeys(case.mode for case in in_groups(load_cases(result)))
    rows = tuple(_mode_row(result, mode) for mode in modes)
    table = model.Table(BY_MODE, rows, title="By mode")
    return model.filled(table) if any(set(row[1:]) != {model.NOTHING} for row in rows) else model.Table(BY_MODE, ())


def _mode_row(result: Result, mode: str) -> tuple[str, ...]:
    by_clients, by_rate = measured_cases(result, CONCURRENCY, mode), measured_cases(result, RATE, mode)
    bend, knee, peak, rate = (
        bend_of(by_clients),
        knee_of(result, mode),
        best_of(by_clients),
        slo_rates(result).get(mode),
    )
    few = [_few(result, it) for it in by_rate if rate is not None and load_point_of(it).value == rate["violated_from"]]
    return (
        mode,
        str(knee["concurrency"]) if knee else CANNOT_TELL if bend else model.NOTHING,
        model.NOTHING if knee is None else SHARE.text(knee["share_of_peak"]),
        model.NOTHING if peak is None or bend is None else units.rate(rate_of(peak)),
        _curve(result, by_clients, THROUGHPUT),
        _curve(result, by_clients, "p99"),
        model.NOTHING if rate is None else f"{rate_asked(rate['rate'])}/s",
        model.NOTHING
        if rate is None or rate["violated_from"] is None
        else _doubted(result, f"{rate_asked(rate['violated_from'])}/s{''.join(few)}"),
        _curve(result, by_rate, "p99"),
    )


_ROOM = 4 / 3  # by which queues that grow are drawn higher than the highest of the others


def _curve(result: Result, cases: Sequence[Case], stat: str) -> str:
    """A curve of a figure over load points, on one scale for all modes; queues that grow are as high as there is room."""
    if len(cases) < 2:
        return model.NOTHING
    if stat in SAMPLES_FOR and not all(has_figure(it, stat) for it in cases):
        return model.NOTHING
    others = measured_cases(result, load_point_of(cases[0]).kind)
    top = max((figure(it, stat) for it in others if not is_full(it)), default=0.0)
    top = top or max(figure(it, stat) for it in others)
    top *= _ROOM if any(map(is_full, others)) else 1.0
    return sparkline([top if is_full(it) else min(figure(it, stat), top) for it in cases], (0, top))


# All of it


_UNUSUAL = ("scaling", "GIL wait", "Jain's fairness index", "mean queue delay", "utilisation", "late share", "knee")


_ELSEWHERE = "In other processes, or at another time, rates and times can differ by more than their intervals."
_BY_PROCESSES = "{}: by the figures of {}, one after the other, percentiles over all of their requests; a load at another time can differ by more."
_HIGHEST = "p99 by rate: a saturated rate is drawn above all others, as its p99 depends on how long it lasts."
_OPEN = (
    "SLO: met, violated: in three processes or more (once, twice: in fewer); saturated violates it; met in three, it is met at lower rates too; "
    "cannot tell: too few requests, as "
    "those that wait together tell little, too close to the limit, or processes that disagree."
)


def build(result: Result, folder: str | None = None) -> model.Report:
    tables = load_tables(result)
    parts: list[Sequence[model.Block]] = [titled(table) if len(tables) > 1 else [table] for table in tables]
    if tables:
        of_kinds = [text for kind, text in WHAT_A_LATENCY_IS.items() if cases_with_figures(result, kind)]
        counts = [processes_of(it) for it in load_cases(result) if it.load_blocks]
        has_ci = any(column.name == "95% CI" for table in tables for column in table.columns)
        of = " and ".join(["95% CI"] * has_ci + ["SLO"] * (slo_in(result) is not None)) or "figures"
        several = f"as many of the {processes_in(result)} processes as column processes says"
        differ, top = len({*counts}) > 1, max(counts, default=0)
        known = _BY_PROCESSES.format(of, several if differ else f"{top} processes") if top >= FEW else _ELSEWHERE
        cells = {cell for table in tables for row in table.rows for cell in row}
        is_open = any(it == CANNOT_TELL or it.rstrip(model.DOUBTED).endswith(_TIMES) for it in cells)
        of_kinds += [_OPEN] if slo_in(result) and (is_open or differ) else []
        of_kinds += [_HIGHEST] if any(map(is_full, measured_cases(result, RATE))) else []
        lines = dict.fromkeys([*of_kinds, *legend(result, *tables), known])
        there = {column.name for table in tables for column in table.columns}
        parts.append([*map(model.Paragraph, lines), hint(*(word for word in _UNUSUAL if word in there))])
    further = on_page([*cost_parts(result), *placement_parts(result)])
    return measured_report("ortbench load", result, parts, level_failures(result), further, folder)


def _sign(case: Case) -> tuple[str, str]:
    return ("?", model.UNCLEAR) if case.status == NOT_MEASURED else ("✗", model.BAD)


def level_failures(result: Result) -> list[model.Note]:
    """Why modes and load points have no figures, or none that count."""
    modes = {case.mode for case in result.at_point() if case.status != OK}
    found = not_measured(replace(result, cases=result.at_point()))
    found += [
        model.Note(f"{it.mode} {load_point_of(it).phrase} {it.status.replace('_', ' ')}: {it.reason}", *_sign(it))
        for it in failed_cases(result)
        if it.mode not in modes
    ]
    return found


# The screen


def axis_tables(result: Result) -> dict[str, model.Table]:
    """The tables of the default screen, by axis."""
    return {CONCURRENCY: closed_table(result), RATE: open_table(result)}


def point_label(point: Mapping[str, AxisValue]) -> str:
    """A load point as a row of a table is called."""
    return load_point(point).label


def heading(result: Result) -> str:
    setup: LoadSetup = result.part
    asked = slo_limits(result)
    where = {"shared": "one session", "own": "a session each", "process": "a process each"}.get(
        setup["sessions"], setup["sessions"]
    )
    arrivals = f", {setup['arrivals']} arrivals" if setup["arrivals"] else ""
    workers = f", {units.count(setup['workers'], 'worker')}" if arrivals else ""
    slo = f", SLO {slo_text(asked)}" if asked else ""
    return f"{input_shapes(result)}; {where}{workers}{arrivals}, {setup['duration_s']:g} s each{slo}"


_SESSIONS = {"shared": "in one session", "own": "in a session each", "process": "in a process each"}
_ARRIVALS = {"poisson": "the mean of Poisson arrivals", "uniform": "even arrivals"}
_RATES = 6  # that a line names one by one


def own_line(result: Result) -> str:
    """A load: how many clients in what, which rates with which arrivals, how long each load point lasts, and the SLO."""
    setup: LoadSetup = result.part
    clients, rates = (
        sorted({load_point_of(case).value for case in load_cases(result) if kind in case.point})
        for kind in (CONCURRENCY, RATE)
    )
    said = []
    if clients:
        said.append(f"{', '.join(f'{it:g}' for it in clients)} client{'' if clients == [1] else 's'}")
    if rates:
        some = [rate_asked(rate) for rate in rates]
        some = some if len(rates) <= _RATES else [f"{some[0]} to {some[-1]}"]
        arrivals = f"arrivals of {setup['file']}" if setup["file"] else _ARRIVALS.get(str(setup["arrivals"]), "")
        by = f"served by {units.count(setup['workers'], 'worker')}"
        said.append(", ".join(filter(None, (f"{', '.join(some)} requests/s", arrivals, by))))
    where = _SESSIONS.get(setup["sessions"], setup["sessions"])
    where += " in each process" if setup["sessions"] == "shared" and processes_in(result) else ""
    asked = slo_limits(result)
    slo = f"; SLO: {slo_text(asked)}" if asked else ""
    mixed = f"; {len(setup['shapes'])} shapes in {ORDERS[setup['order']]}" if "shapes" in setup else ""
    each = f"load point{' over all processes' * bool(processes_in(result))}"
    each = "try" if (met := slo_in(result)) is not None and met["found"] else each
    return f"load {where}: {' and '.join(said) or 'no load point measured'}; {setup['duration_s']:g} s per {each}{mixed}{slo}"


def case_words(case: Case) -> tuple[str, str]:
    """What a load point is called in a list of results, and its figures; no figures where it has none that count."""
    name = f"{case.mode} {load_point_of(case).phrase}"
    if not is_measured(case):
        return name, ""
    latency, inside = latency_of(case), case.metrics[THROUGHPUT].ci95
    sure = "" if inside is None else f" (95% CI {units.rate(inside[0])} to {units.rate(inside[1])})"
    tails = ", ".join(f"{it} {units.duration(by_name(latency, it))}" for it in dict.fromkeys(["p50", tail_of(case)]))
    return name, f"{units.rate(rate_of(case))} {INFERENCES}{sure}, {tails}, of {latency.n} inferences"


def overview_table(results: Sequence[Result], names: Sequence[str]) -> model.Table:
    """A row for each load: the most runs/s, with which mode and how many clients, and the highest rate that keeps the SLO."""
    headed = (
        model.Column("result", model.Kind.NAME),
        model.Column("EP", model.Kind.WORD),
        *model.columns(model.Kind.NUMBER, "peak inf/s", "mode", "clients", "highest rate in SLO"),
    )
    rows = []
    for name, result in zip(names, results, strict=True):
        best, rates = best_case(result), slo_rates(result)
        most = (
            (model.NOTHING,) * 3
            if best is None
            else (units.rate(rate_of(best)), best.mode, f"{load_point_of(best).value:g}")
        )
        rate = max((it["rate"] for it in rates.values()), default=None)
        rows.append(
            (name, short(result.target["ep"]), *most, model.NOTHING if rate is None else f"{units.rate(rate)}/s")
        )
    return model.filled(model.Table(headed, tuple(rows)))


_OF_RUNS = ("block", "caller", "latency_ns", "due_ns", "start_ns", "end_ns")  # what a load keeps of each


def sample_frame(result: Result, taken: Mapping[str, NDArray[np.int64]]) -> pandas.DataFrame:
    """Every inference of the load points of a load, a row for each.

    ``mode``, and of a closed loop ``concurrency``, ``block``, ``caller`` and ``latency_ns``; of an open loop ``rate``, ``due_ns``,
    ``start_ns`` and ``end_ns`` from the beginning of a ``block`` on, which is a try of a search or a round of a gate; the last two are
    missing where a request was never served.

    Args:
        result: of the load.
        taken: what its ``load-samples.npz`` has, by name.
    """
    import pandas

    columns = ["mode", "concurrency", "rate", *_OF_RUNS]
    found = []
    for number, case in enumerate(load_cases(result)):
        own = {name: taken[f"{number}/{name}"] for name in _OF_RUNS if f"{number}/{name}" in taken}
        if own:
            runs = _runs_of_point(own, taken.get(f"{number}/requests"))
            found.append(runs.assign(**{"mode": case.mode, "concurrency": None, "rate": None, **case.point}))
    made = pandas.concat(found, ignore_index=True) if found else pandas.DataFrame(columns=columns)
    made = made.reindex(columns=columns).dropna(axis="columns", how="all").convert_dtypes()
    return with_units(made.astype({"rate": "Float64"} if "rate" in made else {}))  # 20 a second is no whole number


def _runs_of_point(own: Mapping[str, NDArray[np.int64]], requests: NDArray[np.int64] | None) -> pandas.DataFrame:
    """The runs of a load point. `requests`: of each stretch of an open one how many were due, and how many of these, the first ones,
    were served, shape (stretches, 2); None where it is one stretch."""
    import numpy as np
    import pandas

    if "due_ns" not in own:
        return pandas.DataFrame(own)
    counts = np.array([[own["due_ns"].size, own["start_ns"].size]]) if requests is None else requests
    begins = np.cumsum(counts[:, 0]) - counts[:, 0]
    served = np.concatenate([begin + np.arange(count) for begin, count in zip(begins, counts[:, 1], strict=True)])
    found = {name: pandas.Series(times, None if name == "due_ns" else served) for name, times in own.items()}
    if requests is not None:
        found["block"] = pandas.Series(np.repeat(np.arange(len(requests)), requests[:, 0]))
    return pandas.DataFrame(found)
