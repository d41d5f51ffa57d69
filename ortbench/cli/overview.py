"""`ortbench --help`: the commands in their groups. Typer would take longer to load than all of this."""

from __future__ import annotations

from collections.abc import Mapping
from shutil import get_terminal_size
from textwrap import wrap

from ortbench.cli import ABOUT, BEGIN, OWN, WIDEST, commands
from ortbench.core.features import GROUPS


def print_overview() -> int:
    """Print it, as wide as the terminal; the exit code."""
    width = max(min(get_terminal_size().columns, WIDEST), 50) - 2
    lines = ["Usage: ortbench COMMAND [OPTIONS] [ARGUMENTS]", "", *_wrap(ABOUT, width)]
    for group in GROUPS:
        of_group = {name: it.sentence for name, it in commands().items() if it.group == group}
        lines += ["", f"{group}:", *_list(of_group, commands(), width)]
    lines += ["", "Options:", *_list(OWN, OWN, width), "", *_wrap(BEGIN, width)]
    print("\n".join(lines))
    return 0


def _wrap(text: str, width: int, first: str = "  ", rest: str = "  ") -> list[str]:
    return wrap(text, width, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False)


def _list(texts: Mapping[str, str], aligned: Mapping[str, object], width: int) -> list[str]:
    """A list of names and texts, which begin below each other, also in other lists whose names are `aligned` with them."""
    column = max(map(len, aligned))
    return [
        line for name, text in texts.items() for line in _wrap(text, width, f"  {name:{column}}  ", " " * (column + 4))
    ]
