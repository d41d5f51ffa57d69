"""A live gate: candidate and baseline in turns, until every contest is decided or the budget is spent. Pure.

It is the judge of a `ortbench.measure.bench.Bench`, whose sides are the candidate and, where there is one, the baseline.
"""

from __future__ import annotations

from collections.abc import Sequence

from ortbench.errors import BenchmarkFailed, NotComparable
from ortbench.gate.checks import check_contest, check_facts, check_lost_modes, with_remedy
from ortbench.gate.contests import Contest, Jury, own_contests, regression_contests
from ortbench.gate.limits import Check, Limits
from ortbench.gate.memory import check_memory_regressions
from ortbench.result import FAILED, Result


class LiveGate:
    """Decides while blocks come in.

    Args:
        limits: what the candidate must keep to.
        modes: that are measured.
        has_baseline: whether there is a second side.
        steps: of a loop; None for single inferences.

    Raises:
        BadInput: a metric that blocks do not have, or a limit that a loop has not.
    """

    def __init__(self, limits: Limits, modes: Sequence[str], has_baseline: bool, steps: int | None = None) -> None:
        self._limits = limits
        self._modes = modes
        self._regressions = regression_contests(limits, modes, steps) if has_baseline else []
        self._own = own_contests(limits, steps is not None)
        self._jury = Jury([*self._regressions, *self._own])

    def add(self, side: int, mode: str, phase: str, round: int, samples: Sequence[int]) -> None:
        """Take the samples of a block, ns, into account."""
        self._jury.add(side, mode, phase, round, samples)

    def decided(self) -> list[str]:
        """The modes that need no more blocks."""
        still_open = self._jury.open_modes()
        return [mode for mode in self._modes if mode not in still_open]

    def check_inputs(self, results: Sequence[Result]) -> None:
        """Refuse two models that do not take the same inputs: their times say nothing about each other.

        One model takes other inputs only where that was asked for.

        Raises:
            NotComparable: names, types or shapes differ.
        """
        takes = [
            {it["name"]: (it["type"], it.get("tensors", it["shape"])) for it in result.model["inputs"]}
            for result in results
        ]
        for result, other in zip(results[1:], takes[1:], strict=True):
            if other != takes[0] and result.model["sha256"] != results[0].model["sha256"]:
                pair = [
                    ", ".join(f"{name} {kind} {shape}" for name, (kind, shape) in it.items())
                    for it in (takes[0], other)
                ]
                raise NotComparable(
                    f"the inputs differ: the candidate takes {pair[0]}, the baseline {pair[1]} (--shape, --dim and --length set "
                    "them, --force compares them all the same)"
                )

    def checks(self, results: Sequence[Result]) -> list[Check]:
        """The verdicts, of a run that is over.

        Raises:
            BenchmarkFailed: nothing could be compared.
        """
        candidate, *baselines = results
        limits = self._limits
        checks = [check for baseline in baselines for check in check_lost_modes(candidate, baseline, limits)]
        measured = [it for it in self._regressions if all(result.case(it.over.mode) for result in results)]
        compared = [it for it in measured if not _copies_nothing(results, it)]
        checks += [with_remedy(self._jury.check(contest), candidate, self._jury.takes) for contest in compared]
        has_failed = any(case.status == FAILED for result in results for case in result.cases)
        if self._regressions and not compared and not checks and not has_failed:
            reasons = [f"{case.mode}: {case.reason}" for case in candidate.cases if case.reason]
            reasons += [f"{it.over.phase} of {it.over.mode} copies nothing" for it in measured]
            raise BenchmarkFailed(f"nothing could be compared: {'; '.join(reasons)}")
        for baseline in baselines:
            checks += check_memory_regressions(candidate, baseline, limits)
        checks += check_facts(candidate, limits)
        return checks + [check_contest(candidate, self._jury, contest) for contest in self._own]


def _copies_nothing(results: Sequence[Result], contest: Contest) -> bool:
    """Whether a contest is of a copy that has no bytes on any side, which is not timed."""
    cases = [result.case(contest.over.mode) for result in results]
    return all(case is not None and case.copies_nothing(contest.over.phase) for case in cases)
