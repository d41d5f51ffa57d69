"""What the worker says of EPs and devices: ``devices``."""

from __future__ import annotations

from typing import TypedDict

from ortbench.model import schema
from ortbench.model.protocol import Ability, ListedEp
from ortbench.model.schema import NotRequired

PASSED, FAILED, NOT_OFFERED = "passed", "failed", "not offered"


class Check(TypedDict):
    """Something that an EP must do: ``part`` of the contract, ``what``, ``verdict`` (one of the three above), and in words how or
    why."""

    part: str
    what: str
    verdict: str
    how: str


class Listed(TypedDict):
    """``devices``: every EP, what it runs with, what that can do, and what is to be said of it; ``checks``: with ``--check``,
    those of a library's devices, one after the other."""

    eps: list[ListedEp]
    runtime: schema.Runtime
    abilities: list[Ability]
    warnings: NotRequired[list[schema.Warned]]
    checks: NotRequired[list[list[Check]]]
