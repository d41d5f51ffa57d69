"""The reports of `ortbench tune`: what it left out, and what is best under load."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from ortbench.analysis.advice import Finding
from ortbench.analysis.comparison import CANNOT_TELL, SAME, RatioEstimate, compare_series, word
from ortbench.analysis.intervals import MARGIN, Interval
from ortbench.core import units
from ortbench.facts import Fact, Values
from ortbench.facts.comparison import Best
from ortbench.facts.run import findings_of
from ortbench.features.load.analysis import load_cases, load_point_of
from ortbench.features.load.report import COMPARED_CELLS
from ortbench.features.tune.facts import CPU_FIGURE, LATENCY_FIGURE, P99_FIGURE, load_series, serving_lines
from ortbench.features.tune.model import P99
from ortbench.model.metrics import TIME, Figure
from ortbench.model.modes import CPU_TIME, LATENCY
from ortbench.model.result import Result
from ortbench.report import model
from ortbench.report.comparison import why_missing
from ortbench.report.parts import noise_part
from ortbench.report.run import heading, input_shapes

_LEFT_OUT = (
    model.Column("tried briefly", model.Kind.NAME, model.KEY),
    *model.columns(model.Kind.NUMBER, "latency vs default", "p99 vs default", "CPU time vs default"),
    model.Column("left out because", model.Kind.WORDS),
)


_OPEN = 10  # times a ratio: an end of its interval beyond that says nothing


def left_out(
    found: Mapping[str, Mapping[str, tuple[float, Interval | None]]],
    failures: Mapping[str, str],
    why: Mapping[str, str],
    lacking: Sequence[Finding] = (),
) -> list[model.Report]:
    """The configurations that were tried and are not among the best, with their figures against the first, the fastest first, and why
    they are not, unless others raced better; those that could not be measured; and what there was no time for."""
    order = sorted(
        (name for name in found if name not in failures), key=lambda name: next(iter(found[name].values()))[0]
    )
    rows = tuple((name, *_ratios(found[name]), why.get(name, "others raced better")) for name in order)
    told = [model.Note(f"{name}: {reason}", "✗", model.BAD) for name, reason in failures.items()]
    table = [model.drop_empty_columns(model.Table(_LEFT_OUT, rows, title="Tried briefly"))] if rows else []
    blocks = [*table, model.Notes(told), model.Findings(lacking)]
    return [model.Report("ortbench tune: tried briefly", (blocks,))] if table or told or lacking else []


def _ratios(found: Mapping[str, tuple[float, Interval | None]]) -> list[str]:
    """The cells of a configuration's figures against the first."""
    show = partial(_against, P99 in found)
    return [model.maybe(found.get(goal), show) for goal in (LATENCY, P99, CPU_TIME)]


def _against(is_loaded: bool, found: tuple[float, Interval | None]) -> str:
    """A ratio where a race tells it, else a word, with where it lies; under load, where no race has intervals, about what it is."""
    ratio, ends = found
    if ends is None:
        return f"about {units.ratio(ratio)}" if is_loaded else CANNOT_TELL
    said = word(RatioEstimate(1, ratio, ratio, *ends), MARGIN)
    is_open = ends[1] > _OPEN * ratio  # a mode that is bimodal, of which a few blocks say nothing
    lies = f"from {units.ratio(ends[0])} on" if is_open else model.interval_text(ends, units.ratio)
    return f"{said if said in (SAME, CANNOT_TELL) else units.ratio(ratio)} ({lies})"


_UNDER_LOAD = (
    model.Column("configuration", model.Kind.NAME, model.KEY),
    model.Column("p99", model.Kind.TIME),
    model.Column("vs lowest", model.Kind.WORD),
    model.Column("CPU time", model.Kind.TIME),
    model.Column(model.SLO, model.Kind.WORD),
    model.Column("latency", model.Kind.TIME),
)


def load_report(
    results: Sequence[Result],
    names: Sequence[str],
    answers: Sequence[Best],
    facts: Sequence[Fact],
    tried: str,
    folder: str,
) -> model.Report:
    """What is best under load: a row for each configuration that is left, what is lowest, and the lines that set it."""
    series = [load_series(it, P99_FIGURE) for it in results]
    known = [(number, it) for number, it in enumerate(series) if it is not None]
    lowest = min(known, key=lambda it: it[1].value, default=(None, None))[1]
    shown = [_value(result, figure) for result in results for figure in (P99_FIGURE, CPU_FIGURE, LATENCY_FIGURE)]
    unit, show = TIME.column(filter(None, shown))

    def row(number: int) -> tuple[str, ...]:
        result, own = results[number], series[number]
        figures = (_value(result, it) for it in (P99_FIGURE, CPU_FIGURE, LATENCY_FIGURE))
        p99, cpu, latency = (model.maybe(it, show) for it in figures)
        ratio = model.NOTHING
        if own is not None and lowest is not None:
            ratio = "lowest" if own is lowest else _against_lowest(compare_series(lowest, own))
        slo = model.NOTHING if own is None else COMPARED_CELLS[model.SLO](result, own.case)
        return names[number], p99, ratio, cpu, slo, latency

    table = model.drop_empty_columns(
        model.Table(_UNDER_LOAD, tuple(map(row, range(len(results)))), unit, title="Under load")
    )
    path, (case, *_) = results[0].model["path"], load_cases(results[0])
    title = f"{path} ({input_shapes(results[0])}; {load_point_of(case).text})"
    head = model.Heading([title, f"{heading(results[0])[1]}; {tried}"])
    chosen = dict.fromkeys(it.number for it in answers if it.number is not None)
    settings = [_setting_fact(names[number], serving_lines(results[number])) for number in chosen]
    last: list[model.Block] = [
        model.Findings(findings_of([*facts, *filter(None, settings)])),
        model.Notes(why_missing(results, names)),
    ]
    return model.Report("ortbench tune", ([head], *noise_part(results), [table], last, [model.SavedIn(folder)]))


def _setting_fact(name: str, statements: Sequence[str]) -> Fact | None:
    """The lines that set a configuration, where it takes some."""
    values: Values = {"configuration": name, "statements": statements}
    return Fact("load-settings", "python", "", values) if statements else None


def _value(result: Result, figure: Figure) -> float | None:
    found = load_series(result, figure)
    return None if found is None else found.value


def _against_lowest(found: RatioEstimate | None) -> str:
    """How a p99 compares with the lowest."""
    said = CANNOT_TELL if found is None else word(found, MARGIN)
    if found is None or said in (SAME, CANNOT_TELL):
        return said
    return f"{units.times(found.ratio)} ({model.interval_text(found.ends, units.ratio)})"
