"""The command line: options become plans, and jobs carry these out.

This module knows the commands and loads none, so that `ortbench.__main__` can start a worker before Typer is loaded, and
`ortbench --help` does without Typer.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cache
from shutil import get_terminal_size
from textwrap import wrap

from ortbench.core import features
from ortbench.core.features import COMPARE, EXPORT, MEASURE, Command

COMPLETING = "_ORTBENCH_COMPLETE"  # set by a shell that asks what could be typed
HELP, HELP_ALL = ("-h", "--help"), "--help-all"
WIDEST = 130  # columns of help: a longer line is hard to read
ABOUT = "Measure what ONNX Runtime's copies cost: a model in its I/O modes, side by side, on any execution provider."
BEGIN = "Begin with: ortbench run MODEL.onnx. The options of a command: ortbench COMMAND --help"
# The program's own options, and what they do.
OWN = {
    "--version": "Print the version and exit.",
    "--install-completion": "Make bash, zsh or fish complete commands, and exit.",
    "--show-completion": "Print the script that completes commands, and exit.",
    ", ".join(HELP): "Show this message and exit.",
}
# The commands of the core, by the module of this package that has a function of that name. One of two words is one word to Typer, see
# `with_default_command`.
_OF_CORE = {
    "run": Command(MEASURE, 0, "Measure a model in its I/O modes: what the copies cost.", "modes.md", "program"),
    "compare": Command(COMPARE, 0, "Compare results: which differences are real.", "compare.md", "program"),
    "report": Command(
        EXPORT,
        10,
        "Make one page of results that opens anywhere, offline.",
        "result-file.md#a-page-to-share",
        "program",
    ),
}


@cache
def commands() -> dict[str, Command]:
    """All commands, of the core and of features, in the order in which help and the README list them; each with its module."""
    own = {name: it._replace(module=f"{__name__}.{it.module}") for name, it in _OF_CORE.items()}
    of_features = {
        name: command._replace(module=command.module or f"{__name__}.program")
        for name, command in features.commands().items()
    }
    in_order = sorted((own | of_features).items(), key=lambda it: (features.GROUPS.index(it[1].group), it[1].order))
    return dict(in_order)


_WAIT_FOR_A_WORKER = {"run", "sweep", "start", "soak"}
_WITHOUT_ONE = {"-h", "--help", "--python"}  # none is needed, or one of another interpreter


def with_default_command(typed: Sequence[str]) -> list[str]:
    """The words of a command line, with the command that a model in its place stands for: ``run``."""
    words = [*typed] or [*HELP]
    if words[0] in _WAIT_FOR_A_WORKER:  # whose worker is not to wait for the records of features
        return words
    if len(words) > 1 and (both := " ".join(words[:2])) in commands():
        return [both, *words[2:]]
    word = words[0]
    is_model = word not in commands() and not word.startswith("-") and (word.endswith(".onnx") or os.path.isfile(word))
    return ["run", *words] if is_model else words


def needs_worker(words: Sequence[str]) -> bool:
    """Whether a command, spelled out, will wait for a worker of this very environment."""
    flags = {word.partition("=")[0] for word in words}
    return (words[0] in _WAIT_FOR_A_WORKER or "--model" in flags) and not _WITHOUT_ONE & flags


def print_overview() -> int:
    """Print `ortbench --help`, the commands in their groups, as wide as the terminal; the exit code."""
    width = max(min(get_terminal_size().columns, WIDEST), 50) - 2
    lines = ["Usage: ortbench COMMAND [OPTIONS] [ARGUMENTS]", "", *_wrap(ABOUT, width)]
    for group in features.GROUPS:
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
