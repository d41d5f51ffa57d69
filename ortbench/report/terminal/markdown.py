"""Markdown as a terminal shows it; a pipe or a file has it as it is written."""

from __future__ import annotations

import sys

from ortbench.core.safe_text import visible_lines
from ortbench.report.terminal.console import Screen


def show_markdown(text: str) -> None:
    """Print Markdown."""
    if not sys.stdout.isatty():
        print(visible_lines(text))
        return
    from rich.markdown import Markdown

    Screen().show(Markdown(visible_lines(text), hyperlinks=False))
