"""The command line: options become plans, and jobs carry these out.

This module knows the commands and loads none, so that `ortbench.__main__` can start a worker before Typer is loaded.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

COMPLETING = "_ORTBENCH_COMPLETE"  # set by a shell that asks what could be typed
# By each command the module that has a function of its name, in the order in which help lists them.
COMMANDS = {
    "run": "ortbench.cli.measure",
    "loop": "ortbench.cli.measure",
    "chain": "ortbench.cli.measure",
    "load": "ortbench.cli.axes",
    "sweep": "ortbench.cli.axes",
    "report": "ortbench.cli.folders",
    "profile": "ortbench.cli.measure",
    "compare": "ortbench.cli.judge",
    "history": "ortbench.cli.judge",
    "gate": "ortbench.cli.judge",
    "suite": "ortbench.cli.folders",
    "merge": "ortbench.cli.folders",
    "bandwidth": "ortbench.cli.axes",
    "doctor": "ortbench.cli.look",
    "devices": "ortbench.cli.look",
    "inspect": "ortbench.cli.look",
    "code": "ortbench.cli.measure",
    "explain": "ortbench.cli.look",
    "clean": "ortbench.cli.folders",
}
_WAIT_FOR_A_WORKER = {"run", "sweep"}
_WITHOUT_ONE = {"-h", "--help", "--python"}  # none is needed, or one of another interpreter


def spelled_out(typed: Sequence[str]) -> list[str]:
    """The words of a command line, with the command that a model in its place stands for: ``run``."""
    words = list(typed) or ["--help"]
    word = words[0]
    is_model = word not in COMMANDS and not word.startswith("-") and (word.endswith(".onnx") or os.path.isfile(word))
    return ["run", *words] if is_model else words


def waits_for_a_worker(words: Sequence[str]) -> bool:
    """Whether a command, spelled out, will wait for a worker of this very environment."""
    return words[0] in _WAIT_FOR_A_WORKER and not _WITHOUT_ONE & {word.partition("=")[0] for word in words}
