"""When a measurement ends of which nothing says how much is measured: when processes agree, or a sequential test is decided. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from ortbench.analysis.intervals import by_round
from ortbench.core.stats import FEW, figure_of, of_processes
from ortbench.model.modes import CPU, LATENCY
from ortbench.model.result import Case
from ortbench.model.schema import Stopped

if TYPE_CHECKING:  # of loads, which most runs are none of
    from ortbench.measure.estimates import Row

PART_NS = 300_000_000  # of each mode in each process
AGREEMENT = 0.02  # how far from their middle figures of processes that agree lie, at most
TO_START = 1 / 3  # of the time, that other processes may take to start


class SequentialTest(Protocol):
    """Looks at blocks as they come and says of what more are wanted: see `ortbench.features.gate.gates.live`. By itself it wants all."""

    @property
    def takes(self) -> int:
        """How many rounds a verdict takes, at least."""
        return 1

    def add(
        self,
        configuration: int,
        mode: str,
        phase: str,
        round: int,
        samples: Sequence[float],
        point: tuple[str, float] | None = None,
    ) -> None:
        """Take the samples of a block into account, ns; at a load point one of the block's figures, by its name."""
        return

    def needs_more(self, mode: str, point: tuple[str, float] | None = None, rounds: int = 0) -> bool:
        """Whether more rounds than these are of use."""
        return True

    def least_runs(self, mode: str, point: tuple[str, float]) -> int:
        """How many runs a block of a load point takes."""
        return 1

    def so_far(self) -> list[Row]:
        """What is known of each ratio by now, in words."""
        return []


class Undecided(SequentialTest):
    """Of several configurations of which nothing is to be decided."""


def disagreeing_modes(cases: Sequence[Case]) -> list[str]:
    """The modes that are to go on in another process: those whose speedup over `cpu-tensors` is not the same within ± `AGREEMENT` in
    `FEW` processes or more, and that one with them. Where it is alone, or not measured, medians are to be the same."""
    base = next((it for it in cases if it.mode == CPU and len(cases) > 1), None)
    modes = [it.mode for it in cases if it is not base and not agree(_figures_of_processes(it, base))]
    return [base.mode, *modes] if base is not None and modes else modes


def reason_of_processes(cases: Sequence[Case]) -> Stopped:
    """Why a run ends of which processes are to agree."""
    return {"reason": "processes" if disagreeing_modes(cases) else "agreement", "value": AGREEMENT}


def _figures_of_processes(case: Case, base: Case | None) -> list[float]:
    """The median latency of a case in each of its processes, by that of another case where there is one."""
    own = by_round(case, LATENCY)
    based = own if base is None else by_round(base, LATENCY)
    processes = of_processes(own.keys() & based.keys(), case.first_rounds)
    figures = [
        [max(figure_of({it: blocks[it] for it in rounds}), 1) for rounds in processes] for blocks in (own, based)
    ]
    return figures[0] if base is None else [ns / base_ns for ns, base_ns in zip(*figures, strict=True)]


def agree(figures: Sequence[float]) -> bool:
    """Whether figures of `FEW` processes or more lie within ± `AGREEMENT` of their middle."""
    return len(figures) >= FEW and max(figures) <= (1 + AGREEMENT) ** 2 * min(figures)


def processes_that_start(budget_s: float, start_s: float) -> int:
    """How many processes there can be of which all but the first start in a third of a time."""
    return 1 + int(budget_s * TO_START / start_s)


def duration_for(processes: int, start_s: float, round_s: float) -> float:
    """The time that so many processes take, s, by that to start one and that of a round: of their starts, and of `FEW` rounds each."""
    return max((processes - 1) * start_s / TO_START, processes * FEW * round_s)
