"""What a case takes with it to a machine of a cluster, what it takes of the machine, and what comes back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from ortbench.core.files import files_named_in
from ortbench.jobs.fingerprint import Put, with_files
from ortbench.suite.job import Job
from ortbench.suite.layers import Demand
from ortbench.suite.record import Record

CPU, GPU = "CPU", "GPU"
Amounts = Mapping[str, float]  # of resources, by their names


class Order(NamedTuple):
    """A case for a machine, with the version of ortbench and the checkout of the command's machine, whose folder `base` is that paths
    are relative to; ``files`` has by each path that the job names the names of its files."""

    job: Job
    record: Record
    version: str
    commit: str | None
    base: str
    files: Mapping[str, tuple[str, ...]] = {}


class Done(NamedTuple):
    """The files of the case's folder, by their paths in it, and what could not be written there."""

    files: dict[str, bytes]
    remarks: list[str]


def amounts_for(demand: Demand, machines: Iterable[Amounts]) -> Amounts | None:
    """What a case takes: with GPUs one CPU, else all CPUs of the largest machine that can take it, so that no other case is beside
    it; None where no machine can."""
    least = {CPU: 1, **({GPU: demand.gpus} if demand.gpus else {}), **demand.resources}
    cpus = [it[CPU] for it in machines if fits(least, it)]
    return {**least, CPU: 1 if demand.gpus else max(cpus)} if cpus else None


def fits(taken: Amounts, machine: Amounts) -> bool:
    return all(amount <= machine.get(name, 0) for name, amount in taken.items())


def paths_of(job: Job, base: str) -> list[str]:
    """The files and folders that a job names, as it names them, as far as they are there."""
    paths: dict[str, None] = {}

    def collected(path: str) -> str:
        paths[path] = None
        return path

    moved(job, collected)
    return [path for path in paths if Path(base, path).exists()]


def moved(job: Job, to: Put, python: Put = str) -> Job:
    """A job whose files, and the interpreters that it names, are elsewhere; results call a model as it was called before."""

    def plan_there(plan: Any) -> Any:
        return with_files(replace(plan, called=plan.called or str(Path(plan.model))), to, python)

    return replace(
        job,
        plans=tuple(map(plan_there, job.plans)),
        shapes=tuple(replace(it, plan=plan_there(it.plan)) for it in job.shapes),
        load=job.load if job.load is None or job.load.file is None else replace(job.load, arrivals=to(job.load.file)),
        baseline=None if job.baseline is None else Path(to(str(job.baseline))),
    )


def files_of(place: Path) -> dict[str, Path]:
    """The files of a folder, or a file with those beside it that it names if it is a model, by their paths from the folder above."""
    files = place.rglob("*") if place.is_dir() else [place, *(place.parent / name for name in files_named_in(place))]
    return {it.relative_to(place.parent).as_posix(): it for it in sorted(files) if it.is_file()}
