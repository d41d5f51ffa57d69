"""Results as one HTML page that needs nothing else: no script, no network, readable and printable anywhere.

Jinja2 fills the template beside it; the only place that imports it. The page is made from results alone and the same
results give the same bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from ortbench import __version__, units
from ortbench.analysis.advice import copy_share, fastest, headline, headline_of_many, is_faster, sentences
from ortbench.analysis.comparable import changes, mismatches
from ortbench.characters import printable
from ortbench.modes import CPU, MODES, TOTAL, is_rate
from ortbench.report import nodes as report_nodes
from ortbench.report.comparison import comparison, comparison_legend
from ortbench.report.page import figures
from ortbench.report.page.charts import plots, sheet
from ortbench.report.run import TIME_COLUMNS, build
from ortbench.report.table import DERIVED, NOTHING, Table
from ortbench.report.words import device_name, heading
from ortbench.result import FAILED, OK, Case, Result
from ortbench.schema import Gpu, Load, Tensor

_BEFORE_UNIT = re.compile(r"(?<=\d) (?=(?:[nµm]?s|[kMG]?B|GB/s|%)(?!\w))")
_SAME = 0.02  # up to which difference two results are called the same
_WORDS = Table(
    (),
    (
        *((mode.name, mode.sentence) for mode in MODES.values()),
        ("upload, inference, download", "phases, timed in blocks of their own, each ended by a fence"),
        ("total", "one whole inference as its user waits for it, with no fence between its phases"),
        ("fence", "what makes sure that the device has finished before the clock is read"),
        (DERIVED, "derived, not measured: the copies inside a cpu run are its total less that of device-resident"),
        ("95 %", "the interval in which the median, or the ratio, lies with 95 % confidence"),
    ),
    (),
)


@dataclass(frozen=True)
class Fact:
    """One large figure: what it is, how much, and what that is made of."""

    name: str
    value: str
    note: str


@dataclass(frozen=True)
class Remark:
    """A sentence; `kind` is ``bad``, ``warn`` or nothing, and `word` says the same in a word."""

    text: str
    kind: str = ""
    word: str = ""


# By the first heading of the tables of `ortbench.analysis.node_advice`.
_NODE_TITLES = {
    "operator": "Nodes by operator",
    "on": "Nodes by execution provider",
    "copied tensor": "Copies inside the graph",
    "island": "Islands on the CPU",
}


@dataclass(frozen=True)
class Section:
    """A titled table with paragraphs above it.

    Attributes:
        title: of both.
        table: its first column is on the left.
        paragraphs: what there is to say about it.
        words: it has no headings, only words and what they mean, which may take several lines.
        left: further columns of text, which stand on the left of theirs.
    """

    title: str
    table: Table | None
    paragraphs: tuple[str, ...] = ()
    words: bool = False
    left: tuple[str, ...] = ()


@dataclass(frozen=True)
class Picture:
    """A figure as the template needs it: two drawings of it, for a screen and for a phone."""

    title: str
    label: str
    caption: str
    table: Table
    wide: Markup
    narrow: Markup


@dataclass(frozen=True)
class Part:
    """All there is to say about one result."""

    name: str
    about: str
    anchor: str
    headline: str
    heading: list[str]
    facts: list[Fact]
    remarks: list[Remark]
    pictures: list[Picture]
    sections: list[Section]
    command: str
    provenance: str


def build_page(results: Sequence[Result], names: Sequence[str], errors: Sequence[str] = ()) -> str:
    """The page.

    Args:
        results: at least one.
        names: of the results, each once; shown where there are several.
        errors: what became of results that are not there, in sentences.
    """
    many = len(results) > 1
    names = [printable(name) for name in names]
    parts = [_part(result, name, number) for number, (result, name) in enumerate(zip(results, names, strict=True), 1)]
    environment = Environment(
        loader=PackageLoader("ortbench.report.page", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["tied"] = _tied
    text = environment.get_template("page.html.j2").render(
        version=__version__,
        palette=sheet.PALETTE,
        title=_title(results),
        headline=headline_of_many(results) if many else parts[0].headline,
        errors=errors,
        parts=parts,
        overview=_overview(results, names) if many else None,
        words=_WORDS,
    )
    return printable(text)


def _tied(text: str) -> str:
    """A text in which no line ends between a number and its unit."""
    return _BEFORE_UNIT.sub("\N{NO-BREAK SPACE}", text)


def _title(results: Sequence[Result]) -> str:
    models = list(dict.fromkeys(result.model["path"] for result in results))
    eps = list(dict.fromkeys(result.target["ep"] for result in results))
    return f"{', '.join(models[:3])} on {', '.join(eps[:3])} · ortbench"


# One result


def _part(result: Result, name: str, number: int) -> Part:
    return Part(
        name=name,
        about=f"{result.model['path']} on {result.target['ep']}",
        anchor=f"result-{number}",
        headline=headline(result),
        heading=heading(result),
        facts=list(_facts(result)),
        remarks=list(_remarks(result)),
        pictures=[_picture(figure, f"{number} {at}") for at, figure in enumerate(figures.of_one(result))],
        sections=list(_sections(result)),
        command=" ".join(result.command),
        provenance=_provenance(result),
    )


def _facts(result: Result) -> Iterator[Fact]:
    """The figures to see first: copies, the fastest mode, one inference with it, bytes."""
    measured = [case for case in result.cases if case.status == OK and case.median(TOTAL)]
    if not measured:
        return
    cpu, copied = result.case(CPU), copy_share(result)
    if copied and cpu is not None and cpu.derived is not None:
        took, total = units.duration(cpu.derived["copies_ns"]), units.duration(cpu.median(TOTAL) or 0)
        yield Fact(
            "Copies", f"{DERIVED}{units.share(copied)}", f"of a run with CPU tensors: {DERIVED}{took} of {total}"
        )
    best, shown = fastest(result), measured[0]
    if best is not None and best.vs_cpu is not None:
        interval = best.vs_cpu["ci95"]
        sure = (
            f" (95 %: {units.ratio(interval[0])} to {units.ratio(interval[1])})"
            if interval
            else "; too few blocks for an interval"
        )
        less = "" if is_faster(best) else ", not measurably faster"
        yield Fact("Fastest mode", f"{units.ratio(best.vs_cpu['ratio'])}×", f"{best.mode} against cpu{sure}{less}")
        shown = best if is_faster(best) else shown
    median = shown.median(TOTAL) or 1
    what = "Time per inference" if is_rate(shown.mode, TOTAL) else "One inference"
    yield Fact(what, units.duration(median), f"{shown.mode}, {units.rate(1e9 / median)} runs a second")
    copying = next((case for case in measured if case.bytes_in or case.bytes_out), None)
    if copying is not None:
        there, back = copying.bytes_in or 0, copying.bytes_out or 0
        note = f"{units.size(there)} in and {units.size(back)} out, with {copying.mode}"
        yield Fact("Copied per run", units.size(there + back), note)


def _remarks(result: Result) -> Iterator[Remark]:
    """What went wrong, what the figures mean, what to bear in mind."""
    if result.stopped == "interrupted":
        yield Remark("what was measured until then is shown", "warn", "interrupted:")
    for case in result.cases:
        if case.status != OK:
            yield Remark(f"{case.mode}: {case.reason}", "bad" if case.status == FAILED else "warn", f"{case.status}:")
    yield from map(Remark, sentences(result))
    for warning in result.warnings:
        yield Remark(warning["message"], "warn", "warning:")


def _picture(figure: figures.Figure, salt: str) -> Picture:
    wide, narrow = (Markup(plots.draw(figure, width, f"{salt} {width}")) for width in (sheet.WIDE, sheet.NARROW))
    return Picture(figure.title, figure.label, figure.caption, figure.table(), wide, narrow)


def _sections(result: Result) -> Iterator[Section]:
    """The tables of a result, in their order; what another module has to say about a result is one more line here."""
    yield from _table(result)
    yield _placement(result)
    yield from _nodes(result)
    yield _environment(result)


def _table(result: Result) -> Iterator[Section]:
    table, unit = build(result)
    if table.rows:
        said = f"Times are medians in {unit}; p95 and p99 are of the total. {DERIVED} marks what was derived, not measured."
        yield Section("Table", _with_unit(table, unit, TIME_COLUMNS), (said,))


def _with_unit(table: Table, unit: str, timed: Sequence[str]) -> Table:
    columns = tuple(f"{name} ({unit})" if name in timed else name for name in table.columns)
    return Table(columns, table.rows, ())


def _placement(result: Result) -> Section:
    placed, left = result.placement["nodes"], result.placement.get("cpu_operators") or {}
    if placed is None:
        return Section(
            "Placement", None, ("This ONNX Runtime or model format does not report where nodes are placed.",)
        )
    rows = tuple((ep, str(count)) for ep, count in placed.items())
    said = []
    if left:
        listed = ", ".join(f"{name} ({count})" if count > 1 else name for name, count in left.items())
        said.append(f"Left on the CPU: {listed}.")
    memcpy = result.placement["memcpy_nodes"]
    if memcpy:
        said.append(f"{memcpy} Memcpy nodes copy between CPU and device inside every run.")
    elif memcpy is None:
        said.append("How many Memcpy nodes copy inside a run is not known.")
    else:
        said.append("No copies between nodes: there is no Memcpy node in the graph.")
    return Section("Placement", Table(("execution provider", "nodes"), rows, ()), tuple(said))


def _nodes(result: Result) -> Iterator[Section]:
    """What `--nodes` found."""
    if result.nodes is None:
        return
    said: tuple[str, ...] = (report_nodes.heading(result),)
    for section in report_nodes.sections(result.nodes, report_nodes.WIDE):
        rest = ((section.rest, *[""] * (len(section.columns) - 1)),) if section.rest else ()
        table = Table(section.columns, (*section.rows, *rest), ())
        yield Section(_NODE_TITLES[section.columns[0]], table, said, left=section.left)
        said = ()


def _environment(result: Result) -> Section:
    environment, target, setup = result.environment, result.target, result.setup
    cpu = environment["cpu"]
    fence = target["fence"]
    known = {
        "ONNX Runtime": environment["onnxruntime"],
        "execution provider": f"{target['ep']} {target.get('ep_version') or ''}".strip(),
        "library": target.get("ep_library"),
        "device": device_name(result),
        "EP options": _pairs(target["ep_options"]),
        "session configuration": _pairs(target.get("session_config")),
        "intra-op threads": target.get("threads"),
        "graph optimisation": target.get("opt_level"),
        "fence": fence and f"{fence['kind']}: {fence.get('how') or ''}".removesuffix(": "),
        "inputs": _tensors(result.model["inputs"]),
        "outputs": _tensors(result.model["outputs"]),
        "session created in": setup.get("session_ns") and units.duration(setup["session_ns"]),
        "first run": setup.get("first_run_ns") and units.duration(setup["first_run_ns"]),
        "CPU": f"{cpu['model']}, {cpu.get('usable_cores')} of {cpu.get('cores')} cores usable",
        "GPUs": "; ".join(map(_gpu, environment["gpus"])),
        "load average": _load(environment.get("load_average")),
        "system": environment.get("os"),
        "Python, NumPy": ", ".join(filter(None, (environment.get("python"), environment.get("numpy")))),
    }
    rows = tuple((name, str(value)) for name, value in known.items() if value not in (None, ""))
    return Section("Environment", Table((), rows, ()), words=True)


def _pairs(pairs: dict[str, Any] | None) -> str:
    return ", ".join(f"{key}={value}" for key, value in (pairs or {}).items())


def _tensors(tensors: Sequence[Tensor]) -> str:
    found = []
    for tensor in tensors:
        dims, count = tensor.get("shape"), tensor.get("bytes")
        shape = "" if dims is None else " " + ("×".join(map(str, dims)) or "scalar")
        bytes_ = f", {units.size(count)}" if count else ""
        found.append(f"{tensor['name']}: {tensor.get('type', '')}{shape}{bytes_}")
    return "; ".join(found)


def _gpu(gpu: Gpu) -> str:
    driver = f", driver {gpu['driver']}" if "driver" in gpu else ""
    return f"{gpu.get('name') or gpu.get('error')}{driver}"


def _load(load: Load | None) -> str:
    """Of the last minute, at the start and at the end of the run."""
    ends = {"start": load.get("start"), "end": load.get("end")} if load else {}
    return ", ".join(f"{averages[0]:g} at the {end}" for end, averages in ends.items() if averages)


def _provenance(result: Result) -> str:
    commit, seed = result.environment.get("git_commit"), result.setup.get("seed")
    parts = [f"Measured {result.created} by ortbench {result.tool['version']}"]
    parts += [f"model SHA-256 {result.model['sha256']}"]
    parts += [f"in a checkout at {commit}"] if commit else []
    parts += [f"seed {seed}"] if seed is not None else []
    return "; ".join(parts) + "."


# Several results


@dataclass(frozen=True)
class Overview:
    """Several results side by side: a row of cells for each, pictures of all, and whether they may be compared."""

    columns: list[str]
    rows: list[list[str]]
    remarks: list[Remark]
    pictures: list[Picture]
    section: Section | None


def _overview(results: Sequence[Result], names: Sequence[str]) -> Overview:
    modes = [mode for mode in MODES if any(case.mode == mode for result in results for case in result.cases)]
    pictures = [_picture(figure, f"0 {at}") for at, figure in enumerate(figures.of_many(results, names))]
    differences = [it.partition(":")[0] for result in results[1:] for it in mismatches(results[0], result)]
    section = None
    if differences:
        listed = ", ".join(dict.fromkeys(differences))
        said = [Remark(f"they differ in {listed}, so a ratio of their figures says little", "warn", "not comparable:")]
    else:
        section = _side_by_side(results, names)
        said = [
            Remark(f"{names[0]} → {name}: {change}")
            for name, result in zip(names[1:], results[1:], strict=True)
            for change in changes(results[0], result)
        ]
    columns = ["result", "copies", "fastest mode", "vs cpu", *modes]
    return Overview(columns, [_overview_row(result, modes) for result in results], said, pictures, section)


def _overview_row(result: Result, modes: Sequence[str]) -> list[str]:
    by_mode = {case.mode: case for case in result.cases}
    share, best = copy_share(result), fastest(result)
    clear = best is not None and is_faster(best)
    return [
        NOTHING if share is None else f"{DERIVED}{units.share(share)}",
        NOTHING if best is None else best.mode if clear else "none for certain",
        NOTHING if best is None or best.vs_cpu is None else f"{units.ratio(best.vs_cpu['ratio'])}×",
        *(_median_cell(by_mode.get(mode)) for mode in modes),
    ]


def _median_cell(case: Case | None) -> str:
    if case is None:
        return NOTHING
    if case.status != OK:
        return case.status
    median = case.median(TOTAL)
    return NOTHING if median is None else units.duration(median)


def _side_by_side(results: Sequence[Result], names: Sequence[str]) -> Section | None:
    table, unit = comparison(results, names, _SAME, in_order=False)
    if not table.rows:
        return None
    said = (comparison_legend(results, _SAME),)
    return Section(
        "Side by side", _with_unit(table, unit, (*names, "median")), said, left=("phase", "result", "verdict")
    )
