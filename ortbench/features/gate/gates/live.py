"""Live gates: candidate and baseline in turns, until every ratio test is decided or the budget is spent. Pure.

They are sequential tests of a driver (`ortbench.measure.stopping.SequentialTest`), whose configurations are the candidate and, where
there is one, the baseline.
"""

from __future__ import annotations

from collections.abc import Sequence

from ortbench.core.errors import BenchmarkFailed, NotComparable
from ortbench.facts.checks import FAILED as UNFIT
from ortbench.facts.checks import Check
from ortbench.facts.fact import Fact
from ortbench.facts.sentences import phrase
from ortbench.features.gate.gates.checks import check_facts, check_ratio_test, with_remedy, without_doubtful
from ortbench.features.gate.gates.ratio_tests import RatioTest, SequentialTests, own_ratio_tests, regression_tests
from ortbench.features.gate.gates.stored import check_lost, check_values
from ortbench.features.gate.plan import Limits
from ortbench.model.kinds import kind_of
from ortbench.model.modes import ENQUEUE, INFERENCE, Work
from ortbench.model.result import FAILED, UNSUPPORTED, Result


class Gate:
    """What live gates share: ratio tests of candidate and baseline, and of the candidate's own modes."""

    def __init__(self, limits: Limits, regressions: Sequence[RatioTest], own: Sequence[RatioTest] = ()) -> None:
        self._limits, self._regressions, self._own = limits, regressions, own
        self._sequential = SequentialTests([*regressions, *own])
        self.takes = self._sequential.takes

    def so_far(self) -> list[tuple[str, str]]:
        """What is known of each ratio test by now: its name, and the ratio with its interval and limit."""
        return self._sequential.so_far()

    def regressions(self, checks: Sequence[Check]) -> set[str]:
        """The names of the checks that found the candidate slower than the baseline."""
        return {check.name for check in checks if check.verdict == UNFIT} & {it.name for it in self._regressions}


class LiveGate(Gate):
    """Decides while blocks come in of `modes`, and of a second side where there is a baseline.

    Raises `BadInput` for a metric that blocks do not have, or a limit that a loop or a chain has not.
    """

    def __init__(self, limits: Limits, modes: Sequence[str], has_baseline: bool, work: Work = INFERENCE) -> None:
        regressions = regression_tests(limits, modes, work) if has_baseline else []
        super().__init__(limits, regressions, own_ratio_tests(limits, work))

    def add(self, side: int, mode: str, phase: str, round: int, samples: Sequence[float], place: object = None) -> None:
        self._sequential.add(side, mode, phase, round, samples)

    def needs_more(self, mode: str, place: object = None, rounds: int = 0) -> bool:
        return self._sequential.needs_more(mode)

    def least_runs(self, mode: str, place: tuple[str, float]) -> int:
        return 1

    @staticmethod
    def check_inputs(results: Sequence[Result]) -> None:
        """Refuse (`NotComparable`) two models that take other inputs; one takes others only where that was asked for. `BenchmarkFailed`:
        one can be measured in no mode."""
        for number, result in enumerate(results):
            if all(case.status == UNSUPPORTED for case in result.cases):
                side = "baseline" if number else "candidate"
                raise BenchmarkFailed(f"the {side} cannot be measured: {result.cases[0].reason}")
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
                of_stages = kind_of(results[0].kind).of_stages
                set_by = "the chains' files set" if of_stages else "--shape, --dim and --sequence-tensors set"
                raise NotComparable(
                    f"the inputs differ: the candidate takes {pair[0]}, the baseline {pair[1]} ({set_by} them, --force "
                    "compares them anyway)"
                )

    def checks(self, results: Sequence[Result]) -> list[Check]:
        """The verdicts, of a run that is over; `BenchmarkFailed` where nothing could be compared."""
        candidate, *baselines = results
        limits = self._limits
        checks = [check for baseline in baselines for check in check_lost(candidate, baseline, limits)]
        measured = [it for it in self._regressions if all(result.case(it.over.mode) for result in results)]
        never = {it: why for it in measured if (why := _why_not_timed(results, it)) is not None}
        compared = [it for it in measured if it not in never]
        checks += [
            with_remedy(self._sequential.check(ratio_test), candidate, self._sequential.takes)
            for ratio_test in compared
        ]
        if compared:  # what was asked for is not passed over in silence
            untold = {it: why for it, why in never.items() if it.over.phase == ENQUEUE}
            checks += [
                it.unclear(Fact("check-ratio", why, it.mode, {"what": it.what, "phase": ENQUEUE}))
                for it, why in untold.items()
            ]
        has_failed = any(case.status == FAILED for result in results for case in result.cases)
        if self._regressions and not compared and not checks and not has_failed:
            reasons = [f"{case.mode}: {case.reason}" for case in candidate.cases if case.reason]
            reasons += [
                phrase(Fact("check-ratio", why, "", {"what": it.over.mode, "phase": it.over.phase}))
                for it, why in never.items()
            ]
            raise BenchmarkFailed(f"nothing could be compared: {'; '.join(reasons)}")
        for baseline in baselines:
            checks += check_values(candidate, baseline, limits)
        checks = without_doubtful(checks, candidate, *baselines)
        checks += check_facts(candidate, limits)
        return checks + [check_ratio_test(candidate, self._sequential, ratio_test) for ratio_test in self._own]


def _why_not_timed(results: Sequence[Result], ratio_test: RatioTest) -> str | None:
    """What makes that a ratio test is of something that no side has; None for one that is of what was timed."""
    cases = [case for result in results if (case := result.case(ratio_test.over.mode)) is not None]
    phase = ratio_test.over.phase
    if all(case.copies_nothing(phase) for case in cases):
        return "copies-nothing"
    if phase == ENQUEUE and not any(phase in case.samples for case in cases):
        return "not-apart"
    return None
