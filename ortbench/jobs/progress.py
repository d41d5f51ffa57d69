"""Progress on the terminal, while something is measured."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ortbench.plan.plan import Observer


def observed(stack: ExitStack, quiet: bool, observer: Observer | None = None) -> Observer | None:
    """Who is told what happens: the observer, else the terminal where standard error is one; None for nobody.

    Args:
        stack: at whose end the terminal is left as it was.
        quiet: show nothing.
        observer: in place of the terminal.
    """
    if observer is not None or quiet or not sys.stderr.isatty():
        return observer
    from ortbench.report.terminal.progress import LiveProgress

    return stack.enter_context(LiveProgress())
