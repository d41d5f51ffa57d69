"""Carries the cases of a suite out on a Ray cluster, a task each, into the same folders as on one machine."""

from __future__ import annotations

import logging
import os
import socket
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import chdir, contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import ray

from ortbench.core import __version__, output, signals
from ortbench.core.errors import BadInput, BenchmarkFailed, OrtbenchError, one_line
from ortbench.core.files import not_written, temporary_folder, write_or_note
from ortbench.features.suite.job import runs
from ortbench.features.suite.job.jobs import Job, files_at, with_files, with_plans
from ortbench.features.suite.job.record import CASE_FILE, Record, empty_folder, record_from, write_record
from ortbench.measure.environment import git_commit, set_cluster_node
from ortbench.measure.gpus import nvidia_gpus
from ortbench.model.schema import Node
from ortbench.plan.toml_file import Demand

CPU, GPU = "CPU", "GPU"
Amounts = Mapping[str, float]  # of resources, by their names
_OF_TASKS = ("OMP_NUM_THREADS", "RAY_")  # what Ray sets for its tasks: threads that a plain run would not be limited to


def run_cases(
    jobs: Sequence[Job], out: Path, fresh: bool, quiet: bool, tell: runs.Tell, address: str
) -> tuple[list[Record], bool]:
    """Carry jobs out as `ortbench.features.suite.job.runs.run_cases` does here; `BadInput` where there is no such cluster."""
    records: dict[str, Record] = {}
    begun = [(job, *runs.find_record(job, out / job.case.id, fresh, on_cluster=True)) for job in jobs]
    orders = [(job, record) for job, record, was_done in begun if was_done is None]
    is_interrupted = True
    with suppress(KeyboardInterrupt), _connection(address) if orders else nullcontext():
        for _, record, was_done in begun:
            if was_done is not None:
                records[record.id] = record
                tell(record, was_done)
        for record, outcome in _outcomes(orders):
            records[record.id] = _save_case(record, out / record.id, outcome)
            tell(records[record.id], False)
        is_interrupted = False
    return [records[job.case.id] for job in jobs if job.case.id in records], is_interrupted


def _save_case(record: Record, folder: Path, outcome: dict[str, bytes] | str) -> Record:
    """What a case came to, by the files that came back or the reason why none did; its folder has them and the record."""
    try:
        empty_folder(folder)
        if isinstance(outcome, str):
            raise BenchmarkFailed(outcome)
        for name in sorted(outcome.keys() - {CASE_FILE}):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            write_or_note(folder / name, outcome[name])
        output.count_warnings(outcome.get(output.FILE_NAME, b"").splitlines())
        record = record_from(outcome[CASE_FILE], CASE_FILE)
    except (OSError, OrtbenchError) as error:
        record = runs.broken_record(record, error)
    write_record(record, folder)
    return record


@contextmanager
def _connection(address: str) -> Iterator[None]:
    """Ray, without what it prints; what runs when the block ends is cancelled with it."""
    logging.getLogger("ray").setLevel(logging.CRITICAL)
    # Machines look for modules in the current folder first, which may have some that are called like their packages.
    with tempfile.TemporaryDirectory() as nowhere, chdir(nowhere):
        try:
            if ":" in address:  # Ray would try one that does not answer again and again, for minutes
                host, port = address.rpartition("/")[2].rsplit(":", 1)
                socket.create_connection((host.strip("[]"), int(port)), 10).close()
            ray.init(address=address, log_to_driver=False, configure_logging=False)
        except Exception as error:
            reached = "cannot be reached: " if isinstance(error, OSError | ValueError) else ""
            raise BadInput(f"--ray {address}: {reached}{one_line(error)}", "--ray") from None
    signals.install()  # which Ray has replaced
    try:
        yield
    finally:
        ray.shutdown()


def _outcomes(orders: list[tuple[Job, Record]]) -> Iterator[tuple[Record, dict[str, bytes] | str]]:
    """The files of each case, or why there are none, as they come; what has not come when this ends is cancelled."""
    running: dict[Any, tuple[Job, Record, Amounts]] = {}
    try:
        while orders or running:
            nodes = ray.nodes()  # type: ignore[no-untyped-call]
            machines = [it["Resources"] for it in nodes if it["Alive"] and it["Resources"].get(CPU, 0) >= 1]
            for task, (job, record, amounts) in [*running.items()]:
                if not any(can_provide(machine, amounts) for machine in machines):  # its machine is lost
                    ray.cancel(task, force=True)
                    del running[task]
                    orders.append((job, record))
            for job, record in orders:
                if (needed := amounts_for(job.demand, machines)) is None:
                    yield record, f"no machine of the cluster has {job.demand}"
                    continue
                try:
                    running[_start(job, record, needed)] = job, record, needed
                except (OSError, ray.exceptions.RayError) as error:
                    yield record, one_line(f"{type(error).__name__}: {error}")
            orders = []
            for task in ray.wait([*running], timeout=0.5)[0] if running else ():
                record = running.pop(task)[1]
                try:
                    yield record, ray.get(task)
                except ray.exceptions.RayTaskError as error:
                    yield record, one_line(f"{type(error.cause).__name__}: {error.cause}")
                except ray.exceptions.RayError as error:
                    yield record, f"was lost with each machine that it was given to ({type(error).__name__})"
            signals.stop_if_asked()
    finally:
        for task in running:
            ray.cancel(task, force=True)


def amounts_for(demand: Demand, machines: Iterable[Amounts]) -> Amounts | None:
    """What a case takes: with GPUs one CPU, else all CPUs of the largest machine that can take it, so that no other case is beside
    it; None where no machine can."""
    least = {CPU: 1, **({GPU: demand.gpus} if demand.gpus else {}), **demand.resources}
    cpus = [machine[CPU] for machine in machines if can_provide(machine, least)]
    return {**least, CPU: 1 if demand.gpus else max(cpus)} if cpus else None


def can_provide(machine: Amounts, amounts: Amounts) -> bool:
    return all(amount <= machine.get(name, 0) for name, amount in amounts.items())


def files_of(job: Job) -> dict[str, dict[str, Path]]:
    """The files at each path that a job names, as `files_at` has them."""
    named: dict[str, str] = {}
    with_files(job, lambda path: named.setdefault(path, path))
    return {path: files for path in named if (files := files_at(Path(path)))}


def _start(job: Job, record: Record, amounts: Amounts) -> Any:
    """The task of a case. What it names is by absolute paths, and in Ray's object store; results call a model as it was called."""
    job = with_plans(job, lambda it: replace(it, called=it.called or str(Path(it.model))))
    job = with_files(job, os.path.abspath, os.path.abspath)
    files = {path: {name: _put_file(file) for name, file in of_path.items()} for path, of_path in files_of(job).items()}
    named = {name: amount for name, amount in amounts.items() if name not in (CPU, GPU)}
    task = run_case.options(
        name=f"ortbench {job.case.id}", num_cpus=amounts[CPU], num_gpus=amounts.get(GPU, 0), resources=named
    )
    return task.remote(job, record, files, __version__, git_commit())


@cache
def _put_file(file: Path) -> Any:
    return ray.put(np.fromfile(file, np.uint8))


@ray.remote(max_retries=3, max_calls=1)  # a process that has measured is not used again
def run_case(
    job: Job, record: Record, files: Mapping[str, Mapping[str, Any]], version: str, commit: str | None
) -> dict[str, bytes] | str:
    """Carry a case out, see `_outcomes`; version and commit are those of the command's machine."""
    node = _node(job)
    if version != __version__:
        return f"{node['name']} has ortbench {__version__}, and here is {version}"
    _undo_limits()
    set_cluster_node(node, commit)
    with temporary_folder() as here:
        copies = {path: Path(here, str(number), Path(path).name) for number, path in enumerate(files)}
        for path, contents in files.items():
            for name, content in contents.items():
                file = copies[path].parent / name
                file.parent.mkdir(parents=True, exist_ok=True)
                ray.get(content).tofile(file)
        folder = Path(here, job.case.id)
        job = with_files(job, lambda path: str(copies.get(path, path)))
        runs.run_case(job, replace(record, node=node), folder, quiet=True)
        saved = {it.relative_to(folder).as_posix(): it.read_bytes() for it in folder.rglob("*") if it.is_file()}
    lost = not_written()
    return f"{node['name']} has no room for the result: {'; '.join(lost)}" if lost else saved


def _undo_limits() -> None:
    """Take back what Ray does to its tasks and a plain run has not: its variables, and a priority lower than Ray's own."""
    raylet = os.environ.get("RAY_RAYLET_PID")
    for name in [name for name in os.environ if name.startswith(_OF_TASKS)]:
        del os.environ[name]
    if sys.platform != "win32" and raylet is not None:
        with suppress(OSError):  # who may not have a higher one keeps what Ray gives tasks
            os.setpriority(os.PRIO_PROCESS, 0, os.getpriority(os.PRIO_PROCESS, int(raylet)))


def _node(job: Job) -> Node:
    context = ray.get_runtime_context()
    machine = next(it for it in ray.nodes() if it["NodeID"] == context.get_node_id())  # type: ignore[no-untyped-call]
    address, name = machine["NodeManagerAddress"], machine["NodeName"]
    gpus = [it for number, it in enumerate(nvidia_gpus()) if str(number) in context.get_accelerator_ids().get(GPU, [])]
    return {
        "name": machine["NodeManagerHostname"] if name == address else name,
        "address": address,
        "card": ", ".join(dict.fromkeys(it["name"] for it in gpus if "name" in it)) or None,
        "driver": next((it["driver"] for it in gpus if "driver" in it), None),
        "resources": job.demand.resources,
    }
