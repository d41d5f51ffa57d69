"""Inputs and outputs that are not where a mode is thought to have them, and what they would cost there. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ortbench.core.safe_text import listed, shortened
from ortbench.model.result import OK, Case, Result
from ortbench.model.schema import TensorPlace

HOST = "host memory"
OF_SESSION = "the session's memory info"  # why a tensor is where it is
_MOST = 3  # names in a finding

Side = Literal["inputs", "outputs"]
SIDES: tuple[Side, ...] = ("inputs", "outputs")


@dataclass(frozen=True)
class Held:
    """Inputs, or outputs, that some modes have in the same memory for the same reason."""

    side: Side  # which of the two they are
    names: tuple[str, ...]  # of them, in the model's order
    modes: tuple[str, ...]  # that have them there
    # memory, why: in words
    memory: str
    why: str
    usual: bool  # it is the memory that these modes are about


def held(result: Result) -> list[Held]:
    """Where every input and output was, in the model's order: what is alike in all modes is said together."""
    cases = [case for case in result.at_point() if case.status == OK and case.places is not None]
    found: dict[tuple[Side, tuple[Held, ...]], list[str]] = {}
    for side in SIDES:
        for tensor in result.model[side]:
            places = [(case.mode, it) for case in cases for it in _sides(case, side) if it["name"] == tensor["name"]]
            found.setdefault((side, _alike(side, places)), []).append(tensor["name"])
    return [
        Held(side, tuple(names), it.modes, it.memory, it.why, it.usual)
        for (side, items), names in found.items()
        for it in items
    ]


def _sides(case: Case, side: Side) -> list[TensorPlace]:
    return [] if case.places is None else case.places[side]


def _alike(side: Side, places: Sequence[tuple[str, TensorPlace]]) -> tuple[Held, ...]:
    """The places of one tensor, without its name."""
    modes: dict[tuple[str, str, bool], list[str]] = {}
    for mode, it in places:
        modes.setdefault((it["memory"], it["why"], it["usual"]), []).append(mode)
    return tuple(Held(side, (), tuple(of), *key) for key, of in modes.items())


def named(it: Held) -> str:
    """The tensors, the first few of many."""
    return f"{it.side.removesuffix('s') if len(it.names) == 1 else it.side} {_listed(it.names)}"


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _MOST
    return listed([*map(shortened, names[:_MOST]), *([f"{more} more"] if more > 0 else [])])
