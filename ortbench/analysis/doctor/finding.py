"""A line of what `ortbench doctor` says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

GOOD, KNOW, BAD = "good", "worth knowing", "bad"
VERDICTS = (GOOD, KNOW, BAD)


class Finding(NamedTuple):
    """A fact and what it means."""

    verdict: str  # one of `VERDICTS`
    text: str  # the fact, and what follows from it
    command: str = ""  # that mends it, or tells more; "" where none does


class Section(NamedTuple):
    """Findings about one thing."""

    title: str
    findings: Sequence[Finding]


def number(version: str | None, parts: int = 2) -> tuple[int, ...] | None:
    """The first numbers of a version, to be compared; None where it has none."""
    found = [int(part) for part in (version or "").split(".")[:parts] if part.isdigit()]
    return tuple(found) if len(found) == parts else None
