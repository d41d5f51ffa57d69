"""What a person sees in the terminal: progress while it runs, then the table and what it means."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

from rich.cells import cell_len
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from ortbench import characters
from ortbench.analysis.advice import sentences
from ortbench.analysis.compare import EVERYTHING, Selection
from ortbench.analysis.nsight import Profile
from ortbench.analysis.sweep import Sweep
from ortbench.gate.limits import FAILED as CHECK_FAILED
from ortbench.gate.limits import PASSED, UNCLEAR, overall
from ortbench.gate.verdict import Verdict
from ortbench.plan import Observer
from ortbench.report import nodes as report_nodes
from ortbench.report import sweep as report_sweep
from ortbench.report.comparison import comparison, comparison_columns, comparison_legend, side_heading
from ortbench.report.gate import MARKS
from ortbench.report.profile import GPU_COLUMNS, RANGE_COLUMNS
from ortbench.report.profile import build as build_profile
from ortbench.report.profile import sentences as profile_sentences
from ortbench.report.run import RUN_COLUMNS, SPLIT, TIME_COLUMNS, build, split_legend, splits
from ortbench.report.suite import COLUMNS as SUMMARY_COLUMNS
from ortbench.report.suite import build as build_summary
from ortbench.report.suite import headline
from ortbench.report.table import DERIVED, Table
from ortbench.report.terminal.console import Screen, console, shortened, shown
from ortbench.report.terminal.grid import FILL_STYLES, Grid, longest_name, print_section
from ortbench.report.words import heading
from ortbench.result import FAILED, Result
from ortbench.suite.record import Record

_PROGRESS_WIDTH = 20  # cells
_STYLES = {PASSED: "good", CHECK_FAILED: "bad", UNCLEAR: "unclear"}


class LiveProgress(Observer):
    """A progress bar on stderr. It is drawn between blocks only: drawing during one would take a core from it."""

    _EVERY_S = 0.2

    def __init__(self) -> None:
        self._console = console(sys.stderr)
        columns = (
            BarColumn(bar_width=_PROGRESS_WIDTH),
            TextColumn("{task.percentage:>3.0f} %"),
            TimeElapsedColumn(),
            TextColumn("{task.description}", markup=False),
        )
        self._progress = Progress(*columns, console=self._console, transient=True, auto_refresh=False)
        self._task = self._progress.add_task("starting", total=1.0)
        self._drawn = 0.0

    def __enter__(self) -> LiveProgress:
        if self._console.is_interactive:
            self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._progress.live.is_started:
            self._progress.stop()

    def stage(self, text: str) -> None:
        beside = _PROGRESS_WIDTH + len("  100 % 0:00:00  ")
        self._draw(description=shortened(characters.shown(text, sys.stderr), self._console.width - beside))

    def progress(self, share: float) -> None:
        if time.monotonic() - self._drawn > self._EVERY_S:
            self._draw(description="measuring", completed=share)

    def _draw(self, **fields: object) -> None:
        if self._progress.live.is_started:
            self._progress.update(self._task, refresh=True, **fields)  # type: ignore[arg-type]
            self._drawn = time.monotonic()


def print_result(result: Result, folder: str) -> None:
    """Print a run's report to standard output."""
    screen = Screen()
    for line in heading(result):
        screen.text(line)
    table, unit = build(result)
    if table.rows:
        _print_figures(screen, result, table, unit)
    if result.nodes is not None:
        screen.blank()
        screen.text(report_nodes.heading(result))
        for section in report_nodes.sections(result.nodes, longest_name(screen)):
            print_section(screen, section)
    screen.blank()
    _print_notes(screen, table.notes)
    for advice in sentences(result):
        screen.text(advice, label="• ")
    _print_warnings(screen, result)
    screen.text(f"Saved in {folder}")


def _print_figures(screen: Screen, result: Result, table: Table, unit: str) -> None:
    bars = splits(result)
    first, *others = RUN_COLUMNS
    screen.blank()
    Grid(table, unit, TIME_COLUMNS, bars).print(screen, ("mode",), [(SPLIT, *first), *others])
    screen.blank()
    screen.text(split_legend(bars), signs=FILL_STYLES)
    derived = any(cell.startswith(DERIVED) for row in table.rows for cell in row)
    screen.text(f"Times are medians, in {unit}" + (f"; {DERIVED} derived, not measured." if derived else "."))


def _print_notes(screen: Screen, notes: Sequence[str]) -> None:
    for note in notes:
        screen.text(note, label="✗ ", label_style="bad" if FAILED in note else "unclear")


def _print_warnings(screen: Screen, result: Result) -> None:
    for warning in result.warnings:
        screen.text(f"warning: {warning['message']}", label="! ", label_style="unclear")


def print_profile(profile: Profile, folder: str, remarks: Sequence[str]) -> None:
    """Print a profiled session to standard output, with what Nsight Systems recorded where it did."""
    screen = Screen()
    for line in heading(profile.session):
        screen.text(line)
    table, unit = build_profile(profile)
    if table.rows:
        parts = [[name for name in names if name in table.columns] for names in (RANGE_COLUMNS[1:], GPU_COLUMNS)]
        screen.blank()
        Grid(table, unit, ("ortbench", "range", *GPU_COLUMNS)).print(
            screen, ("phase",), [part for part in parts if part]
        )
    screen.blank()
    _print_notes(screen, table.notes)
    for sentence in profile_sentences(profile):
        screen.text(sentence, label="• ")
    _print_warnings(screen, profile.session)
    for remark in remarks:
        screen.text(remark, label="! ", label_style="unclear")
    legend = "Medians of a profiled session, for the timeline and not for comparisons"
    if profile.recording is not None:
        legend += "; range: of the NVTX ranges; copies and kernels: of one run, by the GPU's clock"
    screen.text(f"{legend}.")
    screen.text(f"Saved in {folder}")


def print_sweep(sweep: Sweep, folder: str) -> None:
    """Print a bandwidth sweep to standard output."""
    screen = Screen()
    for line in report_sweep.heading(sweep):
        screen.text(line)
    for title, table in report_sweep.tables(sweep):
        first, *others = table.columns
        screen.blank()
        screen.text(title, style="heading")
        Grid(table, words=report_sweep.BARS).print(screen, (first,), [others])
    screen.blank()
    _print_notes(screen, report_sweep.notes(sweep))
    for sentence in report_sweep.sentences(sweep):
        screen.text(sentence, label="• ")
    for warning in sweep.warnings:
        screen.text(f"warning: {warning['message']}", label="! ", label_style="unclear")
    screen.text(report_sweep.LEGEND)
    screen.text(f"Saved in {folder}")


def print_comparison(
    results: Sequence[Result],
    names: Sequence[str],
    same: float,
    in_order: bool,
    only: Selection = EVERYTHING,
    remarks: Sequence[str] = (),
) -> None:
    """Print results side by side to standard output; see `ortbench.report.comparison.comparison`."""
    screen = Screen()
    _print_sides(screen, results, names, same, in_order, only)
    for remark in remarks:
        screen.text(remark, label="! ", label_style="unclear")
    screen.text(comparison_legend(results, same))


def _print_sides(
    screen: Screen,
    results: Sequence[Result],
    names: Sequence[str],
    same: float | None,
    in_order: bool,
    only: Selection = EVERYTHING,
) -> None:
    """Print what several results are of, and the table that holds them side by side.

    Where their names leave no room for the figures, the table calls them #1, #2 …
    """
    labels = names
    table, unit = comparison(results, names, same, in_order, only)
    notes, grid = table.notes, Grid(table, unit, (*names, "median"))
    key, groups = comparison_columns(table)
    mistakable = len(set(table.columns)) < len(table.columns)  # a result that is called as a column is
    if mistakable or grid.width([*key, *groups[0], *groups[1]]) > screen.width:
        labels = [f"#{number}" for number in range(1, len(names) + 1)]
        table, _ = comparison(results, labels, same, in_order, only)
        grid = Grid(table, unit, (*labels, "median"))
        key, groups = comparison_columns(table)
    _print_headings(screen, results, names, labels)
    if table.rows:
        grid.print(screen, key, groups)
        screen.blank()
    _print_notes(screen, notes)


def _print_headings(screen: Screen, results: Sequence[Result], names: Sequence[str], labels: Sequence[str]) -> None:
    """What each result is of, after what the table calls it."""
    indent = max(map(cell_len, map(shown, labels))) + 2
    for name, label, result in zip(names, labels, results, strict=True):
        lines = side_heading(result) if name == label else [name, *side_heading(result)]
        for number, line in enumerate(lines):
            screen.text(line, label=("" if number else label).ljust(indent))
    screen.blank()


def print_verdict(verdict: Verdict) -> None:
    """Print a gate's verdict to standard output."""
    screen = Screen()
    results, names = verdict.results[::-1], verdict.names[::-1]
    if len(results) > 1:
        _print_sides(screen, results, names, None, in_order=False)
    else:
        _print_headings(screen, results, names, names)
    for check in verdict.checks:
        screen.text(check.text, label=f"{MARKS[check.verdict]} ", label_style=_STYLES[check.verdict])
    for remark in verdict.remarks:
        screen.text(remark, label="• ")
    for result in verdict.results:
        _print_warnings(screen, result)
    style = "bad" if verdict.failed else _STYLES[overall(verdict.checks)]
    screen.text(verdict.sentence, label="gate: ", style=style, label_style=style)
    if verdict.folder is not None:
        screen.text(f"Saved in {verdict.folder}")


def print_summary(name: str, records: Sequence[Record], folder: str) -> None:
    """Print what a suite came to, to standard output."""
    screen = Screen()
    table = build_summary(records)
    if table.rows:
        Grid(table).print(screen, SUMMARY_COLUMNS[:1], [SUMMARY_COLUMNS[1:]])
        screen.blank()
    for record, note in zip([record for record in records if record.reason], table.notes, strict=True):
        mark, style = ("✗", "bad") if record.exit_code else ("•", "")
        screen.text(note, label=f"{mark} ", label_style=style)
    screen.text(f"suite {name}: {headline(records)}", style="heading")
    screen.text(f"Saved in {folder}")
