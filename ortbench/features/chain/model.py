"""The kind of chains, what one sample is of, and what a result has of one."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict

from ortbench.model import modes, schema
from ortbench.model.kinds import ANYWHERE, COSTS, RUN, SPEEDUP, Kind, View, figures, tails
from ortbench.model.metrics import NAME
from ortbench.model.modes import Work, WorkOfParts
from ortbench.model.protocol import Finished, Opened

if TYPE_CHECKING:
    from ortbench.model.result import Result

MODES = (modes.CPU, modes.RESIDENT)  # links through the host, and where they are
LINKED = MODES[-1]  # the mode in which links stay where they are
KIND = Kind(
    "chain", "a chain", "chain",
    (View(
        compared=figures("chain", f"stage.{NAME}", *COSTS), several=figures("chain", f"stage.{NAME}", *COSTS),
        gated=figures("chain"),
        columns=(tails("chain"), SPEEDUP, ("chain.n", "throughput", "copied/chain")),
        screen=("chain", "p95", "p99", "speedup", "chains/s", "copied/chain"),
    ),),
    charts=("stages", "links", "distribution", "drift", "bandwidth"),
    checks=ANYWHERE,
    derives_copies=False,
    on_device_needs="the host does not need the intermediate tensors",
    on_host_needs="the host does not need the intermediate tensors, or reads them in place",
    counts_crossings=True,
    of_stages=True,
    needed=(*RUN.needed, "chain"),
)  # fmt: skip


class ChainWork(WorkOfParts):
    kind = whole = modes.WHOLE_CHAIN
    part = modes.STAGE
    name = "a chain"

    @property
    def parts(self) -> tuple[str, ...]:
        return (modes.WHOLE_CHAIN, *map(modes.stage_phase, self.stages))

    @property
    def count(self) -> int:
        return len(self.stages)

    def common_work(self, other: Work) -> Work:
        return ChainWork(stages=tuple(name for name in self.stages if name in other.stages))

    def sessions(self) -> Iterator[tuple[str, dict[str, int]]]:
        return ((f" of {name}", {"stage": number}) for number, name in enumerate(self.stages))

    def part_at(self, index: int) -> tuple[str, dict[str, Any]]:
        number = index % self.count
        return self.stages[number], {modes.STAGE: number, "iteration": index // self.count}


def work_of(chain: Chain) -> ChainWork:
    return ChainWork(stages=tuple(stage["name"] for stage in chain["stages"]))


class ChainStage(TypedDict):
    """A stage of a chain: its model, where it ran, ``repeat`` (1 for one that is no loop) and what it feeds back
    (``feedback``: [output, input]), its outputs that stay on the device (``keep``), and its ``settings``, as ``target`` has
    them; ``sha256`` is of its model."""

    name: str
    model: str
    sha256: str
    ep: str
    ep_version: str | None
    device: schema.Device
    memory: schema.Memory
    repeat: int
    feedback: list[list[str]]
    keep: list[str]
    session_ns: int
    first_inference_ns: int
    settings: dict[str, Any]


class LinkTimes(TypedDict):
    """What the copies of a link's value take alone; null where there is none to or from a device."""

    d2h_ns: int | None
    h2d_ns: int | None


# Of a link; `from` is no name that a class can have.
ChainLink = TypedDict(
    "ChainLink",
    {
        "from": str,
        "to": str,
        "bytes": int,
        "stays": bool,
        "why": "str | None",
        "memory": str,
        "downloads": int,
        "uploads": int,
        "d2h_ns": "int | None",
        "h2d_ns": "int | None",
    },
)
ChainLink.__doc__ = """A link of a chain: its ends as STAGE.NAME, its ``bytes``, whether it ``stays`` in the ``memory`` that it is
given in where tensors stay on the device, or why not; how often it crosses through the host where they do not (``downloads``, ``uploads``: a
loop that takes it copies it to the device in each step), and what one such copy takes alone."""


class Chain(TypedDict):
    """A chain: its stages in the order in which they ran, and its links."""

    stages: list[ChainStage]
    links: list[ChainLink]


class LinkedStages(TypedDict):
    """What is open: stages and links, and which of the stages is the ``main`` one, of which the EP is."""

    stages: list[ChainStage]
    links: list[ChainLink]
    main: int


class OpenedChain(Opened):
    """``open_chain``."""

    chain: LinkedStages


class FinishedChain(Finished):
    """``finish``: also what copies of the links take alone."""

    links: NotRequired[list[LinkTimes]]


class Parts(TypedDict, total=False):
    chain: Chain


def references(result: Result) -> Iterator[tuple[list[str | int], str, Collection[str]]]:
    """Where a name stands that is that of something else in the result, the name, and those that there are."""
    chain: Chain = result.part
    stages = {stage["name"] for stage in chain["stages"]}
    for number, link in enumerate(chain["links"]):
        for end, name in (("from", link["from"]), ("to", link["to"])):
            if not any(name.startswith(f"{stage}.") for stage in stages):
                yield ["chain", "links", number, end], name, ()
    for number, case in enumerate(result.cases):
        for key in case.metrics:
            if found := re.fullmatch(r"stage\.(.+)", key):
                yield ["cases", number, "metrics"], found[1], stages
