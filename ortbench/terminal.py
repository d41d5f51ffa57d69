"""What a person sees in the terminal: progress while it runs, then the table and what it means."""

from __future__ import annotations

import sys
import textwrap
import time

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table as RichTable
from rich.text import Text

from ortbench.advice import sentences
from ortbench.bench import Observer
from ortbench.result import FAILED, Result
from ortbench.table import RATE_COLUMNS, TIME_COLUMNS, Table, build, heading

_WIDE = 118  # columns that the whole table needs
_UNLIMITED = 10_000  # a pipe or a file has no edge to wrap at


class LiveProgress(Observer):
    """A progress bar on stderr. It is drawn between blocks only: drawing during one would take a core from it."""

    _EVERY_S = 0.2

    def __init__(self, inner: Observer) -> None:
        self._inner = inner
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

    def changed(self, result: Result) -> None:
        self._inner.changed(result)

    def _draw(self, **fields: object) -> None:
        if self._progress.live.is_started:
            self._progress.update(self._task, refresh=True, **fields)  # type: ignore[arg-type]
            self._drawn = time.monotonic()


def print_result(result: Result, folder: str) -> None:
    """Print a run's report to standard output."""
    console = Console(file=sys.stdout, highlight=False)
    if not console.is_terminal:
        console.width = _UNLIMITED
    for line in heading(result):
        console.print(Text(line))
    table, unit = build(result)
    if table.rows:
        console.print()
        if console.width >= _WIDE:
            console.print(_rich(table, unit))
        else:
            console.print(_rich(table.select(("mode", *TIME_COLUMNS)), unit))
            console.print(_rich(table.select(("mode", *RATE_COLUMNS)), unit))
    console.print()
    for note in table.notes:
        style = "red" if FAILED in note else "yellow"
        console.print(_paragraph("✗", note, style, console.width))
    for sentence in sentences(result):
        console.print(_paragraph("•", sentence, "", console.width))
    for warning in result.warnings:
        console.print(_paragraph("!", f"warning: {warning['message']}", "yellow", console.width))
    console.print(
        Text(f"Medians of end-to-end runs in {unit}; ≈ derived, not measured. Saved in {folder}", style="dim")
    )


def _rich(table: Table, unit: str) -> RichTable:
    rich = RichTable(box=None, pad_edge=False, header_style="bold", padding=(0, 1))
    has_times = any(name in TIME_COLUMNS for name in table.columns)
    for index, name in enumerate(table.columns):
        below = unit if name in TIME_COLUMNS else ""
        title = f"{name}\n{below}" if has_times else name
        rich.add_column(title, justify="right" if index else "left", no_wrap=True)
    for row in table.rows:
        rich.add_row(*map(Text, row))
    return rich


def _paragraph(mark: str, text: str, style: str, width: int) -> Text:
    """One remark with a hanging indent."""
    lines = textwrap.wrap(text, max(width - 2, 20), break_long_words=False, break_on_hyphens=False)
    return Text("\n".join(f"{'  ' if number else mark + ' '}{line}" for number, line in enumerate(lines)), style=style)
