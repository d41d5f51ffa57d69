"""What a timed block gives: the samples of its phase, and those of what is taken beside them. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from ortbench.model.modes import CPU_TIME, ENQUEUE, STEP, stage_phase
from ortbench.model.protocol import Samples
from ortbench.model.result import Case
from ortbench.model.schema import HostTime


def streams(answer: Samples, phase: str, runs: int, part: str = STEP) -> dict[str, list[int] | list[float]]:
    """Samples by the name that a result has them under, ns, that of the phase first.

    Args:
        answer: of the worker.
        phase: that was timed.
        runs: that the block recorded.
        part: what the samples have parts of, steps or stages.
    """
    found: dict[str, list[int] | list[float]] = {phase: answer["samples"]}
    if "steps" in answer:
        found[part] = answer["steps"]
    if "submits" in answer:
        found[ENQUEUE] = answer["submits"]
    if "cpu" in answer:
        found[CPU_TIME] = [round((answer["cpu"]["user_ns"] + answer["cpu"]["system_ns"]) / runs)]
    found |= {key: [round(count / runs, 6)] for key, count in answer.get("counts", {}).items()}
    return found


def by_stage(answer: Samples, stages: Sequence[str]) -> dict[str, list[int]]:
    """The samples of each stage of a chain, ns, by its phase.

    Args:
        answer: of the worker.
        stages: their names; of anything else none.
    """
    return {
        stage_phase(name): answer["steps"][at :: len(stages)] for at, name in enumerate(stages) if "steps" in answer
    }


def add_host_time(case: Case, answer: Samples, runs: int) -> None:
    """Add the CPU time of a block to what a case has of all its blocks."""
    if "cpu" not in answer:
        return
    so_far = case.host or HostTime(runs=0, wall_ns=0, user_ns=0, system_ns=0)
    spent = answer["cpu"]
    case.host = {
        "runs": so_far["runs"] + runs,
        "wall_ns": so_far["wall_ns"] + spent["wall_ns"],
        "user_ns": so_far["user_ns"] + spent["user_ns"],
        "system_ns": so_far["system_ns"] + spent["system_ns"],
    }
