"""The command line: options become plans, and jobs carry these out.

This module knows the commands and loads none, so that `ortbench.__main__` can start a worker before Typer is loaded, and
`ortbench --help` does without Typer.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache

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
    "run": Command(MEASURE, 0, "Measure a model in its I/O modes: what the copies cost.", "modes.md", "measure"),
    "compare": Command(COMPARE, 0, "Compare results: which differences are real.", "compare.md", "measure"),
    "report": Command(
        EXPORT,
        10,
        "Make one page of results that opens anywhere, offline.",
        "result-file.md#a-page-to-share",
        "measure",
    ),
}


@cache
def commands() -> dict[str, Command]:
    """All commands, of the core and of features, in the order in which help and the README list them; each with its module."""
    own = {name: it._replace(module=f"{__name__}.{it.module}") for name, it in _OF_CORE.items()}
    of_features = {
        name: it._replace(module=it.module or f"{__name__}.measure") for name, it in features.commands().items()
    }
    by_place = sorted((own | of_features).items(), key=lambda it: (features.GROUPS.index(it[1].group), it[1].place))
    return dict(by_place)


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
    return words[0] in _WAIT_FOR_A_WORKER and not _WITHOUT_ONE & {word.partition("=")[0] for word in words}
