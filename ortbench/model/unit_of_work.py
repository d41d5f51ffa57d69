"""What one sample is of: an inference, a loop of steps, or a chain of stages; and what can be timed of it. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from ortbench.model.metrics import PER_BLOCK
from ortbench.model.modes import COSTS, LATENCY, LOOP_PHASES, WHOLE_CHAIN, WHOLE_LOOP, mode_of, stage_phase


@dataclass(frozen=True)
class Work:
    """An inference; with `steps` a loop of so many, with `stages` a chain of those.

    Attributes:
        steps: of a loop, else None.
        stages: the names of those of a chain, else None.
    """

    steps: int | None = None
    stages: tuple[str, ...] | None = None

    @property
    def whole(self) -> str:
        """What all of it is called where its parts are too."""
        return WHOLE_CHAIN if self.stages else WHOLE_LOOP if self.steps else LATENCY

    @property
    def name(self) -> str:
        """What it is, in a message."""
        return {LATENCY: "single inferences", WHOLE_LOOP: "a loop", WHOLE_CHAIN: "a chain"}[self.whole]

    @property
    def parts(self) -> tuple[str, ...]:
        """What there is of a loop or a chain besides its latency, the whole of it among them; nothing of an inference."""
        if self.stages:
            return (WHOLE_CHAIN, *map(stage_phase, self.stages))
        return LOOP_PHASES if self.steps else ()

    def phases(self, mode: str) -> tuple[str, ...]:
        """What can be timed of a mode."""
        if self.parts:
            return (LATENCY, *self.parts, *PER_BLOCK)
        known = mode_of(mode)
        return (*known.phases, *PER_BLOCK) if known.of_cpu_tensors else (*known.phases, *COSTS)

    def shared(self, other: Work) -> Work:
        """What two of a kind have in common: of two chains the stages of one name."""
        if self.stages is None or other.stages is None:
            return self
        return Work(stages=tuple(name for name in self.stages if name in other.stages))


INFERENCE = Work()
