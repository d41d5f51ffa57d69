"""What is to be done for the cases of a suite: plans and limits, made and checked as on the command line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from ortbench.asked import asked_modes, is_library, live, plan_of, weighing
from ortbench.errors import BadInput
from ortbench.gate.baseline import baseline_of, has_live_baseline
from ortbench.gate.contests import own_contests, regression_contests
from ortbench.gate.limits import Limits, limits_of
from ortbench.options import declared
from ortbench.plan import Plan, check
from ortbench.steps import Steps
from ortbench.suite.cases import Suite, SuiteCase
from ortbench.suite.toml_file import Where

_DEFAULTS = ("defaults",)
_BASELINE = "baseline-"


@dataclass(frozen=True)
class Job:
    """What is to be done for a case.

    Attributes:
        case: of the suite.
        plans: of the candidate and, in a live gate, the baseline; none where the case is skipped.
        limits: what the candidate must keep to; empty ones without a gate.
        force: compare what is not comparable.
        baseline: this case's folder of an earlier suite, or None.
    """

    case: SuiteCase
    plans: tuple[Plan, ...] = ()
    limits: Limits = field(default_factory=Limits)
    force: bool = False
    baseline: Path | None = None


def jobs_of(suite: Suite, command: tuple[str, ...]) -> list[Job]:
    """A job for every case.

    Args:
        suite: that was read.
        command: what was typed, for the results.

    Raises:
        BadInput: an option that a case cannot be carried out with, with its line and key.
    """
    return [Job(case) if case.skip is not None else _Maker(suite, case, command).job() for case in suite.cases]


class _Maker:
    """Makes the job of one case."""

    def __init__(self, suite: Suite, case: SuiteCase, command: tuple[str, ...]) -> None:
        self._file = suite.file
        self._case = case
        self._command = command
        self._given = {flag: value.given for flag, value in case.given.items() if value.given != []}
        for flag in ("ep", f"{_BASELINE}ep"):
            if is_library(self._given.get(flag, "")):  # relative to the file, as all paths are
                self._given[flag] = str(self._file.path.parent / self._given[flag])
        if "feedback" not in self._given:  # as defaults they are for loops
            for it in declared(Steps).values():
                if self._where(it.flag)[:1] == _DEFAULTS:
                    self._given.pop(it.flag, None)

    def job(self) -> Job:
        given, is_live = self._given, has_live_baseline(self._given)
        self._check_gate(is_live)
        with self._blaming(self._case.where):
            modes = asked_modes(given) if "mode" in given else ()
            limits = limits_of(given, is_live or "baseline" in given, modes)
            plan = weighing(plan_of(self._case.model, given, self._command, limits.needed()), limits.of_memory)
        if is_live:
            plan = live(plan, given, limits.phases())
        with self._blaming((*self._case.where, "model")):
            check(plan)
        with self._blaming(self._case.where):
            own_contests(limits, plan.steps is not None)
        plans = [plan]
        if is_live:
            with self._blaming(self._where("baseline-model"), _BASELINE):
                plans.append(baseline_of(plan, given))
                check(plans[1])
            with self._blaming(self._where("metric")):
                regression_contests(limits, plan.modes, None if plan.steps is None else plan.steps.count)
        plans = [replace(it, name=self._case.id) for it in plans]
        return Job(self._case, tuple(plans), limits, "force" in given, self._earlier())

    def _where(self, flag: str) -> Where:
        value = self._case.given.get(flag)
        return self._case.where if value is None else value.where

    @contextmanager
    def _blaming(self, otherwise: Where, prefix: str = "") -> Iterator[None]:
        """Bad input inside the block is a mistake where the option that it is about was given."""
        try:
            yield
        except BadInput as error:
            flag = (error.option or "").removeprefix("--")
            own = prefix + flag.removeprefix(prefix)
            flags = [own, own.removesuffix("-library")]  # an EP can be a path
            place = next((self._where(it) for it in flags if it in self._case.given), otherwise)
            raise self._file.mistake(place, error.bare) from None

    def _check_gate(self, is_live: bool) -> None:
        """Refuse what a gate of this kind has no use for.

        Raises:
            BadInput: one was given.
        """
        for flag, why in (
            ("baseline", "a live gate measures its baseline itself"),
            ("iterations", "a live gate measures until its verdict is clear"),
            ("precision", "a live gate measures until its verdict is clear"),
        ):
            if is_live and flag in self._case.given:
                message = f"{why}: leave it out, or write {flag} = false where it should not hold"
                raise self._file.mistake(self._where(flag), message)
        for flag in ("max-regression", "metric"):
            # As a default it is for those that have a baseline.
            is_default = self._where(flag)[:1] == _DEFAULTS
            if flag in self._case.given and not is_live and "baseline" not in self._case.given and not is_default:
                message = "needs something to hold it against: baseline, or live one of baseline-model, baseline-ep …"
                raise self._file.mistake(self._where(flag), message)

    def _earlier(self) -> Path | None:
        """The case's folder in the earlier suite that it is held against."""
        if "baseline" not in self._given:
            return None
        folder = Path(self._given["baseline"])
        if not folder.is_dir():
            raise self._file.mistake(self._where("baseline"), f"no such folder: {folder}")
        return folder / self._case.id
