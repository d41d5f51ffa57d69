"""Carries the cases of a suite out on the machines of a cluster, into the same folders as on one machine."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from ortbench.core.errors import BadInput, BenchmarkFailed
from ortbench.core.files import write_or_note
from ortbench.core.safe_text import complain
from ortbench.jobs.cases import begun, broken
from ortbench.jobs.cluster.crew import Crew
from ortbench.jobs.cluster.orders import Done, Failed, Joining, Lost, Remark, Started, Work
from ortbench.jobs.cluster.places import able
from ortbench.jobs.progress import observed
from ortbench.jobs.suite_folder import CASE_FILE, done, emptied, keep
from ortbench.measure.environment import git_commit
from ortbench.plan.plan import Observer
from ortbench.suite.job import Job
from ortbench.suite.record import BROKEN, Record, record_from

Tell = Callable[[Record, bool], None]


def run(
    jobs: Sequence[Job], out: Path, fresh: bool, quiet: bool, tell: Tell, address: str
) -> tuple[list[Record], bool]:
    """Carry jobs out on a cluster, except what is done already; whatever one comes to, the others go on.

    Args:
        jobs: in the order in which they are begun.
        out, fresh, quiet, tell: see `ortbench.jobs.cases.run`.
        address: of the cluster.

    Returns:
        The records in the order of the jobs, and whether Ctrl-C or its like ended it.

    Raises:
        BadInput: there is no such cluster, or it cannot be used.
    """
    pythons = sorted({python for job in jobs for python in job.demand.pythons})
    records: dict[str, Record] = {}

    def conclude(record: Record, was_done: bool = False) -> None:
        records[record.id] = record
        tell(record, was_done)

    interrupted = False
    with ExitStack() as stack:
        try:
            crew = stack.enter_context(Crew(Joining(address, os.getcwd(), git_commit(), tuple(pythons))))
            works = _left_to_do(jobs, out, fresh, crew, conclude)
            begun_with = {work.id: work.record for work in works}
            progress = _Progress(len(works), stack, quiet)
            for answer in crew.carry_out(works) if works else ():
                _heed(answer, begun_with, out, progress, conclude)
        except KeyboardInterrupt:
            interrupted = True
        except BenchmarkFailed as error:  # the cluster is gone, and what is done is there
            for job in jobs:
                if job.case.id not in records:
                    conclude(broken(begun(job, ()), error))
    return [records[job.case.id] for job in jobs if job.case.id in records], interrupted


def _left_to_do(jobs: Sequence[Job], out: Path, fresh: bool, crew: Crew, conclude: Callable[..., None]) -> list[Work]:
    """The cases that are neither done, nor skipped, nor cannot be begun; the others are concluded."""
    left = []
    for job in jobs:
        record = begun(job, able(job.demand, crew.places) or crew.places)  # it may be done by one that is gone
        earlier = None if fresh or not job.plans else done(out / record.id, record.fingerprint)
        if earlier is not None:
            conclude(earlier, True)
        elif job.plans and record.outcome != BROKEN:
            left.append(Work(job, record))
        else:
            if not job.plans:
                emptied(out / record.id)
            keep(record, out / record.id)
            conclude(record)
    return left


def _heed(
    answer: object, begun_with: dict[str, Record], out: Path, progress: _Progress, conclude: Callable[..., None]
) -> None:
    """Do what follows from what the cluster tells."""
    if isinstance(answer, Started):
        progress.started(answer.id, answer.place)
    elif isinstance(answer, Lost):
        progress.ended(answer.id, is_done=False)
        complain(f"{answer.id} was lost with {answer.place} and goes to another machine")
    elif isinstance(answer, Remark):
        complain(answer.text)
    elif isinstance(answer, (Done, Failed)):
        progress.ended(answer.id, is_done=True)
        record = begun_with[answer.id]
        if isinstance(answer, Done):
            conclude(_kept(answer, record, out / answer.id))
        else:
            record = broken(record, BenchmarkFailed(answer.reason))
            with suppress(OSError):  # then its record cannot be written either, which is said
                emptied(out / answer.id)
            keep(record, out / answer.id)
            conclude(record)


def _kept(done: Done, begun_with: Record, folder: Path) -> Record:
    """The record of a case whose files have come; they are in its folder then."""
    for remark in done.remarks:
        complain(f"{done.id}: {remark}")
    try:
        record = record_from(done.files[CASE_FILE], CASE_FILE)
        emptied(folder)
    except (OSError, KeyError, BadInput) as error:
        return broken(begun_with, error)
    for name, content in sorted(done.files.items()):
        if name != CASE_FILE:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            write_or_note(folder / name, content)
    keep(record, folder)
    return record


class _Progress:
    """How far all cases are, on a terminal."""

    def __init__(self, total: int, stack: ExitStack, quiet: bool) -> None:
        self._observer = observed(stack, quiet) or Observer()
        self._total, self._done = total, 0
        self._on: dict[str, str] = {}

    def started(self, case: str, place: str) -> None:
        self._on[case] = place
        self._show()

    def ended(self, case: str, is_done: bool) -> None:
        self._on.pop(case, None)
        self._done += is_done
        self._show()

    def _show(self) -> None:
        running = ", ".join(f"{case} on {place}" for case, place in self._on.items())
        self._observer.progress(self._done / max(self._total, 1))
        self._observer.stage(f"{self._done} of {self._total} cases; {running or 'waiting for a machine'}")
