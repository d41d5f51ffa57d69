"""The words of reports and what they mean: `ortbench explain` and the glossary of a page are made of these.

glossary.json has them, by the names of groups; modes and metrics are described by their own catalogues. Everything a table has a
column of, every mode, verdict and code of a warning has an entry, which a test checks.
"""

from __future__ import annotations

import json
from enum import Enum
from functools import cache
from pathlib import Path
from typing import NamedTuple

from ortbench.model.metrics import METRICS, Metric
from ortbench.model.modes import ALL_MODES, MODES, PER_INFERENCE, Mode

_FILE = Path(__file__).with_suffix(".json")


class Group(Enum):
    """What words are of: the title of their list, and what one of them is."""

    WORDS = "Words", "a word"
    MODES = "Modes", "a mode"
    METRICS = "Metrics", "a metric"
    RUN = "Columns of a run", "a column of a run"
    LOOP = "Columns of a loop", "a column of a loop"
    LOAD = "Columns of a load", "a column of a load"
    CHAIN = "Columns of a chain", "a column of a chain"
    SWEEP = "Columns of a sweep", "a column of a sweep"
    SOAK = "Columns of a soak", "a column of a soak"
    COMPARISON = "Columns of compare and gate", "a column of compare and gate"
    SUITE = "Columns of a suite", "a column of a suite"
    BANDWIDTH = "Columns of a bandwidth curve", "a column of a bandwidth curve"
    COSTS = "Columns of resource usage", "a column of resource usage"
    MEMORY = "Columns of the memory of tensors", "a column of the memory of tensors"
    NODES = "Columns of nodes", "a column of the tables of nodes"
    WHY = "Columns of changes between nodes", "a column of changes between nodes"
    PROFILE = "Columns of a profiled session", "a column of a profiled session"
    WATCH = "Columns of a recorded program", "a column of a recorded program"
    PAGE = "Columns below the charts of a page", "a column below a chart"
    VERDICTS = "Verdicts", "a verdict"
    WARNINGS = "Warnings", "a warning"
    # whose entries only `ortbench explain` has
    FINDINGS = "Findings", "a finding"
    COMMANDS = "Commands", "a command"

    @property
    def title(self) -> str:
        return self.value[0]

    @property
    def one(self) -> str:
        """One of them, with its article."""
        return self.value[1]


class Entry(NamedTuple):
    word: str  # as reports have it
    group: Group  # what it is of
    sentence: str  # what it means, in a few words that go on after it, without an end
    more: str = ""  # what else there is to know, in sentences, or ""
    page: str = ""  # where docs/ says more, such as ``measuring.md#synchronization``, or ""
    also: tuple[str, ...] = ()  # what else it may be called


def _mode(mode: Mode) -> Entry:
    said = [f"--mode {mode.name} asks for this mode."] if mode.extra else []
    said += [f"Compare it with {mode.like}."] if mode.like else []
    said += [] if mode.figure == PER_INFERENCE else [f"Its figure is {mode.figure}: throughput, not latency."]
    section = "what-is-timed" if mode.figure == PER_INFERENCE else mode.name
    section = "in-a-loop" if mode.name not in MODES else "pinned" if mode.pinned else section
    return Entry(mode.name, Group.MODES, mode.sentence, " ".join(said), f"modes.md#{section}")


def _metric(metric: Metric) -> Entry:
    sentence, _, more = metric.meaning.partition(". ")
    return Entry(metric.title, Group.METRICS, sentence.removesuffix("."), more, metric.docs, (metric.key, *metric.also))


@cache
def entries() -> tuple[Entry, ...]:
    """Every word, by group and in the order in which reports have them."""
    groups = json.loads(_FILE.read_text(encoding="utf-8"))
    found: list[Entry] = []
    for group in Group:
        for word, said in groups.get(group.name.lower(), {}).items():
            also = tuple(said.pop("also", ()))
            found.append(Entry(word, group, **said, also=also))
        if group is Group.MODES:
            found += map(_mode, ALL_MODES.values())
        elif group is Group.METRICS:
            found += map(_metric, METRICS.values())
    return tuple(found)
