"""Carries the cases of a suite out on the machines of a cluster, into the same folders as on one machine.

A process beside the command speaks with Ray (`ortbench.jobs.cluster.dispatch`); here it is started, told what to do, and heard.
"""

from __future__ import annotations

import importlib.util
import os
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from ortbench.core import signals
from ortbench.core.errors import BadInput, BenchmarkFailed
from ortbench.core.files import write_or_note
from ortbench.core.safe_text import complain
from ortbench.core.worker_process import WorkerProcess
from ortbench.jobs.cases import Tell, begun, broken
from ortbench.jobs.cluster.machines import Done, Joining, Place, Unusable, Work, able
from ortbench.jobs.measuring import observed
from ortbench.jobs.suite_folder import CASE_FILE, done, emptied, keep
from ortbench.measure.environment import git_commit
from ortbench.measure.process import last_words
from ortbench.plan.plan import Observer
from ortbench.suite.job import Job
from ortbench.suite.record import BROKEN, Record, record_from

OPTION = "--ray"
AUTO = "auto"
_RAY = "Ray's"  # who has written what the process leaves
_JOIN_S = 180.0  # the longest wait for a cluster; every machine is asked what it has
_END_S = 30.0  # what there is to cancel what is running


def check_address(address: str) -> None:
    """Refuse with `BadInput` what cannot be a cluster's address, and a cluster where Ray is not installed."""
    if address != AUTO and ":" not in address:
        reason = f"write {AUTO} or a cluster's address, such as 10.0.0.1:6379 or ray://10.0.0.1:10001"
        raise BadInput(f"{OPTION} {address!r}: {reason}", OPTION)
    if importlib.util.find_spec("ray") is None:
        raise BadInput(f"{OPTION}: Ray is not installed; pip install 'ortbench[ray]' brings it", OPTION)


def run(
    jobs: Sequence[Job], out: Path, fresh: bool, quiet: bool, tell: Tell, address: str
) -> tuple[list[Record], bool]:
    """Carry jobs out on the cluster of an address as `ortbench.jobs.cases.run` does here; `BadInput` where there is no such
    cluster, or it cannot be used."""
    with ExitStack() as stack:
        spread = _Spread(jobs, out, tell, observed(stack, quiet) or Observer())
        pythons = sorted({python for job in jobs for python in job.demand.pythons})
        interrupted = False
        try:
            cluster = stack.enter_context(_Cluster(Joining(address, os.getcwd(), git_commit(), tuple(pythons))))
            works = spread.begin(fresh, cluster.places)
            cluster.carry_out(works, spread)
        except KeyboardInterrupt:
            interrupted = True
        except BenchmarkFailed as error:  # the cluster is gone, and what is done is there
            spread.give_up(error)
    return spread.records, interrupted


class _Cluster:
    """The machines of a cluster, by way of the process that speaks with Ray; `BadInput` where there is no such cluster, or it
    cannot be used."""

    def __init__(self, joining: Joining) -> None:
        self._address = joining.address
        self._worker = WorkerProcess([sys.executable, "-m", "ortbench.jobs.cluster.dispatch"])
        self._process = self._worker.popen
        try:
            self.places = self._join(joining)
        except BaseException:
            self.__exit__()
            raise

    def _join(self, joining: Joining) -> Sequence[Place]:
        limit, until = threading.Timer(_JOIN_S, self._process.kill), time.monotonic() + _JOIN_S
        limit.daemon = True
        limit.start()
        try:
            self._send(joining)
            places = self._receive()
        except BenchmarkFailed:
            if time.monotonic() < until:
                raise
            places = (Unusable(f"no answer within {_JOIN_S:g} s"),)
        finally:
            limit.cancel()
        for it in places:
            if isinstance(it, Unusable):
                raise BadInput(f"{OPTION} {self._address}: {it}", OPTION)
        return places

    def carry_out(self, works: Sequence[Work], spread: _Spread) -> None:
        """Have cases carried out, and what becomes of each told to `spread`; `BenchmarkFailed` where the connection with the
        cluster is lost, `Stopped` where the program is to end."""
        if works:
            self._send(list(works))
        while spread.left:
            told, *about = self._receive()
            getattr(spread, told)(*about)
            spread.show()

    def _send(self, what: Any) -> None:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # it has ended, which its answer says
            pickle.dump(what, self._process.stdin)
            self._process.stdin.flush()

    def _receive(self) -> tuple[Any, ...]:
        assert self._process.stdout is not None
        try:
            with signals.awaited():
                answer: tuple[Any, ...] = pickle.load(self._process.stdout)
                return answer
        except (EOFError, pickle.UnpicklingError):
            lost = f"{OPTION} {self._address}: the connection with the cluster was lost"
            raise BenchmarkFailed(f"{lost}{last_words(self._worker.stderr, _RAY)}") from None

    def __enter__(self) -> _Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        """End the process; what runs on machines is cancelled."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(OSError):
            self._process.stdin.close()
        self._process.stdout.close()  # what it would still tell is not waited for
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_S)
        self._worker.end()
        self._worker.stderr.close()


class _Spread:
    """The cases of a suite, what each has come to, and how far all are, on a terminal.

    Attributes:
        left: the records of those that are still to come to something.
    """

    def __init__(self, jobs: Sequence[Job], out: Path, tell: Tell, observer: Observer) -> None:
        self._jobs, self._out, self._tell, self._observer = jobs, out, tell, observer
        self.left: dict[str, Record] = {}
        self._concluded: dict[str, Record] = {}
        self._on: dict[str, str] = {}
        self._total = 1

    @property
    def records(self) -> list[Record]:
        return [self._concluded[job.case.id] for job in self._jobs if job.case.id in self._concluded]

    def begin(self, fresh: bool, places: Sequence[Place]) -> list[Work]:
        """The cases that are neither done, nor skipped, nor cannot be begun; the others are concluded."""
        works = []
        for job in self._jobs:
            record = begun(job, able(job.demand, places) or places)  # it may be done by one that is gone
            folder = self._out / record.id
            earlier = None if fresh or not job.plans else done(folder, record.fingerprint)
            if earlier is not None:
                self._conclude(earlier, was_done=True)
            elif job.plans and record.outcome != BROKEN:
                works.append(Work(job, record))
            else:
                if not job.plans:
                    emptied(folder)
                keep(record, folder)
                self._conclude(record)
        self.left = {work.id: work.record for work in works}
        self._total = max(len(works), 1)
        return works

    def give_up(self, error: BenchmarkFailed) -> None:
        for job in self._jobs:
            if job.case.id not in self._concluded:
                self._conclude(broken(begun(job, ()), error))

    def show(self) -> None:
        running = ", ".join(f"{case} on {place}" for case, place in self._on.items())
        count = self._total - len(self.left)
        self._observer.progress(count / self._total)
        self._observer.stage(f"{count} of {self._total} cases; {running or 'waiting for a machine'}")

    # What the other process tells

    def remark(self, text: str) -> None:
        complain(text)

    def started(self, case: str, place: str) -> None:
        self._on[case] = place

    def lost(self, case: str, place: str) -> None:
        """It waits for another machine."""
        self._on.pop(case, None)
        complain(f"{case} was lost with {place} and goes to another machine")

    def failed(self, case: str, reason: str) -> None:
        record, folder = broken(self._ended(case), BenchmarkFailed(reason)), self._out / case
        with suppress(OSError):  # then its record cannot be written either, which is said
            emptied(folder)
        keep(record, folder)
        self._conclude(record)

    def done(self, case: str, came: Done) -> None:
        record, folder = self._ended(case), self._out / case
        for remark in came.remarks:
            complain(f"{case}: {remark}")
        try:
            record = record_from(came.files[CASE_FILE], CASE_FILE)
            emptied(folder)
        except (OSError, KeyError, BadInput) as error:
            self._conclude(broken(record, error))
            return
        for name, content in sorted(came.files.items()):
            if name != CASE_FILE:
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                write_or_note(folder / name, content)
        keep(record, folder)
        self._conclude(record)

    def _ended(self, case: str) -> Record:
        self._on.pop(case, None)
        return self.left.pop(case)

    def _conclude(self, record: Record, was_done: bool = False) -> None:
        self._concluded[record.id] = record
        self._tell(record, was_done)
