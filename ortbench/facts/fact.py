"""A fact: one thing that a result says, with its figures; programs read it in ``findings`` of a result, people its sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ortbench.core.stats import Value
from ortbench.model.modes import LATENCY

if TYPE_CHECKING:
    from ortbench.model.result import Case
    from ortbench.model.schema import Figure, Finding


class Quantity(NamedTuple):
    """A figure of a fact."""

    value: float
    unit: str  # one of those that `ortbench.model.schema.Figure` lists
    ci95: tuple[float, float] | None = None
    derived: bool = False  # it follows from other figures and was not measured


Known = Quantity | str | int | Sequence[str]
Values = dict[str, Known]


class Fact(NamedTuple):
    code: str  # what it is about
    verdict: str  # what it comes to; with the code it is the key of its sentence
    mode: str = ""
    values: Mapping[str, Known] = {}
    next: str = ""  # a command to copy
    point: Mapping[str, int | float | str] = {}

    @property
    def key(self) -> tuple[str, str]:
        return self.code, self.verdict


class Explanation(NamedTuple):
    """What makes the difference of two results, as a feature says it."""

    facts: Sequence[Fact]  # what it comes to first
    text: str  # their sentences, a line each
    others: Sequence[str]  # what else differs, in words
    data: Mapping[str, Any]  # for JSON
    parts: Sequence[Sequence[Any]]  # blocks of a report, what it comes to first


def ns(value: float, ci95: Sequence[float] | None = None, *, derived: bool = False) -> Quantity:
    """A duration."""
    return Quantity(value, "ns", None if ci95 is None else (ci95[0], ci95[1]), derived)


def latency(case: Case | None) -> Quantity:
    """The median latency of a case; 0 where there is none."""
    return ns(0 if case is None else case.median(LATENCY) or 0)


def share(value: float, *, derived: bool = False) -> Quantity:
    """A part of 1."""
    return Quantity(value, "share", None, derived)


def times(speedup: Value | float) -> Quantity:
    """A ratio, with its interval."""
    return Quantity(speedup.value, "×", speedup.ci95) if isinstance(speedup, Value) else Quantity(speedup, "×")


def bytes_of(value: float) -> Quantity:
    """An amount of data."""
    return Quantity(value, "B")


def per_s(value: float, ci95: tuple[float, float] | None = None, what: str = "inferences") -> Quantity:
    """A rate."""
    return Quantity(value, f"{what}/s", ci95)


def record(fact: Fact) -> Finding:
    """A fact as a result file has it."""
    made: Finding = {
        "code": fact.code,
        "verdict": fact.verdict,
        "mode": fact.mode or None,
        "point": dict(fact.point),
        "values": {name: _json_value(value) for name, value in fact.values.items()},
        "next": fact.next or None,
    }
    return made


def _json_value(value: Known) -> Figure | str | int | list[str]:
    if isinstance(value, Quantity):
        ends = None if value.ci95 is None else list(value.ci95)
        return {"value": value.value, "unit": value.unit, "ci95": ends, "derived": value.derived}
    return value if isinstance(value, (str, int)) else [*value]
