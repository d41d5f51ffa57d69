"""What a person sees in the terminal while something is measured."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta

from rich.cells import cell_len, set_cell_size
from rich.console import RenderableType
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from ortbench.core import safe_text
from ortbench.plan.plan import Observer
from ortbench.report.terminal import console, shorten

_PROGRESS_WIDTH = 20  # cells


class _Bar(Progress):
    """The bar, and below it what is known so far."""

    lines: Sequence[Text] = ()

    def get_renderables(self) -> Iterable[RenderableType]:
        yield self.make_tasks_table(self.tasks)
        yield from self.lines


class LiveProgress(Observer):
    """A progress bar on stderr, and below it what is known so far of what is measured. It is drawn between blocks, as drawing during one takes a core from it, and once a second
    where one of them, or a step before them, takes longer than that."""

    shows_estimates = True
    _EVERY_S = 0.2

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._console = console(sys.stderr)
        columns = (
            BarColumn(bar_width=_PROGRESS_WIDTH),
            TextColumn("{task.percentage:>3.0f} %"),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"),
            TextColumn("{task.description}", markup=False),
        )
        self._progress = _Bar(*columns, console=self._console, transient=True, auto_refresh=False, get_time=clock)
        self._task = self._progress.add_task("starting", total=1.0, left="")
        self._drawn = self._share = 0.0
        self._begun = clock()

    def __enter__(self) -> LiveProgress:
        if self._console.is_interactive:
            self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._progress.live.is_started:
            self._progress.stop()

    def stage(self, text: str) -> None:
        beside = _PROGRESS_WIDTH + len("  100 % 0:00:00 0:00:00 left  ")
        self._draw(description=shorten(safe_text.as_displayed(text, sys.stderr), self._console.width - beside))

    def show_time_left(self, seconds: float) -> None:
        gone = self._clock() - self._begun
        self._share = max(self._share, gone / max(gone + seconds, 1e-9))  # never back, though it may stand still
        fields = {"completed": self._share, "left": f"{timedelta(seconds=math.ceil(seconds))} left"}
        if self._clock() - self._drawn > self._EVERY_S:
            self._draw(**fields)
        else:
            self._progress.update(self._task, **fields)  # type: ignore[arg-type]

    def estimates(self, rows: Sequence[tuple[str, str]]) -> None:
        """They are drawn with the bar, which `left` has drawn before the next block."""
        shown = [
            (safe_text.as_displayed(name, sys.stderr), safe_text.as_displayed(text, sys.stderr)) for name, text in rows
        ]
        most = max(1, self._console.height - 3)  # a line more than the terminal has would stay behind
        width = max((cell_len(name) for name, _ in shown), default=0)
        lines = [f"{set_cell_size(name, width)}  {text}" for name, text in shown]
        if len(lines) > most:
            lines[most - 1 :] = [f"and {len(lines) - most + 1} more"]
        self._progress.lines = [Text(shorten(line, self._console.width), no_wrap=True) for line in lines]

    def _draw(self, **fields: object) -> None:
        if self._progress.live.is_started:
            self._progress.update(self._task, refresh=True, **fields)  # type: ignore[arg-type]
            self._drawn = self._clock()
