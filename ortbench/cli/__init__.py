"""The command line: options become plans, and jobs carry these out.

This module knows the commands and loads none, so that `ortbench.__main__` can start a worker before Typer is loaded, and
`ortbench --help` does without Typer.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

COMPLETING = "_ORTBENCH_COMPLETE"  # set by a shell that asks what could be typed
HELP, HELP_ALL = ("-h", "--help"), "--help-all"
# The commands by what they are for, in the order in which help and the README list them: the module of this package that has a
# function of that name, what the command does, in a line, and its page. One of two words is one word to Typer, see `spelled_out`.
GROUPS = {
    "Measure": {
        "run": ("measure", "Measure a model in its I/O modes: what the copies cost.", "modes.md"),
        "load": ("axes", "Measure a model under load: clients, or requests at a rate.", "load.md"),
        "loop": ("measure", "Measure a decoder that generates, or a model in a loop.", "loops.md"),
        "chain": ("measure", "Measure models one after the other: what their links cost.", "chains.md"),
        "sweep": ("axes", "Measure a model over shapes: which has the most items/s.", "sweeps.md"),
        "start": ("measure", "Measure the start-up of fresh processes to the first inference.", "start.md"),
        "soak": ("measure", "Measure a model for a long time: whether memory grows.", "soak.md"),
        "tune": ("axes", "Search the session settings that are best for a model.", "tune.md"),
        "bandwidth": ("axes", "Measure how fast tensors are copied to and from a device.", "bandwidth.md"),
        "suite": ("folders", "Measure models, EPs and shapes as a TOML file says.", "suites.md"),
        "suite merge": ("folders", "Merge a suite that was measured in parts (--shard).", "suites.md#shards"),
    },
    "Compare": {
        "compare": ("judge", "Compare results: which differences are real.", "compare.md"),
        "gate": ("judge", "Check a model or a stored result in CI: pass or fail.", "gates.md"),
    },
    "Inspect": {
        "doctor": (
            "look",
            "Check what does not work here, and how noisy this machine is.",
            "troubleshooting.md#the-machine-ortbench-doctor",
        ),
        "devices": ("look", "List execution providers, their devices, memory and modes.", "choose-ep.md"),
        "inspect": ("look", "Show what a model takes, gives and consists of.", "inputs.md"),
        "explain": (
            "look",
            "Explain the words of a report: columns, verdicts, warnings.",
            "command-line.md#on-the-terminal",
        ),
        "profile": ("measure", "Record a short session for a timeline, with Nsight Systems.", "timelines.md"),
    },
    "Export": {
        "code": ("measure", "Print the program that runs a model in a mode.", "code.md"),
        "report": (
            "folders",
            "Make one page of results that opens anywhere, offline.",
            "result-file.md#a-page-to-share",
        ),
    },
}
COMMANDS = {name: f"{__name__}.{module}" for group in GROUPS.values() for name, (module, _, _) in group.items()}
SENTENCES = {name: sentence for group in GROUPS.values() for name, (_, sentence, _) in group.items()}
PAGES = {name: page for group in GROUPS.values() for name, (_, _, page) in group.items()}
_WAIT_FOR_A_WORKER = {"run", "sweep", "start", "soak"}
_WITHOUT_ONE = {"-h", "--help", "--python"}  # none is needed, or one of another interpreter


def spelled_out(typed: Sequence[str]) -> list[str]:
    """The words of a command line, with the command that a model in its place stands for: ``run``."""
    words = [*typed] or [*HELP]
    if len(words) > 1 and (both := " ".join(words[:2])) in COMMANDS:
        return [both, *words[2:]]
    word = words[0]
    is_model = word not in COMMANDS and not word.startswith("-") and (word.endswith(".onnx") or os.path.isfile(word))
    return ["run", *words] if is_model else words


def waits_for_a_worker(words: Sequence[str]) -> bool:
    """Whether a command, spelled out, will wait for a worker of this very environment."""
    return words[0] in _WAIT_FOR_A_WORKER and not _WITHOUT_ONE & {word.partition("=")[0] for word in words}
