"""What `ortbench suite` and `ortbench suite merge` do: carry cases out, one after the other, each into a folder of its own, or put shards
together; and show what they came to."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from ortbench.analysis.items import nothing_measured
from ortbench.core import output, signals
from ortbench.core.errors import (
    BENCHMARK_FAILED,
    INTERRUPTED,
    NOT_COMPARABLE,
    BadInput,
    NotComparable,
    OrtbenchError,
    one_line,
)
from ortbench.core.features import part_of
from ortbench.core.files import write_or_note
from ortbench.core.parts import plain
from ortbench.core.safe_text import complain, visible
from ortbench.facts import Fact
from ortbench.facts.sentences import PASSED, UNCLEAR, check_by
from ortbench.features.gate.gates.checks import Verdict
from ortbench.features.gate.job import gate_live, gate_stored
from ortbench.features.suite.job.cases import Suite, parse_shard, shard
from ortbench.features.suite.job.jobs import Job, fingerprint
from ortbench.features.suite.job.record import (
    BROKEN,
    CONCLUDED,
    INCOMPARABLE,
    MEASURED,
    MISSING,
    SKIPPED,
    Record,
    claim_folder,
    done_record,
    empty_folder,
    exit_code,
    figures,
    join_shards,
    load_result,
    write_record,
)
from ortbench.features.suite.report import build, csv, verdicts_report
from ortbench.jobs import check_wanted, json_text, publish
from ortbench.jobs.run import ForecastLine, measure
from ortbench.measure.progress import Forecast
from ortbench.model.result import OK
from ortbench.plan.plan import OutputOptions
from ortbench.report.records import Failure, Part, Publication, markdown

Runner = Callable[..., tuple[list[Record], bool]]  # as `run_cases` is called
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
            signals.stop_if_asked()  # it may have come between two waits for a worker
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
        output.keep_in(folder)
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
    if len(job.plans) > 1:
        return gate_live(job, lambda: folder, quiet)
    if job.shapes:
        from ortbench.features.sweep.job import measure_sweep

        found = measure_sweep(job.shapes, job.slo, lambda: folder, quiet=quiet)
    else:
        found = measure(job.plans, lambda: folder, quiet=quiet)
    if found.interrupted:
        return None
    stored = None if job.baseline is None else load_result(job.baseline)
    verdict = gate_stored(found.result, stored, job.limits, job.force)
    if job.baseline is not None and stored is None:
        # Green would say that there was no regression.
        missing = Fact("check-case", "missing", "", {"baseline": str(job.baseline)})
        verdict = replace(verdict, checks=[*verdict.checks, check_by("baseline", UNCLEAR, missing)])
    return verdict


def _conclusions(verdict: Verdict) -> dict[str, Any]:
    outcome = MEASURED if verdict.word == PASSED and not verdict.checks else verdict.word
    found = {"outcome": outcome, "exit_code": verdict.code, "reason": None, "checks": [*verdict.checks]}
    failed = verdict.failed_cases if len(verdict.results) > 1 else [failure for _, failure in verdict.failures]
    reasons = failed or [check.text for check in verdict.checks if check.verdict != PASSED]
    if reasons:
        found["reason"] = "; ".join([*reasons, *(verdict.why.text.splitlines() if verdict.why else [])])
    if not any(case.status == OK for case in verdict.results[0].cases) and not verdict.failed_cases:
        reason = nothing_measured(verdict.results[0])
        found.update(outcome=BROKEN, exit_code=BENCHMARK_FAILED, reason=reason)
    return {**found, **figures(verdict.results[0])}


def broken_record(record: Record, error: Exception) -> Record:
    if isinstance(error, NotComparable):
        return replace(record, outcome=INCOMPARABLE, exit_code=NOT_COMPARABLE, reason=str(error))
    is_said = isinstance(error, (OrtbenchError, OSError))
    text = one_line(error) if is_said else one_line(f"{type(error).__name__}: {error}")
    return replace(record, outcome=BROKEN, exit_code=BENCHMARK_FAILED, reason=text)


def choose_jobs(found: Suite, jobs: Sequence[Job], part: str | None, only: Sequence[str]) -> list[Job]:
    """The jobs of a shard, such as ``2/4``, or of all cases, as far as their ids match a pattern, where there are any;
    `BadInput` for no such shard, or a pattern that matches no case."""
    ids = [case.id for case in found.cases]
    taken = set(ids) if part is None else shard(ids, *parse_shard(part))
    for pattern in only:
        if not any(fnmatchcase(name, pattern) for name in ids):
            raise BadInput(f"--only {pattern!r}: matches no case; --list shows them")
    return [
        job
        for job in jobs
        if job.case.id in taken and (not only or any(fnmatchcase(job.case.id, pattern) for pattern in only))
    ]


def run_suite(
    found: Suite, jobs: Sequence[Job], folder: Path, fresh: bool, wanted: OutputOptions, runner: Runner | None = None
) -> int:
    """Carry jobs of a suite out in its folder, write and show what they came to; the exit code. `BadInput` where the folder is
    something else's, or cannot be written."""
    check_wanted(wanted)
    if any(job.baseline is not None and job.baseline.parent.resolve() == folder.resolve() for job in jobs):
        raise BadInput(f"--out {folder}: is the baseline too, which would be overwritten; name another folder")
    claim_folder(folder, found.name, found.file.sha256, [case.id for case in found.cases])
    count = 0

    def tell(record: Record, was_done: bool) -> None:
        nonlocal count
        count += 1
        if record.exit_code or not wanted.quiet:
            print(visible(f"[{count}/{len(jobs)}] {record.line(was_done)}"), file=sys.stderr)

    signals.defer_signals()  # the summary is written whatever comes
    records, interrupted = (runner or run_cases)(jobs, folder, fresh, wanted.quiet, tell)
    if interrupted:
        complain(f"interrupted after {len(records)} of {len(jobs)} cases; the same command goes on")
    return _conclude(found.name, records, folder, wanted, interrupted)


def merge_shards(folders: Sequence[Path], out: Path, wanted: OutputOptions) -> int:
    """Put shards together in a folder, write and show what they came to; the exit code. `BadInput` where they do not belong
    together, or the folder is something else's or cannot be made."""
    check_wanted(wanted)
    name, records, remarks = join_shards(folders, out)
    for remark in remarks:
        complain(remark)
    missing = [record.id for record in records if record.outcome == MISSING]
    if missing:
        complain(f"{len(missing)} of {len(records)} cases are missing: {', '.join(missing)}")
    return _conclude(name, records, out, wanted, interrupted=False)


def _conclude(name: str, records: Sequence[Record], folder: Path, wanted: OutputOptions, interrupted: bool) -> int:
    code = (signals.exit_code() or INTERRUPTED) if interrupted else exit_code(records)
    write_or_note(folder / "summary.md", markdown(build(name, records)))
    write_or_note(folder / "summary.csv", csv(records))
    data = {"suite": name, "exit_code": code, "folder": str(folder), "cases": [plain(record) for record in records]}
    publish(
        wanted,
        [build(name, records, str(folder))],
        lambda: json_text(data),
        publication=lambda: Publication(
            name,
            [_part(it, folder) for it in records],
            verdicts_report(name, records),
            seconds=sum(it.seconds for it in records),  # of a suite that went on, or was merged, too
        ),
    )
    return code


def _part(record: Record, folder: Path) -> Part:
    result, failure = load_result(folder / record.id), None
    if record.outcome not in CONCLUDED:
        failure = Failure("case", record.reason or "", record.outcome == SKIPPED, record.seconds)
    elif result is None:
        reason = "what was measured is not listed: its result file could not be written"
        failure = Failure("case", reason, seconds=record.seconds)
    return Part(result, record.id if result is not None else "", group=record.id, checks=record.checks, failure=failure)
