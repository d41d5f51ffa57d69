"""What a person sees in the terminal while something is measured."""

from __future__ import annotations

import math
import sys
import time
from datetime import timedelta

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from ortbench.core import safe_text
from ortbench.plan.plan import Observer
from ortbench.report.terminal.console import console, shortened

_PROGRESS_WIDTH = 20  # cells


class LiveProgress(Observer):
    """A progress bar on stderr. It is drawn between blocks, as drawing during one takes a core from it, and once a second
    where one of them, or a step before them, takes longer than that."""

    _EVERY_S = 0.2

    def __init__(self) -> None:
        self._console = console(sys.stderr)
        columns = (
            BarColumn(bar_width=_PROGRESS_WIDTH),
            TextColumn("{task.percentage:>3.0f} %"),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"),
            TextColumn("{task.description}", markup=False),
        )
        self._progress = Progress(*columns, console=self._console, transient=True, auto_refresh=False)
        self._task = self._progress.add_task("starting", total=1.0, left="")
        self._drawn = self._share = 0.0
        self._begun = time.monotonic()

    def __enter__(self) -> LiveProgress:
        if self._console.is_interactive:
            self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._progress.live.is_started:
            self._progress.stop()

    def stage(self, text: str) -> None:
        beside = _PROGRESS_WIDTH + len("  100 % 0:00:00 0:00:00 left  ")
        self._draw(description=shortened(safe_text.shown(text, sys.stderr), self._console.width - beside))

    def progress(self, share: float) -> None:
        self._draw_soon(description="measuring", completed=share)

    def left(self, seconds: float) -> None:
        gone = time.monotonic() - self._begun
        self._share = max(self._share, gone / max(gone + seconds, 1e-9))  # never back, though it may stand still
        self._draw_soon(completed=self._share, left=f"{timedelta(seconds=math.ceil(seconds))} left")

    def _draw_soon(self, **fields: object) -> None:
        if time.monotonic() - self._drawn > self._EVERY_S:
            self._draw(**fields)
        else:
            self._progress.update(self._task, **fields)  # type: ignore[arg-type]

    def _draw(self, **fields: object) -> None:
        if self._progress.live.is_started:
            self._progress.update(self._task, refresh=True, **fields)  # type: ignore[arg-type]
            self._drawn = time.monotonic()
