"""A finding: what there is to know, and what to do next. Reports show findings, and show the weightiest first."""

from __future__ import annotations

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
