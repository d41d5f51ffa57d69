"""When a run ends of which nothing says how much is measured: when processes agree. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from ortbench.analysis.comparing.pairs import by_round
from ortbench.core.resampling import FEW, figure_of, of_processes
from ortbench.model.modes import CPU, LATENCY
from ortbench.model.result import Case
from ortbench.model.schema import Stopped

PART_NS = 300_000_000  # of each mode in each process
AGREEMENT = 0.02  # how far from their middle figures of processes that agree lie, at most


def disagreeing(cases: Sequence[Case]) -> list[str]:
    """The modes that are to go on in another process: those whose speedup over `cpu-tensors` is not the same within ± `AGREEMENT` in
    `FEW` processes or more, and that one with them. Where it is alone, or not measured, medians are to be the same."""
    base = next((it for it in cases if it.mode == CPU and len(cases) > 1), None)
    found = [it.mode for it in cases if it is not base and not agree(_of_processes(it, base))]
    return [base.mode, *found] if base is not None and found else found


def agreement(cases: Sequence[Case]) -> Stopped:
    """Why a run ends of which processes are to agree."""
    return {"reason": "processes" if disagreeing(cases) else "agreement", "value": AGREEMENT}


def _of_processes(case: Case, base: Case | None) -> list[float]:
    """The median latency of a case in each of its processes, by that of another case where there is one."""
    these = by_round(case, LATENCY)
    those = these if base is None else by_round(base, LATENCY)
    of = of_processes(these.keys() & those.keys(), case.first_rounds)
    figures = [[max(figure_of({it: blocks[it] for it in own}), 1) for own in of] for blocks in (these, those)]
    return figures[0] if base is None else [one / other for one, other in zip(*figures, strict=True)]


def agree(figures: Sequence[float]) -> bool:
    """Whether figures of `FEW` processes or more lie within ± `AGREEMENT` of their middle."""
    return len(figures) >= FEW and max(figures) <= (1 + AGREEMENT) ** 2 * min(figures)
