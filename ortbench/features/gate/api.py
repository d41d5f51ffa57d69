"""`ortbench.gate` and what it gives."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ortbench.api.calls import AnyPath, Interrupted, Tell, check_saved, measuring, with_options
from ortbench.api.commands import read_call, until_interrupted
from ortbench.api.results import Result, markdown_of, read, tables_of
from ortbench.core.safe_text import visible
from ortbench.facts.sentences import PASSED
from ortbench.features.gate.gates.checks import Verdict as GateVerdict
from ortbench.model.result import Result as StoredResult
from ortbench.report.model import Report

if TYPE_CHECKING:
    import pandas


@with_options
def gate(
    result: Result | StoredResult | AnyPath | None = None,
    *,
    progress: Tell | None = None,
    **options: Any,
) -> Verdict:
    """Check a model or a stored result in CI: pass or fail.

    Against limits and a baseline. Live, with `model` or `chain`, candidate and baseline are measured in turns until the
    verdict is clear; with `load` under load.

    Args:
        result: a result, or its file or folder; without it the gate is live.

    Returns:
        the verdict; a regression, or that it cannot tell, raises nothing.

    Raises:
        BadInput, BenchmarkFailed, NotComparable, NotSaved, Interrupted: as their own docstrings say.
    """
    from ortbench.features.gate import job
    from ortbench.jobs.run import folder_maker

    stored, baseline = _result(result), options.get("baseline")
    there = baseline if isinstance(baseline, StoredResult) else None
    named = {**options, "baseline": baseline if there is None else "RESULT"}
    with read_call("gate", named, *_names(result)) as call:
        asked = job.asked_gate(call.given, stored is not None, call.typed)
        if stored is not None:
            base = there or (None if asked.baseline is None else _result(asked.baseline))
            return Verdict.wrap(job.gate_stored(stored, base, asked.limits, asked.force, bool(asked.why)))
        plans = [call.name_model(plan) for plan in asked.plans]
        folder = folder_maker(call.out, plans[:1], "gate")
        with measuring(progress) as observer, until_interrupted():
            found = job.gate_live(replace(asked, plans=tuple(plans)), folder, quiet=True, observer=observer)
            if found is None:
                raise Interrupted
            verdict = Verdict.wrap(found)
            check_saved(verdict)
            return verdict


def _result(given: Any) -> StoredResult | None:
    """A result, or that at a place; None for none."""
    return given if given is None or isinstance(given, StoredResult) else read(given)


def _names(result: Any) -> list[str]:
    """What a command line would say of a result."""
    if result is None:
        return []
    return [os.fspath(result)] if isinstance(result, (str, os.PathLike)) else ["RESULT.json"]


@dataclass(frozen=True, repr=False)
class Verdict(GateVerdict):
    """What a gate found.

    ``word`` is "passed", "failed", "cannot tell" or "benchmark failed", ``sentence`` the same for people with what to do,
    ``code`` the command's exit code; ``checks`` are what was checked, each with ``name``, ``verdict``, ``text``, ``ratio`` and
    its interval ``low`` to ``high`` (ratios of times), ``limit`` and ``rounds``; ``remarks`` say what differs between candidate
    and baseline; ``results`` are those of the candidate and, where there is one, of the baseline; ``folder`` is where it was saved;
    ``why`` says which changes make the candidate slower, where that was looked for.
    """

    results: Sequence[Result]

    @classmethod
    def wrap(cls, found: GateVerdict) -> Verdict:
        """The same verdict, in this form."""
        folder, names = found.folder, found.names if found.results[1:] else ("",)
        results = [
            Result.wrap(result, folder and folder / name) for name, result in zip(names, found.results, strict=True)
        ]
        return cls(**{**vars(found), "results": results})

    @property
    def passed(self) -> bool:
        """Whether everything that was asked for holds for certain."""
        return self.word == PASSED

    def frame(self) -> pandas.DataFrame:
        """A row for each check: ``name``, ``verdict``, ``text``, ``ratio``, ``low``, ``high``, ``limit``, ``rounds``."""
        from ortbench.report.records import check_frame

        return check_frame(self.checks)

    def markdown(self) -> str:
        """The report as Markdown, as ``gate.md`` has it."""
        return markdown_of(self._report())

    def _report(self) -> Report:
        from ortbench.features.gate.report import build_gate

        return build_gate(self)

    def _repr_html_(self) -> str:
        return tables_of(
            self._report(), [f"{check.verdict}: {check.text}" for check in self.checks] + self.failed_cases
        )

    def __repr__(self) -> str:
        return f"<ortbench.Verdict {visible(self.word)}: {visible('; '.join(check.text for check in self.checks))}>"
