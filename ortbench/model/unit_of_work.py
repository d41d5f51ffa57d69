"""What one sample is of: an inference, a loop of steps, or a chain of stages; and what can be timed of it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from ortbench.model import modes
from ortbench.model.metrics import PER_BLOCK

if TYPE_CHECKING:
    from typing import Self  # newer than the oldest Python of a worker


@dataclass(frozen=True)
class Work:
    """An inference; loops and chains have classes of their own."""

    steps: int | None = None  # of a loop, else None
    stages: tuple[str, ...] = ()  # the names of those of a chain, else none
    tokens: bool = False  # the steps of a loop give tokens
    kind: ClassVar[str] = "run"  # of the results
    whole: ClassVar[str] = modes.LATENCY  # what all of it is called where its parts are too
    part: ClassVar[str] = modes.STEP  # under which name the samples of its parts are
    name: ClassVar[str] = "single inferences"  # what it is, in a message

    @property
    def parts(self) -> tuple[str, ...]:
        """What there is of a loop or a chain besides its latency, the whole of it among them; nothing of an inference."""
        return ()

    @property
    def count(self) -> int:
        """How many parts of a sample are timed in it."""
        return 1

    def phases(self, mode: str) -> tuple[str, ...]:
        known = modes.mode_of(mode)
        return (*known.phases, *PER_BLOCK) if known.of_cpu_tensors else (*known.phases, *modes.COSTS)

    def lacks(self, metric: str) -> str:
        """Why no mode has a metric, where that is so of this work; else nothing."""
        if metric in modes.LOOP_PHASES:
            return "single inferences have no steps; say what is fed back with --feedback OUT=IN"
        if metric == modes.WHOLE_CHAIN or modes.stage_in(metric):
            return f"{self.name} have no stages, which chains have"
        return ""

    def per_sample(self, metric: str) -> int | None:
        """How many samples of a metric a block of one sample gives at least; None where there is no saying."""
        return None

    def shared(self, other: Work) -> Work:
        """What two of a kind have in common: of two chains the stages of one name."""
        return self

    def sessions(self) -> Iterator[tuple[str, dict[str, int]]]:
        """Of each session what a text adds for it, and how the worker is asked for it."""
        yield "", {}

    def part_at(self, index: int) -> tuple[str, dict[str, Any]]:
        """What a part is called, and its numbers, by its place among the parts of all samples of a block."""
        return modes.STEP, {modes.STEP: index % self.count, "iteration": index}


class WorkOfParts(Work):
    def phases(self, mode: str) -> tuple[str, ...]:
        return (modes.LATENCY, *self.parts, *PER_BLOCK)

    def lacks(self, metric: str) -> str:
        return "" if metric in self.phases("") else f"{self.name} has {', '.join(self.phases('')[1:])} only"


INFERENCE = Work()


@dataclass(frozen=True)
class Part:
    """What a plan takes a sample of: an inference; loops, chains and the kinds of features have classes of their own."""

    opened_by: ClassVar[str] = "open"  # the worker's command
    folder: ClassVar[str] = ""  # what the name of its folder begins with
    known_modes: ClassVar[Mapping[str, modes.Mode]] = modes.MODES  # in which it can be measured
    takes_empty_dims: ClassVar[bool] = False  # a dimension may be 0, of a state that has nothing yet

    @property
    def work(self) -> Work:
        return INFERENCE

    @property
    def models(self) -> tuple[Any, ...]:
        """The stages of a chain, else none."""
        return ()

    def check(self, plan: Any) -> None:
        """Refuse (`BadInput`) a plan of it that cannot be carried out, beside what is refused of any, before anything is started."""

    def for_baseline(self, model: str, candidate: str, changes: Mapping[str, Any]) -> tuple[str, Part]:
        """The model and the part of a baseline that has values of its own, beside the `candidate`'s model."""
        return model, replace(self, **changes)

    def with_files(self, to: Callable[[str], str]) -> Self:
        """The same with something else in place of the paths of files of its own."""
        return self

    def request(self, model: str, target: dict[str, Any]) -> dict[str, Any]:
        """What the worker needs to open it besides the inputs, as JSON-ready data."""
        return {"model": model, "target": target}

    def sent(self, request: dict[str, Any]) -> list[dict[str, Any]]:
        """What a request has of each of `models`."""
        return []

    def map_models(self, change: Callable[[Any], Any]) -> Part:
        """The same with others in place of `models`."""
        return self

    def essence(self) -> Part:
        """The same without what enters no figure."""
        return self
