"""What `ortbench suite` and `ortbench suite merge` do: carry cases out or put shards together, and show what they came to."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from ortbench.core import signals
from ortbench.core.errors import INTERRUPTED, BadInput
from ortbench.core.parts import plain
from ortbench.core.safe_text import complain, visible
from ortbench.features.suite.job import case_runs
from ortbench.features.suite.job.cases import Suite, parse_shard, shard
from ortbench.features.suite.job.folder import claim_folder, join_shards, load_result, write_summary
from ortbench.features.suite.job.jobs import Job
from ortbench.features.suite.job.record import CONCLUDED, MISSING, SKIPPED, Record, exit_code
from ortbench.features.suite.report import build, verdicts_report
from ortbench.jobs.publishing import check_wanted, json_text, publish
from ortbench.plan.plan import OutputOptions
from ortbench.report.publication import Failure, Part, Publication

Runner = Callable[..., tuple[list[Record], bool]]  # as `case_runs.run_cases` is called


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
    found: Suite, jobs: Sequence[Job], place: Path, fresh: bool, wanted: OutputOptions, runner: Runner | None = None
) -> int:
    """Carry jobs of a suite out in its folder, write and show what they came to; the exit code. `BadInput` where the folder is
    something else's, or cannot be written."""
    check_wanted(wanted)
    if any(job.baseline is not None and job.baseline.parent.resolve() == place.resolve() for job in jobs):
        raise BadInput(f"--out {place}: is the baseline too, which would be overwritten; name another folder")
    claim_folder(place, found.name, found.file.sha256, [case.id for case in found.cases])
    count = 0

    def tell(record: Record, was_done: bool) -> None:
        nonlocal count
        count += 1
        if record.exit_code or not wanted.quiet:
            print(visible(f"[{count}/{len(jobs)}] {record.line(was_done)}"), file=sys.stderr)

    signals.defer_signals()  # the summary is written whatever comes
    records, interrupted = (runner or case_runs.run_cases)(jobs, place, fresh, wanted.quiet, tell)
    if interrupted:
        complain(f"interrupted after {len(records)} of {len(jobs)} cases; the same command goes on")
    return _conclude(found.name, records, place, wanted, interrupted)


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


def _conclude(name: str, records: Sequence[Record], place: Path, wanted: OutputOptions, interrupted: bool) -> int:
    code = (signals.exit_code() or INTERRUPTED) if interrupted else exit_code(records)
    write_summary(place, name, records)
    data = {"suite": name, "exit_code": code, "folder": str(place), "cases": [plain(record) for record in records]}
    publish(
        wanted,
        [build(name, records, str(place))],
        lambda: json_text(data),
        publication=lambda: Publication(name, [_part(it, place) for it in records], verdicts_report(name, records)),
    )
    return code


def _part(record: Record, place: Path) -> Part:
    result, failure = load_result(place / record.id), None
    if record.outcome not in CONCLUDED:
        failure = Failure("case", record.reason or "", record.outcome == SKIPPED, record.seconds)
    elif result is None:
        reason = "what was measured is not listed: its result file could not be written"
        failure = Failure("case", reason, seconds=record.seconds)
    return Part(result, record.id if result is not None else "", group=record.id, checks=record.checks, failure=failure)
