"""Carries the cases of a suite out on a Ray cluster, a task each, into the same folders as on one machine."""

from __future__ import annotations

import importlib.util
import os
import pickle
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from ortbench.core import signals
from ortbench.core.errors import BadInput, BenchmarkFailed
from ortbench.core.files import write_or_note
from ortbench.core.safe_text import complain
from ortbench.core.version import __version__
from ortbench.core.worker_process import WorkerProcess
from ortbench.jobs.cases import Tell, begun, broken
from ortbench.jobs.cluster.orders import Done, Order
from ortbench.jobs.measuring import observed
from ortbench.jobs.suite_folder import CASE_FILE, done, emptied, keep
from ortbench.measure.environment import git_commit
from ortbench.measure.process import last_words
from ortbench.plan.plan import Observer
from ortbench.suite.job import Job
from ortbench.suite.record import BROKEN, Record, record_from

OPTION = "--ray"
AUTO = "auto"
_MAIN = "from ortbench.jobs.cluster.rays import main; main()"
_RAY = "Ray's"  # who has written what the process leaves
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
    cluster."""
    concluded: dict[str, Record] = {}

    def conclude(record: Record, was_done: bool) -> None:
        concluded[record.id] = record
        tell(record, was_done)

    interrupted, settled, orders = False, list[tuple[Record, bool]](), list[Order]()
    for job in jobs:
        record, folder = begun(job, on_cluster=True), out / job.case.id
        if not fresh and job.plans and (earlier := done(folder, record.fingerprint)) is not None:
            settled.append((earlier, True))
        elif job.plans and record.outcome != BROKEN:
            orders.append(Order(job, record, __version__, git_commit(), os.getcwd()))
        else:
            if not job.plans:
                emptied(folder)
            keep(record, folder)
            settled.append((record, False))
    left = {it.record.id: it.record for it in orders}
    with ExitStack() as stack:
        observer = observed(stack, quiet) or Observer()
        try:
            cluster = stack.enter_context(_Cluster(address, orders)) if orders else None
            for record, was_done in settled:
                conclude(record, was_done)
            while cluster is not None and left:
                observer.progress(1 - len(left) / len(orders))
                observer.stage(f"{len(orders) - len(left)} of {len(orders)} cases")
                what, case, about = cluster.receive()
                record = left.pop(case)
                record = (_kept if what == "done" else _failed)(record, out / case, about)
                conclude(record, False)
        except KeyboardInterrupt:
            interrupted = True
        except BenchmarkFailed as error:  # the cluster is gone, and what is done is there
            for record in left.values():
                conclude(broken(record, error), False)
    return [concluded[job.case.id] for job in jobs if job.case.id in concluded], interrupted


def _kept(record: Record, folder: Path, came: Done) -> Record:
    for remark in came.remarks:
        complain(f"{record.id}: {remark}")
    try:
        record = record_from(came.files[CASE_FILE], CASE_FILE)
        emptied(folder)
    except (OSError, BadInput) as error:
        return broken(record, error)
    for name, content in sorted(came.files.items()):
        if name != CASE_FILE:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            write_or_note(folder / name, content)
    keep(record, folder)
    return record


def _failed(record: Record, folder: Path, reason: str) -> Record:
    record = broken(record, BenchmarkFailed(reason))
    with suppress(OSError):  # then its record cannot be written either, which is said
        emptied(folder)
    keep(record, folder)
    return record


class _Cluster:
    """The process that speaks with Ray; `BadInput` where there is no such cluster."""

    def __init__(self, address: str, orders: Sequence[Order]) -> None:
        self._address = address
        self._worker = WorkerProcess([sys.executable, "-c", _MAIN])
        self._process = self._worker.popen
        try:
            assert self._process.stdin is not None
            with suppress(BrokenPipeError):  # it has ended, which its answer says
                pickle.dump((address, [*orders]), self._process.stdin)
                self._process.stdin.flush()
            (problem,) = self.receive()
            if problem:
                raise BadInput(f"{OPTION} {address}: {problem}", OPTION)
        except BaseException:
            self.__exit__()
            raise

    def receive(self) -> tuple[Any, ...]:
        """What the process tells next; `BenchmarkFailed` where the connection is lost, `Stopped` where the program is to end."""
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
