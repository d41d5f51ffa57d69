"""`ortbench suite` and `ortbench merge`."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from ortbench.cli.options import REPORTS, ActionOut, JsonOut, JunitOut, Quiet, command_line
from ortbench.cli.writing import summarise_job, write, write_json
from ortbench.errors import INTERRUPTED, BadInput

if TYPE_CHECKING:
    from ortbench.suite.record import Record


def suite(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The suite, a TOML file.")],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="DIR", help="The suite's folder, taken up where it is there. Default: reports/NAME."
        ),
    ] = None,
    shard: Annotated[
        str | None,
        typer.Option("--shard", metavar="I/N", help="Only the I-th of N parts; 'ortbench merge' joins them."),
    ] = None,
    only: Annotated[
        list[str], typer.Option("--only", metavar="PATTERN", help="Only cases whose ids match, as *--cuda; repeatable.")
    ] = [],  # noqa: B006 - typer reads the default and never keeps it
    list_: Annotated[bool, typer.Option("--list", help="Print the cases, and run none.")] = False,
    fresh: Annotated[bool, typer.Option("--fresh", help="Run again what is done.")] = False,
    json_out: JsonOut = None,
    junit: JunitOut = None,
    action_json: ActionOut = None,
    quiet: Quiet = False,
) -> None:
    """Run models, EPs and shapes as a TOML file says.

    With gates; what is done is not run again.
    """
    from ortbench.characters import plain_name
    from ortbench.cli.cases import jobs_of
    from ortbench.jobs import suite as jobs_suite
    from ortbench.suite import cases as suites

    found = suites.read(file, os.environ)
    jobs = jobs_of(found, command_line())
    ids = [case.id for case in found.cases]
    part = set(ids) if shard is None else suites.shard(ids, *suites.parse_shard(shard))
    for pattern in only:
        if not any(fnmatchcase(name, pattern) for name in ids):
            raise BadInput(f"--only {pattern!r}: matches no case; --list shows them")
    chosen = [
        job
        for job in jobs
        if job.case.id in part and (not only or any(fnmatchcase(job.case.id, pattern) for pattern in only))
    ]
    if list_:
        for job in chosen:
            print(job.case.id + (f" (skipped: {job.case.skip})" if job.case.skip else ""))
        return
    place = REPORTS / plain_name(found.name) if out is None else out
    if any(job.baseline is not None and job.baseline.parent.resolve() == place.resolve() for job in chosen):
        raise BadInput(f"--out {place}: is the baseline too, which would be overwritten; name another folder")
    jobs_suite.claim(place, found.name, found.file.sha256, ids)
    count = 0

    def tell(record: Record, was_done: bool) -> None:
        nonlocal count
        count += 1
        if record.exit_code or not quiet:
            print(f"[{count}/{len(chosen)}] {record.line(was_done)}", file=sys.stderr)

    records, interrupted = jobs_suite.run(chosen, place, fresh, quiet, tell)
    if interrupted:
        print(
            f"ortbench: interrupted after {len(records)} of {len(chosen)} cases; the same command goes on",
            file=sys.stderr,
        )
    _conclude(found.name, records, place, json_out, junit, action_json, quiet, interrupted)


def merge(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR", help="The folders of the shards.")],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="The folder of the whole.")],
    json_out: JsonOut = None,
    junit: JunitOut = None,
    action_json: ActionOut = None,
    quiet: Quiet = False,
) -> None:
    """Put the shards of a suite together: one summary, one verdict."""
    from ortbench.jobs import suite as jobs_suite
    from ortbench.suite.record import MISSING

    name, records, remarks = jobs_suite.merge(folders, out)
    for remark in remarks:
        print(f"ortbench: {remark}", file=sys.stderr)
    missing = [record.id for record in records if record.outcome == MISSING]
    if missing:
        print(f"ortbench: {len(missing)} of {len(records)} cases are missing: {', '.join(missing)}", file=sys.stderr)
    _conclude(name, records, out, json_out, junit, action_json, quiet, interrupted=False)


def _conclude(
    name: str,
    records: Sequence[Record],
    place: Path,
    json_out: str | None,
    junit: str | None,
    action_json: str | None,
    quiet: bool,
    interrupted: bool,
) -> NoReturn:
    """Print and write what a suite came to, and exit with its code."""
    from ortbench.jobs.suite import write_summary
    from ortbench.report import suite as report_suite
    from ortbench.suite import record as suite_record

    code = INTERRUPTED if interrupted else suite_record.exit_code(records)
    write_summary(place, name, records)
    summarise_job(report_suite.markdown(name, records))
    cases = [record.to_dict() for record in records]
    write_json({"suite": name, "exit_code": code, "folder": str(place), "cases": cases}, json_out)
    if junit is not None or action_json is not None:
        _write_exports(name, records, place, junit, action_json)
    if json_out != "-" and not quiet:
        from ortbench.report.terminal.print import print_summary

        print_summary(name, records, str(place))
    raise SystemExit(code)


def _write_exports(
    name: str, records: Sequence[Record], place: Path, junit: str | None, action_json: str | None
) -> None:
    """The forms that CI systems read."""
    from ortbench.jobs.suite import saved_result
    from ortbench.report.exports import github
    from ortbench.report.exports import junit as exports_junit
    from ortbench.suite.record import CONCLUDED, SKIPPED

    outcomes, results = [], []
    for record in records:
        result = saved_result(place / record.id)
        if result is not None:
            results.append(result)
            found = [
                *exports_junit.outcomes_of_run(result),
                *exports_junit.outcomes_of_checks(result, record.gate_checks()),
            ]
            outcomes += [replace(outcome, group=record.id) for outcome in found]
        if record.outcome not in CONCLUDED:
            verdict = exports_junit.SKIPPED if record.outcome == SKIPPED else exports_junit.ERROR
            outcomes.append(exports_junit.Outcome(record.id, "case", verdict, record.reason or "", record.seconds))
    if junit is not None:
        write(junit, exports_junit.junit(name, outcomes), "--junit")
    if action_json is not None:
        write(action_json, github.action_json(results), "--action-json")
