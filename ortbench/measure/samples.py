"""What a timed block gives: the samples of its phase, and those of what is taken beside them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ortbench.measure.schedule import MAX_SAMPLES
from ortbench.model.modes import CPU_TIME, ENQUEUE, STEP, TOKEN_PHASES, stage_phase, taken_in
from ortbench.model.protocol import Samples
from ortbench.model.result import Case
from ortbench.model.schema import HostTime
from ortbench.model.unit_of_work import Work


def streams(answer: Samples, phase: str, runs: int, part: str = STEP) -> dict[str, list[int] | list[float]]:
    """Samples by the name that a result has them under, ns, that of the phase that was timed first."""
    found: dict[str, list[int] | list[float]] = {phase: answer["samples"]}
    if "steps" in answer:
        found[part] = answer["steps"]
    if "enqueues" in answer:
        found[ENQUEUE] = answer["enqueues"]
    if "cpu" in answer:
        found[CPU_TIME] = [round((answer["cpu"]["user_ns"] + answer["cpu"]["system_ns"]) / runs)]
    found |= {key: [round(count / runs, 6)] for key, count in answer.get("counts", {}).items()}
    return found


def by_stage(answer: Samples, stages: Sequence[str]) -> dict[str, list[int]]:
    """The samples of each stage of a chain, ns, by its phase."""
    return {
        stage_phase(name): answer["steps"][at :: len(stages)] for at, name in enumerate(stages) if "steps" in answer
    }


def by_token(answer: Samples, work: Work) -> dict[str, list[int]]:
    """The samples of the first token of a loop that generates and of later ones, ns, by their phases."""
    taken = answer.get("steps", []) if work.tokens else []
    parts = taken[:: work.count], [ns for number, ns in enumerate(taken) if number % work.count]
    return dict(zip(TOKEN_PHASES, parts, strict=True)) if taken else {}


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


class Thinning:
    """Keeps the blocks of each nth round (`every`). With more than `most` samples of one phase of one mode every other round
    that is kept is left out."""

    def __init__(self, most: int = MAX_SAMPLES) -> None:
        self.every = 1
        self._most = most
        self._taken: dict[int, dict[str, int]] = {}

    def add(self, case: Case, phase: str, cases: Sequence[Case]) -> None:
        """A case has got a block, the last of that phase; `cases` are all that are measured in the same rounds, of all configurations."""
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
