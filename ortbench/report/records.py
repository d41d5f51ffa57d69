"""Results for other programs: a flat record a case, as CSV and as a data frame, frames of samples and checks, and what a command came to; and
reports as Markdown: files beside results, and the job summary of a CI system.

Every figure of a case is one of the catalogue. A column's unit is the end of its name, and stands in ``frame.attrs["units"]`` too.

In Markdown every text of a report is taken for words: what GitHub's Markdown, its HTML and its formulas included, would take for markup
is escaped, and what nobody sees is shown by `ortbench.core.safe_text.visible`. Names that hold neither stay as they are.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from csv import DictWriter
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any, NamedTuple

from ortbench.analysis.advice import Finding
from ortbench.core.safe_text import visible, visible_lines
from ortbench.core.stats import Stats, Value
from ortbench.facts.sentences import Check
from ortbench.model import modes
from ortbench.model.metrics import PER_BLOCK, USUAL, in_order, known_or_plain
from ortbench.model.modes import STAGE, STEP
from ortbench.model.protocol import Timeline
from ortbench.model.result import Case, Result, work_of
from ortbench.report import model
from ortbench.report.model import Block, Report

if TYPE_CHECKING:
    import pandas


_STATISTICS = ("n", USUAL, "p95", "p99", "min", "max", "mean", "stdev")
_ENDS = ("ci95_low", "ci95_high")
_FIRST = ("mode", "status", "reason")


class _Column(NamedTuple):
    """A statistic of a metric, one end of its interval, or "" where it is one number, with the name of its column and its unit."""

    metric: str
    statistic: str
    name: str
    unit: str


def records(*results: Result) -> list[dict[str, Any]]:
    """A flat record for each case; None for what is not known.

    First are ``mode``, ``status`` and ``reason``, then its place on the axes, one column an axis, then every metric that any case
    has, in the order of the catalogue, and last the verdict of each check. Of samples there are the number, some statistics, and
    the ends of the interval of the median; of one number itself, and the ends of its interval where any case has one.
    """
    cases = [case for result in results for case in result.cases]
    found, checks = _columns(cases), dict.fromkeys(name for case in cases for name in case.checks)
    others = {*_FIRST, *(it.name for it in found), *map(_of_check, checks)}  # a dimension may be called as one of them
    axes = {name: f"axis_{name}" if name in others else name for case in cases for name in case.point}
    return [
        {
            **{name: getattr(case, name) for name in _FIRST},
            **{column: case.point.get(axis) for axis, column in axes.items()},
            **{it.name: _figure(_metrics(case).get(it.metric), it.statistic) for it in found},
            **{_of_check(name): case.checks[name]["verdict"] if name in case.checks else None for name in checks},
        }
        for case in cases
    ]


def _metrics(case: Case) -> dict[str, Stats | Value]:
    return case.metrics if case.speedup is None else {**case.metrics, "speedup": case.speedup}


def _of_check(name: str) -> str:
    return f"{name}_check"


def _columns(cases: Sequence[Case]) -> list[_Column]:
    known: dict[str, list[Stats | Value]] = {}
    for case in cases:
        for key, figure in _metrics(case).items():
            known.setdefault(key, []).append(figure)
    found = []
    for key in in_order(known):
        metric, of = known_or_plain(key), known[key]
        statistics = _STATISTICS if any(isinstance(it, Stats) for it in of) else (metric.usual,)
        ends = _ENDS if any(it.ci95 is not None for it in of) else ()
        for statistic in (*statistics, *ends):
            found.append(
                _Column(key, statistic, metric.column(statistic), "1" if statistic == "n" else metric.unit.symbol)
            )
    return found


def _figure(found: Stats | Value | None, statistic: str) -> float | None:
    if found is None:
        return None
    if statistic in _ENDS:
        return None if found.ci95 is None else found.ci95[_ENDS.index(statistic)]
    if isinstance(found, Stats):
        value: float = getattr(found, statistic)
        return value
    return found.value if statistic in ("", USUAL) else None


def records_csv(result: Result) -> str:
    found = records(result)
    return csv_text(list(found[0]) if found else _FIRST, found)


def frame(results: Sequence[Result]) -> pandas.DataFrame:
    """The records of many results, with when each was measured, its model and its EP; units are in ``frame.attrs["units"]``.

    Columns have pandas' nullable dtypes.
    """
    import pandas

    heads = [
        {"created": result.created, "model": result.model.get("path"), "ep": result.target["ep"]}
        for result in results
        for _ in result.cases
    ]
    lines = [{**head, **record} for head, record in zip(heads, records(*results), strict=True)]
    made = pandas.DataFrame(lines).convert_dtypes()
    axes = {axis["name"]: axis["unit"] for result in results for axis in result.axes if axis["name"] in made}
    found = {it.name: it.unit for it in _columns([case for result in results for case in result.cases])}
    made.attrs["units"] = {name: unit for name, unit in {**axes, **found}.items() if unit not in ("", "1", None)}
    return made


_FORMULA = ("=", "+", "-", "@")


def csv_text(columns: Sequence[str], records: Iterable[Mapping[str, Any]]) -> str:
    """Flat records as CSV; None and what is not there is left empty, what no column is for is left out.

    Texts are `ortbench.core.safe_text.visible_lines`, and none is a formula.
    """
    text = io.StringIO()
    writer = DictWriter(text, columns, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: _cell(value) for key, value in record.items()} for record in records)
    return text.getvalue()


def _cell(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    shown = visible_lines(value)
    return f"'{shown}" if shown.lstrip().startswith(_FORMULA) else shown


# Data frames of what is no case


def with_units(frame: pandas.DataFrame) -> pandas.DataFrame:
    """With the unit of each column that is a time; others are words and numbers without one."""
    frame.attrs["units"] = {name: "ns" for name in frame if str(name).endswith("_ns")}
    return frame


def record_frame(records: Sequence[Mapping[str, Any]]) -> pandas.DataFrame:
    """Flat records; what is inside a record of its own has a column with both names: ``vs_first_ratio``."""
    import pandas

    flat = [
        {
            (name if inner is None else f"{name}_{inner}"): item
            for name, value in record.items()
            for inner, item in (value.items() if isinstance(value, Mapping) else [(None, value)])
        }
        for record in records
    ]
    return with_units(pandas.DataFrame(flat).dropna(axis="columns", how="all").convert_dtypes())


def check_frame(checks: Sequence[Check]) -> pandas.DataFrame:
    """The checks of a gate, a row for each: ``name``, ``verdict``, ``text``, ``ratio``, ``low``, ``high``, ``limit``, ``rounds``."""
    import pandas

    names = [field.name for field in fields(Check)]
    return pandas.DataFrame([asdict(check) for check in checks], columns=names).convert_dtypes()


def sample_frame(results: Sequence[Result]) -> pandas.DataFrame:
    """Every sample, a row for each.

    ``mode``, ``phase``; ``round`` and ``block_start_ns`` (on the worker's clock) of the block that it was taken in, missing where
    that is not kept; ``time_ns``; of the steps of a loop also ``step``, from 0 on, of the stages of a chain ``stage``, of a sweep
    ``shape``, which comes first.
    """
    import pandas

    found = [
        part
        for result in results
        for shape, case in _cases(result)
        for phase in case.samples
        for part in _samples(result, case, phase, shape)
    ]
    columns = ["mode", "phase", "round", "block_start_ns", "time_ns"]
    if not found:
        return with_units(pandas.DataFrame(columns=columns))
    return with_units(pandas.concat(found, ignore_index=True).convert_dtypes())


def _cases(result: Result) -> Iterator[tuple[str | None, Case]]:
    """All cases of a result; those of a sweep with the names of their shapes."""
    yield from ((None, case) for case in result.at_point())
    yield from ((shape.name, case) for shape in result.shapes for case in result.at_point(shape.point))


def _samples(result: Result, case: Case, phase: str, shape: str | None) -> Iterator[pandas.DataFrame]:
    import numpy as np
    import pandas

    samples, blocks = case.samples[phase], case.blocks.get(phase, [])
    if not samples:
        return
    found: dict[str, Any] = {
        **({} if shape is None else {"shape": shape}),
        "mode": case.mode,
        "phase": phase,
        "round": None,
        "block_start_ns": None,
        "time_ns": samples,
    }
    sizes = [size for _, size, _ in blocks]
    if sum(sizes) == len(samples):
        found["round"] = np.repeat([number for number, _, _ in blocks], sizes)
        found["block_start_ns"] = np.repeat([start for _, _, start in blocks], sizes)
    if phase == STEP:
        found["step"] = np.arange(len(samples)) % work_of(result).count
    if phase == STAGE and case.stages:
        names = list(case.stages)
        found["stage"] = [names[at % len(names)] for at in range(len(samples))]
    yield pandas.DataFrame(found)


# What a command came to, for features that write it in a form of their own: a page, a list for CI systems, a timeline


class Failure(NamedTuple):
    """Why there is no result, or why it is not all that was wanted."""

    name: str  # what came to nothing
    reason: str
    is_skipped: bool = False
    seconds: float = 0.0  # after which it was known


class Part(NamedTuple):
    """One of the results that a command came to, or why there is none."""

    result: Result | None
    name: str = ""  # on a page; without one a failure is not shown there
    label: str = ""  # which of several configurations it is of, where its EP does not say it
    group: str = ""  # of what CI systems list; by default its model and EP
    checks: Sequence[Check] = ()  # of a gate
    is_baseline: bool = False
    failure: Failure | None = None


class Publication(NamedTuple):
    title: str  # the command, or a suite's name
    parts: Sequence[Part]  # in the order of a page
    first: Report | None = None  # a verdict on all
    before: Sequence[Sequence[Block]] = ()  # what a page has before the results
    why: str = ""  # what makes the difference that failed a gate
    timelines: Sequence[tuple[str, Result, Timeline]] = ()  # of configurations, or shapes, by name
    seconds: float | None = None  # that its parts took; by default the time of the command

    @property
    def results(self) -> list[Result]:
        """Those that were not measured to be compared with."""
        return [it.result for it in self.parts if it.result is not None and not it.is_baseline]

    @property
    def labels(self) -> list[str]:
        return [it.label for it in self.parts if it.result is not None and not it.is_baseline]


def samples_text(case: Case, phase: str, stats: Stats) -> str:
    if phase in PER_BLOCK:
        return f"{stats.n} blocks"
    if phase == modes.ENQUEUE and modes.mode_of(case.mode).in_bursts:
        return f"{stats.n} bursts, time per inference"
    if case.pipeline is not None and modes.is_rate(case.mode, phase):
        return f"{stats.n} rounds with {case.pipeline['depth']} inferences in flight, time per inference"
    if modes.is_rate(case.mode, phase):
        return f"{stats.n} bursts of {case.inferences_per_sample} inferences, time per inference"
    if phase == modes.STEP:
        return f"{stats.n} steps"
    return f"{stats.n} {_SAMPLES[case.whole](case)}"


_SAMPLES: dict[str, Callable[[Case], str]] = {
    modes.LATENCY: lambda case: "samples",
    modes.WHOLE_LOOP: lambda case: f"loops of {len(case.steps_ns or ())} steps",
    modes.WHOLE_CHAIN: lambda case: f"chains of {len(case.stages)} stages",
    modes.WHOLE_START: lambda case: "starts",
}


def plain_line(text: str) -> str:
    """A text on one line that can be seen, and that XML and JSON can hold."""
    return " ".join(visible_lines(text).split())


def number_repeated(labels: Sequence[tuple[str, str]]) -> list[str]:
    """The second of each pair, with a number where the pair has occurred before."""
    earlier: set[tuple[str, str]] = set()
    names = []
    for group, label in labels:
        name, number = label, 1
        while (group, name) in earlier:
            number += 1
            name = f"{label} ({number})"
        earlier.add((group, name))
        names.append(name)
    return names


_MARKUP = re.compile(
    r"""
    [`*$]                               # code, emphasis, formulas
    | \\(?=[!-/:-@[-`{-~])              # what would escape what follows it
    | <(?=[a-zA-Z/!?])                  # tags, comments, links
    | &(?=\#?\w+;)                      # characters by name or number
    | (?<![^\W_])_ | _(?![^\W_])        # emphasis, which cannot begin or end inside a word
    | ~(?![/\s])                        # struck out; a home folder is not
    | (?<=[ ])\#(?=\#*$)                # the end of a heading
    | !(?=\[) | \[(?=[\^ xX]) | \](?=[\[(])  # pictures, footnotes, boxes to tick, links
    """,
    re.VERBOSE,
)
# Where a line begins: headings, quotes, lists, rules, and what links would lead to.
_OPENING = re.compile(r"(?:[#>+=-]|\d+[.)])(?=[\s#>+=-]|$)|\[(?=[^\]]*\]:)")


def escape(text: str) -> str:
    """A text as Markdown that shows it word for word, on one line."""
    words = _MARKUP.sub(r"\\\g<0>", visible(text).strip())
    opening = _OPENING.match(words)
    return words if opening is None else f"{words[: opening.end() - 1]}\\{words[opening.end() - 1 :]}"


def _code(text: str) -> str:
    """A text as code, word for word: between as many backticks as it has not in a row."""
    text = visible(text)
    fence = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    space = " " if "`" in (text[:1], text[-1:]) else ""
    return f"{fence}{space}{text}{space}{fence}"


def markdown(report: model.Report) -> str:
    """A report as Markdown: every block is followed by an empty line, so that nothing runs into the next one."""
    shown = [block for part in report.parts for block in part if model.Medium.MARKDOWN in block.media]
    return "\n".join(line for block in (model.Title(report.title, 1), *shown) for line in (*_lines(block), ""))


def _lines(block: model.Block) -> list[str]:
    match block:
        case model.Title():
            return [f"{'#' * block.depth} {escape(block.text)}"]
        case model.Heading():
            return _break_lines(block.lines)
        case model.Paragraph():
            return [escape(block.text)]
        case model.Table():
            return table_lines(block)
        case model.ComparedResults():
            pairs = zip(block.names, block.headings, strict=True)
            lines = _break_lines([*block.shared, *(f"{name}: {line}" for name, heading in pairs for line in heading)])
            lines += ["", *table_lines(block.table.with_names)] if block.table is not None and block.table.rows else []
            for more in block.more:
                lines += ["", f"## {more.title}", "", *table_lines(more.with_names)]
            return lines
        case model.Notes():
            return [f"- {escape(note.text)}" for note in block.notes]
        case model.Findings():
            return [line for it in block.findings for line in (f"- {escape(it.text)}", *_next(it))]
        case model.Command():
            return [_code(" ".join(block.words))] if block.words else []
    raise TypeError(block)


def _next(found: Finding) -> list[str]:
    """What to do next: a command as code, to be copied."""
    return [f"  - Next: {(_code if found.is_command else escape)(found.next)}"] if found.next else []


def _break_lines(lines: Iterable[str]) -> list[str]:
    """Lines that do not run together."""
    return [f"{escape(line)}  " for line in lines]


def table_lines(table: model.Table) -> list[str]:
    """A table, line by line, and what was left out of it after an empty one."""
    rule = ["---" if at == 0 or column.kind in _LEFT else "---:" for at, column in enumerate(table.columns)]
    rows, rest = [*map(_line, table.cut_rows())], " |" * len(table.columns)
    for at, title in reversed(table.groups):
        rows.insert(at, f"| *{escape(title)}*{rest}")
    lines = [_line(table.headings), "| " + " | ".join(rule) + " |", *rows]
    return [*lines, "", escape(table.rest)] if table.rest else lines


_LEFT = {model.Kind.WORDS, model.Kind.LONG_NAME}


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(escape(" ".join(cell.split())).replace("|", "\\|") for cell in cells) + " |"
