"""What a soak run keeps of its samples: an hour of a model of 2 µs has a billion, and a file must stay one that opens.

Whole blocks are left out, those of all modes in the same rounds, so that what is kept alternates as it was measured, pairs
stay pairs, and what is kept is spread evenly over the run. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ortbench.measure.schedule import MAX_SAMPLES
from ortbench.model.modes import taken_in
from ortbench.model.result import Case


class Thinning:
    """Keeps the blocks of each nth round.

    Args:
        most: samples of one phase of one mode; with more of them every other round that is kept is left out.

    Attributes:
        every: of so many rounds one is kept.
    """

    def __init__(self, most: int = MAX_SAMPLES) -> None:
        self.every = 1
        self._most = most
        self._taken: dict[int, dict[str, int]] = {}

    def add(self, case: Case, phase: str, cases: Sequence[Case]) -> None:
        """A case has got a block.

        Args:
            case, phase: of which it is the last block.
            cases: all that are measured in the same rounds, of all sides.
        """
        phases = [phase, *(it for it in taken_in(case.mode, phase) if it in case.blocks)]
        taken = self._taken.setdefault(id(case), {})
        for it in phases:
            taken[it] = taken.get(it, 0) + case.blocks[it][-1][1]
        if case.blocks[phase][-1][0] % self.every:
            for it in phases:
                _, n, _ = case.blocks[it].pop()
                del case.samples[it][len(case.samples[it]) - n :]
        elif max(len(case.samples[it]) for it in phases) > self._most:
            self.every *= 2
            self._thin(cases)
        if self.every > 1:
            case.downsampled = {"every": self.every, "taken": dict(taken)}

    def _thin(self, cases: Iterable[Case]) -> None:
        for case in cases:
            for phase, blocks in case.blocks.items():
                kept: list[int | float] = []
                at = 0
                for round_, n, _ in blocks:
                    if round_ % self.every == 0:
                        kept += case.samples[phase][at : at + n]
                    at += n
                case.samples[phase] = kept
                case.blocks[phase] = [block for block in blocks if block[0] % self.every == 0]
            if case.blocks:
                case.downsampled = {"every": self.every, "taken": dict(self._taken.get(id(case), {}))}
