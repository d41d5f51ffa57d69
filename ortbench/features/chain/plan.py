"""What a chain is asked to do: models one after the other, and which output is an input of which. Plain data; pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, NamedTuple

from ortbench.core.parts import typed_value
from ortbench.features.chain.model import MODES as CHAIN_MODES
from ortbench.features.chain.model import ChainWork
from ortbench.features.loop.plan import Steps
from ortbench.model.modes import MODES, Part, Work
from ortbench.plan.option_types import PATH
from ortbench.plan.options import BASELINE, RUNS, new_option
from ortbench.plan.target import Inputs, Target


class End(NamedTuple):
    """An end of a link: a stage and its input or output."""

    stage: str
    tensor: str

    def __str__(self) -> str:
        return f"{self.stage}.{self.tensor}"


@dataclass(frozen=True)
class Link:
    """An output of a stage that is an input of another; `where` the file gives its ends, for messages, by the keys ``from`` and ``to``."""

    source: End
    to: End
    where: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.source} → {self.to}"


@dataclass(frozen=True)
class Stage:
    """A model of a chain, by the path of its file; `inputs` are what no link gives, `where` the file gives its keys, for messages
    (under ``""`` the stage itself)."""

    name: str
    model: str
    target: Target = field(default_factory=Target)
    inputs: Inputs = field(default_factory=Inputs)
    steps: Steps = field(default_factory=lambda: Steps(count=1))
    where: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Chain(Part):
    """Stages in an order in which they can run, and the links between them."""

    stages: tuple[Stage, ...]
    links: tuple[Link, ...] = ()
    opened_by: ClassVar[str] = "open_chain"
    known_modes: ClassVar = {name: MODES[name] for name in CHAIN_MODES}

    @property
    def work(self) -> Work:
        return ChainWork(stages=tuple(it.name for it in self.stages))

    @property
    def models(self) -> tuple[Stage, ...]:
        return self.stages

    def request(self, model: str, target: dict[str, Any]) -> dict[str, Any]:
        return {"chain": asdict(self)}

    def stage_requests(self, request: dict[str, Any]) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = request["chain"]["stages"]
        return found

    def map_models(self, change: Callable[[Stage], Stage]) -> Chain:
        return replace(self, stages=tuple(map(change, self.stages)))

    def essence(self) -> Chain:
        stages = (replace(it, target=replace(it.target, engine_cache=None), where={}) for it in self.stages)
        return Chain(tuple(stages), tuple(replace(link, where={}) for link in self.links))


# The candidate of a gate, and its baseline.
IN_GATES = (
    new_option(
        "chain",
        "FILE",
        "Measure this chain live, as the candidate.",
        RUNS,
        PATH,
        commands=("gate",),
        is_in_suites=False,
    ),
    new_option(
        "baseline-chain", "FILE", "Measure this chain live, as the baseline.", BASELINE, PATH, commands=("gate",)
    ),
)

chain_from: Callable[[dict[str, Any]], Chain] = partial(typed_value, Chain)
