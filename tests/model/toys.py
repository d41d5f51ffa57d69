"""Types of a small file that has everything which files of results have."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NotRequired, TypedDict

from msgspec import Meta

from ortbench.core.parts import OneOf

AtLeast0 = Annotated[int, Meta(ge=0)]


class Machine(TypedDict, total=False):
    cores: int


class Device(Machine):
    name: str
    memory: NotRequired[int]


Link = TypedDict("Link", {"from": str, "bytes": int})


class Metric(OneOf):
    __slots__ = ()


@dataclass
class Stats(Metric):
    n: AtLeast0
    median: int
    p99: int
    ci95: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        if self.median > self.p99:
            raise ValueError("the median is above p99")


@dataclass
class Value(Metric):
    value: float
    derived: bool = False


@dataclass
class Case:
    mode: str
    status: Literal["ok", "failed"] = "ok"
    point: dict[str, float | str] = field(default_factory=dict)
    metrics: dict[str, Metric] = field(default_factory=dict)
    by_stage: dict[str, dict[str, Metric]] = field(default_factory=dict)
    samples: dict[str, list[int]] = field(default_factory=dict)
    blocks: list[list[int]] = field(default_factory=list)
    by_status: dict[Literal["ok", "failed"], int] = field(default_factory=dict)
    speedup: Value | None = None


@dataclass
class Result:
    schema_version: int
    device: Device
    cases: list[Case]
    links: list[Link] = field(default_factory=list)
    warnings: Annotated[list[str], Meta(max_length=2)] = field(default_factory=list)
    note: str | None = None


def stats(**changed: object) -> dict[str, object]:
    return {"n": 3, "median": 5, "p99": 6, **changed}


def case(**changed: object) -> dict[str, object]:
    return {"mode": "cpu-tensors", "metrics": {"h2d": stats(), "latency": stats(), "loop": {"value": 2}}, **changed}


def result(**changed: object) -> dict[str, Any]:
    return {"schema_version": 2, "device": {"name": "cpu"}, "cases": [case(), case(mode="device-tensors")], **changed}
