"""Made-up results of loops, for tests of what is said about them: every time of every step is written down."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast

from ortbench.analysis.loops import summarise_steps
from ortbench.modes import STEP
from ortbench.result import Case, Result
from ortbench.schema import Loop
from tests.results import measured, result_of

OVERHEAD = 1_000  # ns of a loop that are in none of its steps
QUIET = [1_000_000, 1_001_000, 999_000, 1_000_500] * 6  # of a step, round by round


def loop_case(mode: str, rounds: Iterable[Sequence[int]], loops: int = 3) -> Case:
    """A mode of a loop.

    Args:
        mode: its name.
        rounds: of each, the times of the steps of a loop, ns.
        loops: so many times in each block.
    """
    taken = [list(steps) for steps in rounds]
    case = measured(mode, total={number: [sum(steps) + OVERHEAD] * loops for number, steps in enumerate(taken)})
    case.phases["inference"] = None
    case.samples_ns[STEP] = [ns for steps in taken for _ in range(loops) for ns in steps]
    case.blocks[STEP] = [[number, len(steps) * loops, 0] for number, steps in enumerate(taken)]
    summarise_steps(case, len(taken[0]))
    return case


def level(mode: str, factor: float = 1.0, count: int = 4) -> Case:
    """A mode whose steps take about 1 ms, times a factor."""
    return loop_case(mode, [[round(ns * factor)] * count for ns in QUIET])


def loop_of(steps: int = 4, **changed: Any) -> Loop:
    """A loop of a cell."""
    made: dict[str, Any] = {
        "steps": steps, "feedback": [["hidden_out", "hidden"]], "first": None, "grows": [],
        "state_shapes": [[[1, 128], [1, 128]]], "fill": {}, "keep": [], "resident": [],
    }  # fmt: skip
    return cast(Loop, made | changed)


def loop_result(*cases: Case, loop: Loop | None = None, **changed: Any) -> Result:
    """A result of a loop; see `tests.results.result_of`."""
    made = result_of(*cases, **changed)
    made.kind, made.loop = "loop", loop or loop_of(len(cases[0].steps_ns or []) if cases else 4)
    return made
