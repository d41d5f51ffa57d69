"""A finding: what there is to know, and what to do next. Reports show findings, and show the weightiest first."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple


class Weight(IntEnum):
    """How much a finding matters to somebody who has to decide something."""

    DETAIL = 0  # how a figure was checked, or what else is known of it
    COST = 1  # what takes time or memory beside, or needs care
    GAIN = 2  # what makes an inference faster
    ANSWER = 3  # what the command was asked for
    DOUBT = 4  # the figures are of something else than what was asked for


class Command(str):
    """A command to copy, quoted for a shell."""

    __slots__ = ()


class Finding(NamedTuple):
    what: str  # the finding with its figure: a sentence without a period
    next: str = ""  # what to do: a command to copy, or a sentence without a period
    weight: Weight = Weight.GAIN
    tone: str = ""  # "good", "bad", "unclear", as reports colour it; "" for neither
    row: tuple[str, ...] = ()  # what names the row of a table that it is about

    @property
    def text(self) -> str:
        """The finding as a sentence."""
        return f"{self.what}."

    @property
    def is_command(self) -> bool:
        """Whether what to do next is a command."""
        return isinstance(self.next, Command)

    @property
    def lines(self) -> list[str]:
        """The finding in lines: the sentence, and what to do next."""
        return [self.text, *([f"Next: {self.next}"] if self.next else [])]


def first_lines(findings: Sequence[Finding], most: int) -> list[Finding]:
    """The first findings that fit so many lines; where some do not, a line is left to say so."""
    if sum(len(it.lines) for it in findings) <= most:
        return list(findings)
    shown, room = [], most - 1
    for it in findings:
        if (room := room - len(it.lines)) < 0:
            break
        shown.append(it)
    return shown
