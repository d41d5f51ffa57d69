"""What a person sees in the terminal: progress while it runs, then the table and what it means."""

from __future__ import annotations

import sys
import textwrap
import time
from collections.abc import Sequence

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table as RichTable
from rich.text import Text

from ortbench.advice import sentences
from ortbench.bench import Observer
from ortbench.compare import EVERYTHING, Selection
from ortbench.gate import FAILED as CHECK_FAILED
from ortbench.gate import PASSED, UNCLEAR, overall
from ortbench.profile import GPU_COLUMNS, RANGE_COLUMNS, Profile
from ortbench.profile import build as build_profile
from ortbench.profile import sentences as profile_sentences
from ortbench.result import FAILED, Result
from ortbench.summary import Record, headline
from ortbench.summary import build as build_summary
from ortbench.table import (
    PREVIOUS_COLUMNS,
    RATE_COLUMNS,
    STEP_COLUMNS,
    TIME_COLUMNS,
    Table,
    build,
    comparison,
    comparison_legend,
    heading,
    side_heading,
)
from ortbench.verdict import MARKS, Verdict

_WIDE = 118  # columns that the whole table needs
_STYLES = {PASSED: "green", CHECK_FAILED: "red", UNCLEAR: "yellow"}
_UNLIMITED = 10_000  # a pipe or a file has no edge to wrap at


class LiveProgress(Observer):
    """A progress bar on stderr. It is drawn between blocks only: drawing during one would take a core from it."""

    _EVERY_S = 0.2

    def __init__(self) -> None:
        self._console = Console(stderr=True)
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f} %"),
            TimeElapsedColumn(),
        )
        self._progress = Progress(*columns, console=self._console, transient=True, auto_refresh=False)
        self._task = self._progress.add_task("starting", total=1.0)
        self._drawn = 0.0

    def __enter__(self) -> LiveProgress:
        if self._console.is_terminal:
            self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._progress.live.is_started:
            self._progress.stop()

    def stage(self, text: str) -> None:
        self._draw(description=text)

    def progress(self, share: float) -> None:
        if time.monotonic() - self._drawn > self._EVERY_S:
            self._draw(description="measuring", completed=share)

    def _draw(self, **fields: object) -> None:
        if self._progress.live.is_started:
            self._progress.update(self._task, refresh=True, **fields)  # type: ignore[arg-type]
            self._drawn = time.monotonic()


def print_result(result: Result, folder: str) -> None:
    """Print a run's report to standard output."""
    console = _console()
    for line in heading(result):
        console.print(Text(line))
    table, unit = build(result)
    if table.rows:
        console.print()
        if console.width >= _WIDE:
            console.print(_rich(table, unit, TIME_COLUMNS))
        else:
            console.print(_rich(table.select(("mode", *TIME_COLUMNS)), unit, TIME_COLUMNS))
            console.print(_rich(table.select(("mode", *RATE_COLUMNS)), unit, TIME_COLUMNS))
    console.print()
    for note in table.notes:
        style = "red" if FAILED in note else "yellow"
        console.print(_paragraph("✗", note, style, console.width))
    for advice in sentences(result):
        console.print(_paragraph("•", advice, "", console.width))
    for warning in result.warnings:
        console.print(_paragraph("!", f"warning: {warning['message']}", "yellow", console.width))
    console.print(
        Text(f"Medians of end-to-end runs in {unit}; ≈ derived, not measured. Saved in {folder}", style="dim")
    )


def print_profile(profile: Profile, folder: str, remarks: Sequence[str]) -> None:
    """Print a profiled session to standard output, with what Nsight Systems recorded where it did."""
    console = _console()
    for line in heading(profile.session):
        console.print(Text(line))
    table, unit = build_profile(profile)
    parts = [table]
    if GPU_COLUMNS[0] in table.columns and console.width < _WIDE:
        parts = [table.select(RANGE_COLUMNS), table.select(("phase", *GPU_COLUMNS))]
    for part in parts if table.rows else []:
        console.print()
        console.print(_rich(part, unit, ("ortbench", "range", *GPU_COLUMNS)))
    console.print()
    for note in table.notes:
        console.print(_paragraph("✗", note, "red" if FAILED in note else "yellow", console.width))
    for sentence in profile_sentences(profile):
        console.print(_paragraph("•", sentence, "", console.width))
    for warning in profile.session.warnings:
        console.print(_paragraph("!", f"warning: {warning['message']}", "yellow", console.width))
    for remark in remarks:
        console.print(_paragraph("!", remark, "yellow", console.width))
    legend = "Medians of a profiled session, for the timeline and not for comparisons"
    if profile.recording is not None:
        legend += "; range: of the NVTX ranges; copies and kernels: of one run, by the GPU's clock"
    console.print(_paragraph("", f"{legend}. Saved in {folder}", "dim", console.width))


def _rich(table: Table, unit: str, timed: Sequence[str]) -> RichTable:
    rich = RichTable(box=None, pad_edge=False, header_style="bold", padding=(0, 1))
    has_times = any(name in timed for name in table.columns)
    for index, name in enumerate(table.columns):
        below = unit if name in timed else ""
        title = f"{name}\n{below}" if has_times else name
        rich.add_column(title, justify="right" if index else "left", no_wrap=True)
    for row in table.rows:
        rich.add_row(*map(Text, row))
    return rich


def _paragraph(mark: str, text: str, style: str, width: int) -> Text:
    """One remark with a hanging indent."""
    lines = textwrap.wrap(text, max(width - 2, 20), break_long_words=False, break_on_hyphens=False)
    return Text("\n".join(f"{'  ' if number else mark + ' '}{line}" for number, line in enumerate(lines)), style=style)


def print_comparison(
    results: Sequence[Result],
    names: Sequence[str],
    same: float,
    in_order: bool,
    only: Selection = EVERYTHING,
    remarks: Sequence[str] = (),
) -> None:
    """Print results side by side to standard output; see `ortbench.table.comparison`."""
    console = _console()
    _print_headings(console, results, names)
    _print_comparison_table(console, results, names, same, in_order, only)
    for remark in remarks:
        console.print(_paragraph("!", remark, "yellow", console.width))
    console.print(Text(comparison_legend(results, same), style="dim"))


def _print_comparison_table(
    console: Console,
    results: Sequence[Result],
    names: Sequence[str],
    same: float | None,
    in_order: bool,
    only: Selection = EVERYTHING,
) -> None:
    table, unit = comparison(results, names, same, in_order, only)
    parts = [table]
    if PREVIOUS_COLUMNS[0] in table.columns and console.width < _WIDE:
        parts = [table.select(STEP_COLUMNS), table.select(("mode", "result", *PREVIOUS_COLUMNS))]
    for part in parts if table.rows else []:
        console.print(_rich(part, unit, (*names, "median")))
        console.print()
    for note in table.notes:
        console.print(_paragraph("✗", note, "red" if FAILED in note else "yellow", console.width))


def print_verdict(verdict: Verdict) -> None:
    """Print a gate's verdict to standard output."""
    console = _console()
    _print_headings(console, verdict.results, verdict.names)
    if len(verdict.results) > 1:
        _print_comparison_table(console, verdict.results[::-1], verdict.names[::-1], None, in_order=False)
    for check in verdict.checks:
        console.print(_paragraph(MARKS[check.verdict], check.text, _STYLES[check.verdict], console.width))
    for remark in verdict.remarks:
        console.print(_paragraph("•", remark, "", console.width))
    for result in verdict.results:
        for warning in result.warnings:
            console.print(_paragraph("!", f"warning: {warning['message']}", "yellow", console.width))
    style = "red bold" if verdict.failed else f"{_STYLES[overall(verdict.checks)]} bold"
    console.print(Text(f"gate: {verdict.sentence}", style=style))
    if verdict.folder is not None:
        console.print(Text(f"Saved in {verdict.folder}", style="dim"))


def _print_headings(console: Console, results: Sequence[Result], names: Sequence[str]) -> None:
    width = max(map(len, names))
    for name, result in zip(names, results, strict=True):
        for number, line in enumerate(side_heading(result)):
            console.print(Text(f"{name if number == 0 else '':<{width}}  {line}"))
    console.print()


def _console() -> Console:
    console = Console(file=sys.stdout, highlight=False)
    if not console.is_terminal:
        console.width = _UNLIMITED
    return console


def print_summary(name: str, records: Sequence[Record], folder: str) -> None:
    """Print what a suite came to, to standard output."""
    console = _console()
    table = build_summary(records)
    if table.rows:
        rich = _rich(table, "", ())
        rich.columns[0].no_wrap, rich.columns[0].overflow = False, "fold"  # a case's whole name is what others go by
        console.print(rich)
        console.print()
    for record, note in zip([record for record in records if record.reason], table.notes, strict=True):
        mark, style = ("✗", "red") if record.exit_code else ("•", "yellow")
        console.print(_paragraph(mark, note, style, console.width))
    console.print(Text(f"suite {name}: {headline(records)}", style="bold"))
    console.print(Text(f"Saved in {folder}", style="dim"))
