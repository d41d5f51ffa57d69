"""Carries the cases of a suite out, one after the other, each into a folder of its own."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ortbench.analysis.shapes import nothing_measured
from ortbench.core import printed, signals
from ortbench.core.errors import BENCHMARK_FAILED, NOT_COMPARABLE, NotComparable, OrtbenchError, one_line
from ortbench.core.features import part_of
from ortbench.facts.checks import PASSED, UNCLEAR, check_by
from ortbench.facts.fact import Fact
from ortbench.features.gate.gates.verdict import Verdict
from ortbench.features.gate.job import AskedGate, gate_live, gate_stored
from ortbench.features.suite.job.fingerprint import fingerprint
from ortbench.features.suite.job.folder import done_record, empty_folder, load_result, write_record
from ortbench.features.suite.job.jobs import Job
from ortbench.features.suite.job.record import BROKEN, INCOMPARABLE, MEASURED, SKIPPED, Record, figures
from ortbench.jobs.measuring import ForecastLine, measure
from ortbench.measure.forecast import Forecast
from ortbench.model.result import OK

Tell = Callable[[Record, bool], None]  # the record of a case as it ends, and whether it was done before


def run_cases(jobs: Sequence[Job], out: Path, fresh: bool, quiet: bool, tell: Tell) -> tuple[list[Record], bool]:
    """Carry jobs out in the suite's folder, except what is done already unless that is to be done afresh; whatever one comes to,
    the others go on. Gives the records in the order of the jobs, and whether Ctrl-C or its like ended it."""
    records: list[Record] = []
    if not quiet and not sys.stderr.isatty():
        ForecastLine("the suite").forecast(sum(map(_forecast_s, jobs)))
        quiet = True  # a line for each case would say it again
    try:
        for job in jobs:
            signals.heed()  # it may have come between two waits for a worker
            folder = out / job.case.id
            record, was_done = find_record(job, folder, fresh)
            done = run_case(job, record, folder, quiet) if was_done is None else record
            if done is None:
                return records, True
            records.append(done)
            tell(done, bool(was_done))
    except KeyboardInterrupt:
        return records, True
    return records, False


def _forecast_s(job: Job) -> float:
    """How long a job takes at most, about; nothing where its case is skipped."""
    plans = [shape.plan for shape in job.shapes] or job.plans
    if not plans:
        return 0.0
    if (series := part_of(plans[0].part.folder, "job", "series_of")) is not None:
        forecast: float = series(plans, None).forecast.left_s()
        return forecast
    return Forecast(plans[0].loop, len(plans), sum(len(plan.modes) for plan in plans)).left_s()


def find_record(job: Job, folder: Path, fresh: bool, on_cluster: bool = False) -> tuple[Record, bool | None]:
    """The record of a job, and whether it was done before; None where it has yet to be carried out."""
    case = job.case
    record = Record(case.id, case.model_name, case.ep, case.shape, "", SKIPPED, reason=case.skip)
    if job.plans:
        try:
            record = replace(record, fingerprint=fingerprint(job))
        except Exception as error:
            record = broken_record(record, error)
        resources = job.demand.resources if on_cluster else {}
        if not fresh and (earlier := done_record(folder, record.fingerprint, resources)) is not None:
            return earlier, True
        if record.outcome != BROKEN:
            return record, None
    else:
        empty_folder(folder)
    write_record(record, folder)
    return record, False


def run_case(job: Job, record: Record, folder: Path, quiet: bool) -> Record | None:
    """Carry a job out in the folder of its case, which is emptied; what its record has become, which the folder has too, or None
    if it was interrupted."""
    began = time.monotonic()
    try:
        empty_folder(folder)
        printed.keep_in(folder)
        verdict = _measure(job, folder, quiet)
        if verdict is None:
            return None
        record = replace(record, **_conclusions(verdict))
    except Exception as error:  # whatever one case comes to must not cost the others
        record = broken_record(record, error)
    record = replace(record, seconds=round(time.monotonic() - began, 3))
    write_record(record, folder)
    return record


def _measure(job: Job, folder: Path, quiet: bool) -> Verdict | None:
    def place() -> Path:
        return folder

    if len(job.plans) > 1:
        return gate_live(AskedGate(job.limits, job.force, job.plans, why=job.why), place, quiet)
    if job.shapes:
        from ortbench.features.sweep.job import measure_sweep

        found = measure_sweep(job.shapes, job.slo, place, quiet=quiet)
    else:
        found = measure(job.plans, place, quiet=quiet)
    if found.interrupted:
        return None
    stored = None if job.baseline is None else load_result(job.baseline)
    verdict = gate_stored(found.result, stored, job.limits, job.force)
    if job.baseline is not None and stored is None:
        # Green would say that there was no regression.
        fact = Fact("check-case", "missing", "", {"baseline": str(job.baseline)})
        unknown = check_by("baseline", UNCLEAR, fact)
        verdict = replace(verdict, checks=[*verdict.checks, unknown])
    return verdict


def _conclusions(verdict: Verdict) -> dict[str, Any]:
    outcome = MEASURED if verdict.word == PASSED and not verdict.checks else verdict.word
    found = {"outcome": outcome, "exit_code": verdict.code, "reason": None, "checks": [*verdict.checks]}
    failed = verdict.failed if len(verdict.results) > 1 else [failure for _, failure in verdict.failures]
    reasons = failed or [check.text for check in verdict.checks if check.verdict != PASSED]
    if reasons:
        found["reason"] = "; ".join([*reasons, *(verdict.why.text.splitlines() if verdict.why else [])])
    if not any(case.status == OK for case in verdict.results[0].cases) and not verdict.failed:
        reason = nothing_measured(verdict.results[0])
        found.update(outcome=BROKEN, exit_code=BENCHMARK_FAILED, reason=reason)
    return {**found, **figures(verdict.results[0])}


def broken_record(record: Record, error: Exception) -> Record:
    if isinstance(error, NotComparable):
        return replace(record, outcome=INCOMPARABLE, exit_code=NOT_COMPARABLE, reason=str(error))
    is_said = isinstance(error, (OrtbenchError, OSError))
    text = one_line(error) if is_said else one_line(f"{type(error).__name__}: {error}")
    return replace(record, outcome=BROKEN, exit_code=BENCHMARK_FAILED, reason=text)
