"""Markdown as a terminal shows it; a pipe or a file has it as it is written."""

from __future__ import annotations

from ortbench.core.safe_text import visible_lines
from ortbench.report.terminal.console import Screen


def show_markdown(text: str) -> None:
    screen = Screen()
    if not screen.is_terminal:
        print(visible_lines(text))
        return
    from rich.markdown import Markdown

    screen.show(Markdown(visible_lines(text), hyperlinks=False))
