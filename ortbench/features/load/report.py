"""The report of a load: its load points by clients and by rate, the shapes that it mixes, and what they come to by mode."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from ortbench.analysis.comparison import CANNOT_TELL
from ortbench.analysis.load_points import INFERENCES, by_name, is_full, latency_of, rate_of
from ortbench.analysis.noise import is_busy
from ortbench.analysis.placement import short
from ortbench.core import units
from ortbench.core.stats import Stats, Value, percentile
from ortbench.core.units import change
from ortbench.features.load.analysis import (
    CONCURRENCY,
    RATE,
    best_case,
    cases_with_figures,
    has_figures,
    is_measured,
    load_cases,
    load_point,
    load_point_of,
    measured_cases,
    modes_of,
    slo_limits,
    slo_rates,
    slo_text,
    tail_of,
)
from ortbench.features.load.model import EXACT, LARGEST, MULTIPLES, POWERS, LoadSetup
from ortbench.model.metric_names import AxisValue
from ortbench.model.metrics import TIME
from ortbench.model.modes import (
    ALL_SHAPES,
    APART,
    LATENCY,
    MIXED,
    MIXING,
    QUEUE_DELAY,
    SWITCHING_COST,
    THROUGHPUT,
)
from ortbench.model.result import NOT_MEASURED, OK, Case, Result
from ortbench.report import model
from ortbench.report.case_table import MODE, KeyColumn, Own, case_table
from ortbench.report.parts import cost_parts, on_page, placement_parts, with_title
from ortbench.report.phrases import ORDERS, measured_report, not_measured
from ortbench.report.records import with_units
from ortbench.report.run import input_shapes

if TYPE_CHECKING:
    import numpy as np
    import pandas
    from numpy.typing import NDArray

BACK_TO_BACK = "back to back"
SATURATED = "saturated"  # in the place of a mean delay that would only say how long the load point lasted


def closed_table(result: Result) -> model.Table:
    """A row for each mode and number of clients; only columns that hold something."""
    clients: KeyColumn = (model.Column("clients", model.Kind.NUMBER, model.KEY), lambda case: load_point_of(case).label)
    own = {model.SLO: Own(partial(_slo_cell, result), model.Kind.WORD)}
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
    own = {
        model.SLO: Own(partial(_slo_cell, result), model.Kind.WORD),
        "queue_delay.mean": Own(partial(_delay_cell, result)),
    }
    return case_table(result, cases, [MODE, rate], own, RATE, title="By rate")


_MET = {"passed": "met", "failed": "violated", "unclear": CANNOT_TELL}


def _slo_cell(result: Result, case: Case) -> str:
    """What the check says; where it cannot tell of a rate, that it meets the SLO if a higher one does."""
    found = case.checks.get("slo")
    if found is None:
        return model.NOTHING
    verdict, rate = found["verdict"], case.point.get(RATE)
    if verdict == "unclear" and rate is not None:
        higher = (it for it in measured_cases(result, RATE, case.mode) if load_point_of(it).value > float(rate))
        verdict = "passed" if any(it.checks.get("slo") == {"verdict": "passed"} for it in higher) else verdict
    cell = _MET[verdict]
    return _add_doubt(result, cell) if verdict == "failed" else cell


def _throughput_cell(result: Result, case: Case) -> str:
    """Beside the latency by which requests that are padded are compared."""
    return units.rate(rate_of(case)) if "padding" in result.part and has_figures(case) else model.NOTHING


COMPARED_CELLS: Mapping[str, Callable[[Result, Case], str]] = {
    model.SLO: _slo_cell,
    "inf/s": _throughput_cell,
    "padding": lambda result, _: model.maybe(result.part.get("padding"), units.share),
    "switching": lambda _, case: model.maybe(case.value(SWITCHING_COST), units.difference),
}


def _delay_cell(result: Result, case: Case) -> str:
    if (delay := case.stats(QUEUE_DELAY)) is None:
        return model.NOTHING
    return _add_doubt(result, SATURATED) if is_full(case) else units.duration(delay.mean)


def _add_doubt(result: Result, cell: str) -> str:
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
    points = [it for kind in (CONCURRENCY, RATE) for it in measured_cases(result, kind) if _is_shown(result, it)]
    cases = points if names else []
    most = {
        name: max((stats.p99 for case in cases if (stats := case.stats(f"{MIXED}.{name}"))), default=0)
        for name in names
    }
    slowest = sorted(names, key=lambda name: -most[name])[:_MOST_SHAPES]
    in_mix = {**{it: f"{MIXED}.{it}" for it in names if it in slowest}, ALL_SHAPES: LATENCY}
    both = [case.stats(key) for case in cases for name in in_mix for key in (in_mix[name], f"{APART}.{name}")]
    unit, show = TIME.column(ns for it in both if it is not None for ns in (it.median, it.p99))
    has_modes = len({it.mode for it in cases}) > 1

    def row(case: Case, name: str, mixed: Stats) -> tuple[str, ...]:
        ratio, apart = case.metrics.get(f"{MIXING}.{name}"), case.stats(f"{APART}.{name}")
        key = (case.mode if has_modes else model.NOTHING, load_point_of(case).text, name, str(mixed.n))
        known: list[float | None] = [mixed.median, percentile(mixed, "p99")]
        known += [None, None] if apart is None else [apart.median, percentile(apart, "p99")]
        times = (model.maybe(ns, show) for ns in known)
        if isinstance(ratio, Value):
            return (*key, *times, change(ratio.value), model.interval_text(ratio.ci95, change))
        return (*key, *times, model.NOTHING, model.NOTHING)

    rows = tuple(row(case, name, mixed) for case in cases for name in in_mix if (mixed := case.stats(in_mix[name])))
    title = "By shape" if len(slowest) == len(names) else f"By shape, the {len(slowest)} slowest of {len(names)}"
    return model.drop_empty_columns(model.Table(_SHAPE_COLUMNS, rows, unit, title=title))


def _is_shown(result: Result, case: Case) -> bool:
    found = slo_rates(result).get(case.mode)
    return f"{APART}.{ALL_SHAPES}" in case.metrics or (found is not None and found["rate"] == case.point.get(RATE))


def build(result: Result, folder: str | None = None) -> model.Report:
    found = [closed_table(result), open_table(result), shape_table(result)]
    tables = [table for table in found if table.rows]
    parts: list[Sequence[model.Block]] = [with_title(table) if len(tables) > 1 else [table] for table in tables]
    further = on_page([*cost_parts(result), *placement_parts(result)])
    return measured_report("ortbench load", result, parts, point_failures(result), further, folder)


def point_failures(result: Result) -> list[model.Note]:
    """Why modes and load points have no figures, or none that count."""
    modes = {case.mode for case in result.at_point() if case.status != OK}
    found = not_measured(replace(result, cases=result.at_point()))
    for case in load_cases(result):
        if case.mode not in modes and not is_measured(case):
            sign = ("?", model.UNCLEAR) if case.status == NOT_MEASURED else ("✗", model.BAD)
            text = f"{case.mode} {load_point_of(case).phrase} {case.status.replace('_', ' ')}: {case.reason}"
            found.append(model.Note(text, *sign))
    return found


def axis_tables(result: Result) -> dict[str, model.Table]:
    return {CONCURRENCY: closed_table(result), RATE: open_table(result)}


def point_label(point: Mapping[str, AxisValue]) -> str:
    """A load point as a row of a table is called."""
    return load_point(point).label


_SESSIONS = {"shared": "one session", "own": "a session each", "process": "a process each"}


def heading(result: Result) -> str:
    return f"{input_shapes(result)}; {_setup_text(result)}"


def own_line(result: Result) -> str:
    return f"load: {_setup_text(result)}"


def _setup_text(result: Result) -> str:
    """How the load is put on: what clients have, who serves requests and how they come, the shapes, the time of a load point, the SLO."""
    setup: LoadSetup = result.part
    parts = [_SESSIONS.get(setup["sessions"], setup["sessions"])]
    if setup["arrivals"]:
        source = f"arrivals of {setup['file']}" if setup["file"] else f"{setup['arrivals']} arrivals"
        parts += [units.count(setup["workers"], "worker"), source]
    if "requests" in setup:
        parts.append(f"{len({*setup['requests']})} sizes {_padded_text(setup['order'])}")
    elif "shapes" in setup:
        parts.append(f"{len(setup['shapes'])} shapes in {ORDERS[setup['order']]}")
    parts.append(f"{setup['duration_s']:g} s each")
    if asked := slo_limits(result):
        parts.append(f"SLO {slo_text(asked)}")
    return ", ".join(parts)


def _padded_text(order: str) -> str:
    known = {EXACT: "as they are", POWERS: "padded to powers of two", LARGEST: "padded to the largest"}
    return known.get(order) or f"padded to multiples of {order.removeprefix(MULTIPLES)}"


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
    """A row for each load: the most inferences/s, with which mode and how many clients, and the highest rate that meets the SLO."""
    headed = (
        model.Column("result", model.Kind.NAME),
        model.Column("EP", model.Kind.WORD),
        *model.columns(model.Kind.NUMBER, "peak inf/s", "mode", "clients", "highest rate in SLO"),
    )
    rows = []
    for name, result in zip(names, results, strict=True):
        most, rates = [model.NOTHING] * 3, [it["rate"] for it in slo_rates(result).values()]
        if (best := best_case(result)) is not None:
            most = [units.rate(rate_of(best)), best.mode, load_point_of(best).label]
        rate = f"{'≥ ' * is_busy(result)}{units.rate(max(rates))}/s" if rates else model.NOTHING
        rows.append((name, short(result.target["ep"]), *most, rate))
    return model.drop_empty_columns(model.Table(headed, tuple(rows)))


_OF_RUNS = ("block", "caller", "latency_ns", "due_ns", "start_ns", "end_ns")  # what a load keeps of each


def sample_frame(result: Result, taken: Mapping[str, NDArray[np.int64]]) -> pandas.DataFrame:
    """Every inference of the load points of a load, a row for each.

    ``mode``, and of a closed loop ``concurrency``, ``block``, ``caller`` and ``latency_ns``; of an open loop ``rate``, ``due_ns``,
    ``start_ns`` and ``end_ns`` from the beginning of a ``block`` on, which is a try of a search or a round of a gate; the last two are
    missing where a request was never served. `taken` is what ``load-samples.npz`` has, by name.
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
    were served, shape (stretches, 2); None of a closed one."""
    import numpy as np
    import pandas

    if requests is None:
        return pandas.DataFrame(own)
    due, served_counts = requests.T
    begins = zip(np.cumsum(due) - due, served_counts, strict=True)
    served = np.concatenate([begin + np.arange(count) for begin, count in begins])
    found = {name: pandas.Series(times, None if name == "due_ns" else served) for name, times in own.items()}
    found["block"] = pandas.Series(np.repeat(np.arange(len(requests)), due))
    return pandas.DataFrame(found)
